"""Fits the verification logistic to labelled claims, so that its probabilities become frequencies.

Labels come from links set aside for validation, never from the hidden ones. Coefficients are pulled towards the hand-set ones
by a Gaussian prior, so that a few labels move them a little; the constant is free, because the base rate is what a fit is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.runtime.verification import FEATURES, UNCALIBRATED, Logistic

NEWTON_STEPS = 50
TOLERANCE = 1e-9
CONSTANT_FREEDOM = 1e-3  # of the prior's strength
FOLDS = 5

Floats = NDArray[np.float64]


def fit(
    features: Floats,
    labels: NDArray[np.bool_],
    prior: Logistic = UNCALIBRATED,
    strength: float = 1.0,
    source: str = "",
    weights: Floats | None = None,
) -> Logistic:
    """The most probable coefficients. ``features`` (n, FEATURES), ``labels`` (n,) true where the link is a fact.

    ``strength`` is the prior's inverse variance of every coefficient but the constant; ``weights`` (n,) says how many claims
    each stands for (default: one). Raises ValueError where shapes do not match or only one label occurs.
    """
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 2 or x.shape[1] != len(FEATURES) or len(x) != len(y):
        raise ValueError(f"features must be (n, {len(FEATURES)}) and labels (n,)")
    if not 0 < y.sum() < len(y):
        raise ValueError("both true and false links are needed to fit the verification")
    stands_for = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    start = np.array(prior.coefficients)
    precision = np.full(len(start), strength)
    precision[FEATURES.index("constant")] *= CONSTANT_FREEDOM
    fitted = start.copy()
    for _ in range(NEWTON_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(x @ fitted, -500, 500)))
        gradient = x.T @ (stands_for * (expected - y)) + precision * (fitted - start)
        curvature = (x * (stands_for * expected * (1 - expected))[:, None]).T @ x + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        fitted -= step * min(1.0, 5.0 / max(1e-300, float(np.abs(step).max())))
        if np.abs(step).max() < TOLERANCE:
            break
    text = f"fitted to {len(y)} claims, {int(y.sum())} of them facts{', ' + source if source else ''}"
    return Logistic(tuple(float(coefficient) for coefficient in fitted), calibrated=True, provenance=text)


def cross_fitted(features: Floats, labels: NDArray[np.bool_], groups: NDArray[np.int64], weights: Floats) -> Floats:
    """Probability of each claim under a fit that saw no claim of its group, (n,). Folds follow from ``groups`` (n,) alone."""
    folds = (groups.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % np.uint64(FOLDS)
    probabilities = np.zeros(len(labels))
    for fold in range(FOLDS):
        out = folds == fold
        if out.any():
            fitted = fit(features[~out], labels[~out], weights=weights[~out])
            probabilities[out] = fitted.probabilities(features[out])
    return probabilities


def reliability(probabilities: Floats, labels: NDArray[np.bool_], weights: Floats, bins: int = 10) -> list[tuple[float, float, float]]:
    """(mean probability, share of facts, weight) of each equal-width bin that is not empty."""
    which = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    rows = []
    for number in np.unique(which):
        inside = which == number
        weight = float(weights[inside].sum())
        mean, share = (float((weights * values)[inside].sum() / weight) for values in (probabilities, labels))
        rows.append((mean, share, weight))
    return rows


def calibration_error(
    probabilities: Sequence[float] | Floats, labels: Sequence[bool] | NDArray[np.bool_], bins: int = 10, weights: Floats | None = None
) -> float:
    """Expected calibration error: |mean probability − share of facts|, averaged over equal-width bins by their weight."""
    p, y = np.asarray(probabilities, np.float64), np.asarray(labels, bool)
    rows = reliability(p, y, np.ones(len(p)) if weights is None else weights, bins)
    return sum(abs(mean - share) * weight for mean, share, weight in rows) / max(1.0, sum(weight for *_, weight in rows))
