"""The native runtime for the rest of the engine: numpy in, numpy out. cffi lets go of the GIL for the length of each call.

Ids: levels and blocks count from 1; group, context and agent slot numbers are the native ones. One thread at a time may call
into one Engine. Functions raise NativeError with the native runtime's own sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import (
    BAD_STATE,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OUT_OF_MEMORY,
    POOL_FULL,
    UNSUPPORTED,
    NativeError,
)
from engine.model.policy import INHERITANCES, RULES, Policy
from engine.native_library import (
    ISA_AUTO,
    ISA_AVX2,
    ISA_NEON,
    ISA_REFERENCE,
    MUTATIONS,
    check,
    ffi,
    isa_best,
    isa_name,
    isa_number,
    isa_supported,
    lib,
    library_path,
    mutate,
    pointer,
    struct_values,
    u32,
    version,
)
from engine.native_model import (
    CANDIDATES,
    CID_BYTES,
    F16,
    GAIN_FEATURES,
    LEVELS_MAX,
    MATRIX_TYPES,
    PAGE_POSITIONS,
    PANEL_ROWS,
    Q8,
    QUANT_GROUP,
    VOCAB_TILE,
    WEIGHT_NAMES,
    Matrix,
    ModelArrays,
    NativeModel,
    Roofline,
    csr_multiply,
    matrix_bytes,
    matrix_pack,
    matrix_unpack,
    measure_roofline,
    reference_forward,
)
from engine.native_records import (
    EVENT_DTYPE,
    EVENT_KINDS,
    HOLE,
    LAYER_GROUP,
    LAYER_KV,
    LAYER_PERSONAL,
    LAYER_SYSTEM,
    PURPOSE_EVALUATE,
    PURPOSE_VERIFY,
    STATE_FREE,
    STATE_IDLE,
    STATE_PAUSED,
    STATE_PREEMPTED,
    STATE_RUNNING,
    TOKEN_DTYPE,
    Agent,
    AgentArrays,
    Counters,
    EngineConfig,
    Pool,
    PoolMap,
    ScoreResult,
    StepReport,
    as_ragged,
    ragged,
)

__all__ = [
    "BAD_STATE", "CANDIDATES", "CID_BYTES", "EVENT_DTYPE", "EVENT_KINDS", "F16", "GAIN_FEATURES", "HOLE", "INTERNAL",
    "INVALID_ARGUMENT", "ISA_AUTO", "ISA_AVX2", "ISA_NEON", "ISA_REFERENCE", "LAYER_GROUP", "LAYER_KV", "LAYER_PERSONAL",
    "LAYER_SYSTEM", "LEVELS_MAX", "MATRIX_TYPES", "MUTATIONS", "NOT_FOUND", "OUT_OF_MEMORY", "PAGE_POSITIONS", "PANEL_ROWS",
    "POOL_FULL", "PURPOSE_EVALUATE", "PURPOSE_VERIFY", "Q8", "QUANT_GROUP", "STATE_FREE", "STATE_IDLE", "STATE_PAUSED",
    "STATE_PREEMPTED", "STATE_RUNNING", "TOKEN_DTYPE", "UNSUPPORTED", "VOCAB_TILE", "WEIGHT_NAMES", "Agent", "AgentArrays",
    "Counters", "Engine", "EngineConfig", "Matrix", "ModelArrays", "NativeError", "NativeModel", "Pool", "PoolMap",
    "Roofline", "ScoreResult", "StepReport", "csr_multiply", "isa_best", "isa_name", "isa_number", "isa_supported", "library_path",
    "matrix_bytes", "matrix_pack", "matrix_unpack", "measure_roofline", "mutate", "ragged", "reference_forward", "version",
]  # fmt: skip


class Engine:
    """One native engine: a pool, its agents and its worker threads, on one model. Close it, or use it in ``with``."""

    def __init__(self, model: NativeModel, config: EngineConfig | None = None) -> None:
        config = config or EngineConfig()
        struct = ffi.new("cyb_engine_config *")
        for name in config.__dataclass_fields__:
            setattr(struct, name, int(getattr(config, name)))
        handle = ffi.new("cyb_engine **")
        check(lib.cyb_engine_create(model.struct, struct, handle))
        self._handle = handle[0]
        self.model = model
        self.config = config
        self.levels = len(model.arrays.widths)
        self._report = ffi.new("cyb_step_report *")
        self._count = ffi.new("uint32_t *")
        self._tokens = np.zeros(config.agents, TOKEN_DTYPE)
        self._arrays = AgentArrays.empty(config.agents, self.levels)
        self._page_map: PoolMap | None = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def close(self) -> None:
        """Stops the workers and frees the pool. Idempotent."""
        handle, self._handle = self._handle, ffi.NULL
        if handle:
            lib.cyb_engine_destroy(handle)

    @property
    def _engine(self) -> Any:
        if not self._handle:
            raise NativeError(BAD_STATE, "the engine is closed")
        return self._handle

    def check(self) -> None:
        """Full check of every invariant of pool, chunks and agents; NativeError (INTERNAL) names the one that does not hold."""
        check(lib.cyb_engine_check(self._engine))

    def set_threads(self, threads: int) -> None:
        """Number of workers from now on; 0 = number of cores."""
        check(lib.cyb_engine_set_threads(self._engine, threads))

    def swap_model(self, model: NativeModel) -> None:
        """Another family of the same shape takes over between ticks; KV is recomputed on demand."""
        check(lib.cyb_engine_swap_model(self._engine, model.struct))
        self.model = model

    # ---- groups and contexts --------------------------------------------------------------------------------------

    def _policy(self, policy: Policy) -> Any:
        policy = policy.for_levels(self.levels)
        struct = ffi.new("cyb_policy *")
        struct.inherit, struct.window = INHERITANCES.index(policy.inherit), policy.window
        struct.rule = RULES.index(policy.rule)
        for index, value in enumerate(policy.thresholds):
            struct.threshold[index] = value
        struct.depth_min, struct.depth_max = policy.depth_min, policy.depth_max
        struct.temperature = policy.temperature
        return struct

    def set_policy(self, group: int, policy: Policy) -> None:
        """Creates the group or changes its policy from now on."""
        check(lib.cyb_group_set_policy(self._engine, group, self._policy(policy)))

    def policy(self, group: int) -> Policy:
        """The policy in force in a group (thresholds as float32 keeps them)."""
        struct = ffi.new("cyb_policy *")
        check(lib.cyb_group_get_policy(self._engine, group, struct))
        thresholds = tuple(struct.threshold[index] for index in range(self.levels - 1))
        bounds = (struct.depth_min, struct.depth_max)
        return Policy(INHERITANCES[struct.inherit], struct.window, RULES[struct.rule], thresholds, *bounds, struct.temperature)

    def create_context(self, parent: int, layer: int, tokens: Any) -> int:
        """An immutable shared context of whole pages over ``parent`` (0 = none), computed lazily, once. Its id, from 1."""
        tokens = u32(tokens)
        context = ffi.new("uint32_t *")
        check(lib.cyb_context_create(self._engine, parent, layer, pointer("uint32_t[]", tokens), len(tokens), context))
        return int(context[0])

    def release_context(self, context: int) -> None:
        """Gives up the caller's hold; the context lives on while agents hold it."""
        check(lib.cyb_context_release(self._engine, context))

    # ---- agents -----------------------------------------------------------------------------------------------------

    def create_agent(self, group: int, cid: bytes, goal: int = 0, serial: int = 0) -> int:
        """A new idle agent; sampling is seeded by (engine seed, serial, episode, position). Returns its slot."""
        slot = ffi.new("uint32_t *")
        check(lib.cyb_agent_create(self._engine, group, _cid(cid), goal, serial, slot))
        return int(slot[0])

    def begin(self, slot: int, context: int, personal: Any, prompt: Any, stop_after: int = 0) -> None:
        """Starts an episode: context, personal layer, then the prompt (at least one token). ``stop_after`` 0 = until told."""
        personal, prompt = u32(personal), u32(prompt)
        check(
            lib.cyb_agent_begin(
                self._engine,
                slot,
                context,
                pointer("uint32_t[]", personal),
                len(personal),
                pointer("uint32_t[]", prompt),
                len(prompt),
                stop_after,
            )
        )

    def begin_many(self, slots: Any, contexts: Any, personal: Sequence[Sequence[int]], prompts: Sequence[Sequence[int]]) -> None:
        """``begin`` for several agents, one context, personal layer and prompt each."""
        tokens = u32([token for pair in zip(personal, prompts, strict=True) for part in pair for token in part])
        memory, at = pointer("uint32_t[]", tokens), 0
        for slot, context, layer, prompt in zip(map(int, slots), map(int, contexts), personal, prompts, strict=True):
            begin = memory + at, len(layer), memory + at + len(layer), len(prompt)
            check(lib.cyb_agent_begin(self._engine, slot, context, *begin, 0))
            at += len(layer) + len(prompt)

    def extend(self, slot: int, tokens: Any) -> None:
        """Appends forced tokens behind what the agent has; they are prefilled, the last one is decoded next."""
        tokens = u32(tokens)
        check(lib.cyb_agent_extend(self._engine, slot, pointer("uint32_t[]", tokens), len(tokens)))

    def pause(self, slot: int) -> None:
        """The agent takes no tokens until resumed; its pages stay."""
        check(lib.cyb_agent_pause(self._engine, slot))

    def resume(self, slot: int) -> None:
        """Undoes ``pause``."""
        check(lib.cyb_agent_resume(self._engine, slot))

    def kill(self, slot: int) -> None:
        """Releases the agent's pages and its slot."""
        check(lib.cyb_agent_kill(self._engine, slot))

    def release_pages(self, slot: int) -> None:
        """Preempts by hand; exact resume follows by itself."""
        check(lib.cyb_agent_release_pages(self._engine, slot))

    def fork(self, slot: int, cid: bytes, serial: int) -> int:
        """A second agent over the same sealed pages; copies none. Returns the fork's slot."""
        fork = ffi.new("uint32_t *")
        check(lib.cyb_agent_fork(self._engine, slot, _cid(cid), serial, fork))
        return int(fork[0])

    def set_depth(self, slot: int, depth_min: int, depth_max: int) -> None:
        """Bounds one agent's levels; 0, 0 = its group's."""
        check(lib.cyb_agent_set_depth(self._engine, slot, depth_min, depth_max))

    def set_goal(self, slot: int, goal: int) -> None:
        """Index in the goal tree, 0 = none."""
        check(lib.cyb_agent_set_goal(self._engine, slot, goal))

    def set_next_episode(self, slot: int, episode: int) -> None:
        """Numbers the episode that ``begin`` starts next (from 1); sampling depends on it, so a resumed session sets it."""
        check(lib.cyb_agent_set_next_episode(self._engine, slot, episode))

    def set_group(self, slot: int, group: int) -> None:
        """Moves the agent under another group's policy."""
        check(lib.cyb_agent_set_group(self._engine, slot, group))

    def agent(self, slot: int) -> Agent:
        """The five fields of one agent."""
        struct = ffi.new("cyb_agent *")
        check(lib.cyb_agent_get(self._engine, slot, struct))
        pages = (struct.kv_slice.first, struct.kv_slice.count)
        return Agent(bytes(struct.id), struct.model_depth, pages, struct.personal_kv, struct.goal)

    def agent_tokens(self, slot: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """Prompt and generated tokens of this episode, and the level of each (0 = prompt)."""
        capacity = self.config.positions + 1
        tokens, depths = np.zeros(capacity, np.uint32), np.zeros(capacity, np.uint8)
        memory = (pointer("uint32_t[]", tokens), pointer("uint8_t[]", depths))
        check(lib.cyb_agent_tokens(self._engine, slot, capacity, *memory, self._count))
        n = min(self._count[0], capacity)
        return tokens[:n], depths[:n]

    def agent_pages(self, slot: int, chunk: int) -> tuple[NDArray[np.uint32], NDArray[np.uint64], int]:
        """Physical pages of one chunk: ids (HOLE where a block is a hole), addresses, and the context layer."""
        pages = self.model.arrays.widths[-1] // self.model.arrays.widths[0]
        ids, addresses = np.zeros(pages, np.uint32), np.zeros(pages, np.uint64)
        layer = ffi.new("int32_t *")
        memory = (pointer("uint32_t[]", ids), pointer("uint64_t[]", addresses))
        check(lib.cyb_agent_pages(self._engine, slot, chunk, *memory, layer))
        return ids, addresses, int(layer[0])

    def agent_kv(self, slot: int, position: int, block: int) -> NDArray[np.uint16] | None:
        """Block-k KV at one absolute position, f16 bits (layers, 2, B_k); None where it is a hole."""
        widths = (0, *self.model.arrays.widths)
        if not 1 <= block <= self.levels:
            raise ValueError(f"block {block} is not one of 1 to {self.levels}")
        kv = np.zeros((self.model.arrays.layers, 2, widths[block] - widths[block - 1]), np.uint16)
        status = lib.cyb_agent_kv(self._engine, slot, position, block, pointer("uint16_t[]", kv))
        if status == NOT_FOUND:
            return None
        check(status)
        return kv

    # ---- step -------------------------------------------------------------------------------------------------------

    def step(self) -> StepReport:
        """Advances the current tick; call until ``tick_complete``. NativeError (POOL_FULL) only when not one agent fits."""
        check(lib.cyb_step(self._engine, self._report))
        report = self._report
        return StepReport(bool(report.tick_complete), report.tick, report.generated, report.rows, report.preempted, report.seconds)

    def tick(self) -> StepReport:
        """Steps until the tick is complete; the report's ``rows``, ``preempted`` and ``seconds`` are summed over the calls."""
        rows, preempted, seconds = 0, 0, 0.0
        while True:
            report = self.step()
            rows, preempted, seconds = rows + report.rows, preempted + report.preempted, seconds + report.seconds
            if report.tick_complete:
                return StepReport(True, report.tick, report.generated, rows, preempted, seconds)

    def tick_tokens(self) -> NDArray[Any]:
        """Tokens of the completed tick by slot: a structured array of TOKEN_DTYPE, the caller's own."""
        memory = ffi.cast("cyb_token *", pointer("uint8_t[]", self._tokens.view(np.uint8)))
        check(lib.cyb_tick_tokens(self._engine, len(self._tokens), memory, self._count))
        return self._tokens[: self._count[0]].copy()

    # ---- scoring ----------------------------------------------------------------------------------------------------

    def score(
        self,
        queries: Any,
        policy: Policy,
        *,
        context: Any = 0,
        personal: int = 0,
        targets: Any = None,
        filters: Any = None,
        candidates: int = 0,
        purpose: int = PURPOSE_EVALUATE,
        want: Sequence[str] = (),
    ) -> ScoreResult:
        """Many short queries in shared passes.

        ``queries``, ``targets`` and ``filters`` are lists of token lists, or (offsets, values) pairs of uint32 arrays.
        ``context``: one context id, or one a query (0 = none). ``personal``: leading tokens of each query that form its
        personal layer. ``candidates``: ranks count ids below it, 0 = particles. ``want`` names further results:
        "gain_features", "best" (with "best_probability"), "logits".
        """
        offsets, tokens = as_ragged(queries)
        n = len(offsets) - 1
        contexts = u32(np.broadcast_to(np.asarray(context, np.uint32), (n,)))
        target_offsets, target_ids = as_ragged(targets)
        filter_offsets, filter_ids = as_ragged(filters)
        for name, row_offsets in (("targets", target_offsets), ("filters", filter_offsets)):
            if row_offsets is not None and len(row_offsets) != n + 1:
                raise ValueError(f"{n} queries but {len(row_offsets) - 1} rows of {name}")
        unknown = set(want) - {"gain_features", "best", "logits"}
        if unknown:
            raise ValueError(f"results not known: {', '.join(sorted(unknown))}")
        struct_policy = self._policy(policy)
        request = ffi.new("cyb_score_request *")
        request.queries, request.personal, request.purpose = n, personal, purpose
        request.candidates = candidates or self.model.arrays.particles
        request.policy = struct_policy
        inputs = {
            "context": contexts,
            "offsets": offsets,
            "tokens": tokens,
            "target_offsets": target_offsets,
            "targets": target_ids,
            "filter_offsets": filter_offsets,
            "filter": filter_ids,
        }
        keep = {name: pointer("uint32_t[]", array) for name, array in inputs.items()}
        for name, memory in keep.items():
            setattr(request, name, memory)
        wanted_targets = len(target_ids) if target_ids is not None else None
        result = ScoreResult(
            None if wanted_targets is None else np.zeros(wanted_targets, np.float32),
            None if wanted_targets is None else np.zeros(wanted_targets, np.float32),
            np.zeros(n, np.uint32),
            np.zeros((n, self.levels), np.float32),
            np.zeros((n, self.levels, GAIN_FEATURES), np.float32) if "gain_features" in want else None,
            np.zeros((n, CANDIDATES), np.uint32) if "best" in want else None,
            np.zeros((n, CANDIDATES), np.float32) if "best" in want else None,
            np.zeros((n, self.model.arrays.vocabulary), np.float32) if "logits" in want else None,
        )
        output = ffi.new("cyb_score_result *")
        out_keep = []
        for name in ScoreResult.__dataclass_fields__:
            array = getattr(result, name)
            memory = pointer("uint32_t[]" if name in ("depth", "best") else "float[]", array)
            out_keep.append(memory)
            setattr(output, name, memory)
        if n:
            check(lib.cyb_score(self._engine, request, output))
        return result

    # ---- counters, pool, snapshot, events -------------------------------------------------------------------------------

    def counters(self) -> Counters:
        """Exact counts since the engine was made."""
        struct = ffi.new("cyb_counters *")
        check(lib.cyb_counters_get(self._engine, struct))
        return Counters(**struct_values(struct, self.levels))

    def pool(self) -> Pool:
        """Sizes and use of the page pool."""
        struct = ffi.new("cyb_pool_info *")
        check(lib.cyb_pool_info_get(self._engine, struct))
        return Pool(**struct_values(struct, LEVELS_MAX))

    def pool_map(self) -> PoolMap:
        """State, layer and holders of every page. The buffers are reused by the next call."""
        if self._page_map is None:
            total = self.pool().pages_total
            self._page_map = PoolMap(np.zeros(total, np.uint8), np.zeros(total, np.uint8), np.zeros(total, np.uint32))
        page_map = self._page_map
        memory = (pointer("uint8_t[]", page_map.state), pointer("uint8_t[]", page_map.layer))
        check(lib.cyb_pool_map(self._engine, *memory, pointer("uint32_t[]", page_map.holders)))
        return page_map

    def pool_holders(self, page: int) -> NDArray[np.uint32]:
        """Slots of the agents that hold a page."""
        slots = np.zeros(self.config.agents, np.uint32)
        check(lib.cyb_pool_holders(self._engine, page, len(slots), pointer("uint32_t[]", slots), self._count))
        return slots[: min(self._count[0], len(slots))]

    def copy_page(self, page: int) -> int:
        """The only function that copies a page; nothing in the runtime calls it. Returns the new page."""
        to = ffi.new("uint32_t *")
        check(lib.cyb_pool_copy_page(self._engine, page, to))
        return int(to[0])

    def snapshot(self) -> AgentArrays:
        """All agent slots as struct-of-arrays; the same buffers each time: copy what must last beyond the next call."""
        struct = ffi.new("cyb_snapshot *")
        keep = []
        for name in AgentArrays.__dataclass_fields__:
            array = getattr(self._arrays, name)
            ctype = {"B": "uint8_t[]", "f": "float[]"}.get(array.dtype.char, "uint32_t[]")
            memory = pointer(ctype, array)
            keep.append(memory)
            setattr(struct, name, memory)
        check(lib.cyb_snapshot_get(self._engine, struct, self._count))
        return self._arrays

    def events(self, capacity: int = 1024) -> NDArray[Any]:
        """Drains up to ``capacity`` events, oldest first: fields sequence, tick, kind (index in EVENT_KINDS), slot, a, b."""
        events = np.zeros(capacity, EVENT_DTYPE)
        memory = ffi.cast("cyb_event *", pointer("uint8_t[]", events.view(np.uint8)))
        check(lib.cyb_events_drain(self._engine, capacity, memory, self._count))
        return events[: self._count[0]]


def _cid(cid: bytes) -> Any:
    if len(cid) != CID_BYTES:
        raise ValueError(f"a CID has {CID_BYTES} bytes, not {len(cid)}")
    return ffi.from_buffer("uint8_t[]", cid)
