"""A model as the native runtime reads it: packed matrices, the ``cyb_model`` struct, the scalar reference and CSR products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native_library import check, ffi, lib, pointer, u32

F16, Q8 = 0, 1
MATRIX_TYPES = {"f16": F16, "q8": Q8}
WEIGHT_NAMES = ("q", "k", "v", "o", "gate", "up", "down")
PAGE_POSITIONS, QUANT_GROUP, PANEL_ROWS, VOCAB_TILE, CANDIDATES, GAIN_FEATURES, LEVELS_MAX = 16, 32, 16, 4096, 64, 6, 8
CID_BYTES = 36
ALIGNMENT = 32  # of packed matrices in memory


@dataclass(frozen=True, slots=True)
class Matrix:
    """A packed matrix. ``data`` is (bytes,) uint8, C-contiguous, of exactly ``matrix_bytes`` bytes."""

    type: int
    rows: int
    columns: int
    data: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ModelArrays:
    """Everything ``cyb_model`` holds. The arrays may be views of a mapped file; they stay alive with the NativeModel."""

    widths: tuple[int, ...]  # D1 < … < DK
    ffn_widths: tuple[int, ...]  # cumulative
    layers: int
    head_size: int
    vocabulary: int
    particles: int
    epsilon: float
    rope_base: float
    input_scale: float
    tau: tuple[float, ...]
    beta: tuple[float, ...]
    log_focus: NDArray[np.float32]  # (vocabulary,)
    embedding: Sequence[Matrix]  # one a level: vocabulary x B_k
    weights: Sequence[Sequence[Sequence[Matrix]]]  # [layers][levels], each in WEIGHT_NAMES order
    family: bytes  # 32
    gain_weights: NDArray[np.float32] | None = None  # (levels-1, GAIN_FEATURES)
    gain_bias: NDArray[np.float32] | None = None  # (levels-1, vocabulary)


def _aligned(size: int) -> NDArray[np.uint8]:
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def _fill(target: Any, matrix: Matrix, keep: list[Any]) -> None:
    values = matrix.data
    if values.ctypes.data % ALIGNMENT:  # never so for a mapped file, whose matrices start at pages
        values = _aligned(matrix.data.nbytes)
        values[:] = matrix.data
    data = pointer("uint8_t[]", values)
    keep.append((values, data))
    target.type, target.rows, target.columns = matrix.type, matrix.rows, matrix.columns
    target.data = ffi.cast("const void *", data)
    target.bytes = matrix.data.nbytes


class NativeModel:
    """A ``cyb_model`` struct and everything it points at. Engines made from it hold a reference to it."""

    def __init__(self, arrays: ModelArrays) -> None:
        levels, layers = len(arrays.widths), arrays.layers
        keep: list[Any] = [arrays]
        model = ffi.new("cyb_model *")
        model.levels, model.layers, model.head_size = levels, layers, arrays.head_size
        model.vocabulary, model.particles = arrays.vocabulary, arrays.particles
        model.epsilon, model.rope_base, model.input_scale = arrays.epsilon, arrays.rope_base, arrays.input_scale
        for index in range(levels):
            model.width[index], model.ffn_width[index] = arrays.widths[index], arrays.ffn_widths[index]
            model.tau[index], model.beta[index] = arrays.tau[index], arrays.beta[index]
        embedding = ffi.new("cyb_matrix[]", levels)
        for index, matrix in enumerate(arrays.embedding):
            _fill(embedding[index], matrix, keep)
        per_block = len(WEIGHT_NAMES)
        weights = ffi.new("cyb_matrix[]", layers * levels * per_block)
        for layer in range(layers):
            for level in range(levels):
                for index, matrix in enumerate(arrays.weights[layer][level]):
                    _fill(weights[(layer * levels + level) * per_block + index], matrix, keep)
        model.embedding, model.weights = embedding, weights
        for name in ("log_focus", "gain_weights", "gain_bias"):
            values = getattr(arrays, name)
            if values is not None:
                values = np.ascontiguousarray(values, np.float32)
                setattr(model, name, memory := pointer("float[]", values))
                keep.append((values, memory))
        ffi.memmove(model.family, arrays.family, 32)
        self.arrays = arrays
        self.struct = model
        self._keep = (keep, embedding, weights)


# ---- packing ----------------------------------------------------------------------------------------------------------


def matrix_bytes(matrix_type: int, rows: int, columns: int) -> int:
    """Packed size in bytes; 0 where the shape or type is not valid."""
    return int(lib.cyb_matrix_bytes(matrix_type, rows, columns))


def matrix_pack(matrix_type: int, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Packs (rows, columns) floats into the tile order of ``cyb.h``; returns (bytes,) uint8. Raises NativeError."""
    values = np.ascontiguousarray(values, np.float32)
    rows, columns = values.shape
    packed = _aligned(matrix_bytes(matrix_type, rows, columns))
    check(lib.cyb_matrix_pack(matrix_type, rows, columns, pointer("float[]", values), pointer("uint8_t[]", packed), packed.nbytes))
    return packed


def matrix_unpack(matrix: Matrix) -> NDArray[np.float32]:
    """The (rows, columns) float32 values of a packed matrix. Raises NativeError."""
    keep: list[Any] = []
    struct = ffi.new("cyb_matrix *")
    _fill(struct, matrix, keep)
    values = np.empty((matrix.rows, matrix.columns), np.float32)
    check(lib.cyb_matrix_unpack(struct, pointer("float[]", values)))
    return values


# ---- roofline ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roofline:
    """The best this machine offers, measured on all worker threads: bytes and operations a second (a multiply-add is two)."""

    dram_bytes_per_second: float
    f32_flops: float
    int8_ops: float


def measure_roofline(threads: int = 0, memory: int = 512 << 20) -> Roofline:
    """Measures it in about a second; ``memory`` is the buffer in bytes, several times the last cache. Raises NativeError."""
    roofline = ffi.new("cyb_roofline *")
    check(lib.cyb_roofline_measure(threads, memory, roofline))
    return Roofline(roofline.dram_bytes_per_second, roofline.f32_flops, roofline.int8_ops)


# ---- reference and sparse products ----------------------------------------------------------------------------------


def reference_forward(
    model: NativeModel,
    level: int,
    tokens: Any,
    positions: Any,
    holes: NDArray[np.uint8] | None = None,
    zeros_rule: bool = False,
    want_kv: bool = True,
    want_logits: bool = True,
) -> tuple[NDArray[np.uint16] | None, NDArray[np.float32] | None]:
    """The independent scalar reference on one sequence of n tokens at ascending absolute positions.

    ``holes`` is (n, levels), 1 where a position holds no KV of that block. Returns KV as f16 bits
    (layers, 2, n, width[level]) and logits (n, vocabulary) float32; None for what was not wanted.
    """
    tokens, positions = u32(tokens), u32(positions)
    n, levels = len(tokens), len(model.arrays.widths)
    if len(positions) != n:
        raise ValueError(f"{n} tokens but {len(positions)} positions")
    if holes is not None:
        holes = np.ascontiguousarray(holes, np.uint8)
        if holes.shape != (n, levels):
            raise ValueError(f"holes must be ({n}, {levels}), not {holes.shape}")
    if not 1 <= level <= levels:
        raise ValueError(f"level {level} is not one of 1 to {levels}")
    kv = np.zeros((model.arrays.layers, 2, n, model.arrays.widths[level - 1]), np.uint16) if want_kv else None
    logits = np.zeros((n, model.arrays.vocabulary), np.float32) if want_logits else None
    check(
        lib.cyb_reference_forward(
            model.struct,
            level,
            pointer("uint32_t[]", tokens),
            pointer("uint32_t[]", positions),
            pointer("uint8_t[]", holes),
            int(zeros_rule),
            n,
            pointer("uint16_t[]", kv),
            pointer("float[]", logits),
        )
    )
    return kv, logits


def csr_multiply(
    offsets: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    values: NDArray[np.float32],
    x: NDArray[np.float32],
    threads: int = 0,
) -> NDArray[np.float32]:
    """y = A x for a square sparse A in CSR form and a block of vectors x, (n, width) or (n,) float32; y has x's shape.

    ``offsets`` (n+1,), ``columns`` and ``values`` (nonzeros,); column numbers must be below n. Same bits for any ``threads``.
    """
    offsets = np.ascontiguousarray(offsets, np.uint64)
    columns = u32(columns)
    values = np.ascontiguousarray(values, np.float32)
    x = np.ascontiguousarray(x, np.float32)
    n = len(offsets) - 1
    if x.ndim not in (1, 2) or x.shape[0] != n:
        raise ValueError(f"x has shape {x.shape}; the matrix has {n} columns")
    if len(columns) != len(values) or int(offsets[-1]) != len(columns):
        raise ValueError("offsets, columns and values do not belong together")
    matrix = ffi.new("cyb_csr *")
    memory = (pointer("uint64_t[]", offsets), pointer("uint32_t[]", columns), pointer("float[]", values))
    matrix.n = n
    matrix.offsets, matrix.columns, matrix.values = memory
    y = np.zeros_like(x)
    width = 1 if x.ndim == 1 else x.shape[1]
    check(lib.cyb_csr_multiply(matrix, pointer("float[]", x), width, pointer("float[]", y), threads))
    return y
