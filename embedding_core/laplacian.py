"""Graph Laplacians as operators, with a low-rank label term.

W = W_X + beta W_L with W_L = Y_n C Y_n^T (Eq. 16 and 18 of DLE), where the rows of Y_n are y_i / |y_i|. W_L
links almost all pairs; it is only ever applied as a product of thin matrices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

_BLOCK_ROWS = 4096
_BLOCK_COLUMNS = 128


@dataclass(frozen=True)
class LabelAffinity:
    """W_L = Y_n C Y_n^T, Eq. 18 of DLE: `rows` is Y_n (n, K), `correlation` C (K, K)."""

    rows: NDArray[np.float64]
    correlation: NDArray[np.float64]

    @property
    def degree(self) -> NDArray[np.float64]:
        """Row sums, the diagonal included."""
        return self.rows @ (self.correlation @ self.rows.sum(axis=0))

    @property
    def off_diagonal_sum(self) -> float:
        """Sum over all ordered pairs i != j."""
        diagonal = np.einsum("ik,ik->", self.rows @ self.correlation, self.rows)
        return max(float(self.degree.sum() - diagonal), 0.0)

    def apply(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """W_L V in O(n K) a column."""
        return self.rows @ (self.correlation @ (self.rows.T @ V))


def label_affinity(Y: NDArray[Any], correlation: NDArray[np.float64]) -> LabelAffinity:
    """Build W_L of 0/1 labels; an item without a label (a row of 0 or -1) is linked to nobody."""
    Y_f = np.maximum(np.asarray(Y, dtype=np.float64), 0.0)
    length = np.sqrt(Y_f.sum(axis=1, keepdims=True))
    return LabelAffinity(np.divide(Y_f, length, out=np.zeros_like(Y_f), where=length > 0), correlation)


def balance_beta(W: Any, labels: LabelAffinity) -> float:
    """Return the beta of DLE below Eq. 16: both graphs then have the same off-diagonal sum.

    0 where no two items are linked by a label.
    """
    label_sum = labels.off_diagonal_sum
    return (float(W.sum()) - float(W.diagonal().sum())) / label_sum if label_sum > 0 else 0.0


class GraphLaplacian(LinearOperator):
    """L = D - W for W = W_X + beta W_L; an operator on vectors and blocks of vectors.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
        W_X, symmetric and non-negative. Its diagonal does not matter.
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
        product = self.degree[:, None] * X - self.W @ X
        if self.labels is not None:
            product -= self.beta * self.labels.apply(X)
        return product

    def _matvec(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return self._matmat(x.reshape(-1, 1)).ravel()

    def _adjoint(self) -> "GraphLaplacian":
        return self

    def quadratic(self, X: Any) -> NDArray[np.float64]:
        """X^T L X, a p x p matrix, for X (n, p) dense or CSR.

        Cost O(nnz(W) p + n p² + n p K); beside the result only blocks of columns of L X exist.
        """
        A = self._quadratic_sparse(X) if sp.issparse(X) else self._quadratic_dense(X)
        return (A + A.T) / 2

    def _quadratic_dense(self, X: NDArray[Any]) -> NDArray[np.float64]:
        n, p = X.shape
        # L 1 = 0, so a shift changes nothing, except that D X and W X no longer cancel far from the origin
        shift = X.mean(axis=0, dtype=np.float64)
        A = np.zeros((p, p))
        for column in range(0, p, _BLOCK_COLUMNS):
            columns = slice(column, column + _BLOCK_COLUMNS)
            L_X = self._matmat(np.asarray(X[:, columns], dtype=np.float64) - shift[columns])
            for row in range(0, n, _BLOCK_ROWS):
                rows = slice(row, row + _BLOCK_ROWS)
                A[:, columns] += (np.asarray(X[rows], dtype=np.float64) - shift).T @ L_X[rows]
        return A

    def _quadratic_sparse(self, X: Any) -> NDArray[np.float64]:
        X64 = sp.csr_array(X).astype(np.float64)
        D_X = sp.csr_array(X64.multiply(self.degree[:, None]))
        W_X = self.W @ X64
        A = (X64.T @ D_X).toarray() - _dense(X64.T @ W_X)
        if self.labels is not None:
            sums = X64.T @ self.labels.rows
            A -= self.beta * (sums @ self.labels.correlation @ sums.T)
        return A


def _dense(M: Any) -> NDArray[np.float64]:
    return M.toarray() if sp.issparse(M) else np.asarray(M)
