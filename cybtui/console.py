"""Opens the console from parsed arguments: on the screen, or as plain lines in reading order."""

from __future__ import annotations

import argparse
import sys

from cybtui.app import Console, SourceFactory
from engine.errors import UserError
from engine.runtime.commands import Source

CLOSE_SECONDS = 10.0


def factory_of(args: argparse.Namespace) -> SourceFactory:
    """What opens the runtime; it raises UserError when called."""

    def factory() -> Source:
        from engine.runtime.loop import Settings, open_runtime

        settings = Settings(seed=args.seed, swarm=not args.no_swarm, session=args.session or "")
        if args.agents:
            from dataclasses import replace

            settings = replace(settings, agents=args.agents)
        return open_runtime(args.model, settings)

    return factory


def run_console(args: argparse.Namespace) -> int:
    """Opens the console; returns the exit status. Raises UserError for what could not be opened, once the terminal is restored."""
    if args.record:
        raise UserError("--record is not in this release")
    if args.screen_reader:
        from cybtui.plain import run_plain

        return run_plain(factory_of(args))
    app = Console(factory_of(args), args.theme or "", args.ascii)
    try:
        status = app.run()
    finally:
        close(app.source)
    if app.failure:
        raise UserError(app.failure)
    for text in unsaved(app):
        print(f"cybtui: {text}", file=sys.stderr)
    return int(status or app.return_code or 0)


def unsaved(app: Console) -> list[str]:
    """Warnings that came when the screen was gone: the operator must know that a session was not kept."""
    log = app.source.snapshot().log if app.source is not None else ()
    return [line.text for line in log if line.kind == "warning" and line.sequence > app.warned]


def close(source: Source | None) -> None:
    """Stops a source and waits until its session is written."""
    if source is None:
        return
    source.close()
    wait = getattr(source, "wait_closed", None)
    if wait is not None:
        wait(CLOSE_SECONDS)
