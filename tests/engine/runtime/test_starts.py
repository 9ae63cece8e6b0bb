"""Where episodes start: gaps by their odds, narrow domains first, each once; else where few have been."""

from __future__ import annotations

import numpy as np
import pytest

from engine.runtime.agents import Population
from engine.runtime.starts import Starts
from engine.runtime.world import World, gap_odds

PARTICLES = 24


def gappy_world() -> World:
    """Particles 0..7 play roles 0 and 1, particles 8..11 role 0 only: role 1 is their gap."""
    links = [[p, s, 12 + (p + s) % 12] for p in range(8) for s in (0, 1)] + [[p, 0, 12] for p in range(8, 12)]
    return World.of_links(PARTICLES, 4, np.array([2, 3, 0, 1]), np.array(links, np.int64), np.ones(PARTICLES))


def population(agents: int) -> Population:
    rows = Population(agents, 3)
    for slot in range(agents):
        rows.add(slot, slot + 1, 0, 0)
    return rows


EVERYWHERE = np.arange(PARTICLES)


def test_choices_follow_from_seed_agents_and_what_was_asked() -> None:
    world, agents = gappy_world(), population(6)
    chains = [[EVERYWHERE]] * 6
    whole = Starts(world, 5).choose(agents, range(6), chains)
    assert Starts(world, 5).choose(agents, range(6), chains) == whole
    assert Starts(world, 6).choose(agents, range(6), chains) != whole


def test_every_gap_is_asked_once_the_likeliest_first_and_bare_prompts_go_everywhere() -> None:
    world, agents = gappy_world(), population(1)
    starts = Starts(world, 1)
    asked, bare = [], []
    for episode in range(200):
        agents.episode[0] = episode
        (prompt,) = starts.choose(agents, [0], [[EVERYWHERE]])
        (asked if len(prompt) == 2 else bare).append(tuple(prompt))
    assert len(set(asked)) == len(asked)
    odds = [float(gap_odds(world.expected(np.array([p]), np.array([s - PARTICLES])))[0]) for p, s in asked]
    assert odds == sorted(odds, reverse=True)
    assert {(p, PARTICLES + 1) for p in range(8, 12)} <= set(asked)
    assert (starts.visits > 0).all()


@pytest.mark.parametrize(("inside", "stays"), [([8, 12], True), ([0, 1], False)])
def test_the_narrow_domain_comes_first_while_it_has_gaps_worth_it(inside: list[int], stays: bool) -> None:
    world, agents = gappy_world(), population(16)
    starts = Starts(world, 2)
    narrow = np.array(inside, np.int64)
    prompts = starts.choose(agents, range(16), [[narrow, EVERYWHERE]] * 16)
    directed = [prompt[0] for prompt in prompts if len(prompt) == 2]
    assert (directed[0] in inside) == stays
    assert all(prompt[0] in inside for prompt in prompts if len(prompt) == 1)
    only = Starts(world, 2).choose(agents, range(16), [[narrow]] * 16)
    assert all(prompt[0] in inside for prompt in only)


def test_odds_rise_with_the_expectation_and_are_bounded() -> None:
    odds = gap_odds(np.array([0.0, 0.5, 0.9, 1.0]))
    assert odds[0] == 0
    assert odds[1] == 1
    assert odds[2] == pytest.approx(9, rel=1e-5)
    assert odds[3] == pytest.approx(99, rel=1e-4)
