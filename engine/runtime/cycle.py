"""Walks: how tokens become claims, and where the next walk starts (observe → infer → propose of design §8).

A walk alternates particle and semcon. Each completed particle, semcon, particle is a claim where the graph does not hold it.
Everything here is vectorised over the agents of a tick and depends on (seed, agent, episode) and the visit counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.compile.layout import HOPS
from engine.runtime import chance
from engine.runtime.agents import Population
from engine.runtime.world import World

WALK_TOKENS = 1 + 2 * HOPS  # prompt included; what the model was trained on
SHORTEST_FIRST_WALK = 3  # first walks have different lengths, so that agents do not all start anew in the same tick
START_CANDIDATES = 8
BARE_PROMPT_SHARE = 4  # one episode in so many leaves the semcon to the model
GAP_FLOOR = 0.05  # how much a particle without gaps counts as a start
PROPOSAL_FLOOR = 0.02  # an agent proposes only what it gave at least this probability

_START, _BARE, _LENGTH = 1, 2, 3  # streams of chance


@dataclass(frozen=True, slots=True)
class Walked:
    """What one tick's tokens did. Rows are in the order of the tokens given."""

    ended: NDArray[np.bool_]  # (n,) the walk is over
    rows: NDArray[np.int64]  # (c,) tokens that completed a triple
    source: NDArray[np.int64]  # (c,)
    semcon: NDArray[np.int64]  # (c,) number
    target: NDArray[np.int64]  # (c,)
    known: NDArray[np.bool_]  # (c,) the graph holds it, or it leads from a particle to itself


def advance(world: World, agents: Population, slots: NDArray[np.int64], tokens: NDArray[np.int64]) -> Walked:
    """Feeds one generated token an agent (slots distinct) to the walks, and says what was completed and what ended."""
    particle = tokens < world.particles
    semcon = ~particle & (tokens < world.particles + world.semcons)
    wants_semcon = agents.expects_semcon[slots]
    grammatical = np.where(wants_semcon, semcon, particle)

    completed = grammatical & ~wants_semcon
    rows = np.flatnonzero(completed)
    source, link = agents.walk_particle[slots[rows]], agents.walk_semcon[slots[rows]]
    target = tokens[rows].astype(np.int64)
    known = world.holds(source, link, target) | (source == target)

    agents.walk_particle[slots[rows]] = target
    at_semcon = slots[grammatical & wants_semcon]
    agents.walk_semcon[at_semcon] = tokens[grammatical & wants_semcon].astype(np.int64) - world.particles
    agents.expects_semcon[slots[grammatical]] = ~wants_semcon[grammatical]
    agents.walk_length[slots] += 1
    ended = ~grammatical | (agents.walk_length[slots] >= agents.walk_limit[slots])
    return Walked(ended, rows, source, link, target, known)


def set_walk(world: World, agents: Population, slot: int, prompt: Sequence[int]) -> None:
    """The walk state right after an episode began with ``prompt``."""
    last = prompt[-1]
    agents.walk_length[slot] = agents.prompt_length[slot] = len(prompt)
    agents.expects_semcon[slot] = last < world.particles
    agents.walk_particle[slot] = last if last < world.particles else prompt[-2]
    agents.walk_semcon[slot] = -1 if last < world.particles else last - world.particles


class Starts:
    """Chooses where episodes start: in the goal's domain, where roles are missing, where few have been."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.visits = np.zeros(world.particles, np.int32)

    def choose(self, agents: Population, slots: Sequence[int], domains: Sequence[NDArray[np.int64]]) -> list[list[int]]:
        """A prompt an agent, [particle] or [particle, semcon token]; counts the visits. ``domains`` are not empty."""
        world = self.world
        rows = np.asarray(slots, np.int64)
        serial, episode = agents.id[rows], agents.episode[rows]
        sizes = np.array([len(domain) for domain in domains], np.int64)
        draws = chance.below(self.seed, sizes[:, None], _START, serial[:, None], episode[:, None], np.arange(START_CANDIDATES)[None, :])
        flat = np.cumsum(sizes) - sizes
        unique: dict[int, int] = {}
        parts: list[NDArray[np.int64]] = []
        offset = 0
        for number, domain in enumerate(domains):  # equal domains are stored once
            if id(domain) not in unique:
                unique[id(domain)] = offset
                parts.append(domain)
                offset += len(domain)
            flat[number] = unique[id(domain)]
        candidates = np.concatenate(parts)[flat[:, None] + draws]
        gap_semcons, gap_weights = world.gaps
        strongest = gap_weights[:, 0] if gap_weights.shape[1] else np.zeros(world.particles, np.float32)
        value = (GAP_FLOOR + strongest[candidates]) / (1 + self.visits[candidates])
        start = candidates[np.arange(len(rows)), np.argmax(value, axis=1)]
        bare = chance.below(self.seed, BARE_PROMPT_SHARE, _BARE, serial, episode) == 0
        turn = self.visits[start] % max(1, gap_weights.shape[1])
        if gap_weights.shape[1]:
            semcon, weight = gap_semcons[start, turn], gap_weights[start, turn]
        else:
            semcon, weight = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.float32)
        np.add.at(self.visits, start, 1)
        bare |= weight <= 0
        return [
            [particle] if alone else [particle, world.particles + link]
            for particle, link, alone in zip(start.tolist(), semcon.tolist(), bare.tolist(), strict=True)
        ]

    def walk_limits(self, agents: Population, slots: Sequence[int]) -> NDArray[np.int64]:
        """Tokens of each walk, prompt included: full length, but of the agent's first one a random one."""
        rows = np.asarray(slots, np.int64)
        spread = WALK_TOKENS - SHORTEST_FIRST_WALK + 1
        first = SHORTEST_FIRST_WALK + chance.below(self.seed, spread, _LENGTH, agents.id[rows])
        return np.where(agents.episode[rows] == 0, first, WALK_TOKENS)

    def observe(self, particles: NDArray[np.int64]) -> None:
        """Counts particles that walks passed through."""
        np.add.at(self.visits, particles, 1)
