from __future__ import annotations

import numpy as np

from engine.graph.cybergraph import graph_from_triples
from engine.graph.focus import compute_focus
from engine.graph.metrics import cut_by_focus, distances, graph_cid, measure
from tests.engine.graph.graphs import random_graph


def test_a_path() -> None:
    graph = graph_from_triples((f"p{i}", "next", f"p{i + 1}") for i in range(9))
    found = measure(graph, compute_focus(graph).values)
    assert (found.particles, found.links, found.components, found.orphans, found.diameter) == (10, 9, 1, 0, 9)
    assert found.mean_degree == 1.8
    assert found.largest_degree == 2
    assert abs(found.spectral_gap - (1 - np.cos(np.pi / 9))) < 1e-3
    assert distances(graph, 2).tolist() == [2, 1, 0, 1, 2, 3, 4, 5, 6, 7]


def test_parts_and_orphans() -> None:
    whole = graph_from_triples([("a", "s", "b"), ("c", "s", "d"), ("d", "s", "e"), ("e", "s", "f")])
    found = measure(whole.with_links(whole.links[:3]), np.full(6, 1 / 6))
    assert (found.components, found.orphans, found.diameter) == (3, 1, 2)
    assert found.spectral_gap < 1e-3
    assert abs(found.focus_entropy - np.log(6)) < 1e-12


def test_a_graph_without_links_and_one_without_particles() -> None:
    whole = graph_from_triples([("a", "s", "b")])
    assert measure(whole.with_links(whole.links[:0]), np.ones(2)).components == 2
    nothing = graph_from_triples([])
    assert measure(nothing, np.zeros(0)).particles == 0


def test_the_cid_ignores_the_order_of_reading() -> None:
    rows = [("a", "s", "b"), ("c", "s", "a"), ("b", "s", "c")]
    one, other = graph_from_triples(rows), graph_from_triples(rows[::-1])
    assert graph_cid(one) == graph_cid(other)
    assert graph_cid(one) != graph_cid(graph_from_triples([*rows, ("a", "s", "c")]))


def test_a_cut_keeps_the_particles_of_highest_focus() -> None:
    graph = random_graph(100, 300)
    focus = compute_focus(graph).values
    part = cut_by_focus(graph, focus, 40)
    assert part.particle_count == 40
    kept = {graph.particles.index(label) for label in part.particles}
    assert min(focus[list(kept)]) >= max(focus[i] for i in range(graph.particle_count) if i not in kept)
