"""Canonical correlation analysis of items and labels."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from embedding_core.base import Solution
from embedding_core.checks import check_not_negative
from embedding_core.linalg.eigen import PositivePart, positive_part, row_space, thin_svd, whitening
from embedding_core.linalg.scatter import class_scatter
from embedding_core.subspace.embedding import SubspaceEmbedding, labeled_part
from embedding_core.subspace.principal import label_sums

RANK_TOLERANCE = 1e-10
"""Label variances (relative to the largest) and correlations up to this value count as zero."""

TIED = 1e-9
"""Squared correlations that differ by at most this count as equal."""


def label_root(Y: NDArray[np.float64]) -> PositivePart:
    """Decompose S_yy of 0/1 labels (n, K) on its range; n S_yy are integers, so the sums are exact."""
    counts = Y.sum(axis=0)
    part = positive_part((len(Y) * (Y.T @ Y) - np.outer(counts, counts)) / len(Y))
    keep = part.values > RANK_TOLERANCE * part.values.max(initial=0.0)
    return PositivePart(part.vectors[:, keep], part.values[keep])


def solve_canonical(X: Any, Y: NDArray[np.float64], ridge: float) -> Solution:
    """Return directions a with a^T (S_xx + ridge t I) a = 1 and their squared correlations, largest first.

    With T T^T = (S_xx + ridge t I)^+ they are T times the left singular vectors of T^T S_xy S_yy^(-1/2); t is
    the mean of the diagonal of S_xx. For p > n the problem is solved in the row space of X.
    """
    space = row_space(X)
    items = space.coordinates
    S_xx = class_scatter(items, np.ones((len(Y), 1))).within
    S_xx.flat[:: len(S_xx) + 1] += ridge * np.trace(S_xx) / X.shape[1]
    root = whitening(S_xx, scale_free=space.are_features)
    S_xy = label_sums(items, Y - Y.mean(axis=0))
    P, squares = thin_svd(label_root(Y).whiten(root.whiten(S_xy).T).T, floor=RANK_TOLERANCE)
    squares = np.minimum(squares, 1.0)
    return Solution(space.lift(settle_ties(squares, root.unwhiten(P))), squares)


def settle_ties(values: NDArray[np.float64], A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotate columns of equal values (in descending order) so that they are orthogonal, shortest first.

    The eigenproblem determines them only up to rotation. After scaling to unit length, the shortest has the
    largest spread.
    """
    A = A.copy()
    for tied in np.split(np.arange(len(values)), np.flatnonzero(-np.diff(values) > TIED) + 1):
        if len(tied) > 1:
            A[:, tied] = A[:, tied] @ np.linalg.svd(A[:, tied], full_matrices=False)[2][::-1].T
    return A


class CCA(SubspaceEmbedding):
    """Canonical correlation analysis (CCA) [1]_ of items and labels.

    Finds the directions a of the items with the largest correlation to a linear combination b of the labels.
    Unlabeled items are not used in the fit.

    Parameters
    ----------
    ridge : float, default=0.0
        Not in [1]_: adds ridge t |a|² to the variance of a^T x, with t the mean variance of a feature. Useful
        if there are more features than labeled items: every label is then a linear function of the features,
        and all correlations are 1.
    scaling : {"unit", "natural"}, default="unit"
        Length of the columns: |a| = 1, or unit spread, a^T (S_xx + ridge t I) a = 1.
    n_components : int or None, default=None
        Number of dimensions r, at most the rank of the labels: K, or K-1 for one class per item. None means
        K-1, or fewer if the rank is less.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        The directions a; an item is mapped to projection_^T x.
    eigenvalues_ : ndarray of shape (r,)
        Squared canonical correlations, descending, in [0, 1].
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Notes
    -----
    max (a^T S_xy b)² / (a^T S_xx a · b^T S_yy b), where S_xx, S_xy, S_yy are the scatter matrices of
    items X and 0/1 labels Y around their means. It is solved exactly by whitening and one SVD of a p x K
    matrix, whereas scikit-learn iterates one component after the other. Singular scatter matrices (p > n,
    labels that no item or every item has, class columns, which sum to 1) are inverted on their range.
    Directions with equal correlation, such as all directions for p > n, are sorted by spread, largest first,
    and made orthogonal. For one class per item the directions are those of LDA, with squared correlation
    lambda / (1 + lambda).

    References
    ----------
    .. [1] H. Hotelling, "Relations between Two Sets of Variates", Biometrika 28, 1936.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import CCA
    >>> X = np.array([[0.0, 1], [1, 0], [1, 1], [5, 1], [6, 0], [6, 2], [3, 9], [4, 8], [9, 9]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [1, 1], [1, 1], [-1, -1]])
    >>> CCA(n_components=2).fit(X, Y).eigenvalues_.round(2)
    array([0.98, 0.94])
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {"scaling": ("unit", "natural")}

    def __init__(self, *, ridge: float = 0.0, scaling: str = "unit", n_components: int | None = None) -> None:
        self.ridge = ridge
        self.scaling = scaling
        self.n_components = n_components

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : object, optional
            Ignored: CCA has no graph. Present so that all methods have the same signature.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        items, Y = labeled_part(X, target)
        solution = solve_canonical(items, Y, float(self.ridge))
        r = self._n_columns(target, solution.projection.shape[1])
        A = solution.projection[:, :r]
        if self.scaling == "unit":
            A = A / np.linalg.norm(A, axis=0)
        return self._store(X, target, Solution(A, solution.eigenvalues[:r]))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_not_negative("ridge", self.ridge)
