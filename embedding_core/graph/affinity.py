"""Affinity graphs built from items: k nearest neighbors, dense Gaussian, and the choice of sigma.

A graph is a symmetric non-negative (n, n) matrix W with zero diagonal: self-loops cancel in the Laplacian
D - W.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from embedding_core.checks import check_choice, check_count, is_number
from embedding_core.errors import InvalidInput, check_memory, warn_caller
from embedding_core.graph.knn import (
    BLOCK_VALUES,
    EXACT_ITEMS,
    RECALL,
    find_others,
    intersections,
    nearest_by_distance,
    nearest_in_blocks,
    squared_lengths,
)
from embedding_core.graph.supplied import check_given_graph, symmetric_csr
from embedding_core.linalg.conditioning import shift_items

GRAPHS = ("knn", "gaussian")

SIGMA_WORDS = ("auto", "cv")

SIGMA_FACTORS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
"""Candidates of `sigma="cv"` as multiples of the mean squared distance."""

DENSE_BUDGET_BYTES = 2e9
"""Memory limit of the dense graph of all pairs."""

EDGE_WEIGHTS: Mapping[str, str] = {
    "gaussian": "exp(-d² / (2 sigma)), Eq. 17 of DLE: sigma is not squared",
    "heat": "exp(-d² / sigma), heat kernel with t = sigma",
    "binary": "1",
}
"""Legal edge weights and their formulas; d is the Euclidean distance."""

INTERSECTION = "intersection"
"""Edge weights by the histogram intersection, see `build_intersection_graph`."""


@dataclass(frozen=True)
class Edges:
    """Undirected edges i < j of n nodes with their squared lengths.

    `recall` is the share of the true neighbors that the search found, measured on a sample; 1 if exact.
    """

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    squared: NDArray[np.float64]
    n: int
    recall: float = 1.0

    @property
    def scale(self) -> float:
        """Mean squared length, the value of `sigma="auto"`; 1 if all items coincide."""
        mean = float(self.squared.mean()) if len(self.squared) else 0.0
        return mean if mean > 0 else 1.0

    def graph(self, weights: str, sigma: float) -> Any:
        """Return the weighted graph, a csr_array of shape (n, n)."""
        return symmetric_csr(self.i, self.j, _edge_weights(self.squared, weights, sigma), self.n)


def build_knn_graph(
    X: Any, n_neighbors: int = 10, weights: str = "gaussian", sigma: float | str = "auto"
) -> Any:
    """Connect every item with its nearest neighbors.

    Two items are linked if either is among the nearest neighbors of the other.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    n_neighbors : int
        Number of neighbors of an item, not counting itself. If there are fewer other items, all pairs are
        linked and a warning is issued.
    weights : {"gaussian", "heat", "binary", "intersection"}
        exp(-d² / (2 sigma)) (Eq. 17 of DLE; sigma is not squared), exp(-d² / sigma), 1, or the graph of
        `build_intersection_graph`, which has no sigma.
    sigma : float or "auto"
        "auto" is the mean squared length of the edges.

    Returns
    -------
    csr_array of shape (n, n)
        Edges whose weight underflows to 0 are dropped, so their ends may become isolated.
    """
    if weights == INTERSECTION:
        return build_intersection_graph(X, n_neighbors)
    edges = find_knn_edges(X, n_neighbors)
    return edges.graph(weights, edges.scale if sigma == "auto" else check_sigma(sigma))


def build_intersection_graph(
    X: Any, n_neighbors: int = 10, memory_budget_bytes: float = DENSE_BUDGET_BYTES
) -> Any:
    """Connect every item with the items whose histograms it shares most with.

    The weight of an edge is the histogram intersection sum_k min(x_ik, x_jk), and two items are linked if
    either is among the `n_neighbors` items that have the largest intersection with the other. Ties are broken
    by the lower index.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
        Histograms: no value is negative.
    n_neighbors : int
        As for `build_knn_graph`.
    memory_budget_bytes : float
        Limit of the kernel values that exist at a time: the kernel is computed for some rows at a time.

    Returns
    -------
    csr_array of shape (n, n)
        Items whose histograms have no bin in common are not linked.

    Examples
    --------
    >>> build_intersection_graph([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]], 1).toarray().tolist()
    [[0.0, 0.5, 0.0], [0.5, 0.0, 0.75], [0.0, 0.75, 0.0]]
    """
    from embedding_core.linalg.l1 import intersection_kernel  # compiles code, which other graphs do not need

    X = _check_items(X)
    n = X.shape[0]
    n_neighbors = check_neighbors(n_neighbors, n)
    # the kernel values of a block, their negatives, and the copy that is partitioned
    block_values = int(min(BLOCK_VALUES, memory_budget_bytes / 24))
    nearest = nearest_in_blocks(lambda rows: -intersection_kernel(X[rows], X), n, n_neighbors, block_values)
    i, j = pairs_of(nearest)
    return symmetric_csr(i, j, intersections(X, i, j), n)


def find_knn_edges(X: Any, n_neighbors: int, exact_items: int = EXACT_ITEMS, recall: float = RECALL) -> Edges:
    """Find the edges of the k-nearest-neighbor graph with exact lengths; one search serves every sigma.

    Neighbors among more than `exact_items` dense items are found by an index, see
    `embedding_core.graph.knn.find_others`.
    """
    # float32 items are searched and measured as they are: the numbers are the same in float64
    X = _check_items(X, [np.float64, np.float32])
    n = X.shape[0]
    n_neighbors = check_neighbors(n_neighbors, n)
    found = find_others(X, n_neighbors, exact_items, recall)
    i, j = pairs_of(found.indices)
    return Edges(i, j, squared_lengths(X, i, j), n, found.recall)


def pairs_of(nearest: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return each pair i < j once for which i or j lists the other; `nearest` (n, k) contains row numbers."""
    n, k = nearest.shape
    start, end = np.repeat(np.arange(n), k), nearest.ravel()
    pairs = np.unique(np.minimum(start, end) * n + np.maximum(start, end))
    return pairs // n, pairs % n


def build_gaussian_graph(
    X: Any, sigma: float | str = "auto", memory_budget_bytes: float = DENSE_BUDGET_BYTES
) -> NDArray[np.float64]:
    """Connect all pairs with weight exp(-d² / (2 sigma)), Eq. 17 of DLE, in a dense matrix.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    sigma : float or "auto"
        "auto" is the mean squared distance over all pairs.
    memory_budget_bytes : float
        Limit for the two n x n float64 matrices that are needed.

    Returns
    -------
    ndarray of shape (n, n) with zero diagonal
    """
    advice = "use build_knn_graph, or raise memory_budget_bytes"
    check_dense_size(np.shape(X)[0], memory_budget_bytes, advice)
    W = squared_distances(X)
    sigma = mean_squared_distance(W) if sigma == "auto" else check_sigma(sigma)
    return gaussian_of(W, sigma)


def check_dense_size(n: int, memory_budget_bytes: float, advice: str, matrices: int = 2) -> None:
    """Raise InvalidInput if this many n x n matrices exceed the budget.

    `advice` says what the user can do.
    """
    check_memory(f"A dense graph of {n} items", matrices * 8 * float(n) ** 2, memory_budget_bytes, advice)


def squared_distances(X: Any) -> NDArray[np.float64]:
    """Return all squared distances as a dense matrix; the caller checks the size."""
    X = _check_items(X)
    shifted = shift_items(X)
    product = shifted @ shifted.T
    squared: NDArray[np.float64] = product.toarray() if sp.issparse(product) else np.asarray(product)
    norms = squared.diagonal().copy()
    squared *= -2
    squared += norms[:, None] + norms
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def mean_squared_distance(squared: NDArray[np.float64]) -> float:
    """Mean over all pairs of distinct items; 1 if all items coincide."""
    n = len(squared)
    mean = float(squared.sum()) / max(n * (n - 1), 1)
    return mean if mean > 0 else 1.0


def gaussian_of(squared: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Apply Eq. 17 of DLE to a matrix of squared distances and set the diagonal to zero."""
    W = squared / (-2 * sigma)
    np.exp(W, out=W)
    np.fill_diagonal(W, 0.0)
    return W


def check_sigma(sigma: Any) -> float:
    """Return sigma as a float; it must be positive and finite."""
    if not (is_number(sigma) and sigma > 0):
        raise InvalidInput(
            f"sigma={sigma!r} is not a positive number; it has the unit of a squared distance."
        )
    return float(sigma)


def _edge_weights(squared: NDArray[np.float64], weights: str, sigma: float) -> NDArray[np.float64]:
    check_choice("weights", weights, tuple(EDGE_WEIGHTS))
    if weights == "binary":
        return np.ones_like(squared)
    return np.exp(squared / (-2 * sigma if weights == "gaussian" else -sigma))


def _check_items(X: Any, dtype: Any = np.float64) -> Any:
    try:
        return check_array(X, accept_sparse="csr", dtype=dtype)
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def check_neighbors(n_neighbors: Any, n: int) -> int:
    """Return the number of neighbors that each of n items can have; warn if it is less than requested."""
    check_count("n_neighbors", n_neighbors)
    if n < 2:
        raise InvalidInput(f"A graph needs two or more items, found n_samples={n}; add items.")
    if n_neighbors > n - 1:
        warn_caller(
            f"n_neighbors={n_neighbors}, but there are only {n - 1} other items for each of the {n} items: "
            "all pairs are linked.",
        )
    return min(int(n_neighbors), n - 1)


@dataclass(frozen=True)
class GraphFamily:
    """Gaussian graphs (Eq. 17 of DLE) on fixed pairs: `weigh(sigma)` returns one, `scale` is sigma="auto"."""

    scale: float
    weigh: Callable[[float], Any]


def graph_family(X: Any, graph: str, n_neighbors: int) -> GraphFamily:
    """Find the pairs and their distances once, for all values of sigma.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    graph : {"knn", "gaussian"}
        Sparse graph of nearest neighbors, or all pairs (dense, at most 2 GB).
    n_neighbors : int
        For "knn".
    """
    if graph == "knn":
        edges = find_knn_edges(X, n_neighbors)
        return GraphFamily(edges.scale, lambda sigma: edges.graph("gaussian", sigma))
    check_dense_size(X.shape[0], DENSE_BUDGET_BYTES, 'use graph="knn", or pass an affinity')
    squared = squared_distances(X)
    return GraphFamily(mean_squared_distance(squared), lambda sigma: gaussian_of(squared, sigma))


def kernel_graph_family(K: NDArray[np.float64], graph: str, n_neighbors: int) -> GraphFamily:
    """Like `graph_family`, with the distances in the feature space of a kernel matrix K (n, n)."""
    squared = kernel_distances(K)
    if graph == "gaussian":
        return GraphFamily(mean_squared_distance(squared), lambda sigma: gaussian_of(squared, sigma))
    edges = nearest_edges(squared, n_neighbors)
    return GraphFamily(edges.scale, lambda sigma: edges.graph("gaussian", sigma))


def kernel_distances(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances in the feature space of a kernel matrix."""
    squared = K.diagonal()[:, None] + K.diagonal() - K - K.T
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def nearest_edges(squared: NDArray[np.float64], n_neighbors: int) -> Edges:
    """Find the edges of the k-nearest-neighbor graph from all squared distances (n, n)."""
    n = len(squared)
    i, j = pairs_of(nearest_by_distance(squared, check_neighbors(n_neighbors, n)))
    return Edges(i, j, squared[i, j], n)


def check_sigma_choice(sigma: Any) -> None:
    """Raise InvalidInput unless sigma is a positive number, "auto" or "cv"."""
    if isinstance(sigma, str):
        if sigma not in SIGMA_WORDS:
            raise InvalidInput(f'sigma={sigma!r} is not legal; give a positive number, "auto" or "cv".')
    else:
        check_sigma(sigma)


def choose_sigma(family: GraphFamily, sigma: float | str, score: Callable[[Any], float]) -> float:
    """Resolve sigma.

    A number is used as it is, "auto" is the scale of the family, "cv" is the candidate whose graph has the
    highest score; of equal scores the candidate nearest to the scale is chosen.
    """
    if sigma == "auto":
        return family.scale
    if sigma != "cv":
        return check_sigma(sigma)
    nearest_first = sorted(SIGMA_FACTORS, key=lambda factor: abs(np.log(factor)))
    scores = [score(family.weigh(factor * family.scale)) for factor in nearest_first]
    return nearest_first[int(np.argmax(scores))] * family.scale


def resolve_graph(
    affinity: Any,
    n: int,
    family: Callable[[], GraphFamily],
    sigma: float | str | None,
    score: Callable[[Any], float],
) -> tuple[Any, float | None]:
    """Return the supplied graph of n items, or one of the family, with the sigma of its weights.

    Parameters
    ----------
    affinity : array, sparse matrix or None
    n : int
    family : callable
        Finds the pairs to link; called only if no affinity is supplied.
    sigma : float, "auto", "cv" or None
        None for weights without a sigma.
    score : callable
        Rates a graph for "cv".

    Returns
    -------
    W : csr_array or ndarray of shape (n, n)
    sigma : float or None
        None also for a supplied graph.
    """
    if affinity is not None:
        return check_given_graph(affinity, n), None
    found = family()
    chosen = None if sigma is None else choose_sigma(found, sigma, score)
    return found.weigh(found.scale if chosen is None else chosen), chosen
