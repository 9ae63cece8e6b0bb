"""What the interface sees: one immutable picture of the runtime per tick, made by the step thread, read by any thread.

Widgets know this file and ``commands.py`` only. Everything here is measured or computed from what happened; the two
``standard``/``batched`` figures are models of other systems and say so in their names (definitions: README, cli.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

AGENT_STATES = ("free", "idle", "running", "paused", "preempted")
PAGE_LAYERS = ("system", "group", "personal", "kv")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str
    digest: str
    basis: str
    levels: tuple[int, ...]
    level_names: tuple[str, ...]  # ("router", "domain", "general") for three levels
    layers: int
    vocabulary: int
    bytes: int
    pinned_rows: tuple[dict[str, Any], ...]  # measured at compile time: {"level", "mrr", "cost"}; () if not stored


@dataclass(frozen=True, slots=True)
class AgentTable:
    """Live agents, one row each, ordered by id. All arrays have the same length n."""

    id: NDArray[np.int64]  # stable small number shown to people: a1, a2, …; never reused
    name: tuple[str, ...]
    group: NDArray[np.int32]  # index into Snapshot.groups
    goal: NDArray[np.int32]  # index into Snapshot.goals
    state: NDArray[np.uint8]  # index into AGENT_STATES
    depth: NDArray[np.uint8]  # level of the last token, 0 before the first
    depth_min: NDArray[np.uint8]
    depth_max: NDArray[np.uint8]
    confidence: NDArray[np.float32]  # top probability at the answering level of the last token
    generated: NDArray[np.int64]
    by_level: NDArray[np.int64]  # (n, K) generated tokens by answering level
    positions: NDArray[np.int32]
    pages_private: NDArray[np.int32]
    pages_shared: NDArray[np.int32]
    last_token: NDArray[np.int64]  # token id, -1 before the first
    proposed: NDArray[np.int32]
    accepted: NDArray[np.int32]
    rejected: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class GroupInfo:
    id: int
    name: str
    agents: int
    inherit: str  # "backfill", "zeros", "window:N"
    rule: str  # "top", "margin", "gain"
    thresholds: tuple[float, ...]
    temperature: float
    context_version: int
    context_tokens: int
    memory_facts: int


@dataclass(frozen=True, slots=True)
class GoalInfo:
    """One node of the goal tree, depth first; level 0 terminal, 1 instrumental, 2 immediate."""

    id: int
    parent: int  # -1 for terminal goals
    level: int
    title: str
    kind: str
    agents: int
    progress: float  # 0..1, nan where the goal has no end
    measures: tuple[tuple[str, float], ...]  # (name, value)
    history: tuple[float, ...]  # first measure over the last ticks, oldest first, at most 60
    drift: bool


@dataclass(frozen=True, slots=True)
class DepthInfo:
    by_level: tuple[int, ...]  # generated tokens since start
    recent_by_level: tuple[int, ...]  # of the last 1,000 generated tokens
    histogram: NDArray[np.int64]  # (K, 20) top probability seen at each level, bins of 0.05, last 1,000 visits
    escalated: tuple[int, ...]  # of the last 1,000 tokens, how many went past level k


@dataclass(frozen=True, slots=True)
class PoolInfo:
    base_page_bytes: int
    pages_total: int
    pages_used: int
    pages_shared: int
    pages_by_layer: tuple[int, int, int, int]
    bytes_per_agent: float
    copies: int
    state: NDArray[np.uint8]  # (pages_total,) 0 free, 1 writing, 2 sealed
    layer: NDArray[np.uint8]  # index into PAGE_LAYERS
    holders: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class BandwidthInfo:
    """Bytes and arithmetic since start; both are shown, because back-fill saves the first and not the second."""

    bytes_per_token: float
    standard_bytes_per_token: float  # model: N separate processes at batch 1
    batched_bytes_per_token: float  # model: one always-deepest server with continuous batching
    savings: float
    savings_vs_batched: float
    weight_bytes: tuple[int, ...]  # by level
    passes: tuple[int, ...]
    kv_bytes_shared: int
    kv_bytes_personal: int
    other_bytes: int
    multiply_adds: int
    always_deepest_multiply_adds: int
    by_agents: tuple[tuple[int, float, float], ...]  # (agents running, bytes per token, savings), one a distinct N, measured
    recent_savings: tuple[float, ...]  # last 120 ticks, oldest first


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate link. ``status``: new, verified, accepted, rejected."""

    id: int
    agent: int
    source: str
    semcon: str
    target: str
    source_id: int
    semcon_id: int
    target_id: int
    probability: float  # verified probability; nan before verification
    evidence: tuple[tuple[str, str], ...]  # (kind, text), e.g. ("deeper level", "rank 2 of 39,998"), ("path", "a -has part-> b …")
    status: str
    reason: str
    tick: int
    depth: int


@dataclass(frozen=True, slots=True)
class LogLine:
    sequence: int
    tick: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Rates:
    tokens_per_second: float  # over the last second of steps
    step_p50: float
    step_p95: float
    step_p99: float  # seconds, last 200 steps
    seconds: float  # wall seconds since the first step


@dataclass(frozen=True, slots=True)
class Snapshot:
    tick: int
    running: bool
    model: ModelInfo
    agents: AgentTable
    groups: tuple[GroupInfo, ...]
    goals: tuple[GoalInfo, ...]
    depth: DepthInfo
    pool: PoolInfo
    bandwidth: BandwidthInfo
    proposals: tuple[Proposal, ...]  # open ones by probability descending, then the last 50 decided
    proposal_counts: dict[str, int]  # proposed, verified, accepted, rejected
    log: tuple[LogLine, ...]  # last 200
    rates: Rates
    error: str = ""  # why the runtime stopped, for people; "" while it is well
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One token of an agent's stream, newest last. depth 0 = given (prompt)."""

    sequence: int
    tick: int
    text: str
    token: int
    kind: str  # "particle", "semcon", "control"
    depth: int
    probability: float
    alternatives: tuple[tuple[str, float], ...]
    starts_episode: bool
