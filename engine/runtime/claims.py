"""Claims: links that agents walked and that nobody has verified yet. The most promising are verified first, so many a tick.

What a claim promises is what the agent gave the target, times the odds that the role it fills is a gap (either reading): a
cheap estimate that only orders the queue. Verification decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from engine.runtime.proposals import Entry

WAITING_MAX = 8192


class Claims:
    """Waiting claims by promise, ties in order of arrival. Invariant: one claim a canonical key, none of them ``found_wanting``."""

    def __init__(self) -> None:
        self.waiting: dict[int, Entry] = {}
        self.found_wanting: set[int] = set()
        """Keys of claims verified and not worth proposing."""
        self._heap: list[tuple[float, int, int]] = []  # (−promise, arrival, key)
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[Entry]:
        """In the order in which they will be taken."""
        return (self.waiting[key] for _, _, key in sorted(self._heap))

    def add(self, key: int, entry: Entry) -> None:
        """A new claim; beyond WAITING_MAX the least promising half is forgotten (and may be claimed again)."""
        assert key not in self.waiting
        self.waiting[key] = entry
        heapq.heappush(self._heap, (-entry.promise, self._arrivals, key))
        self._arrivals += 1
        if len(self._heap) > WAITING_MAX:
            self._heap.sort()
            for _, _, forgotten in self._heap[WAITING_MAX // 2 :]:
                del self.waiting[forgotten]
            del self._heap[WAITING_MAX // 2 :]

    def take(self, count: int) -> list[tuple[int, Entry]]:
        """Removes up to ``count`` of the most promising: (key, claim)."""
        taken: list[tuple[int, Entry]] = []
        while self._heap and len(taken) < count:
            key = heapq.heappop(self._heap)[2]
            taken.append((key, self.waiting.pop(key)))
        return taken

    def forget(self, key: int) -> None:
        """The link of this key became a proposal in another way."""
        self.found_wanting.discard(key)
        if self.waiting.pop(key, None) is not None:
            self._heap = [item for item in self._heap if item[2] != key]
            heapq.heapify(self._heap)
