"""What the terminal can show, from the environment alone: nothing is asked of it, so nothing can hang."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

COLUMNS_MIN, ROWS_MIN = 40, 10


@dataclass(frozen=True, slots=True)
class Terminal:
    """``colours`` is 0 (none), 16, 256 or 16777216; columns and rows are 0 where there is no terminal."""

    interactive: bool
    term: str
    columns: int
    rows: int
    colours: int
    unicode: bool


def colours_of(environment: Mapping[str, str]) -> int:
    """Number of colours by NO_COLOR, COLORTERM and TERM."""
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR") or term in ("", "dumb", "unknown"):
        return 0
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return 1 << 24
    return 256 if "256" in term or term.startswith(("alacritty", "xterm-kitty", "foot")) else 16


def this_terminal() -> Terminal:
    """Looks at the terminal of this process; never fails."""
    columns = rows = 0
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        try:
            if stream is not None and stream.isatty():
                columns, rows = os.get_terminal_size(stream.fileno())
                break
        except (OSError, ValueError):
            continue
    interactive = bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())
    encoding = (getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)).lower().replace("-", "")
    return Terminal(interactive, os.environ.get("TERM", ""), columns, rows, colours_of(os.environ), encoding == "utf8")
