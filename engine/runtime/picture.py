"""Builds the Snapshot of a swarm: copied arrays, shown proposals built once and kept until they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.model.policy import format_inherit
from engine.runtime.proposals import Entry
from engine.runtime.snapshot import AgentTable, BandwidthInfo, GroupInfo, LogLine, ModelInfo, PoolInfo, Proposal, Snapshot
from engine.runtime.swarm import Swarm
from engine.runtime.telemetry import Telemetry
from engine.runtime.verification import evidence_text

if TYPE_CHECKING:
    from engine.model.model import Model
    from engine.native import Counters, Pool

OPEN_SHOWN = 300
DECIDED_SHOWN = 50
NO_TOKEN = 0xFFFFFFFF


def pinned_rows(curve: Sequence[dict[str, Any]], levels: int) -> tuple[dict[str, Any], ...]:
    """The pinned levels of a stored policy curve: {"level", "mrr", "cost"}; () where the file has none."""
    rows = []
    for point in curve:
        level = point.get("level", point.get("pinned"))
        if isinstance(level, int) and 1 <= level <= levels:
            rows.append({"level": level, "mrr": point.get("mrr"), "cost": point.get("cost")})
    return tuple(rows)


def model_info(model: Model) -> ModelInfo:
    """What never changes while a model is open."""
    return ModelInfo(
        model.name, model.digest, model.basis, tuple(model.widths), tuple(model.level_names), model.layers,
        len(model.vocabulary), model.bytes, pinned_rows(model.policy_curve, model.levels),
    )  # fmt: skip


def bytes_per_agent(pool: Pool, agents: int) -> float:
    """(personal and KV pages + scheduler state) / agents; 0 without agents."""
    if not agents:
        return 0.0
    private = pool.pages_by_layer[2] + pool.pages_by_layer[3]
    return (private * pool.base_page_bytes + pool.agent_state_bytes) / agents


def empty_snapshot(model: Model) -> Snapshot:
    """The picture before the first tick: the model, and nothing else."""
    levels = model.levels
    none = {name: np.zeros(0, dtype) for name, dtype in _AGENT_COLUMNS}
    agents = AgentTable(name=(), by_level=np.zeros((0, levels), np.int64), **none)
    pool = PoolInfo(0, 0, 0, 0, (0, 0, 0, 0), 0.0, 0, np.zeros(0, np.uint8), np.zeros(0, np.uint8), np.zeros(0, np.uint32))
    zeros = (0,) * levels
    bandwidth = BandwidthInfo(0.0, 0.0, 0.0, 0.0, 0.0, zeros, zeros, 0, 0, 0, 0, 0, (), ())
    telemetry = Telemetry(levels)
    counts = {"proposed": 0, "verified": 0, "accepted": 0, "rejected": 0}
    return Snapshot(0, True, model_info(model), agents, (), (), telemetry.depth(zeros), pool, bandwidth, (), counts, (), telemetry.rates())


_AGENT_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("id", np.int64), ("group", np.int32), ("goal", np.int32), ("state", np.uint8), ("depth", np.uint8),
    ("depth_min", np.uint8), ("depth_max", np.uint8), ("confidence", np.float32), ("generated", np.int64),
    ("positions", np.int32), ("pages_private", np.int32), ("pages_shared", np.int32), ("last_token", np.int64),
    ("proposed", np.int32), ("accepted", np.int32), ("rejected", np.int32),
)  # fmt: skip


class Picture:
    """Makes snapshots of one swarm; keeps what did not change since the last one."""

    def __init__(self, swarm: Swarm, telemetry: Telemetry) -> None:
        self.swarm = swarm
        self.telemetry = telemetry
        self.model = model_info(swarm.model)
        self._names: tuple[int, tuple[str, ...]] = (-1, ())
        self._shown: dict[int, tuple[int, Proposal]] = {}

    def take(self, running: bool, log: Sequence[LogLine], counters: Counters, error: str = "", **extra: Any) -> Snapshot:
        """The present picture; call between ticks, on the thread that steps."""
        swarm = self.swarm
        agents = self._agents()
        return Snapshot(
            tick=swarm.tick,
            running=running,
            model=self.model,
            agents=agents,
            groups=self._groups(agents),
            goals=swarm.goals.infos(np.bincount(agents.goal, minlength=len(swarm.goals))),
            depth=self.telemetry.depth(counters.by_level),
            pool=self._pool(len(agents.id), counters),
            bandwidth=self.telemetry.bandwidth(counters),
            proposals=self._proposals(),
            proposal_counts=dict(swarm.proposals.counts),
            log=tuple(log),
            rates=self.telemetry.rates(),
            error=error,
            extra=extra,
        )

    def _agents(self) -> AgentTable:
        population = self.swarm.agents
        rows = population.slots
        if self._names[0] != population.revision:
            self._names = (population.revision, tuple(f"a{agent}" for agent in population.id[rows].tolist()))
        native = self.swarm.engine.snapshot()
        last: NDArray[np.int64] = native.last_token[rows].astype(np.int64)
        last[(native.depth[rows] == 0) | (last == NO_TOKEN)] = -1
        return AgentTable(
            id=population.id[rows],
            name=self._names[1],
            group=population.group[rows],
            goal=population.goal[rows],
            state=native.state[rows],
            depth=native.depth[rows],
            depth_min=native.depth_min[rows],
            depth_max=native.depth_max[rows],
            confidence=native.confidence[rows],
            generated=population.generated[rows],
            by_level=population.by_level[rows],
            positions=native.positions[rows].astype(np.int32),
            pages_private=native.pages_private[rows].astype(np.int32),
            pages_shared=native.pages_shared[rows].astype(np.int32),
            last_token=last,
            proposed=population.proposed[rows],
            accepted=population.accepted[rows],
            rejected=population.rejected[rows],
        )

    def _groups(self, agents: AgentTable) -> tuple[GroupInfo, ...]:
        count = np.bincount(agents.group, minlength=len(self.swarm.groups))
        return tuple(
            GroupInfo(
                group.id, group.name, int(count[group.id]), format_inherit(group.policy.inherit, group.policy.window),
                group.policy.rule, group.policy.thresholds, group.policy.temperature, group.newest,
                len(group.version.tokens), len(group.version.facts),
            )
            for group in self.swarm.groups
        )  # fmt: skip

    def _pool(self, agents: int, counters: Counters) -> PoolInfo:
        pool, pages = self.swarm.engine.pool(), self.swarm.engine.pool_map()
        return PoolInfo(
            pool.base_page_bytes, pool.pages_total, pool.pages_used, pool.pages_shared, pool.pages_by_layer,
            bytes_per_agent(pool, agents), counters.copies, pages.state.copy(), pages.layer.copy(), pages.holders.copy(),
        )  # fmt: skip

    def _proposals(self) -> tuple[Proposal, ...]:
        proposals = self.swarm.proposals
        best = [number for _, number in proposals.ranking[:OPEN_SHOWN]]
        wanted = [*best, *reversed(proposals.decided[-DECIDED_SHOWN:])]
        shown: dict[int, tuple[int, Proposal]] = {}
        for number in wanted:
            entry = proposals[number]
            kept = self._shown.get(number)
            shown[number] = kept if kept is not None and kept[0] == entry.revision else (entry.revision, self._proposal(entry))
        self._shown = shown
        return tuple(shown[number][1] for number in wanted)

    def _proposal(self, entry: Entry) -> Proposal:
        swarm = self.swarm
        semcon = swarm.world.particles + entry.semcon
        return Proposal(
            entry.id, entry.agent, swarm.label(entry.source), swarm.label(semcon), swarm.label(entry.target), entry.source,
            semcon, entry.target, entry.probability,
            evidence_text(swarm.world, swarm.label, entry, swarm.verifier.logistic), entry.status, entry.reason, entry.tick,
            entry.depth,
        )  # fmt: skip
