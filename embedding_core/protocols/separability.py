"""Class separation in a picture, compared with shuffled labels (Figs. 1 to 5 of SLE-ML).

A supervised eigenmap can separate classes that are not separable. Each picture is therefore measured three
times: with the given labels, with the same labels assigned to other rows at random, and with half of the
labels hidden, where the nearest labeled row classifies the hidden ones. The first two measure what a viewer
sees, the third measures what is really there.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.protocols.placement import neighbor_agreement, place_rows, transfer_accuracy
from embedding_core.protocols.trial import Arm, Cell, TrialData, draw_rows, predict, trial_rng
from embedding_core.registry import get_method

GIVEN, SHUFFLED, HIDDEN = "labels as given", "labels shuffled", "half of the labels hidden"
AGREEMENT, ACCURACY, BETWEEN = "agreement", "accuracy", "between"
HIDDEN_SHARE = 0.5


class Drawn(NamedTuple):
    """Draws of a trial: rows that keep their labels, the others, and the data with shuffled labels."""

    labeled: NDArray[np.intp]
    hidden: NDArray[np.intp]
    shuffled: TrialData


def draw_trial(data: TrialData, seed: int, number: int) -> Drawn:
    """Return the draws of one trial, the same for every method and for its picture."""
    rng = trial_rng(seed, number)
    return Drawn(*draw_rows(len(data.Y), HIDDEN_SHARE, rng), shuffle_labels(data, rng))


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure the agreement of nearest rows with given and shuffled labels, and accuracy on hidden ones.

    Settings
    --------
    min_rows : int
        Sets of two labels with fewer rows are skipped, because their center is not meaningful.
    seed : int

    Notes
    -----
    A method for one class per row has no cells on rows with several labels. Nothing is random with the given
    labels, so only the first trial measures them.
    """
    method = get_method(arm.method)
    if not (data.single_label or method.multi_label):
        return []
    arm = in_plane(arm, data)
    drawn = draw_trial(data, settings["seed"], number)
    train, test = drawn.labeled, drawn.hidden
    if method.role == "classifier":
        right = (predict(arm, data, train, test, preprocessing) == data.Y[test]).all(axis=1).mean()
        return [Cell(HIDDEN, ACCURACY, float(right))]
    cells = []
    if number == 0:
        cells += _picture_cells(GIVEN, data, arm, preprocessing, settings["min_rows"])
    cells += _picture_cells(SHUFFLED, drawn.shuffled, arm, preprocessing, settings["min_rows"])
    Z = place_rows(arm, data, train, preprocessing).rows
    return [*cells, Cell(HIDDEN, ACCURACY, transfer_accuracy(Z, data.Y, train, test))]


def in_plane(arm: Arm, data: TrialData) -> Arm:
    """Return the arm with fewer dimensions if it only sees labels and their sets span no more."""
    if not (arm.method == "constraint_score" or arm.params.get("balance") == 0):
        return arm
    most = len(np.unique(data.Y, axis=0)) - 1
    return replace(arm, params={**arm.params, "n_components": min(arm.params["n_components"], most)})


def shuffle_labels(data: TrialData, rng: np.random.Generator) -> TrialData:
    """Return the same rows, each with the labels of another one."""
    dealt = data.Y[rng.permutation(len(data.Y))]
    return TrialData(data.X, dealt, data.label_names, data.single_label)


def label_groups(Y: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return the index (n,) of the label set of each row."""
    return np.unique(Y, axis=0, return_inverse=True)[1].ravel()


def between_singles(
    Z: NDArray[np.float64], Y: NDArray[np.int8], min_rows: int
) -> dict[tuple[int, int], bool]:
    """Return whether the center of each set of two labels lies between the centers of its single labels.

    Between means inside the ball whose diameter connects the two centers, so that they are seen from there at
    more than a right angle. Sets are skipped if one of the three groups has fewer than `min_rows` rows.
    """
    found = {}
    for a, b in combinations(range(Y.shape[1]), 2):
        places = [_carriers(Z, Y, labels) for labels in ((a,), (b,), (a, b))]
        if min(map(len, places)) >= min_rows:
            first, second, both = (rows.mean(axis=0) for rows in places)
            found[a, b] = bool((first - both) @ (second - both) < 0)
    return found


def _carriers(Z: NDArray[np.float64], Y: NDArray[np.int8], labels: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the coordinates of the rows that have exactly these labels."""
    wanted = np.zeros(Y.shape[1], dtype=Y.dtype)
    wanted[list(labels)] = 1
    chosen: NDArray[np.float64] = Z[(wanted == Y).all(axis=1)]
    return chosen


def _picture_cells(
    condition: str, data: TrialData, arm: Arm, preprocessing: str, min_rows: int
) -> list[Cell]:
    Z = place_rows(arm, data, np.arange(len(data.Y)), preprocessing).rows
    cells = [Cell(condition, AGREEMENT, neighbor_agreement(Z, label_groups(data.Y)))]
    if data.single_label:
        return cells
    found = between_singles(Z, data.Y, min_rows)
    if found:
        cells.append(Cell(condition, BETWEEN, float(np.mean(list(found.values())))))
    for (a, b), is_between in found.items():
        pair = f"{condition}, {data.label_names[a]} + {data.label_names[b]}"
        cells.append(Cell(pair, BETWEEN, float(is_between)))
    return cells
