from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from engine.graph.cybergraph import Cybergraph
from engine.graph.focus import compute_focus, vocabulary_focus
from tests.engine.graph.graphs import graphs, random_graph


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_focus_is_a_positive_distribution_and_a_fixed_point(graph: Cybergraph) -> None:
    focus = compute_focus(graph)
    assert focus.values.dtype == np.float64
    assert abs(focus.values.sum() - 1) < 1e-12
    assert focus.values.min() > 0
    assert focus.kappa <= focus.bound + 1e-6 < 1
    assert np.abs(compute_focus(graph, start=focus.values).values - focus.values).sum() < 1e-9


def test_the_start_does_not_matter() -> None:
    graph = random_graph(200, 500)
    start = np.random.default_rng(1).random(graph.particle_count)
    assert np.abs(compute_focus(graph, start=start).values - compute_focus(graph).values).sum() < 1e-8


def test_lone_particles_have_less_than_linked_ones() -> None:
    whole = random_graph(50, 120)
    graph = whole.with_links(whole.links[(whole.links[:, 0] != 3) & (whole.links[:, 2] != 3)])
    focus = compute_focus(graph).values
    assert 0 < focus[3] < 1 / graph.particle_count
    hub = np.argmax(np.bincount(graph.links[:, [0, 2]].reshape(-1)))
    assert np.argmax(focus) == hub


def test_weights_draw_focus() -> None:
    graph = random_graph(50, 120)
    weights = graph.weights.copy()
    weights[graph.links[:, 2] == 5] *= 10
    assert compute_focus(graph.with_links(graph.links, weights)).values[5] > compute_focus(graph).values[5]


def test_a_vocabulary_shares_one() -> None:
    graph = random_graph(50, 120)
    shared = vocabulary_focus(graph, compute_focus(graph).values, 8)
    assert len(shared) == graph.particle_count + graph.semcon_count + 8
    assert abs(shared.sum() - 1) < 1e-12
    assert shared.min() > 0
