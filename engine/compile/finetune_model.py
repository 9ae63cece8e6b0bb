"""The nested transformer in MLX floats: parameters, forward pass and export. Same mathematics as design §4, no bitwise claim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.names import NameFeatures
from engine.compile.weights import NestedWeights
from engine.model.context import CONTROL_TOKENS

if TYPE_CHECKING:
    from engine.compile.finetune import Recipe

EPSILON = 1e-6
ROPE_BASE = 10000.0
INPUT_SCALE = 20.0
EMBEDDING_RMS = 0.05
NAME_RMS = 0.03  # of a feature's vector, so of a particle's sum of them


def block_bounds(levels: tuple[int, ...]) -> list[tuple[int, int]]:
    """(begin, end) columns of each block."""
    return list(zip((0, *levels[:-1]), levels, strict=True))


def build_parameters(
    recipe: Recipe,
    particles: int,
    semcons: int,
    embedding: NDArray[np.float32] | None,
    seed: int,
    name_features: int = 0,
) -> dict[str, Any]:
    """Initial parameters as a tree of MLX arrays. E's particle rows start from ``embedding`` scaled to rms 0.05."""
    import mlx.core as mx

    random = np.random.default_rng([seed, 2])
    vocabulary = particles + semcons + len(CONTROL_TOKENS)
    width = recipe.levels[-1]
    table = random.normal(0, EMBEDDING_RMS, (vocabulary, width)).astype(np.float32)
    if embedding is not None:
        scaled = embedding.astype(np.float32)
        scaled = scaled / np.maximum(np.sqrt((scaled**2).mean(axis=1, keepdims=True)), 1e-9)
        table[:particles] = 0.7 * EMBEDDING_RMS * scaled + 0.3 * table[:particles]
    parameters: dict[str, Any] = {
        "embedding": mx.array(table),
        "log_tau": mx.array(np.array([math.log(8.0 / (EMBEDDING_RMS * d)) for d in recipe.levels], np.float32)),
        "beta": mx.zeros((len(recipe.levels),)),
        "layers": [],
    }
    if name_features:
        vectors = random.normal(0, NAME_RMS, (name_features, width)).astype(np.float32)
        parameters["names"] = mx.array(vectors)
    for _ in range(recipe.layers):
        layer = []
        for begin, end in block_bounds(recipe.levels):
            block, hidden = end - begin, recipe.ffn_multiple * (end - begin)
            shapes = {
                "qkv": (3 * block, end),
                "o": (block, end),
                "gate_up": (2 * hidden, end),
                "down": (block, recipe.ffn_multiple * end),
            }
            layer.append(
                {
                    name: mx.array(
                        random.normal(0, (0.5 if name in ("o", "down") else 1.0) / math.sqrt(shape[1]), shape).astype(np.float32)
                    )
                    for name, shape in shapes.items()
                }
            )
        parameters["layers"].append(layer)
    return parameters


class NestedModel:
    """Stateless forward pass over a parameter tree."""

    def __init__(self, recipe: Recipe, log_focus: NDArray[np.float32], names: NameFeatures | None = None) -> None:
        import mlx.core as mx

        self.mx = mx
        self.recipe = recipe
        self.log_focus = mx.array(log_focus)
        self.names = None if names is None else mx.array(names.dense()).astype(mx.bfloat16)  # (particles, features)
        half = recipe.head_size // 2
        self.frequency = mx.array((ROPE_BASE ** (-np.arange(half) / half)).astype(np.float32))

    def _dropout(self, x: Any, train: bool) -> Any:
        rate = self.recipe.dropout
        if not train or rate == 0:
            return x
        keep = self.mx.random.bernoulli(1 - rate, x.shape)
        return self.mx.where(keep, x / (1 - rate), 0.0)

    def with_names(self, parameters: Any, train: bool = False) -> Any:
        """Parameters whose E holds what the names add, ready for ``hidden`` and ``logits``."""
        if self.names is None:
            return parameters
        mx, table = self.mx, parameters["embedding"]
        named = (self.names @ parameters["names"].astype(mx.bfloat16)).astype(mx.float32)
        particles = named.shape[0]
        own = table[:particles]
        if train and self.recipe.anonymous_share:
            own = mx.where(mx.random.bernoulli(1 - self.recipe.anonymous_share, (particles, 1)), own, 0.0)
        rest = {name: value for name, value in parameters.items() if name != "names"}
        return {**rest, "embedding": mx.concatenate([own + named, table[particles:]])}

    def _rms(self, blocks: list[Any]) -> list[Any]:
        """1/rms of the first k blocks, for each k; every entry (…, 1)."""
        total, width, result = None, 0, []
        for block in blocks:
            squares = (block * block).sum(axis=-1, keepdims=True)
            total = squares if total is None else total + squares
            width += block.shape[-1]
            result.append(self.mx.rsqrt(total / width + EPSILON))
        return result

    def hidden(self, parameters: Any, tokens: Any, positions: Any, valid: Any, presence: Any | None, train: bool = False) -> list[Any]:
        """Final activations by block, each (sequences, columns, B_k). ``presence`` (levels, sequences, columns): zeros rule."""
        mx, recipe = self.mx, self.recipe
        bounds = block_bounds(recipe.levels)
        x_all = self._dropout(parameters["embedding"][tokens] * INPUT_SCALE, train)
        x = [x_all[..., begin:end] for begin, end in bounds]
        sequences, columns = tokens.shape
        angle = positions[:, :, None].astype(mx.float32) * self.frequency
        cosine, sine = mx.cos(angle)[:, None], mx.sin(angle)[:, None]
        causal = mx.tril(mx.ones((columns, columns), mx.bool_))
        allowed = causal[None] & valid[:, None, :]
        bias = mx.where(allowed, 0.0, -1e9)[:, None]

        def heads(y: Any) -> Any:
            return y.reshape(sequences, columns, -1, recipe.head_size).transpose(0, 2, 1, 3)

        def rotate(y: Any) -> Any:
            half = recipe.head_size // 2
            a, b = y[..., :half], y[..., half:]
            return mx.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)

        own = mx.eye(columns)[None, None]
        for layer in parameters["layers"]:
            inverse_rms = self._rms(x)
            mixed = []
            for k, weights in enumerate(layer):
                normal = mx.concatenate(x[: k + 1], axis=-1) * inverse_rms[k]
                query, key, value = (heads(part) for part in mx.split(normal @ weights["qkv"].T, 3, axis=-1))
                query, key = rotate(query), rotate(key)
                scores = (query @ key.transpose(0, 1, 3, 2)) / math.sqrt(recipe.head_size)
                if presence is None or k == 0:
                    chance = mx.softmax(scores + bias, axis=-1)
                else:
                    # a hole is K = V = 0: score 0, value 0; a position always holds itself
                    held = mx.maximum(presence[k][:, None, None, :], own)
                    chance = mx.softmax(scores * held + bias, axis=-1) * held
                mixed.append((chance @ value).transpose(0, 2, 1, 3).reshape(sequences, columns, -1))
            x = [x[k] + self._dropout(mx.concatenate(mixed[: k + 1], axis=-1) @ weights["o"].T, train) for k, weights in enumerate(layer)]
            inverse_rms = self._rms(x)
            units = []
            for k, weights in enumerate(layer):
                normal = mx.concatenate(x[: k + 1], axis=-1) * inverse_rms[k]
                gate, up = mx.split(normal @ weights["gate_up"].T, 2, axis=-1)
                units.append(self._dropout(gate * mx.sigmoid(gate) * up, train))
            x = [
                x[k] + self._dropout(mx.concatenate(units[: k + 1], axis=-1) @ weights["down"].T, train) for k, weights in enumerate(layer)
            ]
        return x

    def logits(self, parameters: Any, blocks: list[Any]) -> list[Any]:
        """Logits of every level, each (rows, vocabulary), from final activations by block (rows, B_k)."""
        mx = self.mx
        inverse_rms = self._rms(blocks)
        accumulator, result = None, []
        for k, (begin, end) in enumerate(block_bounds(self.recipe.levels)):
            part = blocks[k] @ parameters["embedding"][:, begin:end].T
            accumulator = part if accumulator is None else accumulator + part
            tau = mx.exp(parameters["log_tau"][k])
            result.append(tau * accumulator * inverse_rms[k] + parameters["beta"][k] * self.log_focus)
        return result

    def decay(self, parameters: Any, amount: Any) -> Any:
        """Decoupled weight decay on the matrices, E excepted."""
        decayed = dict(parameters)
        decayed["layers"] = [
            [{name: value * (1 - amount) for name, value in block.items()} for block in layer] for layer in parameters["layers"]
        ]
        return decayed


def _split_block(block: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """The seven matrices of a block from the four that training joins to save launches."""
    arrays = {name: np.array(value, np.float32) for name, value in block.items()}
    q, k, v = np.split(arrays["qkv"], 3)
    gate, up = np.split(arrays["gate_up"], 2)
    return {"q": q, "k": k, "v": v, "o": arrays["o"], "gate": gate, "up": up, "down": arrays["down"]}


def to_weights(parameters: Any, recipe: Recipe) -> NestedWeights:
    """The parameter tree as numpy arrays for export."""
    return NestedWeights(
        levels=tuple(recipe.levels),
        ffn=tuple(recipe.ffn_multiple * width for width in recipe.levels),
        layers=recipe.layers,
        head_size=recipe.head_size,
        epsilon=EPSILON,
        rope_base=ROPE_BASE,
        input_scale=INPUT_SCALE,
        embedding=np.array(parameters["embedding"], np.float32),
        weights=[[_split_block(block) for block in layer] for layer in parameters["layers"]],
        tau=tuple(float(v) for v in np.exp(np.array(parameters["log_tau"]))),
        beta=tuple(float(v) for v in np.array(parameters["beta"])),
    )
