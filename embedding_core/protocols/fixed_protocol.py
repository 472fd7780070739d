"""One protocol for every method and data set: z-scored, tuned by cross-validation on the training labels.

With one class per row, a small fraction of each class is labeled, a trial is a draw, and all other rows are
to be classified. With several labels per row, a trial is a fold. Every method gets the same rows and the same
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
"""Condition of the F1 scores; the Hamming loss beside them uses one half."""


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure accuracy on the unlabeled rows of a draw, or LRAP, F1 and Hamming loss on the rows of a fold.

    Settings
    --------
    labeled : float
        Fraction of each class that is labeled.
    folds, seed : int
    rows : int
        Maximum number of rows, drawn at random; 0 uses all.
    methods : mapping of str to (str, mapping)
        By title of an arm: the method that replaces it if rows have several labels, and parameters that are
        added to the arm's or override them.
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
            f"Arm {arm.title!r}: thresholds are tuned on out-of-fold scores of the training rows, "
            f"but {method} with {found.params} has none; leave a parameter open, such as neighbors=[1, 3]."
        )
    figures = split_figures(SplitScores(found.left_out, found.scores), part.Y[train], part.Y[test])
    return [Cell("" if name == "lrap" else TUNED_THRESHOLDS, name, value) for name, value in figures.items()]


def split_rows(
    data: TrialData, settings: Mapping[str, Any], number: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training and test rows of a trial, the same for every method."""
    if data.single_label:
        return draw_labeled_rows(data.classes, settings["labeled"], settings["seed"], number)
    return fold_rows(data, settings, number)
