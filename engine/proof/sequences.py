"""Random swarms for the proofs: contexts, agents and policies drawn from a seed, and their tokens as the reference wants them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.model.context import page_end
from engine.model.model import Model
from engine.model.policy import Policy, default_policy
from engine.native import LAYER_GROUP, LAYER_SYSTEM, Engine, EngineConfig

Stream = tuple[list[int], list[int]]
AGENTS = 24
POSITIONS = 256
NO_ID = bytes(36)


@dataclass(frozen=True)
class Walk:
    """One agent's given tokens: personal layer and prompt; ``serial`` seeds its sampling."""

    serial: int
    personal: tuple[int, ...]
    prompt: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A random swarm: shared layers, one policy, the agents' walks, and how many ticks it runs. The seed alone decides all of it."""

    seed: int
    system: tuple[int, ...]
    group: tuple[int, ...]
    walks: tuple[Walk, ...]
    ticks: int
    policy: Policy
    config: EngineConfig


def random_case(model: Model, seed: int, agents: int = AGENTS, ticks: int = 3, inherit: Sequence[str] = ("backfill",)) -> Case:
    """Mostly short sequences, some that fill several chunks; thresholds such that some tokens stop at every level."""
    random = np.random.default_rng([seed, 0x50524F46])
    vocabulary = len(model.vocabulary)

    def tokens(most: int, rarely: int) -> tuple[int, ...]:
        high = rarely if random.random() < 0.1 else most
        return tuple(int(t) for t in random.integers(0, vocabulary, random.integers(1, high + 1)))

    highest = float(random.choice([0.1, 0.4, 0.9]))
    policy = replace(
        default_policy(model.levels),
        rule=str(random.choice(["top", "margin"])),
        thresholds=tuple(float(t) for t in random.uniform(0.02, highest, model.levels - 1)),
        temperature=float(random.choice([0.0, 0.7, 1.0])),
    ).with_inherit(str(random.choice(list(inherit))))
    per_chunk = model.widths[-1] // model.widths[0]
    config = EngineConfig(
        pages=per_chunk * (12 * agents + 64), agents=2 * agents + 8, groups=4, positions=POSITIONS, threads=2, seed=seed % 1000
    )
    walks = tuple(Walk(serial, tokens(2, 6), tokens(4, 20)) for serial in range(agents))
    return Case(seed, tokens(3, 18), tokens(5, 20), walks, ticks, policy, config)


class Swarm:
    """A case set up on an engine; a context manager. ``order`` (indices of walks) says who is created, in which order."""

    def __init__(
        self, model: Model, case: Case, config: EngineConfig | None = None, policy: Policy | None = None, order: Sequence[int] | None = None
    ) -> None:
        self.model, self.case = model, case
        self.engine = Engine(model.native, config or case.config)
        self.engine.set_policy(0, policy or case.policy)
        self.system = self.engine.create_context(0, LAYER_SYSTEM, case.system)
        self.group = self.engine.create_context(self.system, LAYER_GROUP, case.group)
        self.slots: dict[int, int] = {}
        for index in range(len(case.walks)) if order is None else order:
            self.join(index)

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def join(self, index: int) -> None:
        """Creates the agent of one walk; it stops after the case's ticks, whenever it came."""
        walk = self.case.walks[index]
        slot = self.engine.create_agent(0, NO_ID, 0, walk.serial)
        self.engine.begin(slot, self.group, walk.personal, walk.prompt, self.case.ticks)
        self.slots[index] = slot

    def run(self, ticks: int | None = None) -> Swarm:
        """Runs the case's ticks, or as many as said."""
        for _ in range(self.case.ticks if ticks is None else ticks):
            self.engine.tick()
        return self

    def stream(self, index: int) -> Stream:
        """Tokens and depths of one agent."""
        tokens, depths = self.engine.agent_tokens(self.slots[index])
        return tokens.tolist(), depths.tolist()

    def sequence(self, index: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """Tokens that an agent holds, their absolute positions, and the level each was computed at (1 where it was given only).

        The last token is pending: it has no KV yet and is left out. The token before a generated one was computed at the level that
        answered."""
        tokens, depths = self.stream(index)
        layers = [list(self.case.system), list(self.case.group), list(self.case.walks[index].personal), tokens[:-1]]
        levels = [[1] * len(layer) for layer in layers[:3]] + [[max(1, depth) for depth in depths[1:]]]
        positions: list[int] = []
        start = 0
        for layer in layers:
            positions += range(start, start + len(layer))
            start = page_end(start + len(layer))
        return (
            np.array([token for layer in layers for token in layer], np.uint32),
            np.array(positions, np.uint32),
            np.array([level for part in levels for level in part], np.int64),
        )
