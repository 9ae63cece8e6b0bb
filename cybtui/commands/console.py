"""``cybtui`` without a command: the console on a model, with a swarm at work."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TextIO

from engine.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the console."""
    parser.add_argument("--model", metavar="F", help="model file (default: the embedded model)")
    parser.add_argument("--agents", metavar="N", type=positive, help="size of the swarm")
    parser.add_argument("--session", metavar="NAME", help="resume this session, or start it")
    parser.add_argument("--theme", metavar="T", help="colour theme")
    parser.add_argument("--record", metavar="F", help="record the session to F")
    parser.add_argument("--seed", metavar="S", type=natural, help="seed of every random choice (default: 0)", default=0)
    parser.add_argument("--no-swarm", action="store_true", help="start without agents")
    parser.add_argument("--screen-reader", action="store_true", help="plain text in reading order, no graphics")
    parser.add_argument("--ascii", action="store_true", help="ASCII glyphs only")


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def natural(text: str) -> int:
    """An integer from 0 to 2**63-1, for argparse."""
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 2**63-1")
    return value


def check_terminal() -> None:
    """Raises UserError where no full-screen interface can run."""
    headless = "without a screen, use the same runtime as `cybtui run`, or as plain text with `cybtui --screen-reader`"
    streams = {"input": sys.stdin, "output": sys.stdout}
    missing = [name for name, stream in streams.items() if not _is_terminal(stream)]
    term = os.environ.get("TERM", "")
    if missing:
        raise UserError(f"the console needs a terminal, and standard {' and '.join(missing)} is not one; {headless}")
    if term in ("", "dumb", "unknown"):
        raise UserError(f"the console cannot draw on this terminal (TERM={term or 'unset'}); {headless}")
    if not _is_terminal(sys.stderr):
        raise UserError(f"the console is drawn on standard error, and that is not a terminal; {headless}")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def run(args: argparse.Namespace) -> int:
    """Opens the console; returns when the operator leaves. Plain text needs no terminal: lines come and go through pipes too."""
    if not args.screen_reader:
        check_terminal()
    from cybtui.console import run_console

    return run_console(args)
