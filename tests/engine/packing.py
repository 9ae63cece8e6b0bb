"""Packed matrices in numpy, written from the text of csrc/include/cyb.h alone; the native packer is compared with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PANEL_ROWS, QUANT_GROUP = 16, 32


def _panels(values: NDArray[np.float32]) -> NDArray[np.float32]:
    rows, columns = values.shape
    panels = -(-rows // PANEL_ROWS)
    padded = np.zeros((panels * PANEL_ROWS, columns), np.float32)
    padded[:rows] = values
    return padded.reshape(panels, PANEL_ROWS, columns)


def pack(kind: str, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """(rows, columns) floats as ``f16`` or ``q8`` bytes, (bytes,) uint8."""
    panels = _panels(np.asarray(values, np.float32))
    count, _, columns = panels.shape
    if kind == "f16":
        return np.ascontiguousarray(panels.transpose(0, 2, 1)).astype("<f2").reshape(-1).view(np.uint8)
    groups = panels.reshape(count, PANEL_ROWS, columns // QUANT_GROUP, QUANT_GROUP)
    scales = (np.abs(groups).max(axis=3) / np.float32(127)).astype("<f2")
    divisor = np.where(scales == 0, np.float32(1), scales.astype(np.float32))
    quants = np.clip(np.rint(groups / divisor[..., None]), -127, 127).astype(np.int8)
    quants[scales == 0] = 0
    packed = np.empty((count, columns // QUANT_GROUP, PANEL_ROWS * (2 + QUANT_GROUP)), np.uint8)
    packed[:, :, : 2 * PANEL_ROWS] = np.ascontiguousarray(scales.transpose(0, 2, 1)).view(np.uint8)
    paired = quants.transpose(0, 2, 3, 1).reshape(count, columns // QUANT_GROUP, QUANT_GROUP // 2, 2, PANEL_ROWS)
    packed[:, :, 2 * PANEL_ROWS :] = np.ascontiguousarray(paired.swapaxes(3, 4)).view(np.uint8).reshape(*packed.shape[:2], -1)
    return packed.reshape(-1)


def unpack(kind: str, rows: int, columns: int, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The (rows, columns) float32 values of packed bytes."""
    panels = -(-rows // PANEL_ROWS)
    if kind == "f16":
        values = data.view("<f2").reshape(panels, columns, PANEL_ROWS).transpose(0, 2, 1).astype(np.float32)
        return values.reshape(-1, columns)[:rows]
    groups = data.reshape(panels, columns // QUANT_GROUP, PANEL_ROWS * (2 + QUANT_GROUP))
    scales = np.ascontiguousarray(groups[:, :, : 2 * PANEL_ROWS]).view("<f2").astype(np.float32)
    quants = np.ascontiguousarray(groups[:, :, 2 * PANEL_ROWS :]).view(np.int8)
    quants = quants.reshape(panels, columns // QUANT_GROUP, QUANT_GROUP // 2, PANEL_ROWS, 2).transpose(0, 3, 1, 2, 4)
    values = quants.reshape(panels, PANEL_ROWS, columns // QUANT_GROUP, QUANT_GROUP).astype(np.float32)
    values *= scales.transpose(0, 2, 1)[..., None]
    return values.reshape(-1, columns)[:rows]
