"""Separation of two classes in a plane (Fig. 4 of MLDA): the original space, and that of MLDA.

The paper fits on all rows and shows the same rows, so its picture may not generalize to new rows. This
protocol also measures held-out rows, and a fit on shuffled labels, which contain no information.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.knn_classifier import nearest_rows
from embedding_core.protocols.multilabel_folds import fold_rows
from embedding_core.protocols.separability import shuffle_labels
from embedding_core.protocols.trial import Arm, Cell, TrialData, find_label, predict, prepare, trial_rng
from embedding_core.registry import get_method

FITTED, HELD_OUT, SHUFFLED = "rows of the fit", "held-out rows", "labels shuffled, rows of the fit"


class Plane(NamedTuple):
    """Two coordinates (m, 2) of the rows that have one of two labels, and which one (m,)."""

    coordinates: NDArray[np.float64]
    second: NDArray[np.bool_]


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure the accuracy of 1NN between the two classes in the plane; fitted rows judge held-out rows.

    A baseline separates the two classes in all features, and only classifies held-out rows.

    Settings
    --------
    labels : pair of str
        Only rows with exactly one of the two labels count.
    folds, seed : int
        Folds of the held-out rows, which are placed by a fit on all others.
    """
    if arm.role == "baseline":
        return [Cell(HELD_OUT, "accuracy", plain_accuracy(data, arm, settings, preprocessing, number))]
    shuffled = shuffle_labels(data, trial_rng(settings["seed"], number))
    values = {
        FITTED: neighbor_accuracy(fitted_plane(data, arm, settings["labels"], preprocessing)),
        HELD_OUT: held_out_accuracy(*split_planes(data, arm, settings, preprocessing, number)),
        SHUFFLED: neighbor_accuracy(fitted_plane(shuffled, arm, settings["labels"], preprocessing)),
    }
    return [Cell(name, "accuracy", value) for name, value in values.items()]


def fitted_plane(data: TrialData, arm: Arm, labels: tuple[str, str], preprocessing: str) -> Plane:
    """Return the first two coordinates of a fit on all rows."""
    everyone = np.arange(len(data.Y))
    return _select(_place(data, arm, everyone, preprocessing), data, labels, everyone)


def split_planes(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> tuple[Plane, Plane]:
    """Return the first two coordinates of a fit on all folds but one: of its rows and of held-out rows."""
    train, test = fold_rows(data, settings, number)
    placed = _place(data, arm, train, preprocessing)
    return _select(placed, data, settings["labels"], train), _select(placed, data, settings["labels"], test)


def held_out_accuracy(known: Plane, held_out: Plane) -> float:
    """Return the fraction of held-out rows whose nearest row of the fit has their class."""
    _, nearest = nearest_rows(known.coordinates, held_out.coordinates, 1)
    return float((known.second[nearest[:, 0]] == held_out.second).mean())


def neighbor_accuracy(plane: Plane) -> float:
    """Return the fraction of rows whose nearest other row has their class."""
    _, nearest = nearest_rows(plane.coordinates, plane.coordinates, 2)
    own = np.arange(len(nearest))
    other = np.where(nearest[:, 0] == own, nearest[:, 1], nearest[:, 0])
    return float((plane.second[other] == plane.second).mean())


def plain_accuracy(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> float:
    """Return the accuracy on held-out rows of a classifier trained only on the two classes."""
    train, test = fold_rows(data, settings, number)
    own = data.Y[:, [find_label(data, name) for name in settings["labels"]]]
    either = own.sum(axis=1) == 1
    two = TrialData(data.X, own, tuple(settings["labels"]), single_label=True)
    found = predict(arm, two, train[either[train]], test[either[test]], preprocessing)
    return float((found == own[test[either[test]]]).all(axis=1).mean())


def _place(data: TrialData, arm: Arm, train: NDArray[np.intp], preprocessing: str) -> NDArray[np.float64]:
    X = prepare(data.X, preprocessing, train)
    fitted = get_method(arm.method).build(**arm.params).fit(X[train], data.Y[train])
    return np.asarray(fitted.transform(X))[:, :2]


def _select(
    Q: NDArray[np.float64], data: TrialData, labels: tuple[str, str], rows: NDArray[np.intp]
) -> Plane:
    first, second = (data.Y[rows, find_label(data, name)] > 0 for name in labels)
    either = first != second
    return Plane(Q[rows][either], second[either])
