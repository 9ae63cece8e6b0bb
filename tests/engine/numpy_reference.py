"""The nested forward pass in numpy, in float64, written from design §4 and engine/compile/weights.py alone: no rounding, no packing.

It shares nothing with csrc/: an error of convention that kernels and scalar reference have in common shows against it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.weights import NestedWeights

Floats = NDArray[np.float64]


def random_weights(
    vocabulary: int,
    levels: tuple[int, ...] = (32, 64, 96),
    layers: int = 2,
    head_size: int = 16,
    seed: int = 0,
    kind: str = "f16",
) -> NestedWeights:
    """Random weights whose numbers half floats hold exactly, so that packing them as f16 loses nothing (1/√16 is a power of two)."""
    random = np.random.default_rng(seed)
    ffn = tuple(2 * width for width in levels)

    def matrix(rows: int, columns: int, deviation: float) -> NDArray[np.float32]:
        values = random.normal(0, deviation, (rows, columns))
        return values.astype(np.float16).astype(np.float32) if kind == "f16" else values.astype(np.float32)

    weights = []
    for _ in range(layers):
        layer = []
        for block, width in enumerate(levels):
            size, units = width - (0, *levels)[block], ffn[block] - (0, *ffn)[block]
            shapes = {
                "q": (size, width),
                "k": (size, width),
                "v": (size, width),
                "o": (size, width),
                "gate": (units, width),
                "up": (units, width),
                "down": (size, ffn[block]),
            }
            layer.append({name: matrix(rows, columns, 1.5 * columns**-0.5) for name, (rows, columns) in shapes.items()})
        weights.append(layer)
    deepest = len(levels)
    return NestedWeights(
        levels=levels,
        ffn=ffn,
        layers=layers,
        head_size=head_size,
        epsilon=1e-5,
        rope_base=500.0,
        input_scale=12.5,
        embedding=matrix(vocabulary, levels[-1], 0.06),
        weights=weights,
        tau=tuple(float(v) for v in np.linspace(3.0, 7.0, deepest)),
        beta=tuple(float(v) for v in np.linspace(0.4, -0.3, deepest)),
    )


def rotate(heads: Floats, positions: NDArray[np.integer[Any]], base: float) -> Floats:
    """RoPE on (n, heads, size): pair (i, i + size/2) turns by position · base^(-2i/size)."""
    half = heads.shape[2] // 2
    angle = positions[:, None] * base ** (-np.arange(half) / half)
    cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = heads[..., :half], heads[..., half:]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=2)


def attention(query: Floats, key: Floats, value: Floats, absent: NDArray[np.bool_], zeros: bool) -> Floats:
    """Causal attention of one block, all (n, heads, size). ``absent`` (n,) positions hold nothing: masked, or K = V = 0."""
    n, heads, size = query.shape
    out = np.zeros((n, heads, size))
    for i in range(n):
        for head in range(heads):
            score = key[: i + 1, head] @ query[i, head] / np.sqrt(size)
            score = np.where(absent[: i + 1], 0.0 if zeros else -np.inf, score)
            chance = np.exp(score - score.max())
            chance /= chance.sum()
            out[i, head] = np.where(absent[: i + 1], 0.0, chance) @ value[: i + 1, head]
    return out


def forward(
    weights: NestedWeights,
    log_focus: Floats,
    tokens: NDArray[np.integer[Any]],
    positions: NDArray[np.integer[Any]],
    holes: NDArray[np.bool_] | None = None,
    zeros: bool = False,
) -> tuple[list[Floats], Floats]:
    """Logits of every level, each (n, vocabulary), and KV (layers, 2, n, DK).

    ``holes`` (n, levels): positions that were not computed at a block; their logits at levels of holes mean nothing.
    """
    n, levels, deepest = len(tokens), weights.levels, len(weights.levels)
    absent = np.zeros((n, deepest), bool) if holes is None else holes
    x = weights.embedding[tokens].astype(np.float64) * weights.input_scale
    kv = np.zeros((weights.layers, 2, n, levels[-1]))

    def inverse_rms(width: int) -> Floats:
        return np.asarray(1 / np.sqrt((x[:, :width] ** 2).mean(axis=1, keepdims=True) + weights.epsilon))

    def heads(values: Floats) -> Floats:
        return values.reshape(n, -1, weights.head_size)

    for number, layer in enumerate(weights.weights):
        mixed = np.zeros((n, levels[-1]))
        for block, (begin, end) in enumerate(zip((0, *levels), levels, strict=False)):
            normal = x[:, :end] * inverse_rms(end)
            part = {name: layer[block][name].astype(np.float64) for name in layer[block]}
            query = rotate(heads(normal @ part["q"].T), positions, weights.rope_base)
            key = rotate(heads(normal @ part["k"].T), positions, weights.rope_base)
            value = heads(normal @ part["v"].T)
            mixed[:, begin:end] = attention(query, key, value, absent[:, block], zeros).reshape(n, -1)
            kv[number, 0, :, begin:end], kv[number, 1, :, begin:end] = key.reshape(n, -1), value.reshape(n, -1)
        for block, (begin, end) in enumerate(zip((0, *levels), levels, strict=False)):
            x[:, begin:end] += mixed[:, :end] @ layer[block]["o"].astype(np.float64).T
        units = np.zeros((n, weights.ffn[-1]))
        for block, (begin, end) in enumerate(zip((0, *weights.ffn), weights.ffn, strict=False)):
            width = levels[block]
            normal = x[:, :width] * inverse_rms(width)
            gate = normal @ layer[block]["gate"].astype(np.float64).T
            units[:, begin:end] = gate / (1 + np.exp(-gate)) * (normal @ layer[block]["up"].astype(np.float64).T)
        for block, (begin, end) in enumerate(zip((0, *levels), levels, strict=False)):
            x[:, begin:end] += units[:, : weights.ffn[block]] @ layer[block]["down"].astype(np.float64).T
    logits = [
        weights.tau[level] * (x[:, :width] @ weights.embedding[:, :width].astype(np.float64).T) * inverse_rms(width)
        + weights.beta[level] * log_focus
        for level, width in enumerate(levels)
    ]
    return logits, kv
