"""Graph Laplacians as operators, with a low-rank label term.

W = W_X + beta W_L with W_L = Y_n C Y_n^T (Eq. 16 and 18 of DLE), where the rows of Y_n are y_i / |y_i|. W_L
links almost all pairs; it is only applied, as a product of thin matrices, and Y_n is computed in blocks of
rows.

X^T L X = N + N^T for N = X^T (D / 2 - U) X, where U is the part of W above its diagonal, so that each edge is
visited once. Row i of U X reads only later rows, so a pass from the first row to the last may overwrite the
rows behind it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from embedding_core.graph.components import Components, graph_components, join_components
from embedding_core.linalg.conditioning import rounding_of_forms, shift_full_columns
from embedding_core.linalg.eigen import check_square_budget
from embedding_core.linalg.row_blocks import RowBlocks, row_blocks

PIECE_VALUES = 400_000
"""Numbers read at a time: two float64 pieces fit in a processor's cache."""

_BLOCK_COLUMNS = 96


class NeighborSums:
    """The operator D / 2 - U of a symmetric graph W, applied to blocks of rows of dense matrices.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
        Symmetric. Unless `ordered`, a dense W uses (D - W) / 2 instead, which gives the same N + N^T.
    ordered : bool
        Guarantee that rows before the requested ones are not read.
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
            # rows that this piece covers; a row with many edges may span several pieces
            first = int(np.searchsorted(indptr, edges.start, side="right")) - 1
            last = int(np.searchsorted(indptr, edges.stop, side="left"))
            bounds = np.clip(indptr[first : last + 1], edges.start, edges.stop) - edges.start
            count = edges.stop - edges.start
            local = sp.csr_array(
                (weights[edges], np.arange(count, dtype=indptr.dtype), bounds), shape=(last - first, count)
            )
            out[first:last] -= local @ fetched

    def _later_neighbors(self, rows: slice) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]:
        """Return the neighbors j > i of the rows i, their weights, and the start of each row's neighbors."""
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


@dataclass(frozen=True)
class LabelAffinity:
    """W_L = Y_n C Y_n^T, Eq. 18 of DLE: `Y` (n, K) int8 with 0/1, `correlation` C (K, K)."""

    Y: NDArray[np.int8]
    correlation: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.float64]:
        """Y_n as one matrix (n, K)."""
        return self.block(slice(None))

    def block(self, rows: slice) -> NDArray[np.float64]:
        """Return some rows of Y_n; the row of an item without labels is zero."""
        Y_f = self.Y[rows].astype(np.float64)
        normalized: NDArray[np.float64] = Y_f / np.sqrt(np.maximum(Y_f.sum(axis=1, keepdims=True), 1.0))
        return normalized

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """Row sums of W_L, including the diagonal."""
        total = self.correlation @ self._reduce(np.ones((len(self.Y), 1)))
        return self._spread(total)[:, 0]

    @property
    def off_diagonal_sum(self) -> float:
        """Sum over all ordered pairs i != j."""
        diagonal = sum(np.einsum("ik,ik->", B @ self.correlation, B) for _, B in self._blocks())
        return max(float(self.degree.sum() - diagonal), 0.0)

    def apply(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """Return W_L V in O(n K) per column."""
        return self._spread(self.correlation @ self._reduce(V))

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        for rows, _ in row_blocks(self.Y):
            yield rows, self.block(rows)

    def _reduce(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """Y_n^T V."""
        sums = np.zeros((self.Y.shape[1], V.shape[1]))
        for rows, B in self._blocks():
            sums += B.T @ V[rows]
        return sums

    def _spread(self, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """Y_n M."""
        result = np.empty((len(self.Y), M.shape[1]))
        for rows, B in self._blocks():
            result[rows] = B @ M
        return result


def label_affinity(Y: NDArray[Any], correlation: NDArray[np.float64]) -> LabelAffinity:
    """Build W_L from 0/1 labels; an item without labels (a row of 0 or -1) has no links."""
    return LabelAffinity(np.maximum(np.asarray(Y, dtype=np.int8), 0), correlation)


def balance_beta(W: Any, labels: LabelAffinity) -> float:
    """Return the beta defined below Eq. 16 of DLE, which gives both graphs the same off-diagonal sum.

    The result is 0 if no two items are linked by labels.
    """
    label_sum = labels.off_diagonal_sum
    return (float(W.sum()) - float(W.diagonal().sum())) / label_sum if label_sum > 0 else 0.0


@dataclass(frozen=True)
class QuadraticForm:
    """A = X^T L X, `matrix` (p, p), and the diagonal of X^T D X, `moment` (p,).

    A is the difference of X^T D X and X^T W X. Where they cancel, rounding leaves some eps of `moment` in A.
    """

    matrix: NDArray[np.float64]
    moment: NDArray[np.float64]

    @property
    def rounding(self) -> float:
        """Eigenvalues of A up to this value may be rounding errors."""
        return float(rounding_of_forms(self.moment.max(initial=0.0), len(self.moment)))

    def empty(self, coordinates: bool = False) -> NDArray[np.bool_]:
        """Return the features (p,) that have only rounding errors in A, as if constant within components.

        With `coordinates` the columns are coordinates of one space: the rounding error of the largest applies
        to all.
        """
        moment = self.moment.max(initial=0.0) if coordinates else self.moment
        return np.asarray(np.diag(self.matrix) <= rounding_of_forms(moment, 1))

    def cleaned(self) -> "QuadraticForm":
        """Return the form with zeros for `empty` features; overwrites `matrix`."""
        empty = self.empty()
        self.matrix[empty] = 0.0
        self.matrix[:, empty] = 0.0
        return QuadraticForm(self.matrix, np.where(empty, 0.0, self.moment))


class GraphLaplacian(LinearOperator):
    """L = D - W for W = W_X + beta W_L, an operator on vectors and blocks of vectors.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
        W_X, symmetric and non-negative. Its diagonal has no effect.
    labels : LabelAffinity, optional
        W_L.
    beta : float
        Weight of `labels`.
    """

    def __init__(self, W: Any, labels: LabelAffinity | None = None, beta: float = 0.0) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=W.shape)
        self.W = W
        self.labels = labels
        self.beta = beta
        self.degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        if self.labels is not None:
            self.degree = self.degree + beta * self.labels.degree

    def _matmat(self, X: NDArray[Any]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = self.degree[:, None] * X - self.W @ X
        if self.labels is not None:
            product -= self.beta * self.labels.apply(X)
        return product

    def _matvec(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return self._matmat(x.reshape(-1, 1)).ravel()

    def _adjoint(self) -> "GraphLaplacian":
        return self

    def components(self) -> Components:
        """Return the connected components, including links by labels."""
        by_graph = graph_components(self.W)
        if self.labels is None or self.beta == 0 or len(by_graph.sizes) == 1:
            return by_graph
        return join_components(by_graph, self.labels.Y, self.labels.correlation)

    def quadratic(self, X: Any) -> NDArray[np.float64]:
        """Return X^T L X (p, p) for X (n, p) dense, CSR or `RowBlocks`."""
        return self.quadratic_form(X).matrix

    def quadratic_form(self, X: Any) -> QuadraticForm:
        """Return X^T L X with the terms it is the difference of, for X (n, p) dense, CSR or `RowBlocks`.

        The cost is O(nnz(W) p + n p² + n p K). Besides the result, dense X needs only blocks of rows in
        float64. RowBlocks are read ceil(p / 96) + 1 times, with n x 96 of their numbers in memory.
        """
        check_square_budget(X.shape[1])
        return self._quadratic_sparse(X) if sp.issparse(X) else self._quadratic_dense(X)

    def _quadratic_dense(self, X: NDArray[Any] | RowBlocks) -> QuadraticForm:
        """Compute N + N^T for N = X^T (D / 2 - U) X, then subtract the label term.

        `panel` contains the current columns of all rows, so that neighbors can be read from it. When a block
        is done, its rows of the panel are no longer needed and are overwritten with the next columns.
        """
        p = X.shape[1]
        if p == 0:
            return QuadraticForm(np.zeros((0, 0)), np.zeros(0))
        shift = _central_point(X)
        streamed = isinstance(X, RowBlocks)
        graph = NeighborSums(self.W, ordered=streamed)
        half_degree = graph.half_degree
        label_sums = np.zeros((p, 0))
        if self.labels is not None:
            half_degree = half_degree + self.beta / 2 * self.labels.degree
            label_sums = np.zeros((p, len(self.labels.correlation)))
        panel = _first_columns(X) if isinstance(X, RowBlocks) else X
        width = panel.shape[1]
        N, half_moment = np.zeros((p, p)), np.zeros(p)
        for column in range(0, p, width):
            columns, coming = slice(column, column + width), slice(column + width, column + 2 * width)
            for rows, block in row_blocks(X):
                X_b = block - shift
                L_b = X_b[:, columns] * half_degree[rows, None]
                half_moment[columns] += np.einsum("ia,ia->a", X_b[:, columns], L_b)
                graph.subtract_from(L_b, rows, panel[:, : L_b.shape[1]], shift[columns])
                N[:, columns] += X_b.T @ L_b
                if self.labels is not None and column == 0:
                    label_sums += X_b.T @ self.labels.block(rows)
                if streamed:
                    panel[rows, : block[:, coming].shape[1]] = block[:, coming]
        if self.labels is not None:
            N -= self.beta / 2 * (label_sums @ self.labels.correlation @ label_sums.T)
        return QuadraticForm(N + N.T, 2 * half_moment)

    def _quadratic_sparse(self, X: Any) -> QuadraticForm:
        X64, _ = shift_full_columns(X)  # L 1 = 0: the shift does not change the result
        D_X = sp.csr_array(X64.multiply(self.degree[:, None]))
        W_X = self.W @ X64
        A = (X64.T @ D_X).toarray()
        moment = np.diag(A).copy()
        A -= _dense(X64.T @ W_X)
        if self.labels is not None:
            sums = X64.T @ self.labels.rows
            A -= self.beta * (sums @ self.labels.correlation @ sums.T)
        return QuadraticForm((A + A.T) / 2, moment)


def _central_point(X: NDArray[Any] | RowBlocks) -> NDArray[np.float64]:
    """Choose the origin: L 1 = 0, so it does not change X^T L X, but D X and W X cancel less.

    The result is the mean of the first rows; for a constant feature it is exactly its value.
    """
    first = np.asarray(next(row_blocks(X))[1], dtype=np.float64)
    center: NDArray[np.float64] = first[0] + (first - first[0]).mean(axis=0)
    return center


def _first_columns(X: RowBlocks) -> NDArray[Any]:
    panel = np.empty((X.shape[0], min(_BLOCK_COLUMNS, X.shape[1])), dtype=X.dtype)
    for rows, block in row_blocks(X):
        panel[rows] = block[:, : panel.shape[1]]
    return panel


def _dense(M: Any) -> NDArray[np.float64]:
    return M.toarray() if sp.issparse(M) else np.asarray(M)
