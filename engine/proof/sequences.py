"""Random swarms for the proofs: contexts, agents and policies drawn from a seed, and their tokens as the reference wants them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.model.context import page_end
from engine.model.model import Model
from engine.model.policy import Policy, default_policy
from engine.native import Engine, EngineConfig

LAYER_SYSTEM, LAYER_GROUP = 0, 1


@dataclass(frozen=True)
class Walk:
    """One agent's given tokens: personal layer and prompt."""

    personal: tuple[int, ...]
    prompt: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A random swarm: shared layers, one policy, the agents' walks, and how many ticks it runs."""

    seed: int
    system: tuple[int, ...]
    group: tuple[int, ...]
    walks: tuple[Walk, ...]
    ticks: int
    policy: Policy
    config: EngineConfig = field(default_factory=EngineConfig)


def random_case(model: Model, seed: int, agents: int = 6, ticks: int = 4, thresholds: tuple[float, float] = (0.02, 0.4)) -> Case:
    """Short sequences over several chunks, thresholds drawn low so that some tokens stop at every level."""
    random = np.random.default_rng(seed)

    def tokens(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(t) for t in random.integers(0, len(model.vocabulary), random.integers(low, high)))

    policy = replace(
        default_policy(model.levels),
        rule=("top", "margin")[int(random.integers(2))],
        thresholds=tuple(float(t) for t in random.uniform(*thresholds, model.levels - 1)),
        temperature=float(random.choice([0.0, 0.7, 1.0])),
    )
    return Case(
        seed,
        tokens(1, 6),
        tokens(1, 22),
        tuple(Walk(tokens(1, 4), tokens(1, 8)) for _ in range(agents)),
        ticks,
        policy,
        EngineConfig(pages=4096, agents=max(agents, 2) * 2, groups=2, positions=512, threads=2, seed=seed),
    )


class Swarm:
    """A case set up on an engine; a context manager."""

    def __init__(self, model: Model, case: Case, config: EngineConfig | None = None, policy: Policy | None = None) -> None:
        self.model, self.case = model, case
        self.engine = Engine(model.native, config or case.config)
        self.engine.set_policy(0, policy or case.policy)
        self.system = self.engine.create_context(0, LAYER_SYSTEM, case.system)
        self.group = self.engine.create_context(self.system, LAYER_GROUP, case.group)
        self.slots = []
        for serial, walk in enumerate(case.walks):
            slot = self.engine.create_agent(0, bytes(36), 0, serial)
            self.engine.begin(slot, self.group, walk.personal, walk.prompt, 0)
            self.slots.append(slot)

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def run(self, ticks: int | None = None) -> Swarm:
        """Runs the case's ticks."""
        for _ in range(self.case.ticks if ticks is None else ticks):
            self.engine.tick()
        return self

    def streams(self) -> list[tuple[list[int], list[int]]]:
        """Tokens and depths of every agent."""
        result = []
        for slot in self.slots:
            tokens, depths = self.engine.agent_tokens(slot)
            result.append((tokens.tolist(), depths.tolist()))
        return result

    def sequence(self, index: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """Tokens that an agent holds, their absolute positions, and the level each was answered at (1 where it was given only).

        The last token is pending: it has no KV yet and is left out."""
        walk = self.case.walks[index]
        tokens, depths = self.engine.agent_tokens(self.slots[index])
        own = tokens.tolist()[:-1]
        answered = depths.tolist()[1:]
        layers = [list(self.case.system), list(self.case.group), list(walk.personal), own]
        levels = [[1] * len(layer) for layer in layers[:3]] + [[max(1, depth) for depth in answered]]
        positions: list[int] = []
        start = 0
        for layer in layers:
            positions += range(start, start + len(layer))
            start = page_end(start + len(layer))
        flat = [token for layer in layers for token in layer]
        return (
            np.array(flat, np.uint32),
            np.array(positions, np.uint32),
            np.array([d for level in levels for d in level], np.int64),
        )
