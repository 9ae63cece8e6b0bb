"""Baselines against straightforward ones, and the terminal measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.runtime import baselines
from engine.runtime.measures import Measures
from engine.runtime.proposals import Entry
from engine.runtime.world import World


def random_world(seed: int, particles: int = 25, links: int = 50) -> World:
    random = np.random.default_rng(seed)
    drawn = np.stack([random.integers(0, particles, links), random.integers(0, 2, links), random.integers(0, particles, links)], axis=1)
    return World.of_links(particles, 4, np.array([2, 3, 0, 1]), drawn[drawn[:, 0] != drawn[:, 2]], random.random(particles))


def pairs_of(world: World, keys: Any) -> list[tuple[int, int]]:
    return [(int(key) // world.particles, int(key) % world.particles) for key in keys]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_adamic_adar_is_the_textbook_one(seed: int) -> None:
    world = random_world(seed)
    near: list[set[int]] = [set(world.target[world.row(p)].tolist()) for p in range(world.particles)]
    scores = {
        (p, q): sum(1 / np.log(len(near[z])) for z in near[p] & near[q])
        for p in range(world.particles)
        for q in range(p + 1, world.particles)
        if q not in near[p] and near[p] & near[q]
    }
    found = pairs_of(world, baselines.adamic_adar(world, baselines.linked_pairs(world)))
    assert set(found) == set(scores)
    values = [scores[pair] for pair in found]
    assert values == pytest.approx(sorted(scores.values(), reverse=True))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 60))
def test_embedding_ranks_unlinked_pairs_by_cosine(seed: int, limit: int) -> None:
    world = random_world(seed)
    vectors = np.random.default_rng(seed).standard_normal((world.particles, 6)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    linked = set(pairs_of(world, baselines.linked_pairs(world)))
    wanted = sorted(
        (-float(unit[p] @ unit[q]), p, q) for p in range(25) for q in range(p + 1, 25) if (p, q) not in linked
    )  # fmt: skip
    found = pairs_of(world, baselines.embedding(world, vectors, baselines.linked_pairs(world), limit))
    assert found == [(p, q) for _, p, q in wanted[:limit]]


def test_a_sampled_floor_loses_none_of_the_best() -> None:
    random = np.random.default_rng(0)
    particles = 1500
    world = World.of_links(particles, 2, np.array([1, 0]), np.array([[0, 0, 1]]), np.ones(particles))
    vectors = random.standard_normal((particles, 16)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    cosines[np.tril_indices(particles)] = -2
    cosines[0, 1] = -2
    best = np.sort(cosines.reshape(-1))[-200:]
    found = pairs_of(world, baselines.embedding(world, vectors, baselines.linked_pairs(world), 200))
    assert np.allclose(np.sort([cosines[pair] for pair in found]), best, atol=1e-6)


def test_a_random_walk_finds_what_is_near() -> None:
    links = np.array([[p, 0, p + 1] for p in range(30)], np.int64)
    world = World.of_links(31, 2, np.array([1, 0]), links, np.ones(31))
    found = pairs_of(world, baselines.random_walk(world, baselines.linked_pairs(world), 0))
    assert found
    assert all(2 <= abs(p - q) <= 3 for p, q in found)


def test_hits_are_counted_against_the_hidden_links_only(model: Any) -> None:
    world = World.of_model(model)
    vectors = np.random.default_rng(0).standard_normal((world.particles, 8)).astype(np.float32)
    computed = baselines.compute(world, model.hidden, lambda: vectors)
    assert set(computed.hits) == set(baselines.NAMES)
    hidden = baselines.hidden_pairs(world, model.hidden)
    for name in baselines.NAMES:
        assert computed.at(0)[name] == 0
        assert computed.at(10**9)[name] <= len(hidden)
        assert (np.diff(computed.hits[name]) >= 0).all()
    assert computed.best(500) == max(computed.at(500).values())


def test_terminal_measures() -> None:
    world = World.of_links(4, 2, np.array([1, 0]), np.array([[0, 0, 1]]), np.array([0.45, 0.05, 0.45, 0.05]))
    measures = Measures(world, np.array([[0, 0, 2]]))
    assert measures.divergence() == pytest.approx(float(np.sum(world.focus * np.log(world.focus / 0.25))))
    before = measures.divergence()
    for number in range(20):
        entry = Entry(number, 1, 0, 0, 2, 1, 0, 1, 1, 0.5)
        entry.probability = 0.9
        measures.proposed(entry)
        assert measures.is_hidden(entry)
    assert measures.divergence() < before
    assert measures.hits == 20
    assert np.isnan(measures.quality(20))
    measures.baselines = baselines.Baselines({"random_walk": np.array([0, 1, 4])})
    assert measures.quality(20) == 5.0
