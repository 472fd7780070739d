"""Fisherfaces: PCA, then LDA."""

from typing import Any, Self

from embedding_core.base import Solution
from embedding_core.errors import InvalidInput
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.subspace.embedding import labeled_part
from embedding_core.subspace.lda import LDA
from embedding_core.subspace.principal import principal_space


class Fisherfaces(LDA):
    """Fisherfaces [1]_: PCA to l - c dimensions, then LDA, for one class per item.

    l is the number of labeled items and c the number of their classes. l - c is the largest possible rank of
    S_w, so that S_w is regular even if there are more features than items. Unlabeled items are not used in
    the fit.

    Parameters
    ----------
    scaling : {"unit", "within"}, default="unit"
        Length of the columns of the projection: 1, or v^T S_w v = 1.
    n_components : int or None, default=None
        Number of dimensions r, at most K-1. None means K-1, or all directions in which the classes differ if
        there are fewer.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        W_pca W_fld; an item is mapped to projection_^T x.
    eigenvalues_ : ndarray of shape (r,)
        Ratio of between-class to within-class scatter along each column, descending.
    n_principal_ : int
        Number of dimensions kept by PCA: l - c, or the rank of the items if that is less.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Notes
    -----
    For p <= l - c PCA drops nothing, and the result is that of LDA.

    References
    ----------
    .. [1] P. N. Belhumeur, J. P. Hespanha, D. J. Kriegman, "Eigenfaces vs. Fisherfaces: Recognition Using
       Class Specific Linear Projection", IEEE TPAMI 19(7), 1997.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import Fisherfaces
    >>> X = np.random.default_rng(0).normal(size=(20, 50))
    >>> model = Fisherfaces().fit(X, np.arange(20) % 4)
    >>> model.n_principal_, model.embedding_.shape
    (16, (20, 3))
    """

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:  # type: ignore[override]  # labels are required
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with one class per item.
        affinity : object, optional
            Ignored: Fisherfaces has no graph. Present so that all methods have the same signature.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        items, Y = labeled_part(X, target)
        c = int(Y.any(axis=0).sum())
        if len(Y) == c:
            raise InvalidInput(
                f"Each of the {c} classes has one labeled item, so there is no scatter within classes; label "
                "two or more items of some class."
            )
        space = principal_space(items)
        if space.rank == 0:
            raise InvalidInput(f"All {len(Y)} labeled items are equal; give features that vary.")
        self.n_principal_ = min(len(Y) - c, space.rank)
        axes = space.axes(self.n_principal_)
        within = LDA(scaling=self.scaling, n_components=self.n_components)
        within.fit(project_rows(items, axes), Y)
        return self._store(X, target, Solution(axes @ within.projection_, within.eigenvalues_))
