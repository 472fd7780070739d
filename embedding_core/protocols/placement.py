"""Coordinates of all rows from a fit that knows the labels of some, and nearest-neighbor measures of them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.graph.knn import nearest_others
from embedding_core.knn_classifier import nearest_rows
from embedding_core.protocols.trial import Arm, TrialData, prepare, seen_rows
from embedding_core.registry import get_method

_COINCIDE = 1e-9
"""Fraction of the spread within which two positions count as equal."""


class Placement(NamedTuple):
    """Coordinates (n, d) of all rows, and (K, d) of the labels if the method places them too."""

    rows: NDArray[np.float64]
    labels: NDArray[np.float64] | None


def place_rows(arm: Arm, data: TrialData, train: NDArray[np.intp], preprocessing: str) -> Placement:
    """Fit the arm's projection with the labels of all rows except `train` hidden, and place every row."""
    n = data.X.shape[0]
    seen = seen_rows(arm, n, train)
    X = prepare(data.X, preprocessing, seen)
    Y = np.full_like(data.Y, -1)
    Y[train] = data.Y[train]
    model = get_method(arm.method).build(**arm.params).fit(X[seen], Y[seen])
    # an eigenmap has exact coordinates only for the rows of its fit
    rows = model.embedding_ if len(seen) == n else model.transform(X)
    return Placement(np.asarray(rows, dtype=np.float64), getattr(model, "label_projection_", None))


def hit_rates(Z: Any, classes: NDArray[np.intp], n_neighbors: int) -> NDArray[np.float64]:
    """Return the fraction (k,) of rows of Z with a row of their class among their 1, 2, ..., k neighbors."""
    if not 0 < n_neighbors < len(classes):
        raise InvalidInput(f"n_neighbors={n_neighbors} for {len(classes)} rows; expected 1 to n - 1.")
    same = classes[nearest_others(Z, n_neighbors)] == classes[:, None]
    return np.asarray(np.logical_or.accumulate(same, axis=1).mean(axis=0))


def transfer_accuracy(
    Z: NDArray[np.float64], Y: NDArray[np.int8], train: NDArray[np.intp], test: NDArray[np.intp]
) -> float:
    """Return the fraction of test rows whose labels (n, K) equal those of the nearest training row."""
    nearest = nearest_rows(Z[train], Z[test], 1)[1][:, 0]
    return float((Y[train][nearest] == Y[test]).all(axis=1).mean())


def neighbor_agreement(Z: NDArray[np.float64], groups: NDArray[np.intp]) -> float:
    """Return the probability that the nearest other row is in the same group; ties are broken at random.

    All pairs are compared, which is feasible for a few thousand rows. Methods that map a whole class to one
    point would otherwise be judged by the order of the rows.
    """
    from sklearn.metrics import euclidean_distances

    centered = Z - Z.mean(axis=0)
    distance = euclidean_distances(centered)
    np.fill_diagonal(distance, np.inf)
    reach = distance.min(axis=1, keepdims=True) + _COINCIDE * np.abs(centered).max(initial=0.0)
    tied = distance <= reach
    same = groups[:, None] == groups
    return float(((tied & same).sum(axis=1) / tied.sum(axis=1)).mean())
