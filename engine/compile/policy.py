"""Depth policies measured on held-out links, and the calibrated ``gain`` rule fitted on them (design §6).

The gain rule predicts, from what a level's own distribution shows, how much reciprocal rank the deepest level would add. It is linear in
the six features of ``cyb.h`` plus a bias a semcon, fitted by ridge regression with the semcons shrunk towards nothing. Thresholds are
chosen on predictions of folds that did not see the query, at the least cost that keeps the mean reciprocal rank within ``TOLERANCE`` of
the deepest level.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.export import rewrite
from engine.evaluate.link_prediction import Evaluator, Outcome, metrics
from engine.evaluate.queries import QuerySet, queries_from_links
from engine.model.context import CONTROL_TOKENS
from engine.model.model import Model
from engine.model.policy import Policy, default_policy

TOLERANCE = 0.001
FOLDS = 5
FEATURES = 6


@dataclass(frozen=True)
class GainRule:
    """``weights`` (levels-1, 6), ``bias`` (levels-1, semcons+controls), thresholds one a level but the deepest."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    thresholds: tuple[float, ...]


def _design(features: NDArray[np.float64], semcons: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    one_hot = np.zeros((len(features), count))
    one_hot[np.arange(len(features)), semcons] = 1
    return np.concatenate([features, one_hot], axis=1)


def _ridge(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    scale: NDArray[np.float64],
    strength: float,
    semcon_strength: float,
) -> NDArray[np.float64]:
    """Coefficients; the constant is not shrunk, features by their scale, semcons by ``semcon_strength`` queries each."""
    penalty = np.concatenate([[0.0], strength * scale[1:] ** 2, np.full(design.shape[1] - FEATURES, semcon_strength)])
    return np.asarray(np.linalg.solve(design.T @ design + np.diag(penalty + 1e-9), design.T @ target), np.float64)


def fit_gain(
    features: NDArray[np.float32],
    reciprocal: NDArray[np.float64],
    semcons: NDArray[np.int64],
    semcon_count: int,
    level_costs: Sequence[float],
    seed: int = 0,
) -> GainRule:
    """Fits the rule. ``features`` (queries, levels, 6), ``reciprocal`` (levels, queries) ranks by pinned level, ``level_costs`` what
    answering at each level costs, relative to the deepest."""
    levels, queries = reciprocal.shape
    fold = np.random.default_rng(seed).permutation(queries) % FOLDS
    predicted = np.zeros((levels - 1, queries))
    weights = np.zeros((levels - 1, FEATURES), np.float32)
    bias = np.zeros((levels - 1, semcon_count + len(CONTROL_TOKENS)), np.float32)
    for level in range(levels - 1):
        design = _design(features[:, level].astype(np.float64), semcons, semcon_count)
        target = reciprocal[-1] - reciprocal[level]
        scale = np.maximum(design[:, :FEATURES].std(axis=0), 1e-6)
        for each in range(FOLDS):
            out = fold == each
            coefficients = _ridge(design[~out], target[~out], scale, 0.02 * queries, 40.0)
            predicted[level, out] = design[out] @ coefficients
        coefficients = _ridge(design, target, scale, 0.02 * queries, 40.0)
        weights[level] = coefficients[:FEATURES]
        bias[level, :semcon_count] = coefficients[FEATURES:]
    return GainRule(weights, bias, _thresholds(predicted, reciprocal, np.asarray(level_costs, np.float64)))


def _thresholds(predicted: NDArray[np.float64], reciprocal: NDArray[np.float64], costs: NDArray[np.float64]) -> tuple[float, ...]:
    """The cheapest thresholds, a grid of quantiles a level, that keep the mean reciprocal rank within TOLERANCE of the deepest."""
    levels = len(reciprocal)
    goal = reciprocal[-1].mean() - TOLERANCE
    grids = [np.quantile(predicted[level], np.linspace(0.02, 0.98, 49 if levels <= 3 else 9)) for level in range(levels - 1)]
    best: tuple[float, tuple[float, ...]] = (np.inf, tuple(-1.0 for _ in range(levels - 1)))
    for choice in np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, levels - 1):
        stopped = predicted <= choice[:, None]
        depth = np.where(stopped.any(axis=0), stopped.argmax(axis=0), levels - 1)
        cost = costs[depth].mean()
        if cost < best[0] and reciprocal[depth, np.arange(len(depth))].mean() >= goal:
            best = (float(cost), tuple(float(v) for v in choice))
    return best[1]


def _row(policy: Policy, outcome: Outcome, deepest: int, levels: int, level: int | None = None) -> dict[str, Any]:
    share = np.bincount(outcome.depth, minlength=levels + 1)[1:] / max(len(outcome.depth), 1)
    row: dict[str, Any] = {
        "rule": policy.rule,
        "thresholds": [float(f"{value:.6g}") for value in policy.thresholds],
        "inherit": policy.inherit_text,
        "share": [round(float(value), 4) for value in share],
        "mrr": round(metrics(outcome.ranks)["mrr"], 5),
        "cost": round(outcome.multiply_adds / max(deepest, 1), 5),
    }
    if level is not None:
        row["pinned"] = level
    return row


def measure_and_store(path: Path, seed: int = 0) -> dict[str, Any]:
    """Fits the gain rule on the file's validation links, measures policies and writes both into the file. Returns the policy."""
    model = Model.open(path)
    queries: QuerySet = queries_from_links(model, model.valid, [model.graph.links, model.hidden])
    levels = model.levels
    everywhere = replace(default_policy(levels), thresholds=(2.0,) * (levels - 1))
    with Evaluator(model) as evaluator:
        pinned = [evaluator.run(queries, default_policy(levels).pinned(level)) for level in range(1, levels + 1)]
        visited = evaluator.run(queries, everywhere, features=True)
    deepest = pinned[-1].multiply_adds
    reciprocal = np.stack([1 / outcome.ranks for outcome in pinned])
    assert visited.features is not None
    path_costs = [outcome.multiply_adds / deepest for outcome in pinned]
    rule = fit_gain(visited.features, reciprocal, queries.semcons, model.semcons, path_costs, seed)
    stored = {"inherit": "backfill", "rule": "gain", "thresholds": list(rule.thresholds), "curve": []}
    rewrite(path, stored, rule.weights, rule.bias)
    model = Model.open(path)
    curve = [_row(default_policy(levels).pinned(level), outcome, deepest, levels, level) for level, outcome in enumerate(pinned, 1)]
    gain = model.policy.for_levels(levels)
    tried = [gain, *(gain.with_inherit(inherit) for inherit in ("zeros", "window:16"))]
    for thresholds in ((0.9, 0.85), (0.5, 0.5), (0.25, 0.25)):
        values = (*thresholds, *[thresholds[-1]] * 6)[: levels - 1]
        tried.append(replace(default_policy(levels), rule="top", thresholds=values))
        tried.append(replace(default_policy(levels), rule="margin", thresholds=values))
    with Evaluator(model) as evaluator:
        curve += [_row(policy, evaluator.run(queries, policy), deepest, levels) for policy in tried]
    stored["curve"] = curve
    rewrite(path, stored)
    return stored


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for row in measure_and_store(Path(name))["curve"]:
            print(row)
