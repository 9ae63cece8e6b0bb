"""Compressed sparse rows, as the native runtime multiplies them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SparseMatrix:
    """A square matrix of ``n`` rows: ``offsets`` (n+1,) uint64, ``columns`` and ``values`` (nonzeros,) uint32 and float32."""

    n: int
    offsets: NDArray[np.uint64]
    columns: NDArray[np.uint32]
    values: NDArray[np.float32]

    @classmethod
    def from_entries(cls, n: int, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]) -> SparseMatrix:
        """Entries in any order; equal places are added. Rows end up in ascending column order."""
        order = np.lexsort((columns, rows))
        rows, columns, values = rows[order], columns[order], np.asarray(values, np.float64)[order]
        first = np.ones(len(rows), bool)
        first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        starts = np.flatnonzero(first)
        summed = np.add.reduceat(values, starts) if len(starts) else np.zeros(0)
        offsets = np.searchsorted(rows[starts], np.arange(n + 1)).astype(np.uint64)
        return cls(n, offsets, columns[starts].astype(np.uint32), summed.astype(np.float32))

    def scaled(self, factor: float) -> SparseMatrix:
        """The matrix times a number."""
        return SparseMatrix(self.n, self.offsets, self.columns, self.values * np.float32(factor))

    def multiply(self, x: NDArray[np.float32], threads: int = 0) -> NDArray[np.float32]:
        """A x for x (n, width); the same bits for any number of threads."""
        from engine.native import csr_multiply

        return csr_multiply(self.offsets, self.columns, self.values, np.ascontiguousarray(x, np.float32), threads)


def symmetric_entries(
    links: NDArray[np.int64], weights: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and values of the undirected weighted adjacency of links (n, 3)."""
    rows = np.concatenate([links[:, 0], links[:, 2]])
    columns = np.concatenate([links[:, 2], links[:, 0]])
    return rows, columns, np.concatenate([weights, weights]).astype(np.float64)
