"""Multi-label informed latent semantic indexing."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.base import Solution
from embedding_core.checks import check_share
from embedding_core.linalg.eigen import thin_svd
from embedding_core.subspace.embedding import SubspaceEmbedding, labeled_part
from embedding_core.subspace.principal import PrincipalSpace, principal_space


class MLSI(SubspaceEmbedding):
    """Multi-label informed latent semantic indexing (MLSI) [1]_.

    Finds directions that preserve the inner products of the items and those of their labels. Unlabeled items
    are not used in the fit.

    Parameters
    ----------
    beta : float, default=0.5
        Weight of the labels, in [0, 1]: 0 is latent semantic indexing, 1 uses only the labels.
    center : bool, default=False
        Shift the mean of the items to zero first. False is Eq. 22 of [2]_ as printed, around the origin, as
        in latent semantic indexing.
    n_components : int or None, default=None
        Number of dimensions r, at most the rank of the items (of the labels for beta = 1). None means K-1, or
        fewer if the rank is less.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        G; an item is mapped to G^T x.
    eigenvalues_ : ndarray of shape (r,)
        Contribution of each column to the trace, descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Notes
    -----
    max tr G^T ((1 - beta) X X^T X X^T + beta X Y Y^T X^T) G subject to G^T X X^T G = I, in the form of
    Eq. 22 of [2]_. The constraint sets the length of the columns: the embedding of the labeled items is
    orthonormal. The problem is solved in the range of X, where X = U S V^T reduces it to the eigenproblem of
    (1 - beta) S² + beta U^T Y Y^T U.

    The two terms have different units: the first grows with the square of the scale of the items, the second
    does not. On large raw features beta=0.5 is effectively latent semantic indexing, and scaling the features
    changes the result.

    References
    ----------
    .. [1] K. Yu, S. Yu, V. Tresp, "Multi-label Informed Latent Semantic Indexing", SIGIR 2005.
    .. [2] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis", ECCV 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import MLSI
    >>> X = np.array([[0.0, 1], [1, 0], [1, 1], [5, 1], [6, 0], [6, 2], [3, 9], [4, 8], [9, 9]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [1, 1], [1, 1], [-1, -1]])
    >>> MLSI(n_components=2).fit(X, Y).embedding_.shape
    (9, 2)
    """

    _directions: ClassVar[str] = "of the labeled items"
    _flags: ClassVar[tuple[str, ...]] = ("center",)

    def __init__(self, *, beta: float = 0.5, center: bool = False, n_components: int | None = None) -> None:
        self.beta = beta
        self.center = center
        self.n_components = n_components

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : object, optional
            Ignored: MLSI has no graph. Present so that all methods have the same signature.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        items, Y = labeled_part(X, target)
        space = principal_space(items, self.center)
        root = np.sqrt(space.values)[:, None]
        shared = space.sums(Y - Y.mean(axis=0) if self.center else Y) / root  # U^T Y
        if self.beta == 1:
            B, values = thin_svd(shared)
        else:
            B, values = self._blend(space, shared, self._n_columns(target, space.rank))
        r = self._n_columns(target, len(values))
        return self._store(X, target, Solution(space.lift(B[:, :r] / root), values[:r]))

    def _blend(
        self, space: PrincipalSpace, shared: NDArray[np.float64], r: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the r largest eigenpairs of (1 - beta) S² + beta U^T Y Y^T U."""
        M = self.beta * (shared @ shared.T)
        M.flat[:: len(M) + 1] += (1 - self.beta) * space.values
        first = (space.rank - r, space.rank - 1)
        values, B = scipy.linalg.eigh(M, subset_by_index=first, check_finite=False)
        return B[:, ::-1], values[::-1]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share("beta", self.beta)
