from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from engine.graph.cybergraph import Cybergraph
from engine.graph.density import spectral_density
from engine.graph.focus import compute_focus
from engine.graph.sparse import SparseMatrix
from engine.graph.spectrum import Spectrum, compute_spectrum, focus_adjacency, norm_bound
from tests.engine.graph.graphs import graphs, random_graph


def dense(matrix: SparseMatrix) -> np.ndarray:
    return matrix.multiply(np.eye(matrix.n, dtype=np.float32)).astype(np.float64)


@pytest.fixture(scope="module")
def matrix() -> SparseMatrix:
    graph = random_graph(900, 2500)
    return focus_adjacency(graph, compute_focus(graph).values)


@pytest.fixture(scope="module")
def spectrum(matrix: SparseMatrix) -> Spectrum:
    return compute_spectrum(matrix, (32, 64, 128), seed=7)


def test_eigenpairs_are_those_of_the_dense_matrix(matrix: SparseMatrix, spectrum: Spectrum) -> None:
    exact = np.sort(np.linalg.eigvalsh(dense(matrix)))[::-1]
    assert np.abs(spectrum.values - exact[:128]).max() < 5e-3
    assert max(spectrum.residual) < 0.05
    assert np.abs(spectrum.vectors.T @ spectrum.vectors - np.eye(128)).max() < 1e-5


def test_fewer_levels_are_the_truncation_bit_for_bit(matrix: SparseMatrix, spectrum: Spectrum) -> None:
    for levels in ((32,), (32, 64)):
        part = compute_spectrum(matrix, levels, seed=7)
        assert np.array_equal(part.vectors, spectrum.vectors[:, : levels[-1]])
        assert np.array_equal(part.values, spectrum.values[: levels[-1]])


def test_another_seed_gives_the_same_values_and_canonical_signs(matrix: SparseMatrix, spectrum: Spectrum) -> None:
    other = compute_spectrum(matrix, (32, 64, 128), seed=8)
    assert np.abs(other.values - spectrum.values).max() < 5e-3
    for each in (spectrum, other):
        assert (each.vectors[np.argmax(np.abs(each.vectors), axis=0), np.arange(128)] > 0).all()


def test_the_density_counts_eigenvalues(matrix: SparseMatrix) -> None:
    exact = np.linalg.eigvalsh(dense(matrix))
    density = spectral_density(matrix.scaled(1 / norm_bound(matrix)), seed=1)
    cut = density.threshold(100)
    assert abs((exact > cut * norm_bound(matrix)).sum() - 100) < 12
    share = np.abs(exact) / np.abs(exact).sum()
    rank = np.exp(-(share * np.log(np.maximum(share, 1e-300))).sum())
    assert abs(density.effective_rank / rank - 1) < 0.05


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_any_small_graph_has_a_spectrum(graph: Cybergraph) -> None:
    matrix = focus_adjacency(graph, compute_focus(graph).values)
    found = compute_spectrum(matrix, (32, 64), seed=0)
    count = min(64, graph.particle_count)
    exact = np.sort(np.linalg.eigvalsh(dense(matrix)))[::-1]
    assert np.abs(found.values[:count] - exact[:count]).max() < 1e-5
    assert not found.vectors[:, count:].any()
    assert np.abs(exact).max() <= norm_bound(matrix) * (1 + 1e-5)
    assert np.abs(exact).max() <= 1 + 1e-6
    assert np.isfinite(found.effective_rank)
