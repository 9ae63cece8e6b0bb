"""The spectrum: leading eigenpairs of the focus-weighted, degree-normalised adjacency, level by level.

Randomised block Krylov: a seeded random block is filtered by a Chebyshev polynomial of the matrix, orthonormalised and projected
(Halko, Martinsson, Tropp, 2011; Zhou & Saad, 2007). Vectors of a level are locked before the next level starts, each level is seeded by
itself, and signs are canonical, so that compiling levels A, B gives bit for bit the truncation of A, B, C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.cybergraph import Cybergraph
from engine.graph.sparse import SparseMatrix, symmetric_entries

DEGREE, ROUNDS = 12, 4
SMALL = 1e8  # multiply-adds below which QR is as good


@dataclass(frozen=True)
class Spectrum:
    """``values`` (D,) descending within a level; ``vectors`` (particles, D) float32, orthonormal columns; ``residual`` the largest
    ‖A v − λ v‖ of each level."""

    values: NDArray[np.float32]
    vectors: NDArray[np.float32]
    residual: tuple[float, ...]

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the normalised |eigenvalues| (Roy & Vetterli, 2007)."""
        p = np.abs(self.values.astype(np.float64))
        p = p[p > 0] / p.sum()
        return float(np.exp(-(p * np.log(p)).sum()))


def focus_adjacency(graph: Cybergraph, focus: NDArray[np.float64]) -> SparseMatrix:
    """(A + I)/2 for A = Δ^-1/2 W Δ^-1/2, W the adjacency weighted by √(φ_i φ_j)·n and Δ its degrees: eigenvalues in [0, 1]."""
    n = graph.particle_count
    rows, columns, values = symmetric_entries(graph.links, graph.weights)
    root = np.sqrt(np.maximum(focus, 1e-300) * n)
    values = values * root[rows] * root[columns]
    degree = np.bincount(rows, values, n)
    inverse = 1.0 / np.sqrt(np.maximum(degree, 1e-300))
    values = 0.5 * values * inverse[rows] * inverse[columns]
    everyone = np.arange(n)
    return SparseMatrix.from_entries(
        n, np.concatenate([rows, everyone]), np.concatenate([columns, everyone]), np.concatenate([values, np.full(n, 0.5)])
    )


def compute_spectrum(
    matrix: SparseMatrix, levels: Sequence[int], seed: int, progress: Callable[[str, float], None] | None = None
) -> Spectrum:
    """Eigenpairs for the widths ``levels`` (ascending). Where the graph has fewer particles than a width, the rest is zero."""
    n = matrix.n
    vectors = np.zeros((n, levels[-1]), np.float32)
    values = np.zeros(levels[-1], np.float32)
    residual = []
    done = 0
    for index, width in enumerate(levels):
        count = min(width, n) - done
        if count > 0:
            locked = vectors[:, :done]
            found, fresh = _level(matrix, locked, count, np.random.default_rng([seed, index]), progress, width)
            values[done : done + count] = found
            vectors[:, done : done + count] = fresh
            error = matrix.multiply(fresh) - fresh * found
            residual.append(float(np.sqrt((error.astype(np.float64) ** 2).sum(axis=0)).max()))
            done += count
        else:
            residual.append(0.0)
    return Spectrum(values, vectors, tuple(residual))


def _level(
    matrix: SparseMatrix,
    locked: NDArray[np.float32],
    count: int,
    random: np.random.Generator,
    progress: Callable[[str, float], None] | None,
    width: int,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    size = min(count + max(16, count // 8), matrix.n - locked.shape[1])
    block = _orthonormal(random.standard_normal((matrix.n, size)).astype(np.float32), locked)
    low, values = 0.5, np.zeros(size, np.float32)
    for round_ in range(ROUNDS):
        block = _orthonormal(_filter(matrix, block, low), locked)
        product = matrix.multiply(block)
        small = (block.T @ product).astype(np.float64)
        values64, rotation = np.linalg.eigh((small + small.T) / 2)
        order = np.argsort(-values64, kind="stable")
        values = values64[order].astype(np.float32)
        block = np.ascontiguousarray(block @ rotation[:, order].astype(np.float32))
        low = float(np.clip(values64[order][-1], 0.05, 0.98))
        if progress:
            progress(f"spectrum {width}", (round_ + 1) / ROUNDS)
    block = block[:, :count]
    largest = np.argmax(np.abs(block), axis=0)
    signs = np.sign(block[largest, np.arange(count)])
    return values[:count], block * np.where(signs == 0, 1, signs).astype(np.float32)


def _filter(matrix: SparseMatrix, block: NDArray[np.float32], low: float) -> NDArray[np.float32]:
    """Chebyshev polynomial that damps eigenvalues in [0, low] and lifts those above."""
    centre = half = low / 2
    before, now = block, np.asarray((matrix.multiply(block) - centre * block) / half, np.float32)
    for _ in range(DEGREE - 1):
        before, now = now, np.asarray(2 / half * (matrix.multiply(now) - centre * now) - before, np.float32)
        size = np.float32(np.abs(now).max())
        if size > 1e12:
            before, now = before / size, now / size
    return now


def _orthonormal(block: NDArray[np.float32], locked: NDArray[np.float32]) -> NDArray[np.float32]:
    """Orthonormal columns that are orthogonal to ``locked``: block Gram–Schmidt, with a Cholesky factor where the block is large."""
    block = block / np.maximum(np.sqrt((block.astype(np.float64) ** 2).sum(axis=0)), 1e-30).astype(np.float32)
    for _ in range(3):
        if locked.shape[1]:
            block = block - locked @ (locked.T @ block)
        block = _factor(block)
    return block


def _factor(block: NDArray[np.float32]) -> NDArray[np.float32]:
    if block.size * block.shape[1] > SMALL:
        gram = (block.T @ block).astype(np.float64)
        shift = 1e-6 * float(np.trace(gram)) / len(gram)
        try:
            factor = np.linalg.cholesky(gram + shift * np.eye(len(gram)))
            return np.asarray(block @ np.linalg.inv(factor).T.astype(np.float32), np.float32)
        except np.linalg.LinAlgError:
            pass  # nearly dependent columns: QR copes, slower
    return np.asarray(np.linalg.qr(block.astype(np.float64))[0], np.float32)
