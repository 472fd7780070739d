"""Weighted sums over neighbors, each edge visited once.

X^T L X = N + N^T for N = X^T (D / 2 - U) X, with U the part of W above its diagonal: half the edges of L X.
Row i of U X asks for later rows alone, so whoever walks from the first row to the last may overwrite the rows
behind.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

PIECE_VALUES = 400_000
"""Numbers fetched at a time: two float64 pieces stay within a processor's cache."""


class NeighborSums:
    """The operator D / 2 - U of a symmetric graph W, on dense matrices and by blocks of rows.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
        Symmetric. A dense W is taken as (D - W) / 2 instead, which has the same N + N^T, unless `ordered`.
    ordered : bool
        Promise that rows before those asked for are not read.
    """

    def __init__(self, W: Any, ordered: bool = False) -> None:
        self.W = sp.csr_array(W) if ordered and not sp.issparse(W) else W
        self.half_degree = np.asarray(self.W.sum(axis=1), dtype=np.float64).ravel() / 2
        if sp.issparse(self.W):
            self.half_degree -= self.W.diagonal() / 2

    def subtract_from(
        self, out: NDArray[np.float64], rows: slice, panel: NDArray[Any], shift: NDArray[np.float64]
    ) -> None:
        """Subtract rows of U (panel - shift) from `out`.

        Parameters
        ----------
        out : ndarray of shape (rows, q), changed in place
        rows : slice
        panel : ndarray of shape (n, q)
        shift : ndarray of shape (q,)
        """
        if not sp.issparse(self.W):
            out -= (self.W[rows] / 2) @ (panel - shift)
            return
        neighbors, weights, indptr = self._later_neighbors(rows)
        for edges in _pieces(len(neighbors), panel.shape[1]):
            fetched = np.subtract(panel[neighbors[edges]], shift, dtype=np.float64)
            # rows that this piece touches; a row of many edges may go through several pieces
            first = int(np.searchsorted(indptr, edges.start, side="right")) - 1
            last = int(np.searchsorted(indptr, edges.stop, side="left"))
            bounds = np.clip(indptr[first : last + 1], edges.start, edges.stop) - edges.start
            count = edges.stop - edges.start
            local = sp.csr_array(
                (weights[edges], np.arange(count, dtype=indptr.dtype), bounds), shape=(last - first, count)
            )
            out[first:last] -= local @ fetched

    def _later_neighbors(self, rows: slice) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]:
        """Neighbors j > i of the rows i, the weights, and where each row's neighbors begin."""
        bounds = self.W.indptr[rows.start : rows.stop + 1]
        edges = slice(int(bounds[0]), int(bounds[-1]))
        row = np.repeat(np.arange(rows.start, rows.stop), np.diff(bounds))
        neighbors = self.W.indices[edges]
        later = neighbors > row
        count = np.bincount(row[later] - rows.start, minlength=rows.stop - rows.start)
        indptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
        return neighbors[later], self.W.data[edges][later], indptr


def _pieces(n_edges: int, width: int) -> Iterator[slice]:
    step = max(1, PIECE_VALUES // width)
    for start in range(0, n_edges, step):
        yield slice(start, min(start + step, n_edges))
