"""The spectrum: leading eigenpairs of the focus-weighted, degree-normalised adjacency, level by level.

A seeded random block is filtered by a polynomial of the matrix, a damped Chebyshev series of the step at the level's last eigenvalue,
then orthonormalised and projected (randomised block Krylov: Halko, Martinsson, Tropp, 2011; Musco & Musco, 2015; filtered subspaces: Zhou
& Saad, 2007). The step leaves the block well conditioned, so that single precision does. Vectors of a level are locked before the next
level starts, each level is seeded by itself, and signs are canonical, so that compiling levels A, B gives bit for bit the truncation of
A, B, C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.graph.cybergraph import Cybergraph
from engine.graph.density import SpectralDensity, spectral_density, step_series
from engine.graph.sparse import SparseMatrix, symmetric_entries

SCREEN = 1.0  # of the mean degree
TERMS, ROUNDS = 64, 2
SPARE, SPARE_LEAST = 0.15, 32  # vectors beyond those wanted, which take up the slope of the step
STRIP = 64  # columns filtered at a time: what fits into cache
SMALL = 1e8  # multiply-adds below which orthonormalising in double precision costs nothing that matters

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Spectrum:
    """``values`` (D,) in [-1, 1], descending within a level; ``vectors`` (particles, D) float32, orthonormal columns; ``residual`` the
    largest ‖A v − λ v‖ of each level; ``effective_rank`` of the whole matrix, an estimate."""

    values: NDArray[np.float32]
    vectors: Matrix
    residual: tuple[float, ...]
    effective_rank: float


def focus_adjacency(graph: Cybergraph, focus: NDArray[np.float64], screen: float = SCREEN) -> SparseMatrix:
    """Δ^-1/2 W Δ^-1/2 with W the focus that flows over each link, averaged over both directions, and Δ its sums plus a screen.

    With degrees d, W_ij = w_ij (φ_i/d_i + φ_j/d_j)/2: the symmetric part of the random walk weighted by focus (Chung, "Laplacians and
    the Cheeger inequality for directed graphs", 2005). The screen, a multiple of Δ's mean, keeps eigenvectors from settling on a few
    particles at the rim (regularised spectral clustering: Chaudhuri, Chung, Tsiatas, 2012; Zhang & Rohe, 2018). Eigenvalues lie in
    [-1, 1].
    """
    n = graph.particle_count
    rows, columns, values = symmetric_entries(graph.links, graph.weights)
    degree = np.bincount(rows, values, n)
    share = np.divide(focus * n, degree, out=np.zeros(n), where=degree > 0)
    values = values * (share[rows] + share[columns]) / 2
    sums = np.bincount(rows, values, n)
    inverse = 1 / np.sqrt(np.maximum(sums + screen * (sums.mean() if n else 0.0), 1e-300))
    return SparseMatrix.from_entries(n, rows, columns, values * inverse[rows] * inverse[columns])


def norm_bound(matrix: SparseMatrix) -> float:
    """A bound of the largest eigenvalue of a matrix without negative entries, tight within percents (Collatz, 1942): the largest ratio
    (A x)_i / x_i of a positive x, here a lazy power iteration's. The filter resolves the better the tighter it is."""
    x = np.ones((matrix.n, 1), np.float32)
    bound = np.inf
    for _ in range(60):
        following = matrix.multiply(x)
        bound = min(bound, float((following / x).max()))
        x = x + following
        x /= x.max()
    return bound * 1.001 if bound > 0 else 1.0


def compute_spectrum(
    matrix: SparseMatrix, levels: Sequence[int], seed: int, progress: Callable[[str, float], None] | None = None
) -> Spectrum:
    """Eigenpairs for the widths ``levels`` (ascending). Where the graph has fewer particles than a width, the rest is zero."""
    n = matrix.n
    vectors = np.zeros((n, levels[-1]), np.float32)
    values = np.zeros(levels[-1], np.float32)
    if n == 0:
        return Spectrum(values, vectors, (0.0,) * len(levels), 0.0)
    unit = matrix.scaled(1 / norm_bound(matrix))
    density = spectral_density(unit, seed)
    locked: list[Matrix] = []
    residual = []
    done = 0
    for index, width in enumerate(levels):
        count = min(width, n) - done
        if count <= 0:
            residual.append(0.0)
            continue
        tell = partial(progress, f"spectrum {width}") if progress else None
        found, fresh = _level(matrix, unit, density, locked, done, count, np.random.default_rng([seed, index]), tell)
        values[done : done + count] = found
        vectors[:, done : done + count] = fresh
        error = matrix.multiply(fresh) - fresh * found
        residual.append(float(np.sqrt((error.astype(np.float64) ** 2).sum(axis=0)).max()))
        locked.append(fresh)
        done += count
    return Spectrum(values, vectors, tuple(residual), density.effective_rank)


def _level(
    matrix: SparseMatrix,
    unit: SparseMatrix,
    density: SpectralDensity,
    locked: list[Matrix],
    done: int,
    count: int,
    random: np.random.Generator,
    tell: Callable[[float], None] | None,
) -> tuple[NDArray[np.float32], Matrix]:
    spare = max(SPARE_LEAST, int(SPARE * count))
    size = min(count + spare, matrix.n - done)
    block = random.standard_normal((matrix.n, size), np.float32)
    if size == matrix.n - done:  # the block spans all that is left: nothing to filter
        block = _orthonormal(block, locked)
    else:
        series = step_series(density.threshold(done + count + spare / 2), TERMS)
        for number in range(ROUNDS):
            _filter(unit, block, series)
            if tell:
                tell((number + 1) / ROUNDS)
            block = _orthonormal(block, locked)
    small = (block.T @ matrix.multiply(block)).astype(np.float64)
    values, rotation = np.linalg.eigh((small + small.T) / 2)
    order = np.argsort(-values, kind="stable")[:count]
    vectors = block @ rotation[:, order].astype(np.float32)
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(count)]
    return values[order].astype(np.float32), vectors * np.where(largest < 0, -1, 1).astype(np.float32)


def _filter(matrix: SparseMatrix, block: Matrix, series: NDArray[np.float64]) -> None:
    """Replaces the block (n, size) by the polynomial of the matrix times it, strip by strip."""
    twice = matrix.scaled(2)
    for begin in range(0, block.shape[1], STRIP):
        before = np.ascontiguousarray(block[:, begin : begin + STRIP])
        now = matrix.multiply(before)
        total = np.float32(series[0]) * before + np.float32(series[1]) * now
        term = np.empty_like(total)
        for coefficient in series[2:].astype(np.float32):
            following = twice.multiply(now)
            following -= before
            before, now = now, following
            total += np.multiply(now, coefficient, out=term)
        block[:, begin : begin + STRIP] = total


def _orthonormal(block: Matrix, locked: list[Matrix]) -> Matrix:
    """Orthonormal columns that are orthogonal to all that is locked: twice is enough."""
    for _ in range(2):
        for vectors in locked:
            block = block - vectors @ (vectors.T @ block)
        block = _factor(block)
    return block


def _factor(block: Matrix) -> Matrix:
    """Orthonormal columns of the same span: a Cholesky factor of the Gram matrix where the block is large, else QR."""
    if block.size * block.shape[1] > SMALL:
        block = block / np.maximum(np.linalg.norm(block, axis=0), np.float32(1e-30))
        gram = (block.T @ block).astype(np.float64)
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(gram))
            return np.asarray(block @ inverse.T.astype(np.float32), np.float32)
        except np.linalg.LinAlgError:
            pass  # nearly dependent columns: QR copes, slower
    return np.asarray(np.linalg.qr(block.astype(np.float64))[0], np.float32)
