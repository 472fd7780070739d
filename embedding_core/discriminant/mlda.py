"""Multi-label linear discriminant analysis.

Wide sparse data are solved through their Gram matrix, with one n x n and no p x p matrix. With E = F X and F
= (I - B M B^T) L^(1/2) (see `linalg.scatter`), S_w = E^T E, and F 1 = 0 centers X implicitly. Pivoted
Cholesky of E E^T = F (X X^T) F^T gives r independent rows of E, `head`, and with C = [C_1; C_2], C_1 square
and triangular, the orthonormal basis V = E[head]^T C_1^(-T) of the range of S_w = V C^T C V^T. There

    (C^T C)^(-1) = C_1^(-1) (I + J J^T)^(-1) C_1^(-T),   J = C_1^(-T) C_2^T, n - r columns,

so that everything after the Cholesky factorization is a triangular solve with a few right-hand sides.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.base import LinearEmbedding, Solution
from embedding_core.labels import LABEL_WEIGHTS, LabelWeights, label_correlation
from embedding_core.linalg.conditioning import EPS, shift_full_columns
from embedding_core.linalg.eigen import (
    compress_by_spread,
    compress_factor,
    gram_matrix,
    pivoted_cholesky,
    row_space,
    thin_svd,
    whitening,
)
from embedding_core.linalg.row_blocks import RowBlocks, load_rows, row_blocks
from embedding_core.linalg.scatter import Scatter, class_scatter, normalized_weights, residual_map

_SAME_LABELS = 1e-11


def solve_by_gram(X: Any, Z: NDArray[np.float64]) -> Solution:
    """Solve S_w^+ S_b v = lambda v through the Gram matrix, largest lambda first, with v^T S_w v = 1.

    Parameters
    ----------
    X : CSR matrix of shape (n, p), p > n
    Z : ndarray of shape (n, K)
        Class weights; every row has a positive one.
    """
    X, n = shift_full_columns(X)[0], len(Z)
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
    # pivots up to this value may be rounding errors of a matrix with this spread
    C, order = pivoted_cholesky(K_E, least=8 * n * EPS * spread)
    del K_E
    r = C.shape[1]
    head, C_1, C_2 = order[:r], np.asfortranarray(C[:r]), C[r:].copy()
    scatter_diagonal = np.einsum("ij,ij->j", C, C)
    del C

    def solve(M: NDArray[np.float64], trans: int) -> NDArray[np.float64]:
        if r == 0:
            return M
        solution: NDArray[np.float64] = scipy.linalg.solve_triangular(
            C_1, M, lower=True, trans=trans, check_finite=False
        )
        return solution

    H = compress_by_spread(solve(E_H[head], 0), scatter_diagonal)
    root = _InverseRoot(solve(C_2.T, 1))
    P, eigenvalues = thin_svd(root.apply(solve(H, 1)))
    a = np.zeros((n, P.shape[1]))
    a[head] = solve(solve(root.apply(P), 0), 1)
    a -= B @ (B_M.T @ a)
    return Solution(np.asarray(X.T @ (a * root_l[:, None])), eigenvalues)


def _class_directions(B: NDArray[np.float64], root_l: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return D (n, k) of full rank with S_b = X^T L^(1/2) D D^T L^(1/2) X: B centered, duplicates merged."""
    unit = root_l / np.linalg.norm(root_l)
    U, values = thin_svd(B - np.outer(unit, unit @ B), floor=_SAME_LABELS)
    return U * np.sqrt(values)


def _residual_in_place(G: NDArray[np.float64], B: NDArray[np.float64], B_M: NDArray[np.float64]) -> None:
    """Replace G by (I - B M B^T) G (I - B M B^T) with an update of rank 2 K."""
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


def solve_quotient(scatter: Scatter, scale_free: bool = True) -> Solution:
    """Solve S_w^+ S_b v = lambda v, largest lambda first, with v^T S_w v = 1.

    T T^T = S_w^+ reduces it to the thin SVD of T^T H for S_b = H H^T, without a p x p eigenproblem. With
    `scale_free` the rank of S_w does not depend on the scales of the features.
    """
    H = compress_factor(scatter.factor, scatter.within)
    T = whitening(scatter.within, scale_free)
    P, eigenvalues = thin_svd(T.whiten(H))
    return Solution(T.unwhiten(P), eigenvalues)


def solve_wide(X: Any, Z: NDArray[np.float64]) -> tuple[Solution, NDArray[np.float64]]:
    """Solve for more features than items, in the row space of X; also return the mean of Eq. 9."""
    l = Z.sum(axis=1)  # noqa: E741
    mean = np.asarray(X.T @ l, dtype=np.float64).ravel() / l.sum()
    if sp.issparse(X):
        return solve_by_gram(X, Z), mean
    space = row_space(X)
    # coordinates, unlike features, do not have scales of their own
    solution = solve_quotient(class_scatter(space.coordinates, Z, coordinates=True), scale_free=False)
    return Solution(space.lift(solution.projection), solution.eigenvalues), mean


class MLDA(LinearEmbedding):
    """Multi-label linear discriminant analysis (MLDA) [1]_.

    Finds the directions in which the weighted class means differ most relative to the spread within classes.
    With one label per item it is classical LDA. Unlabeled items are not used in the fit.

    Parameters
    ----------
    weights : {"l1", "l1_correlated", "correlated", "binary"}, default="l1"
        Weight Z of an item in a class: YC / |y|_1 (Eq. 15, the paper's choice), YC / |yC|_1 (Eq. 16), YC
        (Eq. 14), or Y.
    scaling : {"unit", "within"}, default="unit"
        Length of the columns of the projection: 1, or v^T S_w v = 1.
    n_components : int or None, default=None
        Number of dimensions r, at most K-1. None means K-1, or all directions in which the classes differ if
        there are fewer (few features, labels without items, labels that always occur together).

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        G; an item is mapped to G^T x.
    eigenvalues_ : ndarray of shape (r,)
        Ratio of between-class to within-class scatter along each column, descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
        Classes in the order of the columns of Y.
    correlation_ : ndarray of shape (K, K)
        C of Eq. 13; a label without items correlates only with itself.
    mean_ : ndarray of shape (p,)
        Multi-label global mean m, Eq. 9.
    n_features_in_ : int
        Number of features p.

    Notes
    -----
    S_b and S_w follow Eq. 6-9 with Y replaced by Z: S_b = X̃ Z W^-1 Z^T X̃^T (Eq. 18). l_i in Eq. 19 is
    read as sum_k Z_ik. The eigenproblem is S_w^+ S_b v = lambda v (below Eq. 20). The paper does not specify
    the length of v, on which nearest neighbors depend; `scaling` sets it. A labeled item without any label
    has Z = 0 and contributes nothing.

    The rank of S_w does not depend on the scales of the features. If S_w is regular, neither does lambda nor,
    with scaling="within", the embedding. This scale invariance explains most of the advantage of MLDA over
    plain nearest neighbors on raw features. If features are linearly dependent, S_w^+ depends on their
    scales.

    S_b = H H^T with H of K columns, so a thin SVD suffices after whitening by S_w. For p > n the problem is
    solved in the row space of X, for sparse X through its n x n Gram matrix. Sums over dense items run over
    blocks of rows, without a float64 copy of X. If both the items and the features number more than about
    15,800 (8 GB), the fit raises an error.

    References
    ----------
    .. [1] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis", ECCV 2010, LNCS 6316,
       126-139.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import MLDA
    >>> X = np.array([[0.0, 1], [1, 0], [1, 1], [5, 1], [6, 0], [6, 2], [3, 9], [4, 8], [9, 9]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [1, 1], [1, 1], [-1, -1]])
    >>> MLDA().fit(X, Y).embedding_.shape
    (9, 1)
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "weights": tuple(LABEL_WEIGHTS),
        "scaling": ("unit", "within"),
    }

    def __init__(
        self, *, weights: str = "l1", scaling: str = "unit", n_components: int | None = None
    ) -> None:
        self.weights = weights
        self.scaling = scaling
        self.n_components = n_components

    def fit(self, X: Any, y: Any, affinity: Any = None, sample_weight: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            RowBlocks are read in three passes and never loaded as a whole.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : object, optional
            Ignored: MLDA has no graph. Present so that all methods have the same signature.
        sample_weight : array-like of shape (n,), optional
            A weight of s is equivalent to s copies of the item, also in C; 0 is equivalent to an unlabeled
            item.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        target, weight = self._weigh_labels(target, sample_weight)
        self.correlation_ = label_correlation(target.Y, weight)
        Z = LabelWeights(target.Y, self.weights, self.correlation_, weight)
        used = (target.Y == 1).any(axis=1)
        if X.shape[1] <= used.sum():
            scatter = class_scatter(X, Z)
            solution, self.mean_ = solve_quotient(scatter), scatter.mean
        else:
            items = load_rows(X, used) if isinstance(X, RowBlocks) else X[used]
            solution, self.mean_ = solve_wide(items, Z[used])
        if self.scaling == "unit":
            G = solution.projection
            solution = Solution(G / np.linalg.norm(G, axis=0), solution.eigenvalues)
        return self._store(X, target, solution)
