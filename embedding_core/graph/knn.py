"""Nearest neighbors: exact up to a number of items, by an index with a measured recall beyond it.

The result does not depend on the number of threads or the order of chunks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from embedding_core.linalg.conditioning import EPS, shift_items

BLOCK_VALUES = 4_000_000
"""Numbers that exist at a time while distances are computed in blocks."""

EXACT_ITEMS = 20_000
"""Neighbors among more dense items than this are found by an index."""

RECALL = 0.99
"""Share of the true neighbors that an index must find."""

_MOST_WORK = 2e10


@dataclass(frozen=True)
class OtherNeighbors:
    """Row numbers (n, k) of the items nearest to each item, and the share of the true ones among them."""

    indices: NDArray[np.intp]
    recall: float = 1.0


def nearest_others(
    X: Any, k: int, exact_items: int = EXACT_ITEMS, recall: float = RECALL
) -> NDArray[np.intp]:
    """Return the indices (n, k) of the k items nearest to each item, excluding itself, nearest first.

    Ties are broken by the lower index. If resolving the ties would cost more than the search (some 2e10
    multiplications), the neighbors found by the search are kept.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
        Finite numbers.
    k : int
        From 1 to n - 1.
    exact_items, recall
        See `find_others`.
    """
    return find_others(X, k, exact_items, recall).indices


def find_others(X: Any, k: int, exact_items: int = EXACT_ITEMS, recall: float = RECALL) -> OtherNeighbors:
    """Like `nearest_others`, with the recall of the search.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    k : int
    exact_items : int
        More dense items than this are searched by `CellIndex`. Sparse items are always searched exactly.
    recall : float
        Share of the true neighbors that the index must find, measured on a sample.
    """
    if sp.issparse(X) or X.shape[0] <= exact_items:
        return OtherNeighbors(_exact_others(X, k))
    from embedding_core.graph.cell_index import CellIndex  # compiles code, which small graphs do not need

    found = CellIndex(X).search(None, k, recall)
    return OtherNeighbors(found.indices, found.recall)


def _exact_others(X: Any, k: int) -> NDArray[np.intp]:
    n = X.shape[0]
    shifted = shift_items(X)
    found = NearestNeighbors(n_neighbors=min(k + 1, n - 1)).fit(shifted).kneighbors(return_distance=False)
    found.sort(axis=1)
    starts = np.repeat(np.arange(n), found.shape[1])
    squared = squared_lengths(X, starts, found.ravel()).reshape(found.shape)
    order = np.argsort(squared, axis=1, kind="stable")
    found, squared = (np.take_along_axis(values, order, axis=1) for values in (found, squared))
    if found.shape[1] > k:
        norms = squared_norms(shifted)
        # distances of the search have an error of some eps of both squared norms
        doubt = 64 * EPS * (norms + norms[found[:, k]])
        unclear = np.flatnonzero(squared[:, k] - squared[:, k - 1] <= doubt)
        if float(len(unclear)) * X.shape[1] * n <= _MOST_WORK:
            reach = squared[unclear, k] + 2 * doubt[unclear]
            found[unclear, :k] = _first_of_equals(X, shifted, unclear, reach, k)
    return found[:, :k]


def nearest_by_distance(squared: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Like `nearest_others`, from all squared distances (n, n).

    Neighbors of a row are not sorted by distance.
    """
    return nearest_in_blocks(lambda rows: squared[rows], len(squared), k)


def nearest_in_blocks(
    distances: Callable[[NDArray[np.intp]], NDArray[np.float64]],
    n: int,
    k: int,
    block_values: int = BLOCK_VALUES,
) -> NDArray[np.intp]:
    """Like `nearest_by_distance`, from distances that are computed for some rows at a time.

    Parameters
    ----------
    distances : callable
        Returns the distances (b, n), in a new array, of the items with these row numbers to all items.
    n, k : int
    block_values : int
        Distances that exist at a time; those of one row at least.
    """
    nearest = np.empty((n, k), dtype=np.intp)
    step = max(1, block_values // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        block = distances(rows)
        block[np.arange(len(rows)), rows] = np.inf
        reach = np.partition(block, k - 1, axis=1)[:, k - 1, None]
        closer, at_reach = block < reach, block == reach
        room = k - closer.sum(axis=1, keepdims=True)
        chosen = closer | (at_reach & (np.cumsum(at_reach, axis=1) <= room))
        nearest[rows] = np.nonzero(chosen)[1].reshape(len(rows), k)
    return nearest


def squared_lengths(X: Any, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return |x_i - x_j|² of many pairs, computed from differences and therefore accurate."""
    squared = np.empty(len(i))
    step = max(1, BLOCK_VALUES // max(X.shape[1], 1))
    for start in range(0, len(i), step):
        chunk = slice(start, start + step)
        difference = X[i[chunk]].astype(np.float64) - X[j[chunk]]
        if sp.issparse(difference):
            squared[chunk] = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        else:
            squared[chunk] = np.einsum("ij,ij->i", difference, difference)
    return squared


def intersections(X: Any, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return sum_k min(x_ik, x_jk) of many pairs of rows, dense or sparse, none of them negative."""
    found = np.empty(len(i))
    step = max(1, BLOCK_VALUES // max(X.shape[1], 1))
    for start in range(0, len(i), step):
        chunk = slice(start, start + step)
        first, second = X[i[chunk]], X[j[chunk]]
        least = first.minimum(second) if sp.issparse(X) else np.minimum(first, second)
        found[chunk] = np.asarray(least.sum(axis=1)).ravel()
    return found


def squared_norms(X: Any) -> NDArray[np.float64]:
    """Return |x|² of every row, dense or sparse."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    norms: NDArray[np.float64] = np.einsum("ij,ij->i", X, X)
    return norms


def _first_of_equals(
    X: Any, shifted: Any, rows: NDArray[np.intp], reach: NDArray[np.float64], k: int
) -> NDArray[np.intp]:
    """Return the k nearest of some rows ordered by (distance, index).

    The exact distances of all items within `reach` of a row are computed again.
    """
    nearest, norms = np.empty((len(rows), k), dtype=np.intp), squared_norms(shifted)
    step = max(1, BLOCK_VALUES // len(norms))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        product = shifted[rows[block]] @ shifted.T
        product = product.toarray() if sp.issparse(product) else product
        near = norms[rows[block], None] + norms - 2 * product <= reach[block, None]
        for number, row in enumerate(rows[block], start):
            candidates = np.flatnonzero(near[number - start])
            candidates = candidates[candidates != row]
            squared = squared_lengths(X, np.full(len(candidates), row), candidates)
            nearest[number] = candidates[np.argsort(squared, kind="stable")[:k]]
    return nearest
