"""Walks: how tokens become claims (observe → infer → propose of design §8).

A walk alternates particle and semcon. Each completed particle, semcon, particle is a claim where the graph does not hold it; so
are the best other candidates for the particle that answers a prompt. Everything here is vectorised over the agents of a tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.layout import HOPS
from engine.runtime import chance
from engine.runtime.agents import Population
from engine.runtime.world import World

WALK_TOKENS = 1 + 2 * HOPS  # prompt included; what the model was trained on
SHORTEST_FIRST_WALK = 3  # first walks have different lengths, so that agents do not all start anew in the same tick
CLAIM_FLOOR = 0.02  # an agent claims only what it gave at least this probability

_LENGTH = 3  # a stream of chance; 1 and 2 are those of starts


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


@dataclass(frozen=True, slots=True)
class Claimed:
    """Claims of one tick in the order of the tokens given, of one token the drawn target first."""

    rows: NDArray[np.int64]  # (c,) of the token
    source: NDArray[np.int64]  # (c,)
    semcon: NDArray[np.int64]  # (c,) number
    target: NDArray[np.int64]  # (c,)
    probability: NDArray[np.float64]  # (c,) what the agent gave the target


def claims(world: World, agents: Population, slots: NDArray[np.int64], tokens: NDArray[Any], walked: Walked) -> Claimed:
    """What ``tokens`` (n,) of TOKEN_DTYPE claim beyond the graph, right after ``advance``."""
    drawn = np.flatnonzero(~walked.known & (tokens["probability"][walked.rows] >= CLAIM_FLOOR))
    # the particle right behind a prompt that ends in a semcon: its other candidates answer the same question
    prompt = agents.prompt_length[slots[walked.rows]]
    answers = np.flatnonzero((prompt % 2 == 0) & (agents.walk_length[slots[walked.rows]] == prompt + 1))
    rows = walked.rows[answers]
    others = tokens["alternatives"][rows].astype(np.int64)
    given = tokens["alternative_probability"][rows]
    fresh = (others < world.particles) & (given >= CLAIM_FLOOR) & (others != tokens["token"][rows].astype(np.int64)[:, None])
    number, rank = np.nonzero(fresh)
    at = np.concatenate([drawn, answers[number]])
    target = np.concatenate([walked.target[drawn], others[number, rank]])
    probability = np.concatenate([tokens["probability"][walked.rows[drawn]], given[number, rank]]).astype(np.float64)
    source, semcon = walked.source[at], walked.semcon[at]
    new = np.flatnonzero(~world.holds(source, semcon, target) & (source != target))
    new = new[np.argsort(at[new], kind="stable")]
    return Claimed(walked.rows[at[new]], source[new], semcon[new], target[new], probability[new])


def set_walks(world: World, agents: Population, slots: NDArray[np.int64], prompts: Sequence[Sequence[int]]) -> None:
    """The walk state right after episodes began with ``prompts``, one a slot."""
    last = np.array([prompt[-1] for prompt in prompts], np.int64)
    before = np.array([prompt[-2] if len(prompt) > 1 else -1 for prompt in prompts], np.int64)
    at_particle = last < world.particles
    agents.walk_length[slots] = agents.prompt_length[slots] = [len(prompt) for prompt in prompts]
    agents.expects_semcon[slots] = at_particle
    agents.walk_particle[slots] = np.where(at_particle, last, before)
    agents.walk_semcon[slots] = np.where(at_particle, -1, last - world.particles)


def walk_limits(seed: int, agents: Population, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens of each walk, prompt included: full length, but of the agent's first one a random one."""
    spread = WALK_TOKENS - SHORTEST_FIRST_WALK + 1
    first = SHORTEST_FIRST_WALK + chance.below(seed, spread, _LENGTH, agents.id[slots])
    return np.where(agents.episode[slots] == 0, first, WALK_TOKENS)
