"""Nearest-neighbor classification, one label at a time.

With one neighbor, deciding each label separately is the same as copying the label row of the neighbor, so one
search serves all labels. Memory: two blocks of rows, never all pairs.
"""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors

from embedding_core.errors import InvalidInput
from embedding_core.graph.knn import EXACT_ITEMS, RECALL
from embedding_core.labels import Indicator, as_indicator, check_one_row_each
from embedding_core.linalg.conditioning import common_shift, subtract_shift
from embedding_core.linalg.row_blocks import RowView
from embedding_core.scaling import Features, as_features

WEIGHTS = ("uniform", "distance")
BLOCK_ROWS = 1024
BLOCK_NUMBERS = 2**22
# The search multiplies matrices, so rounding decides near ties. A few more candidates than requested are
# measured again exactly, so that ties are broken by row order.
SPARE_CANDIDATES = 4
# A search among more than `EXACT_ITEMS` dense rows uses an index if it has one query per this many rows. For
# fewer queries, building the index costs more than comparing each with all rows. Among very many rows both
# costs grow with their number: some queries always justify an index.
_ROWS_PER_QUERY, _MANY_ROWS = 50, 100_000


def as_labeled_features(X: Any, Y: Any, missing: bool = False) -> tuple[Features, Indicator]:
    """Validate features and labels of the same rows; `missing` accepts NaN as missing values."""
    features, indicator = as_features(X, missing=missing), as_indicator(Y)
    check_one_row_each(features, indicator)
    return features, indicator


def _exact_distances(Z: Features, queries: Features, candidates: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return distances (m, c) from each query to its candidate rows of Z, by differences in float64."""
    m, c = candidates.shape
    if sp.issparse(Z):
        nearby = Z[candidates.ravel()].astype(np.float64)
        difference = nearby - queries[np.repeat(np.arange(m), c)].astype(np.float64)
        squares: NDArray[np.float64] = np.asarray(difference.multiply(difference).sum(axis=1)).reshape(m, c)
    else:
        difference = Z[candidates].astype(np.float64) - queries[:, None, :]
        squares = np.einsum("mcr,mcr->mc", difference, difference)
    return np.sqrt(squares)


def _move(rows: Features, shift: NDArray[np.float64], dtype: Any) -> Features:
    """Shift rows: distances do not change, but the search loses digits on rows far from 0."""
    if sp.issparse(rows):
        return subtract_shift(rows, shift)
    return np.subtract(rows, shift.astype(dtype), dtype=dtype, casting="same_kind")


def _block_rows(n_candidates: int, n_features: int) -> int:
    """Return the number of queries per block, so that their differences stay within BLOCK_NUMBERS."""
    return max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // (n_candidates * n_features)))


def uses_index(n: int, m: int) -> bool:
    """Return whether `nearest_rows` answers m queries among n dense rows by an index."""
    return n > EXACT_ITEMS and m * _ROWS_PER_QUERY >= min(n, _MANY_ROWS)


def nearest_rows(
    Z: Features, queries: Features, k: int, indexed: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return distances and indices (m, k) of the k rows of Z nearest to each query, nearest first.

    Equal distances are ordered by row number if at most `SPARE_CANDIDATES` rows tie beyond the k-th. Z and
    queries are both dense or both CSR; if they are views (`RowView`), there must be enough queries for an
    index. Many queries among more than `EXACT_ITEMS` dense rows are answered by an index that finds at least
    `RECALL` of the true neighbors, see `embedding_core.graph.cell_index`, unless `indexed` is False.
    """
    n, m = Z.shape[0], queries.shape[0]
    if k < 1 or k > n:
        raise InvalidInput(f"n_neighbors={k} with {n} labeled rows; choose from 1 to {n}.")
    if sp.issparse(Z) != sp.issparse(queries):
        raise InvalidInput("the fitted rows and the queries must both be dense or both be sparse.")
    if uses_index(n, m) and indexed and not sp.issparse(Z):
        from embedding_core.graph.cell_index import CellIndex  # compiles code

        found = CellIndex(Z).search(queries, k, RECALL)
        return np.sqrt(found.squared), found.indices
    shift = common_shift(Z, queries)
    n_candidates = min(k + SPARE_CANDIDATES, n)
    index = NearestNeighbors(n_neighbors=n_candidates, algorithm="brute").fit(_move(Z, shift, Z.dtype))
    step = _block_rows(n_candidates, Z.nnz // n + 1 if sp.issparse(Z) else Z.shape[1])
    distances, indices = np.empty((m, k)), np.empty((m, k), dtype=np.intp)
    for start in range(0, m, step):
        block = slice(start, start + step)
        rows = queries[block]
        candidates = np.sort(index.kneighbors(_move(rows, shift, Z.dtype), return_distance=False), axis=1)
        exact = _exact_distances(Z, rows, candidates)
        order = np.argsort(exact, axis=1, kind="stable")[:, :k]
        indices[block] = np.take_along_axis(candidates, order, axis=1)
        distances[block] = np.take_along_axis(exact, order, axis=1)
    return distances, indices


def vote(
    Y: NDArray[np.int8], distances: NDArray[np.float64], indices: NDArray[np.intp], weights: str = "uniform"
) -> NDArray[np.float64]:
    """Return the weighted fraction (m, K) of each label among the neighbors, in [0, 1].

    Weights "distance" are 1/d; if there are neighbors at distance 0, only they count.
    """
    if weights not in WEIGHTS:
        raise InvalidInput(f"weights={weights!r} is not known; choose one of {', '.join(WEIGHTS)}.")
    if weights == "uniform":
        shares = np.full(distances.shape, 1 / distances.shape[1])
    else:
        # d_min / d instead of 1 / d: the same fractions without overflow, and all weight to distance 0
        same = distances == 0
        shares = np.divide(distances[:, :1], distances, out=same.astype(float), where=~same)
        shares /= shares.sum(axis=1, keepdims=True)
    scores = np.empty((indices.shape[0], Y.shape[1]))
    for start in range(0, len(scores), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        scores[block] = np.einsum("mk,mkl->ml", shares[block], Y[indices[block]])
    return np.clip(scores, 0.0, 1.0)


def decide_labels(scores: NDArray[np.float64], single_label: bool = False) -> NDArray[np.int8]:
    """Convert scores in [0, 1] to 0/1 labels.

    Several labels: those with a score above one half (exactly one half counts as no). Single label: the one
    with the highest score; the first on ties.
    """
    if not single_label:
        # a fraction of exactly one half may be computed as 0.5 + 1e-16
        return (scores > 0.5 + 1e-9).astype(np.int8)
    decided = np.zeros(scores.shape, dtype=np.int8)
    decided[np.arange(len(scores)), scores.argmax(axis=1)] = 1
    return decided


class NeighborLabels(BaseEstimator):
    """k nearest neighbors with one binary decision per label (Sect. 5.2 of [1]_).

    Parameters
    ----------
    n_neighbors : int
    weights : {"uniform", "distance"}
        Weight of a neighbor: uniform, or the inverse of its distance.

    Attributes
    ----------
    Z_ : (n, r) array or CSR matrix
        The labeled rows; unlabeled rows are dropped.
    Y_ : (n, K) array of int8
    n_features_in_ : int

    References
    ----------
    .. [1] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis".

    Examples
    --------
    >>> model = NeighborLabels().fit([[0.0], [1.0]], [[1, 0], [1, 1]])
    >>> model.predict([[0.2], [0.9]])
    array([[1, 0],
           [1, 1]], dtype=int8)
    """

    def __init__(self, n_neighbors: int = 1, weights: str = "uniform") -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, Z: Any, Y: ArrayLike) -> Self:
        """Store the labeled rows of Z (n, r) with their labels Y (n, K)."""
        if self.weights not in WEIGHTS:
            raise InvalidInput(f"weights={self.weights!r} is not known; choose one of {', '.join(WEIGHTS)}.")
        Z, indicator = as_labeled_features(Z, Y)
        n_labeled = int(indicator.labeled.sum())
        if not 1 <= self.n_neighbors <= n_labeled:
            raise InvalidInput(
                f"n_neighbors={self.n_neighbors} with {n_labeled} labeled rows; choose from 1 to {n_labeled}."
            )
        kept = Z if indicator.labeled.all() else Z[indicator.labeled]
        self.Z_ = np.asarray(kept) if isinstance(kept, RowView) else kept
        self.Y_ = indicator.Y[indicator.labeled]
        self.n_features_in_ = Z.shape[1]
        return self

    def predict_scores(self, Z: Any) -> NDArray[np.float64]:
        """Return the fraction (m, K) of the neighbors that have each label."""
        distances, indices = nearest_rows(self.Z_, as_features(Z, self.n_features_in_), self.n_neighbors)
        return vote(self.Y_, distances, indices, self.weights)

    def predict(self, Z: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) that more than half of the (weighted) neighbors have."""
        return decide_labels(self.predict_scores(Z))
