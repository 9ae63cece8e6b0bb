"""A deterministic source for tests of the console: N agents that never step, commands recorded and applied at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.runtime import commands as c
from engine.runtime.snapshot import (
    AgentTable,
    BandwidthInfo,
    DepthInfo,
    GoalInfo,
    GroupInfo,
    LogLine,
    ModelInfo,
    PoolInfo,
    Proposal,
    Rates,
    Snapshot,
    TokenRecord,
)

HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "right\u202eto left",
    "zero\u200bwidth\u200d",
    "e\u0301\u0302\u0303 zalgo",
    "漢字" * 40,
    "👩‍👩‍👧 family",
    "x" * 10_000,
    "\x00\x07\x9b",
    "[bold]markup[/bold]",
    "tab\tand\nline",
    "",
)


def snapshot_of(agents: int, pages: int = 4_000, hostile: bool = False, tick: int = 7, seed: int = 1) -> Snapshot:
    """A snapshot with every field filled in."""
    random = np.random.default_rng(seed)
    n = agents

    def name(text: str, at: int) -> str:
        return HOSTILE[at % len(HOSTILE)] if hostile else text

    def whole(low: int, high: int, kind: type = np.int32) -> np.ndarray:
        return random.integers(low, high, n).astype(kind)

    depth = whole(0, 4, np.uint8)
    table = AgentTable(
        np.arange(1, n + 1), tuple(name(f"a{i}", i) for i in range(1, n + 1)), whole(0, 2), whole(2, 4),
        np.where(np.arange(n) < 5, 2, whole(1, 5)).astype(np.uint8), depth, *(np.zeros(n, np.uint8),) * 2,
        random.random(n).astype(np.float32),
        whole(0, 100_000, np.int64), random.integers(0, 99, (n, 3)), whole(0, 400), whole(0, 40), whole(0, 40),
        whole(-1, 500, np.int64), whole(0, 20), whole(0, 20), whole(0, 20),
    )  # fmt: skip
    goals = (
        GoalInfo(0, -1, 0, name("raise knowledge quality", 0), "quality", n, float("nan"), (("nats", 0.25),), (0.3, 0.2), False),
        GoalInfo(1, 0, 1, name("extract links", 1), "extract", n, float("nan"), (("accepted", 3.0),), (1.0, 3.0), True),
        GoalInfo(2, 1, 2, name("links around dog", 2), "links around", n, 0.4, (("explored", 0.4),), (0.1, 0.4), False),
        GoalInfo(3, 1, 2, name("links around cat", 4), "links around", 0, 0.9, (("explored", 0.9),), (), False),
    )
    proposals = tuple(
        Proposal(
            i, i + 1, name(f"particle {i}", i), name("is part of", i + 1), name(f"whole {i}", i + 2), i, 1, i + 1, 0.99 - i / 100,
            (("deepest level", name("rank 1", i)), ("path", "a to b")), "verified" if i < 30 else "rejected", "", i, 2,
        )
        for i in range(40)
    )  # fmt: skip
    state = (random.random(pages) < 0.5).astype(np.uint8) * 2
    layer = random.integers(0, 4, pages).astype(np.uint8)
    holders = random.integers(1, 4, pages).astype(np.uint32)
    groups = tuple(GroupInfo(i, name(f"group {i}", i), n // 2, "backfill", "top", (0.6, 0.7), 0.7, 1, 20, 5) for i in range(2))
    return Snapshot(
        tick,
        True,
        ModelInfo(name("synthetic", 1), "0" * 64, "tuned", (32, 128, 256), ("router", "domain", "general"), 3, 500, 10**7, ()),
        table,
        groups,
        goals,
        DepthInfo((100, 50, 10), (600, 300, 100), random.integers(0, 50, (3, 20)), (400, 100, 0)),
        PoolInfo(6_144, pages, int((state > 0).sum()), 9, (8, 72, 300, 400), 65_536.0, 0, state, layer, holders),
        BandwidthInfo(
            8e5, 1.2e7, 2e5, 15.0, 0.25, (10**8, 10**8, 10**8), (30, 20, 10), 10**6, 10**7, 10**8, 10**9, 2 * 10**9,
            ((10, 1e6, 12.0), (n, 8e5, 15.0)), tuple(float(v) for v in range(60)),
        ),
        proposals,
        {"proposed": 40, "verified": 40, "accepted": 0, "rejected": 10},
        tuple(LogLine(i, i, "spawn", name(f"line {i}", i)) for i in range(1, 30)),
        Rates(1_000.0, 0.01, 0.02, 0.03, 9.0),
    )  # fmt: skip


class SyntheticSource:
    """Implements ``Source``; ``sent`` holds the commands in order. Names of particles are ``dog`` and ``cat``."""

    def __init__(self, agents: int = 20, hostile: bool = False, pages: int = 4_000, refuse: str = "") -> None:
        self.sent: list[c.Command] = []
        self.refuse = refuse
        self.closed = False
        self.hostile = hostile
        self._snapshot = snapshot_of(agents, pages, hostile)

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def advance(self, agents: int, seed: int = 2) -> None:
        """Publishes another picture, with another number of agents."""
        self._snapshot = snapshot_of(agents, len(self._snapshot.pool.state), self.hostile, self._snapshot.tick + 1, seed)

    def stream(self, agent: int, limit: int = 500) -> list[TokenRecord]:
        count = min(limit, 40)
        return [
            TokenRecord(
                i, i, HOSTILE[i % len(HOSTILE)] if self.hostile else f"token {i}", i, ("particle", "semcon")[i % 2], i % 4, i / 40,
                (("dog", 0.5), ("cat", 0.2)), i % 7 == 0,
            )
            for i in range(count)
        ]  # fmt: skip

    def label(self, token: int) -> str:
        return HOSTILE[token % len(HOSTILE)] if self.hostile else f"particle {token}"

    def complete_label(self, prefix: str, limit: int = 20) -> list[str]:
        return [label for label in ("dog", "dogma", "cat") if label.startswith(prefix)][:limit]

    def submit(self, command: c.Command) -> c.Receipt:
        self.sent.append(command)
        receipt = c.Receipt(command, "refused" if self.refuse else "applied", self._snapshot.tick, self.refuse or "done")
        if isinstance(command, c.SetRunning):
            self._snapshot = replace(self._snapshot, running=command.running)
        return receipt

    def close(self) -> None:
        self.closed = True
