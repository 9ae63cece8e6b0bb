"""Claims: links that agents walked and that nobody has verified yet. The most promising are verified first, so many a tick.

What a claim promises is a cheap estimate that only orders the queue. Verification decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.runtime.cycle import Claimed
from engine.runtime.proposals import Entry
from engine.runtime.world import World, gap_odds

CAPACITY = 8192
FILLED = 0.0025  # what counts for the odds of a gap where the role is filled


def promise(world: World, claimed: Claimed) -> NDArray[np.float64]:
    """What the agent gave the target times the odds that the link fills a gap, at whichever of its ends they are better, (c,)."""

    def odds(particles: NDArray[np.int64], semcons: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.where(world.lacks(particles, semcons), gap_odds(world.expected(particles, semcons)), FILLED)

    best = np.maximum(odds(claimed.source, claimed.semcon), odds(claimed.target, world.inverse[claimed.semcon]))
    return np.asarray(claimed.probability * best, np.float64)


class Claims:
    """Waiting claims by promise, ties in order of arrival. Invariant: one claim a canonical key, none of them ``found_wanting``."""

    def __init__(self) -> None:
        self.waiting: dict[int, Entry] = {}
        self.found_wanting: set[int] = set()
        """Keys of claims verified and not worth proposing."""
        self.capacity = CAPACITY
        self.floor = 0.0
        """Claims that promise less would only be forgotten again; 0 while there is room."""
        self._heap: list[tuple[float, int, int]] = []  # (−promise, arrival, key)
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[Entry]:
        """In the order in which they will be taken."""
        return (self.waiting[key] for _, _, key in sorted(self._heap))

    def add(self, key: int, entry: Entry) -> None:
        """A new claim; beyond the capacity the least promising half is forgotten (and may be claimed again)."""
        assert key not in self.waiting
        self.waiting[key] = entry
        heapq.heappush(self._heap, (-entry.promise, self._arrivals, key))
        self._arrivals += 1
        if len(self._heap) > self.capacity:
            self._heap.sort()
            kept = self.capacity // 2
            for _, _, forgotten in self._heap[kept:]:
                del self.waiting[forgotten]
            self.floor = -self._heap[kept][0]
            del self._heap[kept:]

    def take(self, count: int) -> list[tuple[int, Entry]]:
        """Removes up to ``count`` of the most promising: (key, claim)."""
        taken: list[tuple[int, Entry]] = []
        while self._heap and len(taken) < count:
            key = heapq.heappop(self._heap)[2]
            taken.append((key, self.waiting.pop(key)))
        if len(self._heap) < self.capacity // 4:
            self.floor = 0.0
        return taken

    def forget(self, key: int) -> None:
        """The link of this key became a proposal in another way."""
        self.found_wanting.discard(key)
        if self.waiting.pop(key, None) is not None:
            self._heap = [item for item in self._heap if item[2] != key]
            heapq.heapify(self._heap)
