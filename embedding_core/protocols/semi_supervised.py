"""A few rows are labeled, some wrongly; 1NN in the embedding classifies the rest (Tables 3, 4 of DLE).

Readings of "another 5 % data points are given incorrect labels" (Table 4):

more
    5 % of all rows in addition to the 10 %, all of them wrong. A third of the labels is then wrong, so 1NN,
    which repeats the label of one row, is correct in at most two thirds of the cases.
within
    5 % of the 10 % are wrong.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.protocols.trial import Arm, Cell, TrialData, corrupt, draw_labeled, predict, trial_rng

CEILING = "ceiling"
"""Not a method: the fraction of correct labels among the labeled rows, an upper bound for 1NN on average."""

READINGS: Mapping[str, str] = {
    "clean": "10 % labeled",
    "within": "5 % of the labeled wrong",
    "more": "5 % more, all wrong",
}


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure the accuracy on the unlabeled rows under each reading of the wrong labels.

    Settings
    --------
    labeled, wrong : float
        Fractions of rows; `wrong` refers to all rows or to the labeled ones, depending on the reading.
    readings : sequence of {"clean", "within", "more"}
    seed : int
    """
    cells = []
    for reading in settings["readings"]:
        given, train, test = _draw(data, settings, reading, number)
        if arm.method == CEILING:
            right = (given[train] == data.Y[train]).all(axis=1).mean()
        else:
            seen = TrialData(data.X, given, data.label_names, data.single_label)
            right = (predict(arm, seen, train, test, preprocessing) == data.Y[test]).all(axis=1).mean()
        cells.append(Cell(READINGS[reading], "accuracy", float(right)))
    return cells


def _draw(
    data: TrialData, settings: Mapping[str, Any], reading: str, number: int
) -> tuple[NDArray[np.int8], NDArray[np.intp], NDArray[np.intp]]:
    """Return the labels as given, the labeled rows, and the rows to classify."""
    if reading not in READINGS:
        raise InvalidInput(f"reading={reading!r} is unknown; choose from {', '.join(READINGS)}.")
    rng = trial_rng(settings["seed"], number)
    right, rest = draw_labeled(data.classes, settings["labeled"], rng)
    if reading == "clean":
        return data.Y, right, rest
    if reading == "within":
        return corrupt(data.Y, right, round(settings["wrong"] * len(right)), rng), right, rest
    more = rng.permutation(rest)[: round(settings["wrong"] * len(data.Y))]
    return corrupt(data.Y, more, len(more), rng), np.sort([*right, *more]), np.setdiff1d(rest, more)
