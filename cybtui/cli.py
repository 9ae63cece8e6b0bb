"""The command line: parses arguments, dispatches to one module a command, turns failures into messages and exit statuses.

Exit status: 0 done, 1 the work failed or an input is bad, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from cybtui.commands import console
from engine.errors import INTERNAL, NativeError, UserError

ENVIRONMENT = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOMEM, errno.EMFILE)
COMMANDS = {
    "run": "the same runtime without a screen",
    "compile": "compile a graph into a model file",
    "eval": "filtered link prediction of a model, at every level and at dynamic depth",
    "verify": "prove a model file and the runtime on it",
    "bench": "speed and traffic, beside the machine's roofline",
    "doctor": "what this machine offers, and what is wrong with it",
}


class _Version(argparse.Action):
    """Prints the version; looks it up only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"cybtui {version()}")
        parser.exit()


def version() -> str:
    """The installed version, ``unknown`` when cybtui runs without being installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("cybtui")
    except PackageNotFoundError:
        return "unknown"


def build_parser(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, dict[str, ModuleType]]:
    """The parser, and the modules of the commands that ``arguments`` name; the other commands are only listed."""
    parser = argparse.ArgumentParser(
        prog="cybtui",
        description="A console for a swarm of agents on one cybergraph, one nested model and one memory pool. "
        "Without a command it opens on the embedded model.",
        epilog="Exit status: 0 done, 1 the work failed or an input is bad, 2 wrong usage, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    console.add_arguments(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    modules = {}
    for name, summary in COMMANDS.items():
        if name in arguments:
            modules[name] = importlib.import_module(f"cybtui.commands.{name}")
            modules[name].add_parser(subparsers)
            subparsers.choices[name].add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        else:
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser, modules


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit status (wrong usage and --help leave through SystemExit, as argparse does)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    _forgive_encodings()
    try:
        status = _dispatch(words)
        _flush()
        return status
    except KeyboardInterrupt:
        _tell("interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return 1
    except UserError as error:
        if debug:
            raise
        _tell(error.message)
        return 1
    except Exception as error:
        if debug:
            raise
        if isinstance(error, NativeError) and error.status != INTERNAL:
            _tell(error.text)
        elif isinstance(error, OSError) and error.errno in ENVIRONMENT:
            _tell(f"{error.filename or 'standard output'}: {error.strerror}")
        else:
            _tell(_crash_message(error, words))
        return 1


def _dispatch(words: list[str]) -> int:
    parser, modules = build_parser(words)
    try:
        args = parser.parse_args(words)
    except SystemExit:
        _flush()
        raise
    command = modules[args.command] if args.command else console
    return int(command.run(args) or 0)


def _forgive_encodings() -> None:
    """Characters that the locale cannot show are replaced, never a reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _tell(message: str) -> None:
    try:
        print(f"cybtui: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # standard error is gone: the exit status still tells


def _crash_message(error: Exception, words: list[str]) -> str:
    from cybtui.crash import write_crash_report

    what = f"{type(error).__name__}: {error}".replace("\n", " ")
    report = write_crash_report(error, words, version())
    where = f"a report is in {report}" if report else "no report could be written"
    return f"this is a fault in cybtui, not in what you asked ({what}); {where}; --debug shows a traceback"


if __name__ == "__main__":
    sys.exit(main())
