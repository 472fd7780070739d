"""Laplacianfaces: PCA, then LPP."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from embedding_core.base import Solution
from embedding_core.checks import check_share
from embedding_core.graph.affinity import GRAPHS, check_sigma_choice
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.subspace.embedding import SubspaceEmbedding
from embedding_core.subspace.lpp import LPP
from embedding_core.subspace.principal import principal_space


class Laplacianfaces(SubspaceEmbedding):
    """Laplacianfaces [1]_: PCA that keeps a fraction of the variance, then LPP.

    Labels are not used; all items are used in the fit.

    Parameters
    ----------
    variance : float, default=0.98
        Fraction of the variance that PCA keeps, in (0, 1]: the fewest axes that reach it. 0.98 is the value
        of [1]_; 1 drops only directions without variance.
    scaling : {"unit", "natural"}, default="unit"
        Length of the columns: 1, or a^T X D X^T a = 1.
    graph : {"knn", "gaussian"}, default="knn"
        Graph of the items after PCA, used if no affinity is given: nearest neighbors (sparse), or all pairs
        (dense, at most 2 GB). Both have weights exp(-d² / (2 sigma)).
    n_neighbors : int, default=10
        Number of neighbors of an item in the "knn" graph.
    sigma : float, "auto" or "cv", default="auto"
        Scale of the weights, see `LPP`.
    n_components : int or None, default=None
        Number of dimensions r, at most the number kept by PCA. None means K-1 if labels are given, and 2
        otherwise; fewer if PCA kept fewer.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        W_pca W_lpp; an item is mapped to projection_^T x.
    eigenvalues_ : ndarray of shape (r,)
        lambda of LPP, ascending, in [0, 2].
    n_principal_ : int
        Number of dimensions kept by PCA.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    embedding_ : ndarray of shape (n, r)
    classes_ : ndarray of shape (K,)
        Empty if no labels were given.
    n_features_in_ : int

    Notes
    -----
    W_pca contains the principal axes of all items. W_lpp solves X L X^T a = lambda X D X^T a, smallest
    lambda first, for the items W_pca^T x. The columns of the projection are W_pca W_lpp. The readings of
    `LPP` apply: items are centered at the degree-weighted mean, and `scaling` sets the length of the columns.
    With variance=1 PCA drops only directions without variance, and the embedding is that of LPP.

    References
    ----------
    .. [1] X. He, S. Yan, Y. Hu, P. Niyogi, H.-J. Zhang, "Face Recognition Using Laplacianfaces", IEEE TPAMI
       27(3), 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from embedding_core import Laplacianfaces
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Laplacianfaces().fit(X[:200], y[:200])
    >>> model.n_principal_, model.embedding_.shape
    (32, (200, 9))
    """

    _supervised: ClassVar[bool] = False
    _directions: ClassVar[str] = "in which items vary"
    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {"scaling": ("unit", "natural"), "graph": GRAPHS}

    def __init__(
        self,
        *,
        variance: float = 0.98,
        scaling: str = "unit",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        n_components: int | None = None,
    ) -> None:
        self.variance = variance
        self.scaling = scaling
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
        y : array-like of shape (n,) or (n, K), optional
            Labels with -1 for unlabeled items; used only for n_components=None and sigma="cv".
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. If given, `graph`, `n_neighbors` and `sigma` are
            ignored.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        space = principal_space(X)
        share = np.cumsum(space.values) / space.total if space.rank else np.zeros(0)
        # rounding: the sum of all fractions may be 1 - 1e-16
        self.n_principal_ = min(int((share < self.variance - 1e-12).sum()) + 1, space.rank)
        r = self._n_columns(target, self.n_principal_)
        axes = space.axes(self.n_principal_)
        local = LPP(
            scaling=self.scaling,
            graph=self.graph,
            n_neighbors=self.n_neighbors,
            sigma=self.sigma,
            n_components=r,
        )
        local.fit(project_rows(X, axes), target.Y if target.n_classes else None, affinity)
        self.sigma_ = local.sigma_
        return self._store(X, target, Solution(axes @ local.projection_, local.eigenvalues_))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_sigma_choice(self.sigma)
        check_share("variance", self.variance, low=1e-12)
