"""Model shapes to measure, and files of random weights in them.

Speed and traffic depend on shapes and types alone, so weights are one stretch of random groups over and over, scaled to keep
activations finite. Levels are 1 : 4 : 8 and the deepest gives a shape its width; FFN units are 8/3 of the width.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import UserError
from engine.machine import memory_available
from engine.model.cyb_header import ALIGNMENT
from engine.native import PANEL_ROWS, Q8, QUANT_GROUP, WEIGHT_NAMES, Matrix, ModelArrays, NativeModel, matrix_bytes

PATTERN_GROUPS = 4096  # random groups that repeat
SPARE_BYTES = 1 << 30  # left free on the disk
GROUP_BYTES = PANEL_ROWS * (2 + QUANT_GROUP)


@dataclass(frozen=True, slots=True)
class Shape:
    """Widths of the levels, and what else decides how many bytes and operations a token takes."""

    name: str
    widths: tuple[int, ...]
    layers: int
    head_size: int
    vocabulary: int

    @property
    def ffn_widths(self) -> tuple[int, ...]:
        """8/3 of each width, in whole groups, cumulative."""
        return tuple(round(width * 8 / 3 / QUANT_GROUP) * QUANT_GROUP for width in self.widths)

    def tables(self) -> list[tuple[int, int]]:
        """(rows, columns) of the parts of E, one a level."""
        return [(self.vocabulary, width - below) for below, width in zip((0, *self.widths), self.widths, strict=False)]

    def block(self, level: int) -> list[tuple[int, int]]:
        """(rows, columns) of one layer's matrices of block ``level`` (from 1), in the order of WEIGHT_NAMES."""
        d, f = self.widths[level - 1], self.ffn_widths[level - 1]
        b, u = d - (0, *self.widths)[level - 1], f - (0, *self.ffn_widths)[level - 1]
        shapes = {"q": (b, d), "k": (b, d), "v": (b, d), "o": (b, d), "gate": (u, d), "up": (u, d), "down": (b, f)}
        return [shapes[name] for name in WEIGHT_NAMES]

    def matrices(self) -> list[tuple[int, int]]:
        """All of them in the order of the file: E, then layer by layer, block by block."""
        levels = range(1, len(self.widths) + 1)
        return [*self.tables(), *(shape for _ in range(self.layers) for level in levels for shape in self.block(level))]

    @property
    def file_bytes(self) -> int:
        """Size of a file of its weights."""
        return sum(_padded(matrix_bytes(Q8, *shape)) for shape in self.matrices())


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1b", (64, 256, 512), 16, 64, 32_000),
        Shape("3b", (256, 1024, 2048), 24, 64, 32_000),
        Shape("7b", (512, 2048, 4096), 32, 128, 32_000),
        Shape("7b-wide", (512, 2048, 4096), 8, 128, 1_300_000),
    )
}


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def weights_file(shape: Shape, folder: Path) -> Path:
    """The shape's file of random weights in ``folder``, written if it is not there. UserError where disk or memory are too small."""
    size = shape.file_bytes
    available = memory_available()
    if available and size > available:
        raise UserError(
            f"{shape.name} has {size >> 20:,} MiB of weights and {available >> 20:,} MiB of memory are free: choose a smaller --shape"
        )
    digest = hashlib.sha256(repr(shape).encode()).hexdigest()[:12]
    path = folder / f"bench-{shape.name}-{digest}.weights"
    if path.is_file() and path.stat().st_size == size:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if size + SPARE_BYTES > free:
            raise UserError(f"{shape.name} needs {size >> 20:,} MiB in {folder}, where {free >> 20:,} MiB are free: name another --folder")
        _write(shape, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); name another --folder") from None
    return path


def _write(shape: Shape, path: Path) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            for rows, columns in shape.matrices():
                size = matrix_bytes(Q8, rows, columns)
                pattern = _pattern(columns)
                for begin in range(0, size, len(pattern)):
                    stream.write(pattern[: min(len(pattern), size - begin)])
                stream.write(bytes(_padded(size) - size))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _pattern(columns: int) -> bytes:
    """PATTERN_GROUPS random packed groups whose products with ``columns`` inputs keep their size."""
    random = np.random.default_rng(0)
    groups = np.empty((PATTERN_GROUPS, GROUP_BYTES), np.uint8)
    scale = np.float16(1 / (73 * columns**0.5))  # 73: deviation of integers that are even in ±127
    groups[:, : 2 * PANEL_ROWS] = np.full(PANEL_ROWS, scale, np.float16).view(np.uint8)
    groups[:, 2 * PANEL_ROWS :] = random.integers(-127, 128, (PATTERN_GROUPS, PANEL_ROWS * QUANT_GROUP), np.int8).view(np.uint8)
    return groups.tobytes()


def open_shape(shape: Shape, folder: Path) -> NativeModel:
    """The shape as a model on a mapped file of random weights. Raises UserError."""
    mapped = np.memmap(weights_file(shape, folder), np.uint8, mode="r")
    matrices, at = [], 0
    for rows, columns in shape.matrices():
        size = matrix_bytes(Q8, rows, columns)
        matrices.append(Matrix(Q8, rows, columns, mapped[at : at + size]))
        at += _padded(size)
    levels, per_block = len(shape.widths), len(WEIGHT_NAMES)
    embedding, rest = matrices[:levels], matrices[levels:]
    blocks = [rest[begin : begin + per_block] for begin in range(0, len(rest), per_block)]
    return NativeModel(
        ModelArrays(
            widths=shape.widths,
            ffn_widths=shape.ffn_widths,
            layers=shape.layers,
            head_size=shape.head_size,
            vocabulary=shape.vocabulary,
            particles=shape.vocabulary,
            epsilon=1e-5,
            rope_base=10_000.0,
            input_scale=1.0,
            tau=(1.0,) * levels,
            beta=(0.0,) * levels,
            log_focus=np.zeros(shape.vocabulary, np.float32),
            embedding=embedding,
            weights=[blocks[layer * levels : (layer + 1) * levels] for layer in range(shape.layers)],
            family=hashlib.sha256(repr(shape).encode()).digest(),
        )
    )
