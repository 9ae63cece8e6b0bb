"""The weights of a nested model in plain floats: what closed form and fine-tuning produce, and export packs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

WEIGHT_NAMES = ("q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True)
class NestedWeights:
    """A nested model (design §4). ``weights[layer][block][name]`` is row-major float32, rows = outputs, columns = inputs:
    q, k, v, o are B_k × D_k, gate and up F'_k × D_k, down B_k × F_k, where D, F are cumulative widths and B, F' a block's own.
    q is unscaled: export folds 1/√head_size into it.
    """

    levels: tuple[int, ...]
    ffn: tuple[int, ...]
    layers: int
    head_size: int
    epsilon: float
    rope_base: float
    input_scale: float
    embedding: NDArray[np.float32]  # (vocabulary, DK)
    weights: list[list[dict[str, NDArray[np.float32]]]]
    tau: tuple[float, ...]
    beta: tuple[float, ...]
    gain_weights: NDArray[np.float32] | None = None  # (K-1, 6)
    gain_bias: NDArray[np.float32] | None = None  # (K-1, semcons + controls)
    spectrum: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))  # (DK,) eigenvalues, or empty
