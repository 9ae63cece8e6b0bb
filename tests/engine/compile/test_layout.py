"""Training walks: goals are shown as the runtime shows them, and walks under a goal keep to its domain."""

from __future__ import annotations

import numpy as np
import pytest

from engine.compile.layout import GOAL_PARTICLES, SequenceSampler
from engine.graph.cybergraph import both_directions

PARTICLES, SEMCONS = 600, 4


@pytest.fixture(scope="module")
def sampler() -> SequenceSampler:
    random = np.random.default_rng(0)
    near = random.integers(0, PARTICLES, 4000)
    links = np.stack([near, random.integers(0, SEMCONS, 4000), (near + random.integers(1, 30, 4000)) % PARTICLES], axis=1)
    inverse = np.array([1, 0, 3, 2])
    return SequenceSampler(both_directions(links, inverse), PARTICLES, SEMCONS, np.ones(PARTICLES) / PARTICLES, seed=3)


def test_walks_are_made_of_links(sampler: SequenceSampler) -> None:
    held = {tuple(link) for link in sampler.links.tolist()}
    batch = sampler.contexts(64)
    for row, column, target in zip(batch.target_sequence, batch.target_column, batch.targets, strict=True):
        tokens = batch.tokens[row]
        assert tokens[column + 1] == target
        assert batch.valid[row, column]
        if target < PARTICLES:
            assert (int(tokens[column - 1]), int(tokens[column]) - PARTICLES, int(target)) in held


def test_steps_lead_into_and_out_of_domains(sampler: SequenceSampler) -> None:
    particle = np.arange(PARTICLES, dtype=np.int32)
    domain = np.zeros(PARTICLES, np.int64)
    into, out = (sampler.domains.holds(domain, sampler._step(particle, domain, inside)[:, 2]).mean() for inside in (True, False))
    anywhere = sampler.domains.holds(domain, sampler._step(particle, domain - 1)[:, 2]).mean()
    assert into > anywhere > out


def test_goals_are_about_the_domain_their_walk_keeps_to(sampler: SequenceSampler) -> None:
    goals = sampler._goals(2000)
    immediate = goals.centre >= 0
    assert 0.2 < immediate.mean() < 0.5
    assert np.all(goals.domain[immediate] >= 0)
    grouped = goals.shown & ~immediate
    assert np.array_equal(goals.particles[grouped], sampler.domains.shown[goals.domain[grouped]])
    assert goals.particles.shape[1] == GOAL_PARTICLES
    assert not goals.particles_valid[~goals.shown].any()


def test_same_seed_same_batches(sampler: SequenceSampler) -> None:
    def first() -> np.ndarray:
        return SequenceSampler(sampler.links.astype(np.int64), PARTICLES, SEMCONS, np.ones(PARTICLES), seed=5).contexts(16).tokens

    assert np.array_equal(first(), first())
