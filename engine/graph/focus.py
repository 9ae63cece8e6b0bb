"""Focus φ*: the fixed point of the tri-kernel (design §7): diffusion with teleport, screened springs and heat, mixed and iterated.

Each kernel keeps the total at 1: diffusion follows links with probability α and teleports otherwise (Page et al., 1999); springs pull
every particle towards its neighbours' mean against a screen μ (regularised harmonic functions, Zhu et al., 2003); heat spreads for a
time τ (Chung, "The heat kernel as the pagerank of a graph", 2007). Diffusion and springs contract, so the mixture does. Links are
followed both ways, as every semcon has an inverse; a particle without links gets what teleport and screen give it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.cybergraph import Cybergraph

ALPHA, SCREEN, HEAT_TIME = 0.85, 0.2, 0.5
MIXTURE = (0.5, 0.3, 0.2)  # diffusion, springs, heat
SEMCON_SHARE, CONTROL_SHARE = 0.1, 1e-6


@dataclass(frozen=True)
class Focus:
    """``values`` (particles,) float64 summing to 1; ``kappa`` the measured contraction of the last iterations; ``bound`` its bound."""

    values: NDArray[np.float64]
    kappa: float
    bound: float
    iterations: int


def compute_focus(graph: Cybergraph, tolerance: float = 1e-10, limit: int = 500, start: NDArray[np.float64] | None = None) -> Focus:
    """Iterates until the change (L1) is below ``tolerance``. ``start`` continues from an earlier focus after new links."""
    n = graph.particle_count
    if n == 0:
        return Focus(np.zeros(0), 0.0, 0.0, 0)
    source, target, weight = graph.links[:, 0], graph.links[:, 2], graph.weights.astype(np.float64)
    degree = np.bincount(source, weight, n) + np.bincount(target, weight, n)
    alone = degree == 0
    inverse = np.where(alone, 0.0, 1.0 / np.where(alone, 1.0, degree))
    even = np.full(n, 1.0 / n)

    def spread(x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Follows links; a particle without any spreads evenly."""
        outgoing = x * inverse
        moved = np.bincount(target, weight * outgoing[source], n) + np.bincount(source, weight * outgoing[target], n)
        return np.asarray(moved + x[alone].sum() * even)

    focus = even.copy() if start is None else np.maximum(start, 0) / max(float(np.maximum(start, 0).sum()), 1e-300)
    change, kappa, iterations = 1.0, 0.0, 0
    for step in range(1, limit + 1):
        moved = spread(focus)
        diffusion = ALPHA * moved + (1 - ALPHA) * even
        springs = (moved + SCREEN * even) / (1 + SCREEN)
        warm = (1 - HEAT_TIME / 2) * focus + HEAT_TIME / 2 * moved
        heat = (1 - HEAT_TIME / 2) * warm + HEAT_TIME / 2 * spread(warm)
        following = MIXTURE[0] * diffusion + MIXTURE[1] * springs + MIXTURE[2] * heat
        following /= following.sum()
        difference = float(np.abs(following - focus).sum())
        if step > 1 and change > 0:
            kappa = difference / change
        focus, change, iterations = following, difference, step
        if change < tolerance:
            break
    bound = MIXTURE[0] * ALPHA + MIXTURE[1] / (1 + SCREEN) + MIXTURE[2]
    return Focus(focus, kappa, bound, iterations)


def vocabulary_focus(graph: Cybergraph, focus: NDArray[np.float64], controls: int) -> NDArray[np.float64]:
    """(vocabulary,) summing to 1: particles share 0.9 by focus, semcons 0.1 by the links read through them, controls next to nothing."""
    readings = np.bincount(graph.directed()[:, 1], minlength=graph.semcon_count) + 0.5 if graph.semcon_count else np.zeros(0)
    semcons = SEMCON_SHARE * readings / max(float(readings.sum()), 1e-300)
    result = np.concatenate([(1 - SEMCON_SHARE) * focus, semcons, np.full(controls, CONTROL_SHARE)])
    return np.asarray(result / result.sum())
