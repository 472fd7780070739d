"""Locality preserving projections, linear or by a kernel."""

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
    """T with T T^T = (X D X^T)^+, and T^T X L X^T T, for items dense, CSR or RowBlocks (n, d).

    `center` moves the mean of the items, weighted by degrees, to zero. `scale_free` judges the rank whatever
    the scales of the features.
    """
    scatter = class_scatter(items, L.degree[:, None])
    moment = scatter.within
    if not center:
        moment += L.degree.sum() * np.outer(scatter.mean, scatter.mean)
    T = whitening(moment, scale_free)
    S = T.whiten(T.whiten(L.quadratic(items)).T)
    return T, (S + S.T) / 2


def item_space(X: Any, center: bool) -> RowSpace:
    """`eigen.row_space`, whose basis for dense wide X spans differences; without `center` the items too."""
    if center or sp.issparse(X) or X.shape[1] <= X.shape[0]:
        return row_space(X, move=center)
    space = row_space(np.vstack([X, np.zeros((1, X.shape[1]))]))
    return RowSpace(space.coordinates[:-1] - space.coordinates[-1], space.lift)


class LPP(KernelEmbedding, GraphEmbedding):
    """Locality preserving projections (LPP) [1]_.

    The directions along which linked items stay nearest together, relative to the spread of all items.
    Labels play no part; fitted on all items.

    Parameters
    ----------
    kernel : {"linear", "rbf", "precomputed"}, default="linear"
        Directions in the features, or in the feature space of a kernel: exp(-gamma d²), or X itself (n, n).
    gamma : float or "scale", default="scale"
        Of the "rbf" kernel; "scale" is 1 / (p Var(X)).
    center : bool, default=True
        Move the mean of the items, weighted by their degrees in the graph, to zero first. False solves the
        equation around the origin, wherever that is.
    scaling : {"unit", "natural"}, default="unit"
        Length of the columns: |a| = 1 (in feature space, for a kernel), or a^T X D X^T a = 1.
    graph : {"knn", "gaussian"}, default="knn"
        Graph where no affinity is given: nearest neighbors (sparse), or all pairs (dense, up to 2 GB). Both
        weigh pairs by exp(-d² / (2 sigma)). A precomputed kernel gives the distances itself.
    n_neighbors : int, default=10
        Neighbors of an item in the "knn" graph.
    sigma : float, "auto" or "cv", default="auto"
        Scale of the weights, in squared distances. "auto" is the mean squared distance of the linked pairs;
        "cv" picks 1/64, 1/16, 1/4, 1 or 4 times that by 5-fold cross-validation of 1NN on the labeled items.
    n_components : int or None, default=None
        Dimensions r of the embedding, up to the rank of the items. None takes K-1 where labels are given, as
        the papers that compare with LPP do, and 2 where not; fewer where the rank is less.
    landmarks : int, sequence of int, "auto" or None, default=None
        Beyond the paper: a kernel's directions lie in the span of this many items drawn at random, of these
        rows, or of all (None). "auto" is all up to 2,000 items, then 500.
    random_state : int, RandomState instance or None, default=0
        Draws the landmarks.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        An item is placed at projection_^T x; for kernel="linear" alone.
    eigenvalues_ : ndarray of shape (r,)
        lambda, ascending, in [0, 2].
    embedding_ : ndarray of shape (n, r)
    classes_ : ndarray of shape (K,)
        Empty where no labels were given.
    sigma_ : float or None
        Scale used, None where an affinity was given.
    dual_coef_ : ndarray of shape (h, r)
        For a kernel: the coefficients of the items whose span holds the directions.
    basis_items_ : array or CSR matrix of shape (h, p), or row numbers of shape (h,)
        These items, for a precomputed kernel their rows in `fit`.
    gamma_ : float
        For the "rbf" kernel.
    n_features_in_ : int

    Notes
    -----
    X L X^T a = lambda X D X^T a, smallest lambda first, with L = D - W; in the kernel form K L K alpha =
    lambda K D K alpha [1]_. Self-loops of W are dropped, from D too.

    Readings. (1) Where X D X^T is singular, X L X^T vanishes with it: the problem is restricted to the range
    of X D X^T. (2) L does not see where the origin lies, X D X^T does. [1]_ is silent; [2]_ projects by PCA
    first, which centers. Around the mean weighted by degrees the embedding does not depend on a move of the
    items, and the constant solution (lambda = 0, all items on one point) is not among the columns; with
    center=False it is as soon as a^T x_i = 1 for all i has a solution: p >= n, a kernel of full rank. (3) The
    length of the columns is open, and nearest neighbors depend on it: `scaling`.

    For links of weight 1/m between all items of a class, m items in each, the columns are those of LDA. With
    p >= n, or a kernel of full rank, any embedding of the items is possible and the result is that of
    Laplacian eigenmaps on them; a graph of several components is then set apart first (lambda = 0), and a
    warning says so.

    Cost: sums of p x p for p <= n; otherwise, and for kernels, matrices of n x n (n x h with landmarks),
    refused beyond 4 GB. Directions to which an item adds less than 1e-8 of the kernel's largest value are
    left out: their coefficients would magnify rounding.

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
        """Find the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            For kernel="precomputed" the kernel of all pairs, (n, n). RowBlocks need `affinity`.
        y : array-like of shape (n,) or (n, K), optional
            Labels, -1 for unlabeled. They choose `n_components` and `sigma` where these ask for it.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. Where given, `graph`, `n_neighbors` and `sigma`
            play no part.

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
        """Directions in the coordinates and their eigenvalues, which are never below 0."""
        T, S = locality_quotient(space.coordinates, GraphLaplacian(W), self.center, space.are_features)
        r = self._n_columns(target, T.rank)
        values, V = scipy.linalg.eigh(S, subset_by_index=(0, r - 1), check_finite=False)
        directions = T.unwhiten(V)
        if self.scaling == "unit":
            directions /= np.linalg.norm(directions, axis=0)
        return directions, np.maximum(values, 0.0)

    def _score(self, space: RowSpace, target: Indicator, W: Any) -> float:
        """Score of 1NN in the embedding by the graph W; 0 where W has no edge."""
        if not W.sum() > 0:
            return 0.0
        Q = np.asarray(space.coordinates @ self._solve(space, target, W)[0])
        return fold_score(target, lambda seen: Q)
