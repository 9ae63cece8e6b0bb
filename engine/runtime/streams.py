"""Token streams: raw arrays a tick, a bounded number of tokens; records are built only for the stream somebody reads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.runtime.snapshot import TokenRecord
from engine.runtime.swarm import Tick

KEPT_TOKENS = 1 << 18
KEPT_TICKS = 4096
TICK_SEQUENCES = 16  # sequence numbers a tick: the prompt's tokens first, the generated token last


@dataclass(frozen=True, slots=True)
class _Row:
    tick: int
    agents: NDArray[np.int64]
    token: NDArray[np.uint32]
    depth: NDArray[np.uint8]
    probability: NDArray[np.float32]
    alternatives: NDArray[np.uint32]
    alternative_probability: NDArray[np.float32]
    began: dict[int, tuple[int, ...]]


class Streams:
    """Fed by the step thread, read by any thread."""

    def __init__(self, label: Callable[[int], str], kind: Callable[[int], str]) -> None:
        self._label = label
        self._kind = kind
        self._rows: deque[_Row] = deque()
        self._tokens = 0
        self._lock = threading.Lock()

    def feed(self, tick: Tick) -> None:
        """Keeps one tick's tokens; the oldest ticks go when there are too many."""
        tokens: Any = tick.tokens
        row = _Row(
            tick.tick, tick.agents, tokens["token"].copy(), tokens["depth"].astype(np.uint8), tokens["probability"].copy(),
            tokens["alternatives"].copy(), tokens["alternative_probability"].copy(), dict(tick.began),
        )  # fmt: skip
        with self._lock:
            self._rows.append(row)
            self._tokens += len(row.agents)
            while len(self._rows) > KEPT_TICKS or (self._tokens > KEPT_TOKENS and len(self._rows) > 1):
                self._tokens -= len(self._rows.popleft().agents)

    def read(self, agent: int, limit: int = 500) -> list[TokenRecord]:
        """The latest tokens of one agent, oldest first, at most ``limit``; prompts are records of depth 0."""
        with self._lock:
            rows = list(self._rows)
        parts: list[list[TokenRecord]] = []
        count = 0
        for row in reversed(rows):
            if count >= limit:
                break
            records = self._records(row, agent)
            if records:
                parts.append(records)
                count += len(records)
        flat = [record for records in reversed(parts) for record in records]
        return flat[-limit:] if limit > 0 else []

    def _records(self, row: _Row, agent: int) -> list[TokenRecord]:
        records = []
        first = row.tick * TICK_SEQUENCES
        prompt = row.began.get(agent, ())
        for offset, token in enumerate(prompt[: TICK_SEQUENCES - 1]):
            records.append(
                TokenRecord(first + offset, row.tick, self._label(token), token, self._kind(token), 0, float("nan"), (), offset == 0)
            )
        at = int(np.searchsorted(row.agents, agent))
        if at < len(row.agents) and row.agents[at] == agent:
            token = int(row.token[at])
            alternatives = tuple(
                (self._label(int(other)), float(share))
                for other, share in zip(row.alternatives[at], row.alternative_probability[at], strict=True)
                if share > 0
            )
            records.append(
                TokenRecord(
                    first + TICK_SEQUENCES - 1,
                    row.tick,
                    self._label(token),
                    token,
                    self._kind(token),
                    int(row.depth[at]),
                    float(row.probability[at]),
                    alternatives,
                    False,
                )
            )
        return records
