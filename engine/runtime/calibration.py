"""Fits the verification logistic to labelled proposals, so that its probabilities become frequencies.

Labels come from links set aside for validation, never from the hidden ones. Coefficients are pulled towards the hand-set ones
by a Gaussian prior, so that a few labels move them a little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.runtime.verification import FEATURES, UNCALIBRATED, Logistic

NEWTON_STEPS = 50
TOLERANCE = 1e-9


def fit(
    features: NDArray[np.float64],
    labels: NDArray[np.bool_],
    prior: Logistic = UNCALIBRATED,
    strength: float = 1.0,
    source: str = "",
) -> Logistic:
    """The most probable coefficients. ``features`` (n, FEATURES), ``labels`` (n,) true where the link is a fact.

    ``strength`` is the prior's inverse variance of every coefficient. Raises ValueError where shapes do not match or
    only one label occurs.
    """
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 2 or x.shape[1] != len(FEATURES) or len(x) != len(y):
        raise ValueError(f"features must be (n, {len(FEATURES)}) and labels (n,)")
    if not 0 < y.sum() < len(y):
        raise ValueError("both true and false links are needed to fit the verification")
    start = np.array(prior.coefficients)
    weights = start.copy()
    for _ in range(NEWTON_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(x @ weights, -500, 500)))
        gradient = x.T @ (expected - y) + strength * (weights - start)
        curvature = (x * (expected * (1 - expected))[:, None]).T @ x + strength * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights -= step * min(1.0, 5.0 / max(1e-300, float(np.abs(step).max())))
        if np.abs(step).max() < TOLERANCE:
            break
    text = f"fitted to {len(y)} proposals, {int(y.sum())} of them facts{', ' + source if source else ''}"
    return Logistic(tuple(float(weight) for weight in weights), calibrated=True, provenance=text)


def calibration_error(probabilities: Sequence[float], labels: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error: |mean probability − share of facts|, averaged over equal-width bins by their size."""
    p, y = np.asarray(probabilities, np.float64), np.asarray(labels, np.float64)
    which = np.minimum((p * bins).astype(np.int64), bins - 1)
    return float(sum(abs(float((p[which == b] - y[which == b]).sum())) for b in range(bins)) / max(1, len(p)))
