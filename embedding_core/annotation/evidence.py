"""Evidence for predicted labels, from coordinates in an embedding: similar carriers, novelty, doubt.

All functions search in blocks of rows and never hold all pairs of rows, see `nearest_rows`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.checks import check_count
from embedding_core.classifiers.ml_knn import other_neighbors
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import BLOCK_ROWS, nearest_rows
from embedding_core.scaling import Features, as_features

NEIGHBORS = 5
"""Neighbors whose mean distance tells how unlike the others an item is."""
# One labeled item of this many bounds the distances of new items.
_SAMPLED = 5


@dataclass(frozen=True)
class NearestCarriers:
    """The labeled items nearest to new items that got a label, among those that carry it.

    Attributes
    ----------
    rows, labels : ndarrays of shape (e,)
        New item and label of each entry, ordered by item, then label.
    indices : ndarray of shape (e, k)
        Labeled items, nearest first; -1 where a label has fewer than k carriers.
    distances : ndarray of shape (e, k)
        inf where a label has fewer than k carriers.
    """

    rows: NDArray[np.intp]
    labels: NDArray[np.intp]
    indices: NDArray[np.intp]
    distances: NDArray[np.float64]


def nearest_carriers(
    Z: ArrayLike, Y: ArrayLike, queries: ArrayLike, decided: ArrayLike, n_neighbors: int = 3
) -> NearestCarriers:
    """Find the labeled items that support each label given to new items.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n, r)
        Coordinates of the labeled items.
    Y : array-like of shape (n, K)
        Their labels; only 1 counts as carrying.
    queries : array or CSR matrix of shape (m, r)
        Coordinates of the new items.
    decided : array-like of shape (m, K)
        Nonzero where a new item got a label.
    n_neighbors : int, default=3

    Examples
    --------
    >>> found = nearest_carriers([[0.0], [1.0], [5.0]], [[1, 0], [1, 1], [0, 1]], [[1.5]], [[0, 1]], 1)
    >>> found.labels.tolist(), found.indices.tolist(), found.distances.tolist()
    ([1], [[1]], [[0.5]])
    """
    check_count("n_neighbors", n_neighbors)
    known, new = _as_coordinates(Z, queries)
    carries, given = np.asarray(Y) == 1, np.asarray(decided) != 0
    if carries.ndim != 2 or len(carries) != known.shape[0] or given.shape != (new.shape[0], carries.shape[1]):
        raise InvalidInput(
            f"Y has shape {carries.shape} for {known.shape[0]} labeled items, decided {given.shape} for "
            f"{new.shape[0]} new items; give one row per item and one column per label in both."
        )
    rows, labels = np.nonzero(given)
    indices = np.full((len(rows), n_neighbors), -1, dtype=np.intp)
    distances = np.full((len(rows), n_neighbors), np.inf)
    for label in np.unique(labels):
        carriers, entries = np.flatnonzero(carries[:, label]), np.flatnonzero(labels == label)
        k = min(n_neighbors, len(carriers))
        if k:
            distances[entries, :k], found = nearest_rows(known[carriers], new[rows[entries]], k)
            indices[entries, :k] = carriers[found]
    return NearestCarriers(rows, labels, indices, distances)


def isolation(Z: ArrayLike, n_neighbors: int = NEIGHBORS) -> NDArray[np.float64]:
    """Return the mean distance of each item (n,) to its nearest others, ascending; see `novelty`."""
    check_count("n_neighbors", n_neighbors)
    known = as_features(Z)
    if known.shape[0] < 2:
        raise InvalidInput(f"{known.shape[0]} labeled item; novelty compares distances between at least two.")
    return np.sort(other_neighbors(known, min(n_neighbors, known.shape[0] - 1))[0].mean(axis=1))


def novelty(
    Z: ArrayLike,
    queries: ArrayLike,
    n_neighbors: int = NEIGHBORS,
    among: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return how unlike the labeled items each new item is, from 0 to 1.

    The mean distance of a new item to its nearest labeled items is compared with the same distance of each
    labeled item to the other labeled items. The value is the share of labeled items that are less isolated;
    equal ones count one half. New items drawn like the labeled ones have values spread evenly over [0, 1]: on
    average 5 % of them exceed 0.95.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n, r)
        Coordinates of the labeled items, placed like new ones (not by an embedding that has seen their
        labels). At least two.
    queries : array or CSR matrix of shape (m, r)
    n_neighbors : int, default=5
        Fewer if there are not as many other labeled items.
    among : array of shape (n,), optional
        `isolation` of Z, if it serves several calls.

    Examples
    --------
    >>> novelty([[0.0], [1.0], [2.0], [4.0]], [[1.5], [9.0]], n_neighbors=1).tolist()
    [0.0, 1.0]
    """
    check_count("n_neighbors", n_neighbors)
    known, new = _as_coordinates(Z, queries)
    among = isolation(known, n_neighbors) if among is None else among
    return _shares_below(among, _mean_distances(known, new, n_neighbors))


def most_isolated(
    Z: ArrayLike, queries: ArrayLike, count: int, n_neighbors: int = NEIGHBORS
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the new items that are most unlike the labeled ones, the most isolated first, and their novelty.

    Parameters
    ----------
    Z, queries, n_neighbors
        As for `novelty`. New items that are more isolated than all labeled ones all have novelty 1; here the
        distance itself orders them.
    count : int
        All of them if there are not more.

    Notes
    -----
    Few of many items are asked for, so most comparisons are spared: the mean distance to the nearest of every
    fifth labeled item cannot be below that to the nearest of all. New items are compared with all labeled
    ones in the order of this bound, until that of the next is below the distances of those found.

    Examples
    --------
    >>> rows, shares = most_isolated([[0.0], [1.0], [2.0], [4.0]], [[1.5], [9.0], [30.0]], 2, n_neighbors=1)
    >>> rows.tolist(), shares.tolist()
    ([2, 1], [1.0, 1.0])
    """
    check_count("n_neighbors", n_neighbors)
    check_count("count", count)
    known, new = _as_coordinates(Z, queries)
    among = isolation(known, n_neighbors)
    some = known[::_SAMPLED]
    bound = _mean_distances(some if some.shape[0] > n_neighbors else known, new, n_neighbors)
    order = np.argsort(-bound, kind="stable")
    rows, distances = np.zeros(0, dtype=np.intp), np.zeros(0)
    for start in range(0, len(order), BLOCK_ROWS):
        block = np.sort(order[start : start + BLOCK_ROWS])
        if len(rows) == count and bound[order[start]] < distances[-1]:
            break
        rows = np.concatenate([rows, block])
        distances = np.concatenate([distances, _mean_distances(known, new[block], n_neighbors)])
        kept = np.lexsort((rows, -distances))[:count]
        rows, distances = rows[kept], distances[kept]
    return rows, _shares_below(among, distances)


def _mean_distances(known: Features, new: Features, n_neighbors: int) -> NDArray[np.float64]:
    """Mean distance of each new item to its nearest labeled items, as `isolation` has it of labeled ones."""
    mean: NDArray[np.float64] = nearest_rows(known, new, min(n_neighbors, known.shape[0] - 1))[0].mean(axis=1)
    return mean


def _shares_below(among: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of ascending numbers that are below each value; equal ones count one half."""
    below, up_to = (np.searchsorted(among, values, side) for side in ("left", "right"))
    shares: NDArray[np.float64] = (below + up_to) / (2 * len(among))
    return shares


def margins(scores: ArrayLike, thresholds: ArrayLike) -> NDArray[np.float64]:
    """Return score minus threshold (m, K): positive for a given label, near 0 in doubt.

    An infinite threshold, of a label that no item or every item carries, gives an infinite margin.
    """
    S, cuts = np.asarray(scores, dtype=np.float64), np.asarray(thresholds, dtype=np.float64)
    if S.ndim != 2 or cuts.shape not in ((), S.shape[1:]):
        raise InvalidInput(
            f"scores have shape {S.shape} and thresholds {cuts.shape}; give (items, labels) and one "
            "threshold per label, or one in total."
        )
    if not np.isfinite(S).all() or np.isnan(cuts).any():
        raise InvalidInput("scores must be finite, and thresholds numbers or infinite.")
    found: NDArray[np.float64] = S - cuts
    return found


def rank_by_doubt(margin: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order items by the label that is closest to its threshold.

    Parameters
    ----------
    margin : array-like of shape (m, K)
        See `margins`.

    Returns
    -------
    rows : ndarray of shape (m,)
        Items by min_k |margin|, the most doubtful first; the first of equal ones first. Items whose margins
        are all infinite are last.
    labels : ndarray of shape (m,)
        The label in doubt of each of these items.

    Examples
    --------
    >>> rows, labels = rank_by_doubt([[0.4, -0.3], [-0.1, 0.5]])
    >>> rows.tolist(), labels.tolist()
    ([1, 0], [0, 1])
    """
    distance = np.abs(np.asarray(margin, dtype=np.float64))
    if distance.ndim != 2 or not distance.shape[1] or np.isnan(distance).any():
        raise InvalidInput(f"margins have shape {distance.shape} or contain NaN; expected (items, labels).")
    closest = distance.argmin(axis=1)
    rows = np.argsort(distance[np.arange(len(distance)), closest], kind="stable")
    return rows, closest[rows]


def _as_coordinates(Z: ArrayLike, queries: ArrayLike) -> tuple[Features, Features]:
    known = as_features(Z)
    return known, as_features(queries, known.shape[1])
