"""Does the embedding keep a row close to its own class? (Figs. 3 to 6 of discriminative projections)

Readings. The paper counts a row as correct if one of its K nearest neighbors has its class, and does not say
among which rows. Its text is about how a projection generalizes, so the neighbors of a test row are other
test rows here; the same count is also made among the labeled rows. This measure needs the labels of the test
rows and is not a classification, so the accuracy of 1NN from the labeled rows is reported beside it. The
first d columns of a projection with more columns are its d-dimensional embedding.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.protocols.placement import Placement, hit_rates, place_rows, transfer_accuracy
from embedding_core.protocols.trial import (
    Arm,
    Cell,
    TrialData,
    draw_labeled,
    draw_share_per_class,
    predict,
    prepare,
    trial_rng,
)
from embedding_core.registry import get_method

PLANE = 2
"""Dimensions in which the positions of the labels are measured (Fig. 4)."""
HITS, ACCURACY, SEPARATION = "hit_rate", "accuracy", "label_separation"
Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def condition_of(dimensions: int, neighbors: int = 0, labeled: bool = False) -> str:
    """Return the condition name: "9-D, K=3", "labeled rows, 9-D, K=3", or "9-D" without neighbors."""
    parts = ["labeled rows" if labeled else "", f"{dimensions}-D", f"K={neighbors}" if neighbors else ""]
    return ", ".join(part for part in parts if part)


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure hit rates for 1 to K neighbors, accuracy of 1NN, and the separation of the labels.

    Settings
    --------
    labeled : int, or float below 1
        Number of labeled rows drawn from all rows, or fraction of every class.
    rows : int
        Number of rows to use, drawn at random; 0 uses all.
    dimensions : sequence of int
    neighbors : int
        The largest K.
    seed : int
    """
    data, (train, test) = draw_split(data, settings, number)
    dimensions, K = settings["dimensions"], settings["neighbors"]
    if get_method(arm.method).role == "classifier":
        return _baseline_cells(arm, data, (train, test), preprocessing, dimensions, K)
    placed = place_rows(arm, data, train, preprocessing)
    kept = [d for d in dimensions if d <= placed.rows.shape[1]]
    return [cell for d in kept for cell in _cells(placed, data, (train, test), d, K)]


def draw_split(data: TrialData, settings: Mapping[str, Any], number: int) -> tuple[TrialData, Split]:
    """Return the rows of a trial, and which of them are labeled."""
    rng = trial_rng(settings["seed"], number)
    wanted = settings["rows"]
    if 0 < wanted < len(data.Y):
        data = data.take(np.sort(rng.permutation(len(data.Y))[:wanted]))
    labeled = settings["labeled"]
    if labeled < 1:
        return data, draw_share_per_class(data.classes, labeled, rng)
    return data, draw_labeled(data.classes, labeled / len(data.Y), rng)


def label_separation(placed: Placement, classes: NDArray[np.intp], rows: NDArray[np.intp], d: int) -> float:
    """Return the mean distance of label positions over the RMS distance of rows from their label."""
    assert placed.labels is not None
    places, Z = placed.labels[:, :d], placed.rows[rows, :d]
    own = np.linalg.norm(Z - places[classes[rows]], axis=1)
    first, second = np.triu_indices(len(places), 1)
    apart = np.linalg.norm(places[first] - places[second], axis=1)
    return float(apart.mean() / np.sqrt((own**2).mean()))


def _cells(placed: Placement, data: TrialData, split: Split, d: int, K: int) -> list[Cell]:
    train, test = split
    Z = placed.rows[:, :d]
    cells = _hit_cells(hit_rates(Z[test], data.classes[test], K), d)
    seen = hit_rates(Z[train], data.classes[train], 1)[0]
    cells.append(Cell(condition_of(d, 1, labeled=True), HITS, float(seen)))
    cells.append(Cell(condition_of(d), ACCURACY, transfer_accuracy(Z, data.Y, train, test)))
    if placed.labels is not None and d == PLANE:
        value = label_separation(placed, data.classes, train, d)
        cells.append(Cell(condition_of(d), SEPARATION, value))
    return cells


def _hit_cells(rates: NDArray[np.float64], d: int) -> list[Cell]:
    return [Cell(condition_of(d, k), HITS, float(rate)) for k, rate in enumerate(rates, start=1)]


def _baseline_cells(
    arm: Arm, data: TrialData, split: Split, preprocessing: str, dimensions: Sequence[int], K: int
) -> list[Cell]:
    """Return the same values for every dimension: a baseline works on the features. 1NN has hit rates too."""
    train, test = split
    right = (predict(arm, data, train, test, preprocessing) == data.Y[test]).all(axis=1).mean()
    cells = [Cell(condition_of(d), ACCURACY, float(right)) for d in dimensions]
    if arm.method != "1nn":
        return cells
    X = prepare(data.X, preprocessing, train)
    rates = hit_rates(X[test], data.classes[test], K)
    seen = float(hit_rates(X[train], data.classes[train], 1)[0])
    for d in dimensions:
        cells += [*_hit_cells(rates, d), Cell(condition_of(d, 1, labeled=True), HITS, seen)]
    return cells
