"""Exact nearest neighbors; the result does not depend on the number of threads or the order of chunks."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from embedding_core.linalg.conditioning import EPS, shift_items

_CHUNK_VALUES = 4_000_000
_MOST_WORK = 2e10


def nearest_others(X: Any, k: int) -> NDArray[np.intp]:
    """Return the indices (n, k) of the k items nearest to each item, excluding itself, nearest first.

    Ties are broken by the lower index. If resolving the ties would cost more than the search (some 2e10
    multiplications), the neighbors found by the search are kept.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
        Finite numbers.
    k : int
        From 1 to n - 1.
    """
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
    n = len(squared)
    nearest = np.empty((n, k), dtype=np.intp)
    step = max(1, _CHUNK_VALUES // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        block = squared[rows]
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
    step = max(1, _CHUNK_VALUES // max(X.shape[1], 1))
    for start in range(0, len(i), step):
        chunk = slice(start, start + step)
        difference = X[i[chunk]].astype(np.float64) - X[j[chunk]]
        if sp.issparse(difference):
            squared[chunk] = np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
        else:
            squared[chunk] = np.einsum("ij,ij->i", difference, difference)
    return squared


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
    step = max(1, _CHUNK_VALUES // len(norms))
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
