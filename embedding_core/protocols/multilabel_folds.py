"""Cross-validation on items with several labels (Table 5 of DLE, Table 1 of MLDA); a trial is a fold."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.protocols.trial import Arm, Cell, TrialData, predict, trial_rng


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Compute metrics of the 0/1 decisions on one fold.

    Settings
    --------
    folds, seed : int
    rows : int
        Maximum number of rows, drawn at random; 0 uses all.
    metrics : sequence of str
        Names from `embedding_core.metrics`, only of metrics of decisions.
    """
    part = sample_rows(data, settings["rows"], settings["seed"])
    train, test = fold_rows(part, settings, number)
    found = predict(arm, part, train, test, preprocessing)
    values = multilabel_metrics(part.Y[test], found, found)
    return [Cell("", metric, values[metric]) for metric in settings["metrics"]]


def fold_rows(
    data: TrialData, settings: Mapping[str, Any], number: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training and test rows of one fold."""
    return stratified_folds(data.Y, settings["folds"], settings["seed"])[number]


def training_rows(data: TrialData, settings: Mapping[str, Any], number: int) -> NDArray[np.intp]:
    """Return the rows that features of a trial may be learned from."""
    if 0 < settings["rows"] < len(data.Y):
        raise InvalidInput(
            f"rows={settings['rows']}: a set whose features are learned in each trial is used as a whole; "
            "set rows=0."
        )
    return fold_rows(data, settings, number)[0]


def sample_rows(data: TrialData, count: int, seed: int) -> TrialData:
    """Return at most `count` rows, drawn at random, in their order; labels without any row are dropped."""
    if not 0 < count < len(data.Y):
        return data
    rows = np.sort(trial_rng(seed, 0).permutation(len(data.Y))[:count])
    part = data.take(rows)
    kept = np.flatnonzero((part.Y > 0).any(axis=0))
    names = tuple(part.label_names[label] for label in kept)
    return TrialData(part.X, np.ascontiguousarray(part.Y[:, kept]), names, part.single_label)
