"""Discriminant Laplacian embedding, for one class or several labels per item.

The eigenproblems combine S_b = H H^T, S_w and A = X^T L X. For more features than items these matrices are
n x n, in coordinates of the row space. S_w and A are computed on demand, so that only one of them exists at a
time, and its decomposition overwrites it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.base import GraphEmbedding, Solution
from embedding_core.checks import check_not_negative
from embedding_core.errors import InvalidInput, warn_caller
from embedding_core.graph.affinity import GRAPHS
from embedding_core.graph.laplacian import GraphLaplacian, QuadraticForm, balance_beta, label_affinity
from embedding_core.knn_classifier import nearest_rows, uses_index
from embedding_core.labels import Indicator, LabelWeights, check_one_class_per_item, label_correlation
from embedding_core.linalg.eigen import (
    RowSpace,
    compress_factor,
    positive_part,
    row_space,
    thin_svd,
    whitening,
)
from embedding_core.linalg.row_blocks import RowBlocks, RowView, project_rows, row_blocks, take_rows
from embedding_core.linalg.scatter import Scatter, class_scatter
from embedding_core.model_selection.inner_choice import fold_score

ScatterTerm = Callable[[], Scatter]
GraphTerm = Callable[[], QuadraticForm]

CHUNK_ROWS = 32_768
"""Number of labeled items in memory at a time."""

Weight = NDArray[np.float64] | None


def solve_paper_quotient(
    scatter_term: ScatterTerm, graph_term: GraphTerm, projection: str, scale_free: bool
) -> Solution:
    """Solve Eq. 2: U contains the left singular vectors of A_+^(-1/2) S_w+^(-1/2) H.

    `projection` "u" returns U, "f" returns F = A_+^(-1/2) U, "g" returns G = S_w+^(-1/2) F. With `scale_free`
    the ranks of S_w and A do not depend on the scales of the features.
    """
    scatter = scatter_term()
    H = compress_factor(scatter.factor, scatter.within)
    length = np.sqrt(np.maximum(np.diag(scatter.within), 0.0)) if scale_free else None
    within = positive_part(scatter.within, overwrite=True, unit=length)
    del scatter
    whitened = within.inverse_root(H)
    if projection != "g":
        del within
    form = graph_term()
    least, length = form.rounding, None
    form = form.cleaned()
    if scale_free:  # a removed feature, however large, does not affect the rounding errors of the others
        least, length = form.rounding, np.sqrt(form.moment)
    graph = positive_part(form.matrix, overwrite=True, least=least, unit=length)
    del form
    U, eigenvalues = thin_svd(graph.inverse_root(whitened))
    if projection == "u":
        return Solution(U, eigenvalues)
    F = graph.inverse_root(U)
    return Solution(F if projection == "f" else within.inverse_root(F), eigenvalues)


def solve_balanced_quotient(scatter_term: ScatterTerm, graph_term: GraphTerm, scale_free: bool) -> Solution:
    """Solve S_b v = lambda B v for B = S_w / tr(S_w) + A / tr(A), with v^T B v = 1.

    With `scale_free` the rank of B does not depend on the scales of the features.
    """
    scatter = scatter_term()
    H, B = compress_factor(scatter.factor, scatter.within), scatter.within
    del scatter
    A = graph_term().cleaned().matrix
    A /= np.trace(A)
    if np.trace(B) > 0:
        B /= np.trace(B)
    B += A
    del A
    T = whitening(B, scale_free)
    P, eigenvalues = thin_svd(T.whiten(H))
    return Solution(T.unwhiten(P), eigenvalues)


def nearest_labels(X: Any, target: Indicator) -> NDArray[np.int8]:
    """Return labels (n, K) in which each unlabeled item has the labels of its nearest labeled item.

    X is an ndarray, CSR matrix or `RowBlocks`. All pairs of a labeled and an unlabeled item are compared, so
    the time grows with the product of their numbers; for many items in memory (an ndarray or `RowView`)
    `nearest_rows` uses an index. Of other `RowBlocks` a chunk of the labeled items and a block of the others
    are in memory at a time.
    """
    Y = target.Y.copy()
    if target.labeled.all():
        return Y
    n_labeled = int(target.labeled.sum())
    in_memory = isinstance(X, np.ndarray | RowView)
    if sp.issparse(X) or (in_memory and uses_index(n_labeled, len(Y) - n_labeled)):
        _, nearest = nearest_rows(take_rows(X, target.labeled), take_rows(X, ~target.labeled), 1)
        Y[~target.labeled] = target.Y[target.labeled][nearest[:, 0]]
        return Y
    shortest = np.full(len(Y), np.inf)
    for chosen, known in _labeled_chunks(X, target.labeled):
        for rows, block in row_blocks(X):
            missing = np.flatnonzero(~target.labeled[rows])
            if len(missing) == 0:
                continue
            distance, nearest = nearest_rows(known, block[missing], 1, indexed=False)
            items = missing + rows.start
            nearer = distance[:, 0] < shortest[items]  # ties keep the first item
            items, nearest = items[nearer], nearest[nearer, 0]
            shortest[items] = distance[nearer, 0]
            Y[items] = target.Y[chosen[nearest]]
    return Y


def _labeled_chunks(
    X: NDArray[Any] | RowBlocks, labeled: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
    """Yield row numbers of labeled items and the items, `CHUNK_ROWS` at a time."""
    numbers = np.flatnonzero(labeled)
    chunk = np.empty((min(CHUNK_ROWS, len(numbers)), X.shape[1]), dtype=X.dtype)
    held = done = 0
    for rows, block in row_blocks(X):
        waiting = block[labeled[rows]]
        while len(waiting):
            part = waiting[: len(chunk) - held]
            chunk[held : held + len(part)] = part
            held, waiting = held + len(part), waiting[len(part) :]
            if held == len(chunk):
                yield numbers[done : done + held], chunk
                done, held = done + held, 0
    if held:
        yield numbers[done:], chunk[:held]


class NoLinks(InvalidInput):
    """A graph that links no two different items."""


class _LaplacianDiscriminant(GraphEmbedding):
    """Common part of DLE and MultiLabelDLE, which differ in the labels they accept and the graph they use."""

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "projection": ("u", "f", "g"),
        "objective": ("quotient", "balanced"),
        "graph": GRAPHS,
    }
    projection: str
    objective: str

    def fit(self, X: Any, y: Any, affinity: Any = None, sample_weight: Any = None) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            RowBlocks are read in several passes and never loaded as a whole; they need `affinity`.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. If given, `graph`, `n_neighbors` and `sigma` are
            ignored.
        sample_weight : array-like of shape (n,), optional
            A weight of s is equivalent to s copies of the item in S_b, S_w and C, 0 to an unlabeled item. The
            graph links items, not copies: in A = X (D - W) X^T and in beta every item counts once.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        target, weight = self._weigh_labels(target, sample_weight)
        space = row_space(X)

        def place(seen: Indicator, W: Any) -> NDArray[np.float64]:
            try:
                solution = self._solve(space, seen, weight, self._laplacian(X, seen, weight, W))
            except NoLinks:  # a sigma so small that all weights vanish is a bad candidate, not an error
                return np.zeros((X.shape[0], 0))
            return project_rows(X, solution.projection[:, : self.n_components])

        W = self._affinity(X, affinity, lambda W: fold_score(target, lambda seen: place(seen, W)))
        L = self._laplacian(X, target, weight, W)
        self._remember(L)
        self._warn_of_components(X, L)
        return self._store(X, target, self._solve(space, target, weight, L))

    def _laplacian(self, X: Any, target: Indicator, weight: Weight, W: Any) -> GraphLaplacian:
        raise NotImplementedError

    def _remember(self, L: GraphLaplacian) -> None:
        """Set the fitted attributes of the graph."""

    def _warn_of_components(self, X: Any, L: GraphLaplacian) -> None:
        """Warn if Eq. 11 drops the directions that separate the components of the graph."""
        n, p = X.shape
        if self.objective != "quotient" or 2 * p <= n:  # A has full rank unless most items are isolated
            return
        components = L.components()
        if p > n - len(components.sizes) and len(components.sizes) > 1:
            warn_caller(
                f"The graph has {components.describe()} and X {p} features for {n} items: A = X (D - W) X^T "
                "is zero along directions that only separate components, and Eq. 11 drops them. Raise "
                'n_neighbors, add links, reduce X first (PCA), or use objective="balanced".',
            )

    def _solve(self, space: RowSpace, target: Indicator, weight: Weight, L: GraphLaplacian) -> Solution:
        T = space.coordinates

        def scatter_term() -> Scatter:
            Z = LabelWeights(target.Y, "binary", np.eye(target.n_classes), weight)
            return class_scatter(T, Z, coordinates=not space.are_features)

        def graph_term() -> QuadraticForm:
            A = L.quadratic_form(T)
            if A.empty(coordinates=not space.are_features).all():
                raise NoLinks(
                    "The graph links no two different items, so X^T L X is zero; give an affinity with edges "
                    "between different items, or a larger sigma or n_neighbors."
                )
            return A

        if self.objective == "balanced":
            solution = solve_balanced_quotient(scatter_term, graph_term, scale_free=space.are_features)
        else:
            solution = solve_paper_quotient(scatter_term, graph_term, self.projection, space.are_features)
        return Solution(space.lift(solution.projection), solution.eigenvalues)


class DLE(_LaplacianDiscriminant):
    """Discriminant Laplacian embedding (DLE) [1]_.

    A linear embedding that separates the classes of the labeled items and keeps linked items, labeled or not,
    close together.

    Parameters
    ----------
    projection : {"u", "f", "g"}, default="u"
        Reading of the projection: U (Eq. 3), F = A_+^(-1/2) U (Eq. 7), or G = S_w^(-1/2) F.
    objective : {"quotient", "balanced"}, default="quotient"
        The paper's Eq. 1, or S_b against B = S_w / tr(S_w) + A / tr(A), in which both terms have equal weight
        (not in the paper). "balanced" uses the generalized eigenvectors of (S_b, B) and ignores `projection`.
    graph : {"knn", "gaussian"}, default="knn"
        Graph used if no affinity is given: nearest neighbors (sparse), or all pairs (dense, at most 2 GB; Eq.
        17 of the paper). Both have weights exp(-d² / (2 sigma)).
    n_neighbors : int, default=10
        Number of neighbors of an item in the "knn" graph.
    sigma : float, "auto" or "cv", default="auto"
        Scale of Eq. 17, in units of a squared distance (the paper does not square it). "auto" is the mean
        squared distance of the linked pairs; "cv" selects 1/64, 1/16, 1/4, 1 or 4 times that value by 5-fold
        cross-validation of 1NN on the labeled items.
    n_components : int or None, default=None
        Number of dimensions r, at most K-1. None means K-1, or all directions in which the classes differ if
        there are fewer.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
    eigenvalues_ : ndarray of shape (r,)
        lambda of Eq. 2, or of S_b v = lambda B v for "balanced", descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    sigma_ : float or None
        Scale used; None if an affinity was given.
    n_features_in_ : int

    Notes
    -----
    The columns of U solve Eq. 2 with the largest lambda,

        A_+^(-1/2) S_w+^(-1/2) S_b S_w+^(-1/2) A_+^(-1/2) u = lambda u,

    with A = X (D - W) X^T over all items, S_b and S_w over the labeled ones. A_+ and S_w+ are the parts with
    positive eigenvalues (Eq. 10, 11).

    Readings. (1) Eq. 5 needs F = S_w^(1/2) G, not S_w^(-1/2) G as printed. (2) Eq. 3 maps items by U, Eq. 7
    by F. `projection` selects one; the default is Eq. 3, which performs best. (3) If G is used consistently
    in both terms of Eq. 9, S_w cancels; "balanced" is a variant without this flaw.

    U does not change if the graph is rescaled to cW. It does change if features are rescaled: features of
    small scale have the most weight. The ranks of A and S_w do not depend on the scales. For faces and other
    wide data, apply PCA first. Otherwise a graph with several components removes directions: A is zero along
    directions that only separate components, and a warning is issued.

    S_b = H H^T with H of K columns, so U comes from a thin SVD. For p <= n neither an n x n matrix (unless
    `graph="gaussian"`) nor a float64 copy of X is formed: sums run over blocks of rows. X as `RowBlocks` is
    read ceil(p / 96) + 4 times, with n x 96 of its numbers in memory. For p > n the problem is solved in the
    row space of X: S_w and A are n x n and decomposed one after the other, in O(n³) time and with three to
    five n x n matrices in memory, never a p x p one (6,345 texts of 37,187 words: 160 s on one core, 1.3 GB).
    If both the items and the features number more than about 15,800 (8 GB), the fit raises an error.

    References
    ----------
    .. [1] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import DLE
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> DLE().fit(X, y).embedding_.shape
    (150, 2)
    """

    def __init__(
        self,
        *,
        projection: str = "u",
        objective: str = "quotient",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        n_components: int | None = None,
    ) -> None:
        self.projection = projection
        self.objective = objective
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.n_components = n_components

    def _check_classes(self, target: Indicator) -> None:
        check_one_class_per_item(target, "DLE", "MultiLabelDLE")
        super()._check_classes(target)

    def _laplacian(self, X: Any, target: Indicator, weight: Weight, W: Any) -> GraphLaplacian:
        return GraphLaplacian(W)


class MultiLabelDLE(_LaplacianDiscriminant):
    """Multi-label discriminant Laplacian embedding [1]_.

    DLE with class-wise scatter matrices and a graph that also links items with similar labels: W = W_X + beta
    W_L.

    Parameters
    ----------
    beta : float or "auto", default="auto"
        Weight of the label graph; "auto" gives W_X and beta W_L the same off-diagonal sum (below Eq. 16).
    correlation : {"train", "all"}, default="train"
        Labels from which C (Eq. 19) is computed: only the given ones, or also the initial labels of the
        unlabeled items.
    projection, objective, graph, n_neighbors, sigma, n_components
        As for `DLE`.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
    eigenvalues_ : ndarray of shape (r,)
        lambda of Eq. 2, or of S_b v = lambda B v for "balanced", descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    correlation_ : ndarray of shape (K, K)
        C of Eq. 19; a label without items correlates only with itself.
    initial_labels_ : ndarray of shape (n, K)
        Y with initial labels for the unlabeled items.
    beta_ : float
        Weight used.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    n_features_in_ : int

    Notes
    -----
    S_b and S_w follow Eq. 12-15 on the labeled items with the 0/1 labels. Eq. 2 is solved with W = W_X
    + beta W_L (Eq. 16), where W_L(i, j) = y_i^T C y_j / (|y_i| |y_j|) (Eq. 18) and C is the cosine of the
    label columns (Eq. 19). W_L needs labels for all items: an unlabeled item gets the labels of its nearest
    labeled neighbor in the input space. An item without any label is linked only by W_X. W_L is Y_n C Y_n^T
    and is never formed.

    The notes on readings and cost of `DLE` apply. In addition, finding the initial labels compares every pair
    of a labeled and an unlabeled item; with complete labels this step is skipped.

    References
    ----------
    .. [1] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import MultiLabelDLE
    >>> X = np.array([[0.0, 1], [1, 0], [1, 1], [5, 1], [6, 0], [6, 2], [3, 9], [4, 8], [9, 9]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [1, 1], [1, 1], [-1, -1]])
    >>> MultiLabelDLE(n_neighbors=3).fit(X, Y).initial_labels_[-1].tolist()
    [1, 1]
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_LaplacianDiscriminant._legal,
        "correlation": ("train", "all"),
    }

    def __init__(
        self,
        *,
        beta: float | str = "auto",
        correlation: str = "train",
        projection: str = "u",
        objective: str = "quotient",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        n_components: int | None = None,
    ) -> None:
        self.beta = beta
        self.correlation = correlation
        self.projection = projection
        self.objective = objective
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.n_components = n_components

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_not_negative("beta", self.beta, ("auto",))

    def _laplacian(self, X: Any, target: Indicator, weight: Weight, W: Any) -> GraphLaplacian:
        Y = nearest_labels(X, target)
        if self.correlation == "train":
            C = label_correlation(target.Y, weight)
        else:  # the initial label of an unlabeled item has weight 1
            C = label_correlation(Y, None if weight is None else np.where(target.labeled, weight, 1.0))
        labels = label_affinity(Y, C)
        beta = balance_beta(W, labels) if self.beta == "auto" else float(self.beta)
        return GraphLaplacian(W, labels, beta)

    def _remember(self, L: GraphLaplacian) -> None:
        assert L.labels is not None
        self.beta_ = L.beta
        self.correlation_ = L.labels.correlation
        self.initial_labels_ = L.labels.Y
