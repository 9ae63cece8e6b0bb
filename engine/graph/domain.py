"""Domains: neighbourhoods that goals are about, and what of them a goal shows to the model (design §8).

Training and the runtime both make their goals here, so that a model is only ever shown goals as it was trained on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def neighbourhood(offsets: Ids, target: NDArray[np.integer], focus: NDArray[np.float64], centres: Sequence[int], limit: int) -> Ids:
    """Particles reached from ``centres`` breadth first, at most ``limit``, ascending. In a ring the best focus comes first.

    ``target[offsets[p]:offsets[p+1]]`` are the particles linked to p, in either direction; ``focus`` is (particles,).
    """
    frontier = np.unique(np.asarray(centres, np.int64))[:limit]
    seen = np.zeros(len(offsets) - 1, bool)
    seen[frontier] = True
    count = len(frontier)
    while len(frontier) and count < limit:
        starts, stops = offsets[frontier], offsets[frontier + 1]
        lengths = stops - starts
        rows = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(lengths.sum())
        ring = np.unique(target[rows]).astype(np.int64)
        ring = ring[~seen[ring]]
        if count + len(ring) > limit:
            order = np.argsort(-focus[ring], kind="stable")[: limit - count]
            ring = np.sort(ring[order])
        seen[ring] = True
        count += len(ring)
        frontier = ring
    return np.flatnonzero(seen)


def shown_particles(focus: NDArray[np.float64], domain: Ids, centres: Sequence[int], count: int) -> tuple[int, ...]:
    """The particles that stand for a domain in a goal: its centres, then those of best focus, ``count`` in all."""
    best = domain[np.argsort(-focus[domain], kind="stable")[:count]].tolist()
    return tuple(dict.fromkeys([*centres, *best]))[:count]


def common_semcons(roles: NDArray[np.bool_], domain: Ids, count: int) -> tuple[int, ...]:
    """The ``count`` semcons that most particles of the domain take part in. ``roles`` is (particles, semcons)."""
    if not roles.shape[1] or not len(domain):
        return ()
    share = roles[domain].sum(axis=0)
    order = np.argsort(-share, kind="stable")[:count]
    return tuple(int(semcon) for semcon in order if share[semcon])
