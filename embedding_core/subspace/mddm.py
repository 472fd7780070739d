"""Multi-label dimensionality reduction via dependence maximization, linear or with a kernel."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from embedding_core.base import Solution
from embedding_core.labels import Indicator
from embedding_core.linalg.eigen import thin_svd
from embedding_core.linalg.kernel_space import KERNELS
from embedding_core.subspace.embedding import KernelEmbedding, labeled_part
from embedding_core.subspace.principal import label_sums, squared_spread


class MDDM(KernelEmbedding):
    """Multi-label dimensionality reduction via dependence maximization (MDDM) [1]_.

    Finds orthonormal directions in which items depend most on their labels, by the Hilbert-Schmidt
    independence criterion (HSIC). Unlabeled items are not used in the fit.

    Parameters
    ----------
    kernel : {"linear", "rbf", "intersection", "precomputed"}, default="linear"
        Directions in the features, or in the feature space of a kernel: exp(-gamma d²), the sum of min(x, z)
        for histograms, or X itself (n, n).
    gamma : float or "scale", default="scale"
        Parameter of the "rbf" kernel; "scale" is 1 / (p Var(X)) of the labeled items.
    n_components : int or None, default=None
        Number of dimensions r, at most the rank of the labels: K, or K-1 for one class per item. None means
        K-1, or fewer if the rank is less.
    landmarks : int, sequence of int, "auto" or None, default=None
        Not in [1]_: the directions of a kernel lie in the span of this many random labeled items, of these
        rows, or of all labeled items (None). "auto" uses all of up to 2,000 items, and 500 of more.
    random_state : int, RandomState instance or None, default=0
        Seed for drawing the landmarks.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        G, orthonormal; an item is mapped to G^T x. Only for kernel="linear".
    eigenvalues_ : ndarray of shape (r,)
        Contribution of each column to the trace of Eq. 23, descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    dual_coef_ : ndarray of shape (h, r)
        For a kernel: the coefficients of the items that span the directions.
    basis_items_ : array or CSR matrix of shape (h, p), or row numbers of shape (h,)
        These items; for a precomputed kernel their row numbers in `fit`.
    gamma_ : float
        For the "rbf" kernel.
    n_features_in_ : int

    Notes
    -----
    max tr G^T X H Y Y^T H X^T G, Eq. 23 of [2]_, H = I - e e^T / n, with G^T G = I as in [1]_ (Eq. 23
    omits the constraint). Labels have the linear kernel Y Y^T. G contains the left singular vectors of X H Y,
    a p x K matrix; no p x p matrix is formed. In the kernel form X contains the items in feature space; its n
    x h matrices, for h labeled items or landmarks, may take at most 4 GB.

    MDDM uses covariances, not correlations: unlike MLDA and CCA it depends on the scales of the features.

    References
    ----------
    .. [1] Y. Zhang, Z.-H. Zhou, "Multi-Label Dimensionality Reduction via Dependence Maximization", AAAI
       2008.
    .. [2] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis", ECCV 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import MDDM
    >>> X = np.array([[0.0, 1], [1, 0], [1, 1], [5, 1], [6, 0], [6, 2], [3, 9], [4, 8], [9, 9]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [1, 1], [1, 1], [-1, -1]])
    >>> MDDM(n_components=2).fit(X, Y).embedding_.shape
    (9, 2)
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {"kernel": KERNELS}

    def __init__(
        self,
        *,
        kernel: str = "linear",
        gamma: float | str = "scale",
        n_components: int | None = None,
        landmarks: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            For kernel="precomputed" the kernel of all pairs, (n, n).
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : object, optional
            Ignored: MDDM has no graph. Present so that all methods have the same signature.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        self._forget()
        if self.kernel == "linear":
            items, Y = labeled_part(X, target)
            G, values = self._solve(items, Y, target)
            return self._store(X, target, Solution(G, values))
        span = self._span(X, target.labeled)
        G, values = self._solve(*labeled_part(span.rows, target), target)
        self._store_dual(X, target, span, G, values)
        return self

    def _solve(
        self, items: Any, Y: NDArray[np.float64], target: Indicator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return orthonormal directions and their contributions to the trace."""
        labels = Y - Y.mean(axis=0)
        rounding = 1e-11 * np.sqrt(squared_spread(items)) * np.linalg.norm(labels)
        G, values = thin_svd(label_sums(items, labels), floor=rounding)
        r = self._n_columns(target, len(values))
        return G[:, :r], values[:r]
