"""Fine-tuning the nested model in MLX (design §7): one forward pass, the cross-entropies of all levels summed.

MLX makes no bitwise claim: what it trains is exported and then computed by the native runtime. Sources: Loshchilov & Hutter,
"Decoupled Weight Decay Regularization" (2019); Wang et al., "CoKE" (2019) for links as sequences; Hinton et al. (2015) for distillation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.finetune_model import NestedModel, build_parameters, to_weights
from engine.compile.layout import Batch, SequenceSampler
from engine.compile.names import NameFeatures
from engine.compile.weights import NestedWeights
from engine.errors import UserError


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the result, seconds and hardware apart."""

    levels: tuple[int, ...]
    layers: int = 3
    head_size: int = 32
    ffn_multiple: int = 2
    queries: int = 3072
    contexts: int = 512
    contexts_every: int = 3
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    smoothing: float = 0.1
    dropout: float = 0.05
    anonymous_share: float = 0.4
    distillation: float = 0.5
    hole_share: float = 0.3
    warm_up: int = 300
    level_weights: tuple[float, ...] = ()
    query_share_semcon: float = 0.06


Progress = Callable[[int, float, float], None]  # step, share of the time budget used, loss


def _mlx() -> Any:
    try:
        import mlx.core as mx
    except ImportError as error:
        raise UserError(
            "fine-tuning needs MLX: install cybtui[mlx-cpu] or cybtui[mlx-cuda] (Apple silicon has it), or compile with --finetune 0"
        ) from error
    return mx


def finetune(
    links: NDArray[np.int64],
    inverse: NDArray[np.int64],
    particles: int,
    embedding: NDArray[np.float32] | None,
    focus: NDArray[np.float64],
    recipe: Recipe,
    seconds: float,
    seed: int,
    progress: Progress | None = None,
    steps: int = 0,
    names: NameFeatures | None = None,
    evaluate: Callable[[Any, Any], None] | None = None,
) -> NestedWeights:
    """Trains for ``seconds`` (or exactly ``steps`` steps) and returns the weights.

    ``links`` is (n, 3) in both directions; ``embedding`` (particles, DK) starts E (None: random); ``focus`` is (vocabulary,).
    With ``names`` a particle's vector is its own plus that of its name; in training ``anonymous_share`` of the particles, drawn
    anew each step, have the latter alone, so that what names say is learned. The learning rate follows a cosine over the budget.
    Raises UserError when MLX is not installed.
    """
    mx = _mlx()
    import mlx.optimizers as optim
    from mlx.utils import tree_flatten, tree_map

    semcons = len(inverse)
    sampler = SequenceSampler(links, particles, semcons, focus, seed)
    mx.random.seed(seed)
    parameters = build_parameters(recipe, particles, semcons, embedding, seed, names.count if names else 0)
    model = NestedModel(recipe, np.log(np.maximum(focus, 1e-12)).astype(np.float32), names)
    level_weights = recipe.level_weights or (1.0,) * len(recipe.levels)
    optimizer = optim.AdamW(learning_rate=recipe.learning_rate, weight_decay=0.0)
    optimizer.init(parameters)

    cross_entropy = cross_entropy_function(mx, recipe)

    def loss_of(parameters: Any, batches: list[tuple[Any, ...]]) -> Any:
        rows, targets = [], []
        parameters = model.with_names(parameters, train=True)
        for tokens, positions, valid, sequence, column, target, *presence in batches:
            outputs = model.hidden(parameters, tokens, positions, valid, presence[0] if presence else None, train=True)
            rows.append([block[sequence, column] for block in outputs])
            targets.append(target)
        blocks = [mx.concatenate([part[k] for part in rows]) for k in range(len(recipe.levels))]
        target = mx.concatenate(targets)
        logits = model.logits(parameters, blocks)
        teacher = mx.stop_gradient(mx.softmax(logits[-1], axis=-1))
        losses = [cross_entropy(logit, target, teacher) for logit in logits]
        return sum(w * loss for w, loss in zip(level_weights, losses, strict=True)), losses[-1]

    gradient = mx.value_and_grad(loss_of)
    # mx.compile is left out on purpose: on CUDA it compiles each fused kernel at run time, which took over four minutes
    random = np.random.default_rng([seed, 1])
    started, number = time.monotonic(), 0
    while True:
        used = number / steps if steps else (time.monotonic() - started) / max(seconds, 1e-9)
        if used >= 1:
            break
        warm = min(1.0, (number + 1) / recipe.warm_up)
        rate = recipe.learning_rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * used)))
        batches = [to_device(mx, sampler.queries(recipe.queries, recipe.query_share_semcon), None)]
        if recipe.contexts and number % recipe.contexts_every == 0:
            batch = sampler.contexts(recipe.contexts)
            batches.append(to_device(mx, batch, burst_presence(random, batch, len(recipe.levels), recipe.hole_share)))
        (_, deepest), gradients = gradient(parameters, batches)
        norm = mx.sqrt(sum(g.square().sum() for _, g in tree_flatten(gradients)))
        factor = mx.minimum(1.0, 1.0 / (norm + 1e-6))
        optimizer.learning_rate = rate
        parameters = optimizer.apply_gradients(tree_map(lambda g, f=factor: g * f, gradients), parameters)
        parameters = model.decay(parameters, rate * recipe.weight_decay)
        mx.async_eval(parameters, optimizer.state, deepest)
        number += 1
        if number == 1:
            mx.eval(parameters)
            started = time.monotonic()  # kernels are loaded and compiled by now
        if number % 100 == 0 or number == 1:
            loss = float(deepest)
            if not math.isfinite(loss):
                raise UserError("fine-tuning diverged (the loss is not a number); lower the learning rate")
            if progress:
                progress(number, used, loss)
    parameters = model.with_names(parameters)
    if evaluate is not None:
        evaluate(model, parameters)
    return to_weights(parameters, recipe)


def cross_entropy_function(mx: Any, recipe: Recipe) -> Any:
    """(logits, targets, teacher) → mean cross-entropy of the targets. Its gradient is that of the loss with label smoothing and
    distillation; it is written out so that the (rows, vocabulary) arrays are walked as seldom as possible."""

    @mx.custom_function  # type: ignore[misc]
    def cross_entropy(logits: Any, targets: Any, teacher: Any) -> Any:
        picked = mx.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
        return (mx.logsumexp(logits, axis=-1) - picked).mean()

    @cross_entropy.vjp  # type: ignore[misc]
    def cross_entropy_vjp(primals: Any, cotangent: Any, _output: Any) -> Any:
        logits, targets, teacher = primals
        rows, vocabulary = logits.shape
        distilled = recipe.distillation
        hard = (1 - distilled) * (1 - recipe.smoothing)
        even = (1 - distilled) * recipe.smoothing / vocabulary
        slope = mx.softmax(logits, axis=-1) - distilled * teacher - even
        slope = slope.at[mx.arange(rows), targets].add(-hard)
        return slope * (cotangent / rows), mx.zeros_like(targets), mx.zeros_like(teacher)

    return cross_entropy


def to_device(mx: Any, batch: Batch, presence: NDArray[np.float32] | None) -> tuple[Any, ...]:
    """A batch as MLX arrays; presence None means that every position holds every block."""
    arrays = (batch.tokens, batch.positions, batch.valid, batch.target_sequence, batch.target_column, batch.targets)
    return (*(mx.array(np.ascontiguousarray(a)) for a in arrays), *([] if presence is None else [mx.array(presence)]))


def burst_presence(random: np.random.Generator, batch: Batch, levels: int, share: float) -> NDArray[np.float32]:
    """(levels, sequences, columns): 1 where a position holds block-k KV. A share of the sequences has bursts of shallow positions."""
    sequences, columns = batch.tokens.shape
    depth = np.full((sequences, columns), levels)
    length = random.integers(2, 10, (sequences, 1))
    phase = random.integers(0, 10, (sequences, 1))
    burst = (np.arange(columns)[None, :] + phase) // length
    drawn = random.integers(1, levels + 1, (sequences, columns))
    bursty = np.take_along_axis(drawn, np.minimum(burst, columns - 1), axis=1)
    depth = np.where(random.random((sequences, 1)) < share, bursty, depth)
    return (depth[None] >= np.arange(1, levels + 1)[:, None, None]).astype(np.float32)
