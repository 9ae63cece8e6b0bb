"""Walks: the grammar of tokens, and where episodes start."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.runtime import chance, cycle
from engine.runtime.agents import Population
from engine.runtime.world import World, neighbourhood
from tests.engine.runtime.fake_engine import TOKEN

PARTICLES, SEMCONS = 12, 4
LINKS = np.array([[0, 0, 1], [1, 0, 2], [2, 1, 3], [3, 1, 4], [5, 0, 6], [7, 1, 0]], np.int64)


def small_world() -> World:
    return World.of_links(PARTICLES, SEMCONS, np.array([2, 3, 0, 1]), LINKS, np.linspace(2, 1, PARTICLES))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, PARTICLES + SEMCONS + 8 - 1), min_size=1, max_size=20), st.integers(0, PARTICLES - 1))
def test_walk_completes_exactly_the_grammatical_triples(tokens: list[int], start: int) -> None:
    world, agents = small_world(), Population(1, 3)
    agents.add(0, 1, 0, 0)
    agents.walk_limit[0] = cycle.WALK_TOKENS
    cycle.set_walks(world, agents, np.array([0]), [[start]])
    walk, completed = [start], []
    for token in tokens:
        walked = cycle.advance(world, agents, np.array([0]), np.array([token]))
        walk.append(token)
        wants_particle = len(walk) % 2 == 1
        is_particle, is_semcon = token < PARTICLES, PARTICLES <= token < PARTICLES + SEMCONS
        grammatical = is_particle if wants_particle else is_semcon
        assert bool(walked.ended[0]) == (not grammatical or len(walk) >= cycle.WALK_TOKENS)
        if wants_particle and grammatical:
            triple = (walk[-3], walk[-2] - PARTICLES, walk[-1])
            completed.append(triple)
            assert (walked.source[0], walked.semcon[0], walked.target[0]) == triple
            stored = {tuple(link) for link in LINKS.tolist()}
            inverse = (triple[2], int(world.inverse[triple[1]]), triple[0])
            assert bool(walked.known[0]) == (triple in stored or inverse in stored or triple[0] == triple[2])
        else:
            assert len(walked.rows) == 0
        if walked.ended[0]:
            break


def test_answers_to_a_prompt_claim_their_other_candidates_too() -> None:
    world, agents = small_world(), Population(2, 3)
    for slot in range(2):
        agents.add(slot, slot + 1, 0, 0)
        agents.walk_limit[slot] = cycle.WALK_TOKENS
    slots = np.arange(2)
    cycle.set_walks(world, agents, slots, [[0, PARTICLES], [0]])  # agent 2 says the semcon itself
    tokens = np.zeros(2, TOKEN)
    tokens["slot"] = slots
    tokens["token"], tokens["probability"] = [4, PARTICLES], [0.5, 0.9]
    # of the others one is drawn already, one is known (0 -0→ 1), one is too unlikely
    tokens["alternatives"], tokens["alternative_probability"] = [[4, 1, 6], [3, 4, 5]], [[0.5, 0.2, 0.1], [0.2, 0.2, 0.2]]
    claimed = cycle.claims(world, agents, slots, tokens, cycle.advance(world, agents, slots, tokens["token"].astype(np.int64)))
    assert claimed.target.tolist() == [4, 6]
    assert claimed.source.tolist() == claimed.semcon.tolist() == claimed.rows.tolist() == [0, 0]
    assert np.allclose(claimed.probability, [0.5, 0.1])
    tokens["token"], tokens["probability"] = [PARTICLES, 7], [0.9, cycle.CLAIM_FLOOR]
    claimed = cycle.claims(world, agents, slots, tokens, cycle.advance(world, agents, slots, tokens["token"].astype(np.int64)))
    assert claimed.target.tolist() == [7], "no prompt asked for it: only what was drawn"
    assert claimed.rows.tolist() == [1]


def test_known_targets_are_bounded_and_leave_the_answer_out() -> None:
    links = np.array([[0, 0, target] for target in (1, 3, 5, 7)] + [[2, 1, 4]], np.int64)
    world = World.of_links(8, 4, np.array([2, 3, 0, 1]), links, np.ones(8))
    offsets, targets = world.targets(np.array([0, 2, 0, 6]), np.array([0, 1, 0, 0]), np.array([3, 6, 2, 0]), 2)
    assert [row.tolist() for row in np.split(targets, offsets[1:-1])] == [[1, 5], [4], [1, 3], []]


def test_added_links_are_held_and_fill_roles_until_taken_back() -> None:
    world = small_world()
    ends = np.array([8]), np.array([0]), np.array([9])
    assert world.lacks(ends[0], ends[1])[0]
    world.add(8, 0, 9)
    assert world.holds(*ends)[0]
    assert world.holds(ends[2], world.inverse[ends[1]], ends[0])[0]
    assert not world.lacks(ends[0], ends[1])[0]
    assert world.neighbours(8) == {9: 0}
    world.remove(8, 0, 9)
    assert not world.holds(*ends)[0]
    assert world.neighbours(8) == {}


def test_gaps_are_roles_that_the_like_play_and_the_particle_lacks() -> None:
    # particles 0..3 have roles 0 and 1, particle 4 only role 0: role 1 is its gap
    links = np.array([[p, s, 5 + s] for p in range(4) for s in (0, 1)] + [[4, 0, 5]], np.int64)
    world = World.of_links(8, 4, np.array([2, 3, 0, 1]), links, np.ones(8))
    semcons, weights = world.gaps
    assert semcons[4, 0] == 1
    assert weights[4, 0] == np.float32(4 / 5)
    assert weights[0, 0] < weights[4, 0]


def test_neighbourhood_is_bounded_and_grows_in_rings() -> None:
    world = small_world()
    assert neighbourhood(world, [0], 100).tolist() == [0, 1, 2, 3, 4, 7]
    assert neighbourhood(world, [0], 3).tolist() == [0, 1, 7]
    assert neighbourhood(world, [8], 5).tolist() == [8]


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**31), st.integers(0, 2**40))
def test_chance_is_in_bounds_and_a_function_of_its_counters(seed: int, bound: int, counter: int) -> None:
    values = chance.below(seed, bound, counter, np.arange(8))
    assert ((values >= 0) & (values < bound)).all()
    assert values.tolist() == [int(chance.below(seed, bound, counter, number)) for number in range(8)]


def test_advance_takes_a_thousand_agents_within_milliseconds() -> None:
    import time

    world, agents = small_world(), Population(1000, 3)
    for slot in range(1000):
        agents.add(slot, slot + 1, 0, 0)
    agents.walk_limit[:] = 9
    agents.walk_particle[:] = 0
    slots, tokens = np.arange(1000), np.full(1000, PARTICLES)
    best = SimpleNamespace(seconds=1.0)
    for _ in range(5):
        start = time.perf_counter()
        cycle.advance(world, agents, slots, tokens)
        best.seconds = min(best.seconds, time.perf_counter() - start)
    assert best.seconds < 0.015
