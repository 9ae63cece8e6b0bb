"""Text from graphs, models and sessions made safe for the terminal, cut to a width in cells."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

SPACES = frozenset("\t\n\r\v\f")
HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Mc", "Me"))
LONGEST = 400
IN_ASCII = str.maketrans("…·–—→×─", "~.-->x-")


def safe(text: str, limit: int = LONGEST) -> str:
    """``text`` in one line without control, escape, bidi, zero-width and combining characters, at most ``limit`` characters.

    White space becomes a space; whatever else cannot be shown becomes ``·``, so that its presence stays visible.
    """
    text = text[:limit]
    if text.isascii() and text.isprintable():
        return text
    composed = unicodedata.normalize("NFC", text)[:limit]
    return "".join(map(_shown, composed))


def _shown(character: str) -> str:
    if character in SPACES:
        return " "
    # A character that the width table gives no cell would shift the rest of the line.
    return "·" if unicodedata.category(character) in HIDDEN or cell_len(character) == 0 else character


def fit(text: str, width: int, right: bool = False, ellipsis: str = "…") -> str:
    """``text`` safe and exactly ``width`` cells wide: cut with an ellipsis, or padded with spaces (on the left when ``right``)."""
    if width <= 0:
        return ""
    text = safe(text)
    cells = len(text) if text.isascii() else cell_len(text)
    if cells > width:
        return set_cell_size(text, width - 1) + ellipsis if width > 1 else ellipsis
    return " " * (width - cells) + text if right else text + " " * (width - cells)


def count(value: float) -> str:
    """A number in at most five characters: 999, 9,999, 12.3k, 4.56M, 789G; ``–`` for what is not a number."""
    if value != value:
        return "–"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= (1e4 if unit == "k" else size):
            scaled = value / size
            return f"{scaled:.0f}{unit}" if scaled >= 99.95 else f"{scaled:.1f}{unit}"
    return f"{value:,.0f}"


def amount(value: float) -> str:
    """Bytes in at most eight characters: 950 kB, 12.5 MB."""
    if value != value:
        return "–"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= size:
            scaled = value / size
            return f"{scaled:.0f} {unit}" if scaled >= 99.95 else f"{scaled:.1f} {unit}"
    return f"{value:.0f} B"


def percent(value: float) -> str:
    """A share as four characters, ``   –`` for what is not a number."""
    return f"{value:4.0%}" if value == value else "   –"
