"""What goes into and comes out of the native engine, as plain records of numbers and numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native_library import ISA_AUTO, struct_dtype, u32

STATE_FREE, STATE_IDLE, STATE_RUNNING, STATE_PAUSED, STATE_PREEMPTED = range(5)
LAYER_SYSTEM, LAYER_GROUP, LAYER_PERSONAL, LAYER_KV = range(4)
HOLE = 0xFFFFFFFF
EVENT_KINDS = ("", "admitted", "preempted", "resumed", "escalated", "filled", "finished", "sealed context", "refused")
PURPOSE_VERIFY, PURPOSE_EVALUATE = 0, 1
TOKEN_DTYPE = struct_dtype("cyb_token")
EVENT_DTYPE = struct_dtype("cyb_event")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """``cyb_engine_config``: sizes of the pool and of the scheduler. 0 keeps the native default where it has one."""

    pages: int = 4096
    agents: int = 256
    groups: int = 16
    positions: int = 1024
    threads: int = 0
    rows: int = 0
    step_rows: int = 0
    events: int = 4096
    isa: int = ISA_AUTO
    low_priority: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one call of ``step`` did. ``tick_complete``: every running agent has its token of this tick."""

    tick_complete: bool
    tick: int
    generated: int
    rows: int
    preempted: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Agent:
    """The five-field agent (design §5); ``kv_slice`` is (first, count) in chunks of its page table."""

    id: bytes
    model_depth: int
    kv_slice: tuple[int, int]
    personal_kv: int
    goal: int


@dataclass(frozen=True, slots=True)
class Counters:
    """Exact counts since the engine was made; definitions in ``cyb.h``. Tuples have one entry a level."""

    generated: int
    prompt: int
    verify: int
    evaluated: int
    by_level: tuple[int, ...]
    filled: tuple[int, ...]
    passes: tuple[int, ...]
    weight_bytes: tuple[int, ...]
    kv_bytes_shared: int
    kv_bytes_personal: int
    other_bytes: int
    multiply_adds: int
    always_deepest_multiply_adds: int
    standard_bytes: int
    batched_bytes: int
    copies: int
    preemptions: int
    refused: int
    events_lost: int
    ticks: int
    steps: int
    seconds_by_level: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """``cyb_pool_info``. Pages are base pages of ``base_page_bytes``; ``pages_by_layer``: system, group, personal, kv."""

    base_page_bytes: int
    pages_total: int
    pages_used: int
    pages_shared: int
    pages_by_layer: tuple[int, int, int, int]
    agent_state_bytes: int
    agents: int


@dataclass(frozen=True, slots=True)
class PoolMap:
    """One entry a page, arrays (pages_total,): ``state`` 0 free 1 writing 2 sealed, ``layer``, ``holders``."""

    state: NDArray[np.uint8]
    layer: NDArray[np.uint8]
    holders: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class AgentArrays:
    """All agent slots, arrays (slots,), ``by_level`` (slots, levels). The buffers are reused by the next ``snapshot``."""

    state: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    depth_min: NDArray[np.uint8]
    depth_max: NDArray[np.uint8]
    group: NDArray[np.uint32]
    goal: NDArray[np.uint32]
    last_token: NDArray[np.uint32]
    generated: NDArray[np.uint32]
    by_level: NDArray[np.uint32]
    positions: NDArray[np.uint32]
    pages_private: NDArray[np.uint32]
    pages_shared: NDArray[np.uint32]
    confidence: NDArray[np.float32]

    @classmethod
    def empty(cls, slots: int, levels: int) -> AgentArrays:
        """Zeroed arrays for ``slots`` agents of a model of ``levels`` levels."""
        bytes_of = {"state", "depth", "depth_min", "depth_max"}
        arrays: dict[str, NDArray[Any]] = {}
        for name in cls.__dataclass_fields__:
            kind: Any = np.uint8 if name in bytes_of else np.float32 if name == "confidence" else np.uint32
            arrays[name] = np.zeros((slots, levels) if name == "by_level" else slots, kind)
        return cls(**arrays)


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """Answers of ``Engine.score``; None for what was not wanted. Q queries, T targets, K levels."""

    target_logprob: NDArray[np.float32] | None  # (T,)
    target_rank: NDArray[np.float32] | None  # (T,)
    depth: NDArray[np.uint32]  # (Q,)
    top_probability: NDArray[np.float32]  # (Q, K)
    gain_features: NDArray[np.float32] | None  # (Q, K, GAIN_FEATURES)
    best: NDArray[np.uint32] | None  # (Q, CANDIDATES)
    best_probability: NDArray[np.float32] | None  # (Q, CANDIDATES)
    logits: NDArray[np.float32] | None  # (Q, vocabulary)


def ragged(rows: Iterable[Sequence[int]]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(offsets (n+1,), values) of n rows of unequal length, as the native calls take them."""
    lists = [np.asarray(row, np.uint32).reshape(-1) for row in rows]
    offsets = np.zeros(len(lists) + 1, np.uint32)
    np.cumsum([len(row) for row in lists], out=offsets[1:])
    return offsets, np.concatenate(lists) if lists else np.zeros(0, np.uint32)


def as_ragged(rows: Any) -> tuple[Any, Any]:
    """Offsets and values from a (offsets, values) pair of arrays, from a list of rows, or (None, None)."""
    if rows is None:
        return None, None
    if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[0], np.ndarray):
        return u32(rows[0]), u32(rows[1])
    return ragged(rows)
