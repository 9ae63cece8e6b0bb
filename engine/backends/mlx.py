"""Levels in MLX floats, on Metal, CUDA or a CPU: the same mathematics as the native runtime, without its bits.

For wide levels, where a GPU's bandwidth is worth its rounding, and to check the native runtime against. Weights are unpacked to floats
when a block is first needed: a level's memory is four bytes a weight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserError
from engine.model.model import Model
from engine.native import WEIGHT_NAMES, matrix_unpack

QUERIES = 256


class MlxExecutor:
    """Runs levels of one model in MLX. Raises UserError where MLX does not run."""

    name = "mlx"
    exact = False

    def __init__(self, model: Model) -> None:
        try:
            import mlx.core as mx
        except ImportError as error:
            raise UserError(f"MLX cannot be used here ({error}): pip install 'cybtui[mlx-cpu]' or 'cybtui[mlx-cuda]'") from None
        self.mx = mx
        self.model = model
        self._table: list[Any] = []  # of blocks: (vocabulary, B_k)
        self._blocks: list[list[dict[str, Any]]] = []  # [block][layer][name]
        arrays = model.native.arrays
        half = arrays.head_size // 2
        self._frequency = mx.array((arrays.rope_base ** (-np.arange(half) / half)).astype(np.float32))
        self._log_focus = mx.array(model.log_focus)

    @property
    def device(self) -> str:
        """MLX's own name of its device."""
        return str(self.mx.default_device())

    def close(self) -> None:
        """Forgets the unpacked weights."""
        self._table.clear()
        self._blocks.clear()

    def _load(self, level: int) -> None:
        arrays = self.model.native.arrays
        for block in range(len(self._blocks), level):
            self._table.append(self.mx.array(matrix_unpack(arrays.embedding[block])))
            self._blocks.append(
                [
                    {name: self.mx.array(matrix_unpack(matrix)) for name, matrix in zip(WEIGHT_NAMES, layer[block], strict=True)}
                    for layer in arrays.weights
                ]
            )

    def logits(self, tokens: NDArray[np.integer], level: int) -> NDArray[np.float32]:
        """See ``LevelExecutor``."""
        self._load(level)
        parts = [np.zeros((0, len(self.model.vocabulary)), np.float32)]
        for begin in range(0, len(tokens), QUERIES):
            parts.append(np.array(self._forward(tokens[begin : begin + QUERIES], level), np.float32))
        return np.concatenate(parts)

    def _inverse_rms(self, x: list[Any]) -> list[Any]:
        """1/rms over the first k blocks, each (queries, n, 1)."""
        total, width, result = 0.0, 0, []
        for block in x:
            total, width = total + (block * block).sum(axis=-1, keepdims=True), width + block.shape[-1]
            result.append(self.mx.rsqrt(total / width + self.model.native.arrays.epsilon))
        return result

    def _forward(self, tokens: NDArray[np.integer], level: int) -> Any:
        mx, arrays = self.mx, self.model.native.arrays
        queries, n = tokens.shape
        size = arrays.head_size
        angle = mx.arange(n)[:, None].astype(mx.float32) * self._frequency
        cosine, sine = mx.cos(angle), mx.sin(angle)
        future = mx.where(mx.tril(mx.ones((n, n), mx.bool_)), 0.0, -math.inf)
        ids = mx.array(tokens.astype(np.int32))
        x = [table[ids] * arrays.input_scale for table in self._table[:level]]

        def heads(y: Any) -> Any:
            return y.reshape(queries, n, -1, size).transpose(0, 2, 1, 3)

        def rotate(y: Any) -> Any:
            a, b = y[..., : size // 2], y[..., size // 2 :]
            return mx.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)

        for layer in range(arrays.layers):
            blocks = [self._blocks[block][layer] for block in range(level)]
            scale, mixed, units = self._inverse_rms(x), [], []
            for k, weights in enumerate(blocks):
                normal = mx.concatenate(x[: k + 1], axis=-1) * scale[k]
                query, key, value = (heads(normal @ weights[name].T) for name in ("q", "k", "v"))
                chance = mx.softmax(rotate(query) @ rotate(key).transpose(0, 1, 3, 2) + future, axis=-1)  # 1/√size is in q
                mixed.append((chance @ value).transpose(0, 2, 1, 3).reshape(queries, n, -1))
            x = [x[k] + mx.concatenate(mixed[: k + 1], axis=-1) @ weights["o"].T for k, weights in enumerate(blocks)]
            scale = self._inverse_rms(x)
            for k, weights in enumerate(blocks):
                normal = mx.concatenate(x[: k + 1], axis=-1) * scale[k]
                gate = normal @ weights["gate"].T
                units.append(gate * mx.sigmoid(gate) * (normal @ weights["up"].T))
            x = [x[k] + mx.concatenate(units[: k + 1], axis=-1) @ weights["down"].T for k, weights in enumerate(blocks)]
        last = [block[:, -1] for block in x]
        accumulator = sum(block @ table.T for block, table in zip(last, self._table[:level], strict=True))
        return arrays.tau[level - 1] * accumulator * self._inverse_rms(last)[-1] + arrays.beta[level - 1] * self._log_focus
