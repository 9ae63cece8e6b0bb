"""Measured figures over time: step durations, depth of the last tokens, savings, bytes a token by number of agents."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.runtime.snapshot import BandwidthInfo, DepthInfo, Rates

if TYPE_CHECKING:
    from engine.native import Counters

RECENT_TOKENS = 1000
RECENT_STEPS = 200
RECENT_SAVINGS = 120
BINS = 20
BY_AGENTS_MAX = 64


def moved_bytes(counters: Counters) -> int:
    """All traffic: weights (fills and chunks too), KV, accumulators and activations."""
    return sum(counters.weight_bytes) + counters.kv_bytes_shared + counters.kv_bytes_personal + counters.other_bytes


def ratio(above: float, below: float) -> float:
    """above / below, 0 where nothing was done yet."""
    return above / below if below else 0.0


def percentiles(seconds: deque[float] | list[float]) -> tuple[float, float, float]:
    """p50, p95, p99; zeros while there is nothing."""
    if not seconds:
        return 0.0, 0.0, 0.0
    p50, p95, p99 = np.percentile(np.fromiter(seconds, float, len(seconds)), (50, 95, 99))
    return float(p50), float(p95), float(p99)


class Telemetry:
    """Fed once a tick by whoever drives the swarm; reads no clock itself."""

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.steps: deque[float] = deque(maxlen=RECENT_STEPS)
        self.recent: deque[tuple[float, int]] = deque(maxlen=4096)  # (time of the step's end, tokens)
        self.depths: deque[tuple[NDArray[np.uint8], NDArray[np.float32]]] = deque()
        self.depth_count = 0
        self.seconds = 0.0
        self.savings: deque[float] = deque(maxlen=RECENT_SAVINGS)
        self.by_agents: dict[int, list[int]] = {}  # agents → [tokens, bytes, standard bytes]
        self._last: Counters | None = None

    def step(self, now: float, seconds: float, agents: int, tokens: NDArray[Any], counters: Counters) -> None:
        """One tick: wall time of its end, how long it took, agents that ran, their tokens, counters after it."""
        self.steps.append(seconds)
        self.seconds += seconds
        self.recent.append((now, len(tokens)))
        if len(tokens):
            self.depths.append((tokens["depth"].astype(np.uint8), tokens["confidence"][:, : self.levels].copy()))
            self.depth_count += len(tokens)
            while self.depth_count - len(self.depths[0][0]) >= RECENT_TOKENS:
                self.depth_count -= len(self.depths.popleft()[0])
        last, self._last = self._last, counters
        if last is not None and counters.generated > last.generated:
            moved, standard = moved_bytes(counters) - moved_bytes(last), counters.standard_bytes - last.standard_bytes
            self.savings.append(ratio(standard, moved))
            if agents in self.by_agents or len(self.by_agents) < BY_AGENTS_MAX:
                total = self.by_agents.setdefault(agents, [0, 0, 0])
                total[0] += counters.generated - last.generated
                total[1] += moved
                total[2] += standard

    def rates(self) -> Rates:
        """Rates over the last second of steps (or the last step, when it took longer)."""
        tokens, span = 0, 0.0
        if self.recent:
            end = self.recent[-1][0]
            for (when, count), seconds in zip(reversed(self.recent), reversed(self.steps), strict=False):
                if when < end - 1 and span:
                    break
                tokens += count
                span += seconds
        return Rates(ratio(tokens, span), *percentiles(self.steps), self.seconds)

    def depth(self, by_level: tuple[int, ...]) -> DepthInfo:
        """Shares and histogram of the last RECENT_TOKENS tokens."""
        levels = self.levels
        histogram = np.zeros((levels, BINS), np.int64)
        if not self.depths:
            return DepthInfo(by_level, (0,) * levels, histogram, (0,) * levels)
        depth = np.concatenate([part[0] for part in self.depths])[-RECENT_TOKENS:].astype(np.int64)
        confidence = np.concatenate([part[1] for part in self.depths])[-RECENT_TOKENS:]
        for level in range(levels):
            seen = confidence[:, level]
            bins = np.minimum((seen[seen > 0] * BINS).astype(np.int64), BINS - 1)
            histogram[level] = np.bincount(bins, minlength=BINS)
        recent = np.bincount(depth, minlength=levels + 1)[1 : levels + 1]
        escalated = tuple(int(np.count_nonzero(depth > level + 1)) for level in range(levels))
        return DepthInfo(by_level, tuple(int(count) for count in recent), histogram, escalated)

    def bandwidth(self, counters: Counters) -> BandwidthInfo:
        """Totals since start and their models of other systems."""
        tokens, moved = counters.generated, moved_bytes(counters)
        return BandwidthInfo(
            ratio(moved, tokens),
            ratio(counters.standard_bytes, tokens),
            ratio(counters.batched_bytes, tokens),
            ratio(counters.standard_bytes, moved),
            ratio(counters.batched_bytes, moved),
            counters.weight_bytes,
            counters.passes,
            counters.kv_bytes_shared,
            counters.kv_bytes_personal,
            counters.other_bytes,
            counters.multiply_adds,
            counters.always_deepest_multiply_adds,
            tuple(
                (agents, ratio(moved, count), ratio(standard, moved)) for agents, (count, moved, standard) in sorted(self.by_agents.items())
            ),
            tuple(self.savings),
        )
