"""Affinity graphs: k nearest neighbors, dense Gaussian, given edges.

A graph is a symmetric non-negative (n, n) matrix W with zero diagonal: self-loops cancel in the Laplacian D -
W.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from embedding_core.checks import check_choice, check_count, is_number
from embedding_core.errors import InvalidInput, check_memory, warn_caller
from embedding_core.graph.components import Components as Components  # re-exported
from embedding_core.graph.components import graph_components as graph_components
from embedding_core.graph.knn import nearest_others, squared_lengths
from embedding_core.linalg.conditioning import move_items

DENSE_BUDGET_BYTES = 2e9
"""What the dense graph of all pairs may take."""

EDGE_WEIGHTS: Mapping[str, str] = {
    "gaussian": "exp(-d² / (2 sigma)), Eq. 17 of DLE: sigma is not squared",
    "heat": "exp(-d² / sigma), heat kernel with t = sigma",
    "binary": "1",
}
"""Legal edge weights and their formulas; d is the Euclidean distance."""

_SYMMETRY_TOLERANCE = 1e-10

LEAST_WEIGHT = 1e-200
"""The largest weight of a graph lies between this and its inverse."""


@dataclass(frozen=True)
class Edges:
    """Undirected edges i < j of n nodes with their squared lengths."""

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    squared: NDArray[np.float64]
    n: int

    @property
    def scale(self) -> float:
        """Mean squared length, what `sigma="auto"` takes; 1 where all items coincide."""
        mean = float(self.squared.mean()) if len(self.squared) else 0.0
        return mean if mean > 0 else 1.0

    def graph(self, weights: str, sigma: float) -> Any:
        """Weigh the edges."""
        return _symmetric_csr(self.i, self.j, _edge_weights(self.squared, weights, sigma), self.n)


def build_knn_graph(
    X: Any, n_neighbors: int = 10, weights: str = "gaussian", sigma: float | str = "auto"
) -> Any:
    """Connect every item with its nearest neighbors; an edge stands if either end chose the other.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    n_neighbors : int
        Neighbors of an item, itself not counted. With fewer other items all pairs are linked, and a warning
        says so.
    weights : {"gaussian", "heat", "binary"}
        exp(-d² / (2 sigma)) (Eq. 17 of DLE, sigma is not squared), exp(-d² / sigma), or 1.
    sigma : float or "auto"
        "auto" is the mean squared length of the edges.

    Returns
    -------
    csr_array of shape (n, n)
        An edge so long that its weight underflows to 0 is left out; its ends may then be isolated.
    """
    edges = find_knn_edges(X, n_neighbors)
    return edges.graph(weights, edges.scale if sigma == "auto" else check_sigma(sigma))


def find_knn_edges(X: Any, n_neighbors: int) -> Edges:
    """Find the edges of the k-nearest-neighbor graph with exact lengths (one search serves every sigma)."""
    X = _check_items(X)
    n = X.shape[0]
    n_neighbors = check_neighbors(n_neighbors, n)
    i, j = pairs_of(nearest_others(X, n_neighbors))
    return Edges(i, j, squared_lengths(X, i, j), n)


def pairs_of(nearest: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs i < j, each once, of which one at least names the other: `nearest` (n, k) are row numbers."""
    n, k = nearest.shape
    start, end = np.repeat(np.arange(n), k), nearest.ravel()
    pairs = np.unique(np.minimum(start, end) * n + np.maximum(start, end))
    return pairs // n, pairs % n


def build_gaussian_graph(
    X: Any, sigma: float | str = "auto", memory_budget_bytes: float = DENSE_BUDGET_BYTES
) -> NDArray[np.float64]:
    """Connect all pairs by exp(-d² / (2 sigma)), Eq. 17 of DLE, in a dense matrix.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    sigma : float or "auto"
        "auto" is the mean squared distance over all pairs.
    memory_budget_bytes : float
        The two n x n float64 matrices needed must fit.

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
    """Raise where so many n x n matrices are beyond the budget; `advice` is what the caller's user can do."""
    check_memory(f"A dense graph of {n} items", matrices * 8 * float(n) ** 2, memory_budget_bytes, advice)


def squared_distances(X: Any) -> NDArray[np.float64]:
    """All squared distances as a dense matrix; the caller sees to its size."""
    X = _check_items(X)
    moved = move_items(X)
    product = moved @ moved.T
    squared = product.toarray() if sp.issparse(product) else np.asarray(product)
    norms = squared.diagonal().copy()
    squared *= -2
    squared += norms[:, None] + norms
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def mean_squared_distance(squared: NDArray[np.float64]) -> float:
    """Mean over all pairs of distinct items; 1 where all items coincide."""
    n = len(squared)
    mean = float(squared.sum()) / max(n * (n - 1), 1)
    return mean if mean > 0 else 1.0


def gaussian_of(squared: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Eq. 17 of DLE on a matrix of squared distances, diagonal zero."""
    W = squared / (-2 * sigma)
    np.exp(W, out=W)
    np.fill_diagonal(W, 0.0)
    return W


def graph_from_edges(i: ArrayLike, j: ArrayLike, w: ArrayLike | None, n: int) -> Any:
    """Build the graph of given edges.

    Parameters
    ----------
    i, j : array-like of int, shape (m,)
        Ends of the edges, 0 to n - 1. The direction does not matter; self-loops are dropped.
    w : array-like of float, shape (m,), or None
        Weights >= 0, 1 where None. A pair given several times, in either direction, gets its largest weight.
    n : int
        Number of nodes.

    Returns
    -------
    csr_array of shape (n, n)
    """
    a, b = np.asarray(i), np.asarray(j)
    weight = np.ones(len(a)) if w is None else np.asarray(w, dtype=np.float64)
    if not len(a) == len(b) == len(weight):
        raise InvalidInput(
            f"Edges have {len(a)} starts, {len(b)} ends and {len(weight)} weights; need as many."
        )
    for name, ends in (("i", a), ("j", b)):
        _check_ends(name, ends, n)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        e = bad[0]
        raise InvalidInput(
            f"Edge {e} ({a[e]}, {b[e]}) has weight {weight[e]}; weights are finite and >= 0. Correct it."
        )
    low, high = np.minimum(a, b).astype(np.intp), np.maximum(a, b).astype(np.intp)
    order = np.lexsort((weight, high, low))
    low, high, weight = low[order], high[order], weight[order]
    last = np.append((np.diff(low) != 0) | (np.diff(high) != 0), True)[: len(low)]
    keep = last & (low != high)
    return _symmetric_csr(low[keep], high[keep], weight[keep], n)


def graph_edges(W: Any) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Edges i < j and their weights, sorted: the inverse of `graph_from_edges`."""
    upper = sp.triu(sp.coo_array(W), k=1).tocsr()
    upper.sort_indices()
    upper.eliminate_zeros()
    edges = upper.tocoo()
    return edges.row.astype(np.int32), edges.col.astype(np.int32), edges.data.astype(np.float64)


def check_affinity(W: Any, n: int) -> Any:
    """Validate a given graph: (n, n), finite, non-negative, symmetric; the diagonal is dropped.

    Returns
    -------
    csr_array or ndarray of shape (n, n), float64
    """
    try:
        W = check_array(W, accept_sparse="csr", dtype=np.float64, copy=True, input_name="affinity")
    except ValueError as error:
        raise InvalidInput(
            f"The affinity is no graph: {str(error).splitlines()[0].rstrip('.')}; pass a dense or sparse "
            f"({n}, {n}) matrix of finite numbers >= 0, without links of unknown weight."
        ) from error
    if W.shape != (n, n):
        raise InvalidInput(f"affinity has shape {W.shape}; expected ({n}, {n}), one row and column an item.")
    W = sp.csr_array(W) if sp.issparse(W) else W
    if W.size and W.min() < 0:
        row, column = np.argwhere(W < 0)[0] if not sp.issparse(W) else np.transpose((W < 0).nonzero())[0]
        raise InvalidInput(
            f"affinity[{row}, {column}] = {W[row, column]} is negative; similarities are >= 0. "
            "Pass exp(-distance) or drop such edges."
        )
    _check_symmetric(W)
    if sp.issparse(W):
        W.setdiag(0.0)
        W.eliminate_zeros()
    else:
        np.fill_diagonal(W, 0.0)
    largest = float(W.max()) if W.size else 0.0
    if largest > 0 and not weights_in_range(largest):
        raise InvalidInput(
            f"The largest weight of the affinity is {largest:.3g}; expected {LEAST_WEIGHT:g} to "
            f"{1 / LEAST_WEIGHT:g}, beyond which sums or inverses leave the range of float64. Divide the "
            "affinity by its largest weight."
        )
    return W


def weights_in_range(largest: float) -> bool:
    """Whether a graph with this largest weight can be summed, multiplied by items and inverted."""
    return LEAST_WEIGHT <= largest <= 1 / LEAST_WEIGHT


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


def _symmetric_csr(i: NDArray[np.intp], j: NDArray[np.intp], w: NDArray[np.float64], n: int) -> Any:
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    W = sp.csr_array((np.concatenate([w, w]), (rows, columns)), shape=(n, n))
    W.sort_indices()
    W.eliminate_zeros()
    return W


def _check_items(X: Any) -> Any:
    try:
        return check_array(X, accept_sparse="csr", dtype=np.float64)
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def check_neighbors(n_neighbors: Any, n: int) -> int:
    """Return how many neighbors each of n items can have; a warning says where that is fewer than asked."""
    check_count("n_neighbors", n_neighbors)
    if n < 2:
        raise InvalidInput(f"A graph needs two or more items, found n_samples={n}; add items.")
    if n_neighbors > n - 1:
        warn_caller(
            f"n_neighbors={n_neighbors} but each of the {n} items has {n - 1} others only: "
            "all pairs are linked.",
        )
    return min(int(n_neighbors), n - 1)


def _check_ends(name: str, ends: NDArray[Any], n: int) -> None:
    if len(ends) and ends.dtype.kind not in "iu":
        raise InvalidInput(f"Edge ends {name} are {ends.dtype}; expected integers 0 to {n - 1}.")
    bad = np.flatnonzero((ends < 0) | (ends >= n)) if len(ends) else np.zeros(0, dtype=int)
    if bad.size:
        raise InvalidInput(
            f"Edge {bad[0]}: {name} = {ends[bad[0]]} is outside 0..{n - 1}; there are {n} items. "
            "Check that the edge list belongs to this collection."
        )


def _check_symmetric(W: Any) -> None:
    gap = abs(W - W.T)
    largest = W.max() if W.size else 0.0
    if gap.size and gap.max() > _SYMMETRY_TOLERANCE * largest:
        row, column = np.unravel_index(int(gap.argmax()), W.shape)
        raise InvalidInput(
            f"affinity is not symmetric: [{row}, {column}] = {W[row, column]} but [{column}, {row}] = "
            f"{W[column, row]}; pass (W + W.T) / 2."
        )
