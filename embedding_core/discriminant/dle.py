"""Discriminant Laplacian embedding, for one class or several labels an item."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from embedding_core.affinity import (
    GRAPHS,
    check_given_graph,
    check_sigma_choice,
    choose_sigma,
    graph_family,
)
from embedding_core.base import LinearEmbedding, Solution
from embedding_core.eigen import RowSpace, compress_factor, positive_part, row_space, thin_svd, whitening
from embedding_core.errors import InvalidInput
from embedding_core.folds import stratified_folds
from embedding_core.initial_labels import nearest_labels
from embedding_core.label_blocks import LabelWeights, blocked_correlation
from embedding_core.labels import Indicator
from embedding_core.laplacian import GraphLaplacian, balance_beta, label_affinity
from embedding_core.neighbors import nearest_rows
from embedding_core.row_blocks import RowBlocks, project_rows
from embedding_core.scatter import Scatter, class_scatter

CV_FOLDS = 5


def solve_paper_quotient(scatter: Scatter, A: NDArray[np.float64], projection: str) -> Solution:
    """Solve Eq. 2: U holds the left singular vectors of A_+^(-1/2) S_w+^(-1/2) H, where S_b = H H^T.

    `projection` "u" gives U, "f" F = A_+^(-1/2) U, "g" G = S_w+^(-1/2) F.
    """
    within, graph = positive_part(scatter.within), positive_part(A)
    H = compress_factor(scatter.factor, scatter.within)
    U, eigenvalues = thin_svd(graph.inverse_root(within.inverse_root(H)))
    if projection == "u":
        return Solution(U, eigenvalues)
    F = graph.inverse_root(U)
    return Solution(F if projection == "f" else within.inverse_root(F), eigenvalues)


def solve_balanced_quotient(scatter: Scatter, A: NDArray[np.float64]) -> Solution:
    """Solve S_b v = lambda B v for B = S_w / tr(S_w) + A / tr(A), with v^T B v = 1."""
    B = np.sum([S / np.trace(S) for S in (scatter.within, A) if np.trace(S) > 0], axis=0)
    T = whitening(B)
    P, eigenvalues = thin_svd(T.whiten(compress_factor(scatter.factor, scatter.within)))
    return Solution(T.unwhiten(P), eigenvalues)


def micro_f1(Y: NDArray[np.int8], predicted: NDArray[np.int8]) -> float:
    """Micro-averaged F1; for one label an item it is the accuracy."""
    positives = int(Y.sum()) + int(predicted.sum())
    return 2 * int((Y & predicted).sum()) / positives if positives else 1.0


class _LaplacianDiscriminant(LinearEmbedding):
    """What DLE and MultiLabelDLE share; they differ in the labels they take and the graph they use."""

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "projection": ("u", "f", "g"),
        "objective": ("quotient", "balanced"),
        "graph": GRAPHS,
    }
    projection: str
    objective: str
    graph: str
    n_neighbors: int
    sigma: float | str

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Find the projection.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            RowBlocks are read in several passes and never held whole; they need `affinity`.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabelled, or 0/1 columns with rows of -1 for unlabelled.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. Where given, `graph`, `n_neighbors` and `sigma`
            play no part.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        space = row_space(X)
        W = self._affinity(X, space, target, affinity)
        L = self._laplacian(X, target, W)
        self._remember(L)
        return self._store(X, target, self._solve(space, target, L))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_sigma_choice(self.sigma)

    def _affinity(self, X: Any, space: RowSpace, target: Indicator, affinity: Any) -> Any:
        if affinity is not None:
            self.sigma_ = None
            return check_given_graph(affinity, X.shape[0])
        if isinstance(X, RowBlocks):
            raise InvalidInput(
                f"X comes in blocks of rows and no affinity is given; finding neighbours of {X.shape[0]} "
                "items needs them in memory. Pass affinity, or X as an array."
            )
        family = graph_family(X, self.graph, self.n_neighbors)
        self.sigma_ = choose_sigma(family, self.sigma, lambda W: self._cv_score(X, space, target, W))
        return family.weigh(self.sigma_)

    def _laplacian(self, X: Any, target: Indicator, W: Any) -> GraphLaplacian:
        raise NotImplementedError

    def _remember(self, L: GraphLaplacian) -> None:
        """Set the fitted attributes of the graph."""

    def _solve(self, space: RowSpace, target: Indicator, L: GraphLaplacian) -> Solution:
        T, C = space.coordinates, np.eye(target.n_classes)
        scatter = class_scatter(T, LabelWeights(target.Y, "binary", C))
        A = L.quadratic(T)
        if not np.trace(A) > 0:
            raise InvalidInput(
                "The graph links no two different items, so X^T L X is zero; give an affinity with edges "
                "between different items, or a larger sigma or n_neighbors."
            )
        if self.objective == "balanced":
            solution = solve_balanced_quotient(scatter, A)
        else:
            solution = solve_paper_quotient(scatter, A, self.projection)
        return Solution(space.lift(solution.projection), solution.eigenvalues)

    def _cv_score(self, X: Any, space: RowSpace, target: Indicator, W: Any) -> float:
        """Mean micro-F1 of 1NN in the embedding, each fold of the labelled items hidden in turn.

        A fold without which the classes cannot be told apart scores 0, whatever the graph.
        """
        n_splits = min(CV_FOLDS, int(target.labelled.sum()))
        scores = []
        for train, test in stratified_folds(target.Y, n_splits, seed=0):
            seen = target.hide(test)
            solution = self._solve(space, seen, self._laplacian(X, seen, W))
            Q = project_rows(X, solution.projection[:, : self.n_components])
            scores.append(_neighbor_score(Q, target.Y, train, test))
        return float(np.mean(scores))


def _neighbor_score(
    Q: NDArray[np.float64], Y: NDArray[np.int8], train: NDArray[np.intp], test: NDArray[np.intp]
) -> float:
    if Q.shape[1] == 0:
        return 0.0
    _, nearest = nearest_rows(Q[train], Q[test], 1)
    return micro_f1(Y[test], Y[train][nearest[:, 0]])


class DLE(_LaplacianDiscriminant):
    """Discriminant Laplacian embedding (DLE) [1]_.

    A linear embedding that separates the classes of the labelled items and keeps linked items, labelled or
    not, together.

    Parameters
    ----------
    projection : {"u", "f", "g"}, default="u"
        Which reading places the items: U (Eq. 3), F = A_+^(-1/2) U (Eq. 7), or G = S_w^(-1/2) F.
    objective : {"quotient", "balanced"}, default="quotient"
        The paper's Eq. 1, or S_b against B = S_w / tr(S_w) + A / tr(A), where both terms count alike (not in
        the paper). "balanced" has one reading, the generalised eigenvectors of (S_b, B); `projection` plays
        no part.
    graph : {"knn", "gaussian"}, default="knn"
        Graph where no affinity is given: nearest neighbours (sparse), or all pairs (dense, up to 2 GB; the
        paper's Eq. 17). Both weigh pairs by exp(-d² / (2 sigma)).
    n_neighbors : int, default=10
        Neighbours of an item in the "knn" graph.
    sigma : float, "auto" or "cv", default="auto"
        Scale of Eq. 17, in squared distances (the paper does not square it). "auto" is the mean squared
        distance of the linked pairs; "cv" picks 1/64, 1/16, 1/4, 1 or 4 times that by 5-fold cross-validation
        of 1NN on the labelled items.
    n_components : int or None, default=None
        Dimensions r of the embedding, at most K-1. None takes K-1, or all directions in which the classes
        differ where there are fewer.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
    eigenvalues_ : ndarray of shape (r,)
        lambda of Eq. 2, descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, the unlabelled included.
    classes_ : ndarray of shape (K,)
    sigma_ : float or None
        Scale used, None where an affinity was given.
    n_features_in_ : int

    Notes
    -----
    A = X (D - W) X^T over all items, S_b and S_w over the labelled ones; A_+ and S_w+ are the parts with
    positive eigenvalues (Eq. 10, 11). Eq. 5 needs F = S_w^(1/2) G, not S_w^(-1/2) G as printed. Eq. 3 places
    items by U, Eq. 7 by F: `projection`, with Eq. 3 as the default, which does best. Done consistently (G in
    both terms of Eq. 9) S_w would cancel; "balanced" is a variant without that flaw. For faces and other wide
    data PCA belongs in front. A rescaled graph, cW, leaves U as it is.

    S_b = H H^T with H of K columns, so U comes from a thin SVD; for p > n all is done in the row space of X.
    For p <= n no n x n matrix is made unless `graph="gaussian"`, and no float64 copy of X: sums run over
    blocks of rows. X as `RowBlocks` is read ceil(p / 96) + 4 times with n x 96 of its numbers in memory.

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
        count = target.Y.sum(axis=1)
        odd = np.flatnonzero(target.labelled & (count != 1))
        if odd.size:
            raise InvalidInput(
                f"Row {odd[0]} of y carries {count[odd[0]]} labels ({odd.size} such rows); DLE takes exactly "
                "one class an item. Use MultiLabelDLE for several labels, -1 for unlabelled items."
            )
        super()._check_classes(target)

    def _laplacian(self, X: Any, target: Indicator, W: Any) -> GraphLaplacian:
        return GraphLaplacian(W)


class MultiLabelDLE(_LaplacianDiscriminant):
    """Multi-label discriminant Laplacian embedding [1]_.

    DLE with class-wise scatter matrices and a graph that also links items with similar labels:
    W = W_X + beta W_L.

    Parameters
    ----------
    beta : float or "auto", default="auto"
        Weight of the label graph; "auto" gives W_X and beta W_L the same off-diagonal sum (below Eq. 16).
    correlation : {"train", "all"}, default="train"
        Labels that C (Eq. 19) is computed from: those given, or also the initial ones of the unlabelled
        items.
    projection, objective, graph, n_neighbors, sigma, n_components
        As for `DLE`.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
    eigenvalues_ : ndarray of shape (r,)
        lambda of Eq. 2, descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, the unlabelled included.
    classes_ : ndarray of shape (K,)
    correlation_ : ndarray of shape (K, K)
        C of Eq. 19; a label that nobody has correlates with itself alone.
    initial_labels_ : ndarray of shape (n, K)
        Y with the unlabelled items initialised.
    beta_ : float
        Weight used.
    sigma_ : float or None
        Scale used, None where an affinity was given.
    n_features_in_ : int

    Notes
    -----
    S_b and S_w follow Eq. 12-15 on the labelled items with the plain 0/1 labels. W_L (Eq. 18) needs labels
    for all items: an unlabelled one takes over those of its nearest labelled neighbour in the input space.
    W_L is Y_n C Y_n^T and is never formed. What is said of the readings of `DLE` holds here.

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
        beta = self.beta
        if isinstance(beta, str) and beta == "auto":
            return
        number = isinstance(beta, int | float | np.integer | np.floating) and not isinstance(beta, bool)
        if not (number and np.isfinite(float(beta)) and float(beta) >= 0):
            raise InvalidInput(f'beta={beta!r} is not legal; give a number >= 0 or "auto".')

    def _laplacian(self, X: Any, target: Indicator, W: Any) -> GraphLaplacian:
        Y = nearest_labels(X, target)
        labels = label_affinity(Y, blocked_correlation(target.Y if self.correlation == "train" else Y))
        beta = balance_beta(W, labels) if self.beta == "auto" else float(self.beta)
        return GraphLaplacian(W, labels, beta)

    def _remember(self, L: GraphLaplacian) -> None:
        assert L.labels is not None
        self.beta_ = L.beta
        self.correlation_ = L.labels.correlation
        self.initial_labels_ = L.labels.Y
