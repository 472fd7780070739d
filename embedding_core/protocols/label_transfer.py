"""Labels that only one method finds (Fig. 5 of MLDA), cross-validated, and wrong labels only it gives."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.protocols.multilabel_folds import fold_rows
from embedding_core.protocols.trial import Arm, Cell, TrialData, find_label, predict
from embedding_core.registry import METHODS

FOUND = "found_alone"


class Lone(NamedTuple):
    """A label that only one method gives to an item: its row, the label, and whether it is correct."""

    row: int
    label: int
    right: bool


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Count, for each method, the labels of a fold that it alone finds and that it alone gives wrongly.

    Settings
    --------
    methods : mapping of title to (name in the registry, parameters)
    labels : sequence of str
        Labels whose correct ones are also counted separately.
    folds, seed : int

    Notes
    -----
    An arm that is a method of the registry is a baseline. It replaces each method in turn, and its counts
    stand beside those of that method.
    """
    plain = arm if arm.method in METHODS else None
    lone = lone_labels(data, settings, preprocessing, number, plain)
    cells = [
        Cell(title, metric, float(sum(one.right == right for one in found)))
        for title, found in lone.items()
        for metric, right in ((FOUND, True), ("wrong_alone", False))
    ]
    for name in settings["labels"]:
        label = find_label(data, name)
        cells += [
            Cell(f"{title}, {name}", FOUND, float(sum(one.right and one.label == label for one in found)))
            for title, found in lone.items()
        ]
    return cells


def lone_labels(
    data: TrialData, settings: Mapping[str, Any], preprocessing: str, number: int, plain: Arm | None = None
) -> dict[str, list[Lone]]:
    """Return the labels that each method, or a baseline in its place, alone gives to the test rows."""
    train, test = fold_rows(data, settings, number)
    answers = {
        title: predict(Arm(title, method, params), data, train, test, preprocessing)
        for title, (method, params) in settings["methods"].items()
    }
    votes = np.sum(list(answers.values()), axis=0)
    stand_in = predict(plain, data, train, test, preprocessing) if plain else None
    return {
        title: _lone(given if stand_in is None else stand_in, votes - given, data.Y[test], test)
        for title, given in answers.items()
    }


def _lone(
    given: NDArray[np.int8], others: NDArray[np.int64], truth: NDArray[np.int8], rows: NDArray[np.intp]
) -> list[Lone]:
    alone: Sequence[tuple[int, int]] = list(zip(*np.nonzero((given > 0) & (others == 0)), strict=True))
    return [Lone(int(rows[i]), int(label), bool(truth[i, label] > 0)) for i, label in alone]
