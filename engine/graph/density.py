"""Where a symmetric matrix has its eigenvalues, estimated from the traces of its Chebyshev polynomials (kernel polynomial method).

Sources: Weiße, Wellein, Alvermann, Fehske, "The kernel polynomial method" (2006), for moments and Jackson's damping; Hutchinson (1990)
for traces from random signs; Di Napoli, Polizzi, Saad (2016) for eigenvalue counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.sparse import SparseMatrix

MOMENTS, PROBES = 256, 32


def damping(terms: int) -> NDArray[np.float64]:
    """Jackson's factors (terms,): they keep a cut-off series of a jump free of overshoot."""
    k = np.arange(terms)
    angle = np.pi / (terms + 1)
    return np.asarray(((terms - k + 1) * np.cos(k * angle) + np.sin(k * angle) / np.tan(angle)) / (terms + 1))


def step_series(cut: float, terms: int) -> NDArray[np.float64]:
    """Chebyshev coefficients (terms,) of the smoothed step that is 1 above ``cut`` and 0 below, on [-1, 1]."""
    angle = float(np.arccos(np.clip(cut, -1, 1)))
    k = np.arange(1, terms)
    return np.concatenate([[angle / np.pi], 2 / np.pi * np.sin(k * angle) / k]) * damping(terms)


@dataclass(frozen=True)
class SpectralDensity:
    """``moments`` (terms,): estimated traces of the Chebyshev polynomials of a matrix with eigenvalues in [-1, 1]."""

    moments: NDArray[np.float64]

    def count_above(self, cut: float) -> float:
        """The estimated number of eigenvalues above ``cut``."""
        return float(step_series(cut, len(self.moments)) @ self.moments)

    def threshold(self, count: float) -> float:
        """The value above which about ``count`` eigenvalues lie."""
        low, high = -1.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.count_above(middle) > count else (low, middle)
        return (low + high) / 2

    def trace(self, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
        """The estimated trace of ``function`` of the matrix; ``function`` takes and gives arrays over [-1, 1]."""
        terms = len(self.moments)
        points = (np.arange(4 * terms) + 0.5) * np.pi / (4 * terms)
        values = function(np.cos(points))
        series = 2 / len(points) * np.cos(np.arange(terms)[:, None] * points) @ values
        series[0] /= 2
        return float((series * damping(terms)) @ self.moments)

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of all |eigenvalues|, normalised (Roy & Vetterli, 2007): an estimate, 0 for the zero matrix."""
        mass = self.trace(np.abs)
        if mass <= 1e-9 * max(float(self.moments[0]), 1.0):
            return 0.0
        entropy = np.log(mass) - self.trace(lambda x: np.abs(x) * np.log(np.maximum(np.abs(x), 1e-300))) / mass
        return float(np.clip(np.exp(entropy), 1.0, self.moments[0]))


def spectral_density(matrix: SparseMatrix, seed: int) -> SpectralDensity:
    """Moments from ``PROBES`` vectors of random signs."""
    signs = np.random.default_rng([seed, 0x44454E53]).integers(0, 2, (matrix.n, PROBES)) * 2 - 1
    start = signs.astype(np.float32)
    before, now = start, matrix.multiply(start)
    moments = [float(matrix.n), float((start * now).sum(dtype=np.float64)) / PROBES]
    twice = matrix.scaled(2)
    for _ in range(MOMENTS - 2):
        following = twice.multiply(now)
        following -= before
        before, now = now, following
        moments.append(float((start * now).sum(dtype=np.float64)) / PROBES)
    return SpectralDensity(np.array(moments))
