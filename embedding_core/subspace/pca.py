"""Principal component analysis."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, svds
from sklearn import decomposition

from embedding_core.base import Solution
from embedding_core.linalg.conditioning import EPS, shift_full_columns
from embedding_core.subspace.embedding import SubspaceEmbedding
from embedding_core.subspace.principal import PrincipalSpace, label_sums, principal_space, squared_spread

_LANCZOS_SHARE = 10
"""Lanczos is used for sparse items if at most one in this many axes is requested."""


def leading_space(X: Any, r: int) -> PrincipalSpace | None:
    """Return the first r axes of sparse items by implicitly centered Lanczos, or None if it fails.

    Lanczos may miss copies of a repeated singular value. The result is accepted only if the items without the
    found axes do not vary more along any direction than along the last axis.
    """
    X64, shift = shift_full_columns(X)
    found = decomposition.PCA(r, svd_solver="arpack", random_state=0).fit(X64)
    V, mean, s = found.components_.T, found.mean_, found.singular_values_
    total = squared_spread(X64)
    if s[-1] <= max(X.shape) * EPS * s[0]:
        return None
    # no remaining singular value can exceed the root of the sum of all remaining squares
    if total - (s**2).sum() > s[-1] ** 2 and _largest_left(X64, mean, V) > s[-1] * (1 + 1e-7):
        return None
    return PrincipalSpace(
        shift + mean,
        s**2,
        total,
        lift=lambda g: V @ g,
        sums=lambda Y: V.T @ label_sums(X64, Y),
    )


def _largest_left(X: Any, mean: NDArray[np.float64], V: NDArray[np.float64]) -> float:
    """Return the largest singular value of (X - 1 mean^T) (I - V V^T)."""

    def forth(v: NDArray[np.float64]) -> NDArray[np.float64]:
        rest = v.ravel() - V @ (V.T @ v.ravel())
        product: NDArray[np.float64] = X @ rest - mean @ rest
        return product

    def back(u: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = X.T @ u.ravel() - mean * u.sum()
        product: NDArray[np.float64] = sums - V @ (V.T @ sums)
        return product

    operator = LinearOperator(X.shape, matvec=forth, rmatvec=back, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=min(X.shape))
    return float(svds(operator, k=1, v0=start, return_singular_vectors=False)[0])


class PCA(SubspaceEmbedding):
    """Principal component analysis (PCA) [1]_.

    Finds the directions in which items vary most. Labels are not used; all items are used in the fit.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of dimensions r, at most the rank of the centered items. None means K-1 if labels are given, as
        in the papers that compare with PCA, and 2 otherwise; fewer if the rank is less.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        Orthonormal columns; an item is mapped to projection_^T x. Unlike scikit-learn's PCA the embedding is
        not centered, which does not affect distances.
    eigenvalues_ : ndarray of shape (r,)
        Variance along each column (over n - 1), descending.
    explained_variance_ratio_ : ndarray of shape (r,)
        Fraction of the total variance of all features.
    mean_ : ndarray of shape (p,)
    embedding_ : ndarray of shape (n, r)
    classes_ : ndarray of shape (K,)
        Empty if no labels were given.
    n_features_in_ : int

    Notes
    -----
    The axes are the eigenvectors of the p x p scatter matrix for p <= n, and come from the n x n inner
    products otherwise; sparse items are not centered explicitly. If few axes of large sparse items are
    needed, they are computed by scikit-learn's implicitly centered Lanczos, and a second run verifies that no
    axis was missed. Sums run over blocks of rows: float32 items are not copied, and RowBlocks are never
    loaded as a whole.

    References
    ----------
    .. [1] K. Pearson, "On Lines and Planes of Closest Fit to Systems of Points in Space", Philosophical
       Magazine 2(11), 1901.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import PCA
    >>> X, y = load_iris(return_X_y=True)
    >>> PCA(n_components=2).fit(X).explained_variance_ratio_.round(3)
    array([0.925, 0.053])
    """

    _supervised: ClassVar[bool] = False
    _directions: ClassVar[str] = "in which items vary"

    def __init__(self, *, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
        y : array-like of shape (n,) or (n, K), optional
            Labels with -1 for unlabeled items; used only to choose `n_components` if it is None.
        affinity : object, optional
            Ignored: PCA has no graph. Present so that all methods have the same signature.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        space = self._decompose(X, self._n_columns(target, min(X.shape)))
        r = self._n_columns(target, space.rank)
        self.mean_ = space.mean
        self.explained_variance_ratio_ = space.values[:r] / space.total
        return self._store(X, target, Solution(space.axes(r), space.values[:r] / (X.shape[0] - 1)))

    def _decompose(self, X: Any, r: int) -> PrincipalSpace:
        found = leading_space(X, r) if sp.issparse(X) and r * _LANCZOS_SHARE <= min(X.shape) else None
        return principal_space(X) if found is None else found
