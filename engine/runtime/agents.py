"""The agents as Python keeps them: parallel arrays by native slot. The five-field agent itself lives in the native runtime."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserError
from engine.model.vocabulary import cid_of_text


def agent_cid(seed: int, serial: int) -> bytes:
    """The 36-byte CID of an agent of a session: that of the text which names it."""
    return cid_of_text(f"cybtui agent {seed} {serial}")


class Population:
    """All agents of a swarm. A row is a native slot; ids count from 1 and are never reused; serial = id.

    Invariant: ``live`` marks rows in use, ``slot_of`` maps the ids of exactly those rows.
    """

    # scalars kept a row; the walk: length in tokens, last particle, semcon awaiting its target (-1 none)
    FIELDS = (
        ("id", np.int64, 0),
        ("group", np.int32, 0),
        ("goal", np.int32, -1),
        ("episode", np.int64, 0),
        ("version", np.int64, -1),
        ("paused", np.bool_, False),
        ("needs_episode", np.bool_, False),
        ("expects_semcon", np.bool_, True),
        ("walk_length", np.int32, 0),
        ("walk_limit", np.int32, 0),
        ("walk_particle", np.int64, -1),
        ("walk_semcon", np.int64, -1),
        ("prompt_length", np.int32, 0),
        ("generated", np.int64, 0),
        ("proposed", np.int32, 0),
        ("open", np.int32, 0),
        ("accepted", np.int32, 0),
        ("rejected", np.int32, 0),
        ("depth_min", np.uint8, 0),
        ("depth_max", np.uint8, 0),
    )
    live: NDArray[np.bool_]
    id: NDArray[np.int64]
    group: NDArray[np.int32]
    goal: NDArray[np.int32]
    episode: NDArray[np.int64]
    version: NDArray[np.int64]
    paused: NDArray[np.bool_]
    needs_episode: NDArray[np.bool_]
    expects_semcon: NDArray[np.bool_]
    walk_length: NDArray[np.int32]
    walk_limit: NDArray[np.int32]
    walk_particle: NDArray[np.int64]
    walk_semcon: NDArray[np.int64]
    prompt_length: NDArray[np.int32]
    generated: NDArray[np.int64]
    proposed: NDArray[np.int32]
    open: NDArray[np.int32]
    accepted: NDArray[np.int32]
    rejected: NDArray[np.int32]
    depth_min: NDArray[np.uint8]
    depth_max: NDArray[np.uint8]

    def __init__(self, capacity: int, levels: int) -> None:
        self.capacity = capacity
        self.live = np.zeros(capacity, bool)
        for name, dtype, start in self.FIELDS:
            setattr(self, name, np.full(capacity, start, dtype))
        self.by_level = np.zeros((capacity, levels), np.int64)
        self.personal: dict[int, list[int]] = {}  # slot → tokens of the personal layer of the present episode
        self.prompt: dict[int, list[int]] = {}
        self.steering: dict[int, tuple[int, ...]] = {}  # slot → particles the operator named
        self.steering_domain: dict[int, NDArray[np.int64]] = {}
        self._stores: tuple[dict[int, Any], ...] = (self.personal, self.prompt, self.steering, self.steering_domain)
        self.slot_of: dict[int, int] = {}
        self.next_id = 1
        self.revision = 0  # grows when agents come or go
        self._ordered: tuple[int, NDArray[np.int64]] = (-1, np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.slot_of)

    def add(self, slot: int, agent: int, group: int, goal: int) -> None:
        """Puts agent ``agent`` into an empty row."""
        for name, _, start in self.FIELDS:
            getattr(self, name)[slot] = start
        self.by_level[slot] = 0
        self.live[slot] = True
        self.id[slot], self.group[slot], self.goal[slot] = agent, group, goal
        self.needs_episode[slot] = True
        self.slot_of[agent] = slot
        self.next_id = max(self.next_id, agent + 1)
        self.revision += 1

    def copy(self, origin: int, slot: int, agent: int) -> None:
        """A fork: the row of ``origin`` under another id, with counts of its own."""
        self.add(slot, agent, int(self.group[origin]), int(self.goal[origin]))
        kept = {"id", "generated", "proposed", "open", "accepted", "rejected"}
        for name, _, _ in self.FIELDS:
            if name not in kept:
                getattr(self, name)[slot] = getattr(self, name)[origin]
        for store in self._stores:
            if origin in store:
                store[slot] = store[origin]

    def remove(self, slot: int) -> None:
        """Empties a row."""
        del self.slot_of[int(self.id[slot])]
        self.live[slot] = False
        self.needs_episode[slot] = False
        for store in self._stores:
            store.pop(slot, None)
        self.revision += 1

    @property
    def slots(self) -> NDArray[np.int64]:
        """Slots of the live agents in order of id. Not to be written to."""
        if self._ordered[0] != self.revision:
            rows = np.flatnonzero(self.live)
            self._ordered = (self.revision, rows[np.argsort(self.id[rows])])
        return self._ordered[1]

    def resolve(self, agents: Iterable[int], empty_means_all: bool = False) -> list[int]:
        """Slots of agent ids, in order of id. Raises UserError for one that is not there."""
        wanted = sorted(set(agents))
        if not wanted and empty_means_all:
            return [int(slot) for slot in self.slots]
        if not wanted:
            raise UserError("no agent is selected")
        missing = [agent for agent in wanted if agent not in self.slot_of]
        if missing:
            names = ", ".join(f"a{agent}" for agent in missing[:5]) + ("…" if len(missing) > 5 else "")
            raise UserError(f"{names}: no such agent now")
        return [self.slot_of[agent] for agent in wanted]

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold (tests)."""
        assert sorted(self.slot_of.values()) == [int(slot) for slot in np.flatnonzero(self.live)]
        assert all(self.id[slot] == agent for agent, slot in self.slot_of.items())
        assert len(self.slots) == len(self.slot_of)
        assert (self.open[self.live] >= 0).all()
        assert all(agent < self.next_id for agent in self.slot_of)


def members(values: NDArray[np.integer]) -> list[tuple[int, NDArray[np.int64]]]:
    """Each distinct value and the rows that have it, ascending."""
    order = np.argsort(values, kind="stable")
    distinct, begin = np.unique(values[order], return_index=True)
    return list(zip(distinct.tolist(), np.split(order, begin[1:]), strict=True))
