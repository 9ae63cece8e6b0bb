"""The calibrated ``gain`` rule (design §6): when is going deeper worth its cost?

For each level below the deepest a linear function of the six features of ``cyb.h`` plus a bias a semcon predicts how much reciprocal
rank is won by going on. A query goes on where that exceeds a price times the arithmetic it takes; thresholds of all levels follow from
the one price. Levels are fitted from the deepest down, each against what the levels above would really do with the query.

Reciprocal ranks jump, and most of their variance is chance: the fit is made on their square roots, then scaled back. Fits are
ridge regressions whose semcon biases are shrunk together; figures that choose the price are cross-fitted, both directions of one link in
one fold, and averaged over several partitions, so that no query is judged by a rule that has seen its link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FEATURES = 6
FOLDS = 5
PARTITIONS = 3
FEATURE_SHRINKAGE = 0.3  # of the features' own variance
SEMCON_SHRINKAGE = 100.0  # queries that a semcon must have to be believed by half
PRICES = np.concatenate([[0.0], np.geomspace(1e-3, 0.5, 24)])
TOLERANCE = 0.003  # reciprocal rank that may be lost, by the estimate plus its standard error
BUDGET = 0.58  # of the deepest level's arithmetic, where the tolerance costs more than that


@dataclass(frozen=True)
class Samples:
    """Validation queries seen at every level. ``features`` (queries, levels, 6), ``reciprocal`` (levels, queries) reciprocal ranks of
    the pinned levels, ``semcons`` (queries,), ``links`` (queries,) number of the link each asks about, ``costs`` (levels,) arithmetic
    of a query that went from the first level up to this one, relative to the deepest level pinned."""

    features: NDArray[np.float32]
    reciprocal: Floats
    semcons: NDArray[np.int64]
    links: NDArray[np.int64]
    costs: Floats


@dataclass(frozen=True)
class GainRule:
    """``weights`` (levels-1, 6), ``bias`` (levels-1, semcons), ``thresholds`` one a level but the deepest; ``loss`` and ``cost`` are
    the cross-fitted estimates: reciprocal rank lost against the deepest level, its standard error, arithmetic."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    thresholds: tuple[float, ...]
    price: float
    loss: float
    loss_error: float
    cost: float


@dataclass
class _Fit:
    weights: Floats  # (levels-1, 6)
    bias: Floats  # (levels-1, semcons)
    thresholds: Floats  # (levels-1,)

    def predicted(self, samples: Samples, rows: NDArray[np.int64], level: int) -> Floats:
        """Expected gain of going on from ``level`` (from 0)."""
        linear = samples.features[rows, level].astype(np.float64) @ self.weights[level]
        return np.asarray(linear + self.bias[level, samples.semcons[rows]], np.float64)

    def depth(self, samples: Samples, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Level (from 0) at which each query is answered."""
        deepest = len(samples.costs) - 1
        depth = np.full(len(rows), deepest)
        for level in reversed(range(deepest)):
            depth[self.predicted(samples, rows, level) <= self.thresholds[level]] = level
        return depth


def _ridge(features: Floats, semcons: NDArray[np.int64], target: Floats, count: int) -> tuple[Floats, Floats]:
    """Weights (6,) and biases (count,); the constant is not shrunk. Biases are eliminated: their block of the normal equations is
    diagonal."""
    varies = features.var(axis=0)
    penalty = FEATURE_SHRINKAGE * len(features) * varies + 1e-9
    members = np.bincount(semcons, minlength=count) + SEMCON_SHRINKAGE
    sums = np.stack([np.bincount(semcons, features[:, i], minlength=count) for i in range(FEATURES)], axis=1)
    totals = np.bincount(semcons, target, minlength=count)
    normal = features.T @ features + np.diag(penalty) - (sums / members[:, None]).T @ sums
    right = features.T @ target - sums.T @ (totals / members)
    weights = np.linalg.solve(normal, right)
    return np.asarray(weights, np.float64), np.asarray((totals - sums @ weights) / members, np.float64)


def _believed(features: Floats, semcons: NDArray[np.int64], links: NDArray[np.int64], root: Floats, gain: Floats, count: int) -> float:
    """How much gain a unit of the fitted root is worth on links that the fit has not seen; 0 where it foretells nothing."""
    folds = (links * 2654435761 >> 7) % FOLDS
    foretold = np.zeros(len(gain))
    for fold in range(FOLDS):
        seen, out = folds != fold, folds == fold
        if out.any() and seen.any():
            weights, bias = _ridge(features[seen], semcons[seen], root[seen], count)
            foretold[out] = features[out] @ weights + bias[semcons[out]]
    spread = float(foretold.var())
    return max(float(np.cov(foretold, gain, bias=True)[0, 1]) / spread, 0.0) if spread > 1e-12 else 0.0


def _fit(samples: Samples, rows: NDArray[np.int64], price: float, count: int) -> _Fit:
    levels = len(samples.costs)
    fit = _Fit(np.zeros((levels - 1, FEATURES)), np.zeros((levels - 1, count)), np.zeros(levels - 1))
    reciprocal, semcons = samples.reciprocal[:, rows], samples.semcons[rows]
    reached, spent = reciprocal[-1], np.full(len(rows), samples.costs[-1])
    for level in reversed(range(levels - 1)):
        features = samples.features[rows, level].astype(np.float64)
        gain, root = reached - reciprocal[level], np.sqrt(reached) - np.sqrt(reciprocal[level])
        weights, bias = _ridge(features, semcons, root, count)
        slope = _believed(features, semcons, samples.links[rows], root, gain, count)
        fit.weights[level], fit.bias[level] = slope * weights, slope * bias
        fit.weights[level, 0] += float((gain - features @ fit.weights[level] - fit.bias[level, semcons]).mean())
        fit.thresholds[level] = price * float((spent - samples.costs[level]).mean())
        goes = fit.predicted(samples, rows, level) > fit.thresholds[level]
        reached, spent = np.where(goes, reached, reciprocal[level]), np.where(goes, spent, samples.costs[level])
    return fit


def _cross_fitted(samples: Samples, price: float, count: int, folds: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Reciprocal rank lost and arithmetic of each query under a rule fitted without its link."""
    lost, cost = np.zeros(len(folds)), np.zeros(len(folds))
    for fold in range(FOLDS):
        out = np.flatnonzero(folds == fold)
        if len(out) == 0:
            continue
        depth = _fit(samples, np.flatnonzero(folds != fold), price, count).depth(samples, out)
        lost[out] = samples.reciprocal[-1, out] - samples.reciprocal[depth, out]
        cost[out] = samples.costs[depth]
    return lost, cost


def fit_gain(samples: Samples, semcon_count: int, seed: int = 0, prices: Sequence[float] | None = None) -> GainRule:
    """Fits the rule and chooses its price: the cheapest that loses at most ``TOLERANCE`` by the estimate plus its standard error; where
    that takes more than ``BUDGET``, the one within the budget that loses least."""
    random = np.random.default_rng([seed, 0x4741494E])
    partitions = [random.permutation(int(samples.links.max()) + 1)[samples.links] % FOLDS for _ in range(PARTITIONS)]
    tried = []
    for price in PRICES if prices is None else prices:
        runs = [_cross_fitted(samples, float(price), semcon_count, folds) for folds in partitions]
        lost = np.mean([run[0] for run in runs], axis=0)
        error = float(lost.std() / np.sqrt(len(lost)))
        tried.append((float(price), float(lost.mean()), error, float(np.mean([run[1] for run in runs]))))
    safe = [row for row in tried if row[1] + row[2] <= TOLERANCE]
    chosen = min(safe, key=lambda row: row[3], default=None)
    if chosen is None or chosen[3] > BUDGET:
        affordable = [row for row in tried if row[3] <= BUDGET]
        chosen = min(affordable, key=lambda row: row[1]) if affordable else min(tried, key=lambda row: row[3])
    price, loss, error, cost = chosen
    fit = _fit(samples, np.arange(len(samples.semcons)), price, semcon_count)
    thresholds = tuple(float(np.float32(value)) for value in fit.thresholds)
    return GainRule(fit.weights.astype(np.float32), fit.bias.astype(np.float32), thresholds, price, loss, error, cost)
