"""Checks of what the tensors of a ``.cyb`` file hold: ids in range, text well-formed, numbers finite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.model.context import CONTROL_TOKENS
from engine.model.cyb_header import bad
from engine.model.cyb_metadata import PANEL_ROWS, QUANT_GROUP, Metadata

Read = Callable[[str], NDArray[np.generic]]
LABEL_BYTES_MAX = 4096


def check_contents(where: str, metadata: Metadata, read: Read, has: Callable[[str], bool]) -> None:
    """Everything but the packed matrices. ``read`` gives a tensor by name. Raises UserError."""
    check_vocabulary(where, metadata, read("vocabulary.text"), read("vocabulary.offsets"))
    inverse = np.asarray(read("semcon.inverse"), np.int64)
    if inverse.max(initial=0) >= metadata.semcons or not np.array_equal(inverse[inverse], np.arange(metadata.semcons)):
        raise bad(where, "semcon.inverse is not an involution of the semcons")
    focus = np.asarray(read("focus"), np.float64)
    if not np.all(np.isfinite(focus)) or focus.min() < 0 or abs(focus.sum() - 1) > 1e-3:
        raise bad(where, "focus must be finite, not negative, and sum to 1")
    if not np.all(np.isfinite(read("spectrum"))):
        raise bad(where, "spectrum holds a number that is not finite")
    for name in ("graph.links", "graph.hidden", "graph.valid"):
        links = read(name)
        if len(links) and (links[:, 0::2].max() >= metadata.particles or links[:, 1].max() >= metadata.semcons):
            raise bad(where, f"{name} names a particle or semcon that is not there")
    for name in ("gain.weights", "gain.bias"):
        if has(name) and not np.all(np.isfinite(read(name))):
            raise bad(where, f"{name} holds a number that is not finite")


def check_vocabulary(where: str, metadata: Metadata, text: NDArray[np.generic], offsets: NDArray[np.generic]) -> None:
    """Offsets ascend from 0 to the text's end, each label is UTF-8, control tokens are the layout's. Raises UserError."""
    ends = np.asarray(offsets, np.int64)
    lengths = np.diff(ends)
    if ends[0] != 0 or ends[-1] != len(text) or lengths.min(initial=0) < 0:
        raise bad(where, "vocabulary.offsets do not ascend from 0 to the end of vocabulary.text")
    if lengths.max(initial=0) > LABEL_BYTES_MAX:
        raise bad(where, f"a label has {lengths.max()} bytes, more than {LABEL_BYTES_MAX}")
    raw = text.tobytes()
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad(where, f"vocabulary.text is not UTF-8 ({error.reason} at byte {error.start})") from None
    starts = ends[:-1][ends[:-1] < len(text)]
    if np.any((np.asarray(text, np.uint8)[starts] & 0xC0) == 0x80):
        raise bad(where, "vocabulary.offsets cut a character in two")
    first = metadata.particles + metadata.semcons
    for index, name in enumerate(CONTROL_TOKENS):
        if raw[ends[first + index] : ends[first + index + 1]] != name.encode():
            raise bad(where, f"control token {index} of the vocabulary is not {name}")


def check_matrix(where: str, name: str, kind: str, rows: int, columns: int, data: NDArray[np.uint8]) -> None:
    """A packed matrix holds finite numbers only, and zeros in the rows that pad it. Reads all its pages. Raises UserError."""
    panels = -(-rows // PANEL_ROWS)
    padding = panels * PANEL_ROWS - rows
    if kind == "f16":
        bits = data.view("<u2").reshape(panels, columns, PANEL_ROWS)
        last = bits[-1, :, PANEL_ROWS - padding :]
    else:
        group = PANEL_ROWS * (2 + QUANT_GROUP)
        groups = data.reshape(panels, columns // QUANT_GROUP, group)
        bits = groups[:, :, : 2 * PANEL_ROWS].view("<u2")
        values = groups[-1, :, 2 * PANEL_ROWS :].reshape(-1, QUANT_GROUP // 2, PANEL_ROWS, 2)
        last = values[:, :, PANEL_ROWS - padding :, :]
    if np.any((bits & 0x7C00) == 0x7C00):
        raise bad(where, f"tensor {name!r} holds a number that is not finite")
    if padding and np.any(last):
        raise bad(where, f"tensor {name!r} holds numbers in the rows that pad it")
