"""Text from graphs, models and sessions made safe for the terminal, cut to a width in cells."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"}


def safe(text: str, limit: int = 400) -> str:
    """No control, escape, bidi, zero-width or combining characters, at most ``limit`` characters: what cannot be shown is ``·``."""
    return "".join("·" if unicodedata.category(c) in _HIDDEN else c for c in text[:limit])


def fit(text: str, width: int) -> str:
    """``text`` safe and exactly ``width`` cells wide: cut with an ellipsis or padded with spaces."""
    if width <= 0:
        return ""
    text = safe(text)
    if cell_len(text) > width:
        text = set_cell_size(text, max(0, width - 1)) + "…"
    return set_cell_size(text, width)
