"""Eigenfaces: PCA with the number of components chosen by cross-validation of nearest neighbors."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from embedding_core.base import Solution
from embedding_core.checks import check_count
from embedding_core.labels import Indicator
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.model_selection.inner_choice import check_cv_labels, labeled_folds, micro_f1_empty1
from embedding_core.subspace.embedding import SubspaceEmbedding
from embedding_core.subspace.principal import PrincipalSpace, principal_space

_BLOCK_DISTANCES = 2_000_000

SCORED_ITEMS = 2000
"""Largest number of labeled items used to choose the dimension; of more, evenly spaced ones are used."""


def dimension_scores(Q: NDArray[np.float64], Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Micro-F1 (r,) of the nearest neighbor in the first 1, 2, ... r columns of Q.

    Mean over 5 folds of the labeled rows of Y (n, K), or fewer folds if there are fewer labeled rows. Ties
    are broken by the lower row number.
    """
    scores = [_fold_scores(Q[train], Y[train], Q[test], Y[test]) for train, test in labeled_folds(Y)]
    means: NDArray[np.float64] = np.mean(scores, axis=0)
    return means


def _fold_scores(
    known: NDArray[np.float64], labels: NDArray[np.int8], asked: NDArray[np.float64], truth: NDArray[np.int8]
) -> list[float]:
    nearest = np.empty((known.shape[1], len(asked)), dtype=np.intp)
    step = max(1, _BLOCK_DISTANCES // len(known))
    for start in range(0, len(asked), step):
        rows = slice(start, start + step)
        squared = np.zeros((len(asked[rows]), len(known)))
        for column, found in enumerate(nearest):
            squared += (asked[rows, column, None] - known[:, column]) ** 2
            found[rows] = squared.argmin(axis=1)
    return [micro_f1_empty1(truth, labels[found]) for found in nearest]


class Eigenfaces(SubspaceEmbedding):
    """Eigenfaces [1]_: PCA with the dimension selected by cross-validation.

    Parameters
    ----------
    n_components : int or "cv", default="cv"
        Number of dimensions r, at most the rank of the centered items. "cv" tries all numbers by 5-fold
        cross-validation of 1NN on the labeled items (at most 2,000, evenly spaced) and takes the smallest of
        the best.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        Orthonormal columns; an item is mapped to projection_^T x.
    eigenvalues_ : ndarray of shape (r,)
        Variance along each column (over n - 1), descending.
    mean_ : ndarray of shape (p,)
    cv_scores_ : ndarray of shape (rank,) or None
        Micro-F1 of 1NN (for one class per item the accuracy) in 1, 2, ... dimensions; None if the dimension
        was given.
    embedding_ : ndarray of shape (n, r)
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Notes
    -----
    The dimension is chosen as in the comparison of [2]_ ("exhaustive search by 5-fold cross
    validation"). The axes are those of all items, labeled or not; only the labels of the validation items are
    held back.

    References
    ----------
    .. [1] M. Turk, A. Pentland, "Eigenfaces for Recognition", Journal of Cognitive Neuroscience 3(1), 1991.
    .. [2] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import Eigenfaces
    >>> X, y = load_iris(return_X_y=True)
    >>> model = Eigenfaces().fit(X, y)
    >>> model.embedding_.shape, model.cv_scores_.round(2)
    ((150, 4), array([0.89, 0.95, 0.96, 0.96]))
    """

    n_components: Any  # an integer or "cv"; the base class declares an integer or None
    _supervised: ClassVar[bool] = False
    _directions: ClassVar[str] = "in which items vary"

    def __init__(self, *, n_components: int | str = "cv") -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
        y : array-like of shape (n,) or (n, K), optional
            Labels with -1 for unlabeled items; required for n_components="cv".
        affinity : object, optional
            Ignored: Eigenfaces has no graph. Present so that all methods have the same signature.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        space = principal_space(X)
        self.cv_scores_ = self._score(X, target, space) if self.n_components == "cv" else None
        r = self._n_columns(target, space.rank)
        self.mean_ = space.mean
        values = space.values[:r] / (X.shape[0] - 1)
        return self._store(X, target, Solution(space.axes(r), values))

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components, ("cv",))

    def _score(self, X: Any, target: Indicator, space: PrincipalSpace) -> NDArray[np.float64]:
        labeled = np.flatnonzero(target.labeled)
        check_cv_labels("n_components", target)
        if len(labeled) > SCORED_ITEMS:
            labeled = labeled[np.linspace(0, len(labeled) - 1, SCORED_ITEMS).round().astype(np.intp)]
        Q = project_rows(X, space.axes(space.rank))[labeled]
        return dimension_scores(Q, target.Y[labeled])

    def _n_columns(self, target: Indicator, rank: int) -> int:
        if self.cv_scores_ is None or rank == 0:
            return super()._n_columns(target, rank)
        return int(self.cv_scores_.argmax()) + 1
