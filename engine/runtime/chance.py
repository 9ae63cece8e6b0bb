"""Counter-based random numbers: a choice depends on (seed, agent, episode, draw) and on nothing that happened before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


def draw(seed: int, *counters: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """64 random bits for each broadcast row of ``counters``: splitmix64 folded over the seed and the counters."""
    with np.errstate(over="ignore"):
        state = _mix(np.asarray(seed & 0xFFFFFFFFFFFFFFFF, np.uint64) + _GAMMA)
        for counter in counters:
            state = _mix((state ^ np.asarray(counter).astype(np.uint64)) + _GAMMA)
    return state


def below(seed: int, bound: NDArray[np.integer] | int, *counters: NDArray[np.integer] | int) -> NDArray[np.int64]:
    """Integers in [0, bound) for each broadcast row; ``bound`` ≥ 1 and < 2³². The bias is below 2⁻³²."""
    high = draw(seed, *counters) >> np.uint64(32)
    return ((high * np.asarray(bound).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
