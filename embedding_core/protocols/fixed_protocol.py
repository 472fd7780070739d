"""One protocol for every method and set: z-scored, everything chosen by cross-validation on training labels.

Sets with one class a row: a small share of each class is labeled, a trial is a draw, all other rows are to
be named. Sets with several labels a row: a trial is a fold. Every method gets the same rows and the same
inner folds, see `stepwise`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels
from embedding_core.protocols.few_labels import draw_labeled_rows
from embedding_core.protocols.multilabel_folds import fold_rows, sample_rows
from embedding_core.protocols.stepwise import fit_tuned
from embedding_core.protocols.trial import Arm, Cell, TrialData, prepare
from embedding_core.protocols.tuned_split import SplitScores, split_figures

TUNED_THRESHOLDS = "thresholds tuned on training rows"
"""Condition of the F1 scores; the Hamming loss beside them is at one half."""


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Accuracy on the unlabeled rows of a draw; LRAP, F1 scores and Hamming loss on the rows of a fold.

    Settings
    --------
    labeled : float
        Share of each class that is labeled.
    folds, seed : int
    rows : int
        Most rows to use, drawn at random; 0: all.
    methods : mapping of str to (str, mapping)
        By title of an arm: the method that takes its place where rows carry several labels, and what its
        parameters have beside, or in place of, the arm's.
    """
    part = sample_rows(data, settings["rows"], settings["seed"])
    train, test = split_rows(part, settings, number)
    X = prepare(part.X, preprocessing, train)
    instead = {} if part.single_label else settings["methods"]
    method, own = instead.get(arm.title, (arm.method, {}))
    found = fit_tuned(method, {**arm.params, **own}, X, part.Y, train, test, settings["seed"])
    if part.single_label:
        right = (decide_labels(found.scores, single_label=True) == part.Y[test]).all(axis=1)
        return [Cell("", "accuracy", float(right.mean()))]
    if found.left_out is None:
        raise InvalidInput(
            f"Arm {arm.title!r}: thresholds are tuned on scores that training rows get without their labels, "
            f"and {method} with {found.params} has none; leave something open, such as neighbors=[1, 3]."
        )
    figures = split_figures(SplitScores(found.left_out, found.scores), part.Y[train], part.Y[test])
    return [Cell("" if name == "lrap" else TUNED_THRESHOLDS, name, value) for name, value in figures.items()]


def split_rows(
    data: TrialData, settings: Mapping[str, Any], number: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and test rows of a trial, the same for every method."""
    if data.single_label:
        return draw_labeled_rows(data.classes, settings["labeled"], settings["seed"], number)
    return fold_rows(data, settings, number)
