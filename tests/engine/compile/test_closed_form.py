from __future__ import annotations

import numpy as np
import pytest

from engine.compile.closed_form import ClosedForm, block_triangle, closed_form, direct_scores, directed_map, full_map, layer_count
from engine.compile.closed_transformer import Codes, group_semcons, sketches
from engine.graph.cybergraph import Cybergraph, graph_from_triples
from engine.graph.focus import compute_focus
from engine.graph.spectrum import Spectrum, compute_spectrum, focus_adjacency
from tests.engine.graph.graphs import clustered_graph

LEVELS = (32, 64, 96)


@pytest.fixture(scope="module")
def graph() -> Cybergraph:
    return clustered_graph()


@pytest.fixture(scope="module")
def spectrum(graph: Cybergraph) -> Spectrum:
    return compute_spectrum(focus_adjacency(graph, compute_focus(graph).values), LEVELS, seed=3)


@pytest.fixture(scope="module")
def built(graph: Cybergraph, spectrum: Spectrum) -> ClosedForm:
    return closed_form(graph, spectrum.vectors, spectrum.values, LEVELS, 2, seed=3)


def test_maps_are_sums_over_links(graph: Cybergraph, spectrum: Spectrum) -> None:
    vectors = spectrum.vectors.astype(np.float64)
    for semcon in range(graph.semcon_count):
        adjacency = np.zeros((graph.particle_count, graph.particle_count))
        for source, kind, target in graph.links.tolist():
            adjacency[source, target] += kind == semcon
            adjacency[target, source] += kind == graph.inverse[semcon]
        expected = (vectors.T @ adjacency @ vectors).T
        found = full_map(spectrum.vectors, graph.links, graph.inverse, semcon, LEVELS)
        assert np.abs(found - expected).max() < 1e-4


def test_scores_of_a_level_need_no_deeper_column(graph: Cybergraph, spectrum: Spectrum) -> None:
    sources = np.arange(10)
    for count in (1, 2):
        part = LEVELS[:count]
        shallow = directed_map(np.ascontiguousarray(spectrum.vectors[:, : part[-1]]), graph.links, graph.inverse, 0, part)
        deep = directed_map(spectrum.vectors, graph.links, graph.inverse, 0, LEVELS)[: part[-1], : part[-1]]
        assert np.array_equal(shallow, deep)
        altered = spectrum.vectors.copy()
        altered[:, part[-1] :] = 7
        assert np.array_equal(direct_scores(altered, deep, sources, part[-1]), direct_scores(spectrum.vectors, deep, sources, part[-1]))


def test_the_direct_score_finds_links(graph: Cybergraph, spectrum: Spectrum) -> None:
    near = graph.semcons.index("near")
    mine = graph.links[graph.links[:, 1] == near]
    mapping = directed_map(spectrum.vectors, graph.links, graph.inverse, near, LEVELS)
    scores = direct_scores(spectrum.vectors, mapping, mine[:, 0], LEVELS[-1])
    rank = (scores > scores[np.arange(len(mine)), mine[:, 2]][:, None]).sum(axis=1)
    assert np.median(rank) < graph.particle_count / 8


def test_every_weight_is_block_lower_triangular_and_finite(built: ClosedForm) -> None:
    weights = built.weights
    assert weights.ffn == tuple(2 * level for level in LEVELS)
    for layer in weights.weights:
        for block, (begin, end) in enumerate(zip((0, *LEVELS[:-1]), LEVELS, strict=True)):
            own = end - begin
            shapes = {name: array.shape for name, array in layer[block].items()}
            assert shapes == {
                **dict.fromkeys(("q", "k", "v", "o"), (own, end)),
                **dict.fromkeys(("gate", "up"), (2 * own, end)),
                "down": (own, 2 * end),
            }
            assert all(np.isfinite(array).all() and array.dtype == np.float32 for array in layer[block].values())


def test_the_same_input_gives_the_same_weights(graph: Cybergraph, spectrum: Spectrum, built: ClosedForm) -> None:
    again = closed_form(graph, spectrum.vectors, spectrum.values, LEVELS, 2, seed=3).weights
    assert np.array_equal(again.embedding, built.weights.embedding)
    for one, other in zip(again.weights, built.weights.weights, strict=True):
        for a, b in zip(one, other, strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in a)


def test_fewer_levels_are_the_truncation_bit_for_bit(graph: Cybergraph, spectrum: Spectrum, built: ClosedForm) -> None:
    part = closed_form(graph, np.ascontiguousarray(spectrum.vectors[:, :64]), spectrum.values[:64], LEVELS[:2], 2, seed=3).weights
    assert np.array_equal(part.embedding, built.weights.embedding[:, :64])
    for one, other in zip(part.weights, built.weights.weights, strict=True):
        for a, b in zip(one, other, strict=False):
            assert all(np.array_equal(a[name], b[name]) for name in a)


def test_dropped_energy_is_a_share(graph: Cybergraph, built: ClosedForm) -> None:
    assert set(built.dropped_energy) == set(graph.semcons)
    assert all(0 <= share < 1 for share in built.dropped_energy.values())
    assert 0 < built.dropped_mean < 1
    assert not block_triangle(np.ones((96, 96), np.float32), LEVELS)[0:32, 32:].any()


def test_alike_semcons_share_a_group_and_the_most_read_comes_last(spectrum: Spectrum, graph: Cybergraph) -> None:
    # a twin of ``near`` that holds the same links
    links = np.concatenate([graph.links, graph.links[graph.links[:, 1] == graph.semcons.index("near")]])
    inverse = np.concatenate([graph.inverse, [len(graph.inverse) + 1, len(graph.inverse)]])
    links[len(graph.links) :, 1] = len(graph.inverse)
    sketch = sketches(spectrum.vectors, links, inverse, LEVELS, seed=0)
    readings = np.bincount(links[:, 1], minlength=len(inverse)) + np.bincount(inverse[links[:, 1]], minlength=len(inverse))
    group = group_semcons(sketch, readings, 3)
    assert group[graph.semcons.index("near")] == group[len(graph.inverse)]
    assert (np.diff(np.bincount(group, readings, 3)) >= 0).all()


def test_codes_fit_the_narrowest_model() -> None:
    for width in (32, 64, 512):
        for layers in range(1, 7):
            codes = Codes.of(width, layers)
            assert width * 3 // 4 <= codes.control < codes.first_group <= codes.first_detail <= codes.end == width


def test_layers_follow_distance_and_semcons() -> None:
    chain = graph_from_triples((f"p{i}", f"s{i % 4}", f"p{i + 1}") for i in range(300))
    assert layer_count(chain) == 6
    assert layer_count(graph_from_triples((f"p{i}", "s", f"p{i + 1}") for i in range(300))) == 2
    full = graph_from_triples((f"p{i}", f"s{i % 4}", f"p{j}") for i in range(30) for j in range(i))
    assert layer_count(full) == 1
