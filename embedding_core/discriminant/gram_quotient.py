"""MLDA of wide sparse items through their Gram matrix: no p x p matrix, one n x n.

With E = F X, F = (I - B M B^T) L^(1/2) (see `scatter`), S_w = E^T E, and F 1 = 0 centers X by itself. Pivoted
Cholesky of E E^T = F (X X^T) F^T gives r independent rows of E, `head`, and with C = [C_1; C_2], C_1 square
and triangular, the orthonormal basis V = E[head]^T C_1^(-T) of the range of S_w = V C^T C V^T. There

    (C^T C)^(-1) = C_1^(-1) (I + J J^T)^(-1) C_1^(-T),   J = C_1^(-T) C_2^T, n - r columns,

so that all but the Cholesky itself are triangular solves with a few right-hand sides.
"""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.base import Solution
from embedding_core.linalg.conditioning import EPS, move_full_columns
from embedding_core.linalg.eigen import compress_by_spread, gram_matrix, pivoted_cholesky, thin_svd
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.linalg.scatter import normalized_weights, residual_map

_SAME_LABELS = 1e-11


def solve_by_gram(X: Any, Z: NDArray[np.float64]) -> Solution:
    """Solve S_w^+ S_b v = lambda v, largest first, with v^T S_w v = 1.

    Parameters
    ----------
    X : CSR matrix of shape (n, p), p > n
    Z : ndarray of shape (n, K)
        Class weights; every row has a positive one.
    """
    X, n = move_full_columns(X)[0], len(Z)
    root_l = np.sqrt(Z.sum(axis=1))
    B = normalized_weights(Z)
    B_M = B @ residual_map(B.T @ B)
    K_E = gram_matrix(X)
    K_E *= root_l
    K_E *= root_l[:, None]
    spread = float(K_E.diagonal().max())
    sides = _class_directions(B, root_l)
    E_H = K_E @ sides
    E_H -= B_M @ (B.T @ E_H)
    _residual_in_place(K_E, B, B_M)
    # what the residual leaves of a matrix of this spread may be rounding alone
    C, order = pivoted_cholesky(K_E, least=8 * n * EPS * spread)
    del K_E
    r = C.shape[1]
    head, C_1, C_2 = order[:r], np.asfortranarray(C[:r]), C[r:].copy()
    scatter_diagonal = np.einsum("ij,ij->j", C, C)
    del C

    def solve(M: NDArray[np.float64], trans: int) -> NDArray[np.float64]:
        if r == 0:
            return M
        return scipy.linalg.solve_triangular(C_1, M, lower=True, trans=trans, check_finite=False)

    H = compress_by_spread(solve(E_H[head], 0), scatter_diagonal)
    root = _InverseRoot(solve(C_2.T, 1))
    P, eigenvalues = thin_svd(root.apply(solve(H, 1)))
    a = np.zeros((n, P.shape[1]))
    a[head] = solve(solve(root.apply(P), 0), 1)
    a -= B @ (B_M.T @ a)
    return Solution(np.asarray(X.T @ (a * root_l[:, None])), eigenvalues)


def _class_directions(B: NDArray[np.float64], root_l: NDArray[np.float64]) -> NDArray[np.float64]:
    """D (n, k) of full rank with S_b = X^T L^(1/2) D D^T L^(1/2) X: B centered, equal labels merged."""
    unit = root_l / np.linalg.norm(root_l)
    U, values = thin_svd(B - np.outer(unit, unit @ B), floor=_SAME_LABELS)
    return U * np.sqrt(values)


def _residual_in_place(G: NDArray[np.float64], B: NDArray[np.float64], B_M: NDArray[np.float64]) -> None:
    """G becomes (I - B M B^T) G (I - B M B^T) by an update of rank 2 K."""
    U = G @ B
    U -= B_M @ (B.T @ U) / 2
    for rows, block in row_blocks(G):
        block -= U[rows] @ B_M.T + B_M[rows] @ U.T


class _InverseRoot:
    """(I + J J^T)^(-1/2) as an operator, from the thin SVD of J (r, c)."""

    def __init__(self, J: NDArray[np.float64]) -> None:
        self.U, self.squares = thin_svd(J)

    def apply(self, M: NDArray[np.float64]) -> NDArray[np.float64]:
        factor = 1 / np.sqrt(1 + self.squares) - 1
        return M + self.U @ (factor[:, None] * (self.U.T @ M))
