"""Locality preserving projections, linear or with a kernel."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.base import GraphEmbedding, Solution
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import GRAPHS
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.graph.supplied import check_links
from embedding_core.labels import Indicator
from embedding_core.linalg.eigen import RowSpace, Whitening, row_space, whitening
from embedding_core.linalg.kernel_space import KERNELS
from embedding_core.linalg.scatter import class_scatter
from embedding_core.model_selection.inner_choice import check_cv_labels, fold_score
from embedding_core.subspace.embedding import KernelEmbedding


def locality_quotient(
    items: Any, L: GraphLaplacian, center: bool, scale_free: bool
) -> tuple[Whitening, NDArray[np.float64]]:
    """Return T with T T^T = (X D X^T)^+, and T^T X L X^T T, for items dense, CSR or RowBlocks (n, d).

    `center` shifts the degree-weighted mean of the items to zero. With `scale_free` the rank does not depend
    on the scales of the features.
    """
    scatter = class_scatter(items, L.degree[:, None])
    moment = scatter.within
    if not center:
        moment += L.degree.sum() * np.outer(scatter.mean, scatter.mean)
    T = whitening(moment, scale_free)
    S = T.whiten(T.whiten(L.quadratic(items)).T)
    return T, (S + S.T) / 2


def item_space(X: Any, center: bool) -> RowSpace:
    """Like `eigen.row_space`; without `center` the basis contains the items, not only their differences."""
    if center or sp.issparse(X) or X.shape[1] <= X.shape[0]:
        return row_space(X, shift=center)
    space = row_space(np.vstack([X, np.zeros((1, X.shape[1]))]))
    return RowSpace(space.coordinates[:-1] - space.coordinates[-1], space.lift)


class LPP(KernelEmbedding, GraphEmbedding):
    """Locality preserving projections (LPP) [1]_.

    Finds the directions along which linked items stay closest together, relative to the spread of all items.
    Labels are not used; all items are used in the fit.

    Parameters
    ----------
    kernel : {"linear", "rbf", "intersection", "precomputed"}, default="linear"
        Directions in the features, or in the feature space of a kernel: exp(-gamma d²), the sum of min(x, z)
        for histograms, or X itself (n, n).
    gamma : float or "scale", default="scale"
        Parameter of the "rbf" kernel; "scale" is 1 / (p Var(X)).
    center : bool, default=True
        Shift the mean of the items, weighted by their degrees in the graph, to zero first. False solves the
        equation around the origin.
    scaling : {"unit", "natural"}, default="unit"
        Length of the columns: |a| = 1 (in feature space, for a kernel), or a^T X D X^T a = 1.
    graph : {"knn", "gaussian"}, default="knn"
        Graph used if no affinity is given: nearest neighbors (sparse), or all pairs (dense, at most 2 GB).
        Both have weights exp(-d² / (2 sigma)). With a precomputed kernel the distances are those of its
        feature space.
    n_neighbors : int, default=10
        Number of neighbors of an item in the "knn" graph.
    sigma : float, "auto" or "cv", default="auto"
        Scale of the weights, in units of a squared distance. "auto" is the mean squared distance of the
        linked pairs; "cv" selects 1/64, 1/16, 1/4, 1 or 4 times that value by 5-fold cross-validation of 1NN
        on the labeled items.
    n_components : int or None, default=None
        Number of dimensions r, at most the rank of the items. None means K-1 if labels are given, as in the
        papers that compare with LPP, and 2 otherwise; fewer if the rank is less.
    landmarks : int, sequence of int, "auto" or None, default=None
        Not in the paper: the directions of a kernel lie in the span of this many random items, of these rows,
        or of all items (None). "auto" uses all of up to 2,000 items, and 500 of more.
    random_state : int, RandomState instance or None, default=0
        Seed for drawing the landmarks.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        An item is mapped to projection_^T x; only for kernel="linear".
    eigenvalues_ : ndarray of shape (r,)
        lambda, ascending, in [0, 2].
    embedding_ : ndarray of shape (n, r)
    classes_ : ndarray of shape (K,)
        Empty if no labels were given.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    dual_coef_ : ndarray of shape (h, r)
        For a kernel: the coefficients of the items that span the directions.
    basis_items_ : array or CSR matrix of shape (h, p), or row numbers of shape (h,)
        These items; for a precomputed kernel their row numbers in `fit`.
    gamma_ : float
        For the "rbf" kernel.
    n_features_in_ : int

    Notes
    -----
    X L X^T a = lambda X D X^T a, smallest lambda first, with L = D - W; in the kernel form
    K L K alpha = lambda K D K alpha [1]_. Self-loops of W are dropped, also from D.

    Readings. (1) Where X D X^T is singular, X L X^T vanishes too: the problem is restricted to the range of X
    D X^T. (2) L does not depend on the origin, X D X^T does. [1]_ does not specify it; [2]_ applies PCA
    first, which centers. Around the degree-weighted mean the embedding is invariant to shifts of the items,
    and the constant solution (lambda = 0, all items on one point) is excluded. With center=False it is
    included whenever a^T x_i = 1 for all i has a solution: p >= n, or a kernel of full rank. (3) The length
    of the columns is not specified, and nearest neighbors depend on it; `scaling` sets it.

    If all items of a class are linked with weight 1/m, where m is the size of each class, the columns are
    those of LDA. With p >= n, or a kernel of full rank, every embedding of the items is possible and the
    result is that of Laplacian eigenmaps; a graph with several components is then separated first (lambda =
    0), and a warning is issued.

    Cost: sums of p x p for p <= n; otherwise, and for kernels, matrices of n x n (n x h with landmarks), at
    most 4 GB. Directions to which an item adds less than 1e-8 of the largest kernel value are omitted,
    because their coefficients would amplify rounding errors.

    References
    ----------
    .. [1] X. He, P. Niyogi, "Locality Preserving Projections", NIPS 2003.
    .. [2] X. He, S. Yan, Y. Hu, P. Niyogi, H.-J. Zhang, "Face Recognition Using Laplacianfaces", IEEE TPAMI
       27(3), 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import LPP
    >>> X, y = load_iris(return_X_y=True)
    >>> LPP(n_components=3).fit(X).embedding_.shape
    (150, 3)
    >>> LPP(kernel="rbf", graph="gaussian").fit(X, y).transform(X[:5]).shape
    (5, 2)
    """

    _supervised: ClassVar[bool] = False
    _directions: ClassVar[str] = "in which linked items vary"
    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kernel": KERNELS,
        "scaling": ("unit", "natural"),
        "graph": GRAPHS,
    }
    _flags: ClassVar[tuple[str, ...]] = ("center",)

    def __init__(
        self,
        *,
        kernel: str = "linear",
        gamma: float | str = "scale",
        center: bool = True,
        scaling: str = "unit",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        n_components: int | None = None,
        landmarks: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.center = center
        self.scaling = scaling
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, affinity: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            For kernel="precomputed" the kernel of all pairs, (n, n). RowBlocks need `affinity`.
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
        self._forget()
        span = None if self.kernel == "linear" else self._span(X, np.ones(X.shape[0], dtype=bool))
        space = item_space(X, self.center) if span is None else RowSpace(span.rows, span.expand)
        W = self._graph(X, space, target, affinity)
        check_links(W, components_matter=not space.are_features)
        directions, eigenvalues = self._solve(space, target, W)
        if span is None:
            return self._store(X, target, Solution(space.lift(directions), eigenvalues))
        self._store_dual(X, target, span, directions, eigenvalues)
        return self

    def _graph(self, X: Any, space: RowSpace, target: Indicator, affinity: Any) -> Any:
        if X.shape[0] < 2:
            raise InvalidInput(f"A graph needs two or more items, found n_samples={X.shape[0]}; add items.")
        if affinity is None and self.sigma == "cv":
            check_cv_labels("sigma", target)
        return self._affinity(X, affinity, lambda W: self._score(space, target, W))

    def _solve(
        self, space: RowSpace, target: Indicator, W: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return directions in the coordinates and their eigenvalues, which are at least 0."""
        T, S = locality_quotient(space.coordinates, GraphLaplacian(W), self.center, space.are_features)
        r = self._n_columns(target, T.rank)
        values, V = scipy.linalg.eigh(S, subset_by_index=(0, r - 1), check_finite=False)
        directions = T.unwhiten(V)
        if self.scaling == "unit":
            directions /= np.linalg.norm(directions, axis=0)
        return directions, np.maximum(values, 0.0)

    def _score(self, space: RowSpace, target: Indicator, W: Any) -> float:
        """Return the score of 1NN in the embedding by the graph W; 0 if W has no edge."""
        if not W.sum() > 0:
            return 0.0
        Q = np.asarray(space.coordinates @ self._solve(space, target, W)[0])
        return fold_score(target, lambda seen: Q)
