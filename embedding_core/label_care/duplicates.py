"""Near-duplicates: groups of items that are almost equal, and how much they flatter scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from embedding_core.errors import InvalidInput
from embedding_core.graph.knn import nearest_others, squared_lengths
from embedding_core.knn_classifier import nearest_rows
from embedding_core.metrics import multilabel_metrics

NEIGHBORS = 5
"""Neighbors of each item that are looked at."""
CLOSE = 0.1
"""Feature rows are near-duplicates below this fraction of the median distance to the nearest other row."""


@dataclass(frozen=True)
class Neighborhood:
    """The nearest other rows of each row: distances and indices (n, k), nearest first."""

    distances: NDArray[np.float64]
    indices: NDArray[np.intp]

    @property
    def isolation(self) -> NDArray[np.float64]:
        """Mean distance (n,) to the nearest others."""
        mean: NDArray[np.float64] = self.distances.mean(axis=1)
        return mean


@dataclass(frozen=True)
class Flattery:
    """What near-duplicates in other folds add to a score.

    Attributes
    ----------
    rows : int
        Labeled items with a near-duplicate in another fold.
    all, without : float
        Macro F1 of out-of-fold decisions on all items, and on those without such a near-duplicate.
    """

    rows: int
    all: float
    without: float


def find_neighborhood(X: Any, n_neighbors: int = NEIGHBORS) -> Neighborhood:
    """Search the nearest other rows of each row of X (n, p): at the cost of a kNN graph, and as it does.

    Neighbors of many dense rows are found by an index, see `nearest_others`.
    """
    n = X.shape[0]
    if n < 2:
        raise InvalidInput(f"{n} item; near-duplicates need at least two.")
    indices = nearest_others(X, min(n_neighbors, n - 1))
    squared = squared_lengths(X, np.repeat(np.arange(n), indices.shape[1]), indices.ravel())
    return Neighborhood(np.sqrt(squared).reshape(indices.shape), indices)


def close_pairs(found: Neighborhood, reach: float | None = None) -> NDArray[np.intp]:
    """Return pairs (e, 2) of rows at most `reach` apart, each once, the lower row first.

    By default the reach is `CLOSE` times the median distance to the nearest other row that differs.

    >>> close_pairs(find_neighborhood(np.array([[0.0], [1.0], [1.01], [3.0], [4.2]]))).tolist()
    [[1, 2]]
    """
    if reach is None:
        nearest = found.distances[:, 0]
        apart = nearest[nearest > 0]
        reach = CLOSE * float(np.median(apart)) if len(apart) else 0.0
    rows, places = np.nonzero(found.distances <= reach)
    pairs = np.sort(np.column_stack([rows, found.indices[rows, places]]), axis=1)
    return np.unique(pairs, axis=0)


def signature_pairs(
    whole: NDArray[np.float32], cropped: NDArray[np.float32], reach: float, n_neighbors: int = NEIGHBORS
) -> NDArray[np.intp]:
    """Return pairs (e, 2) of pictures whose signatures agree, also if one is a slight crop of the other.

    Neighbors of many pictures are found by an index, see `nearest_rows`.

    Parameters
    ----------
    whole, cropped : ndarrays of shape (n, d)
        Signatures of each picture and of its inner part, see `PictureSignature`.
    reach : float
        Largest distance of signatures that agree.
    """
    k = min(n_neighbors + 1, len(whole))
    found = []
    for queries in (whole, cropped):
        distances, indices = nearest_rows(whole, queries, k)
        rows, places = np.nonzero(distances <= reach)
        found.append(np.column_stack([rows, indices[rows, places]]))
    pairs = np.sort(np.concatenate(found), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def group_pairs(pairs: NDArray[np.intp], n: int) -> list[NDArray[np.intp]]:
    """Return the groups of rows that pairs connect, each in ascending order, the largest first.

    >>> [group.tolist() for group in group_pairs(np.array([[0, 3], [1, 2], [3, 4]]), 6)]
    [[0, 3, 4], [1, 2]]
    """
    if not len(pairs):
        return []
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, group_of = connected_components(graph, directed=False)
    rows = np.unique(pairs)
    order = rows[np.argsort(group_of[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(group_of[order])) + 1
    return sorted(np.split(order, starts), key=lambda group: (-len(group), int(group[0])))


def rate_flattery(
    Y: NDArray[np.int8],
    decided: NDArray[np.int8],
    scores: NDArray[np.float64],
    folds: NDArray[np.integer],
    pairs: NDArray[np.intp],
) -> Flattery:
    """Compare out-of-fold decisions on all labeled rows with those on rows without a copy in another fold.

    Parameters
    ----------
    Y, decided, scores : ndarrays of shape (n, K)
    folds : ndarray of shape (n,)
    pairs : ndarray of shape (e, 2)
        Near-duplicates among these rows.
    """
    apart = pairs[folds[pairs[:, 0]] != folds[pairs[:, 1]]] if len(pairs) else pairs
    helped = np.zeros(len(Y), dtype=bool)
    helped[apart.ravel()] = True

    def macro(rows: NDArray[np.bool_]) -> float:
        if not rows.any():
            return float("nan")
        return multilabel_metrics(Y[rows], decided[rows], scores[rows], skip_absent=True)["macro_f1"]

    return Flattery(int(helped.sum()), macro(np.ones(len(Y), dtype=bool)), macro(~helped))
