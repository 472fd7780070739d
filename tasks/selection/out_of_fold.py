"""Labels from out-of-fold scores: what `auto` measures, and the thresholds that its models keep."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.predictions import Predictions, unpack_predictions
from storage.artifacts.schemas import Score
from storage.artifacts.store import ArtifactStore
from tasks.dataset import Dataset

CODE = ("embedding_core.model_selection.threshold_tuning", "tasks.selection.out_of_fold")
"""Modules that decide labels."""
MEASURING = (*CODE, "embedding_core.metrics")
"""Modules that decide labels and measure them."""
THRESHOLDS = {"micro_f1": "one tuned threshold", "macro_f1": "tuned thresholds"}
"""How labels are decided for a metric, in words; for other metrics at 0.5, or by the highest score."""


@dataclass(frozen=True)
class Tuning:
    """The metric that a model's thresholds are tuned for, and the out-of-fold scores they are tuned on."""

    tune_for: str
    scores: ArtifactRef


def labels_of(found: Predictions, dataset: Dataset) -> NDArray[np.int8]:
    """True labels (m, K) of the predicted items, in their order."""
    place = {name: row for row, name in enumerate(dataset.ids)}
    return dataset.Y[[place[name] for name in found.ids]]


def only_folds(found: Predictions, folds: Collection[int]) -> Predictions:
    """The predictions of some of the folds."""
    chosen = np.isin(found.folds, list(folds))
    ids = [name for name, here in zip(found.ids, chosen, strict=True) if here]
    return Predictions(ids, found.folds[chosen], found.scores[chosen])


def decide(found: Predictions, dataset: Dataset, tune_for: str) -> NDArray[np.int8]:
    """Predicted labels (m, K); the thresholds of each fold are tuned on the other folds."""
    from embedding_core.model_selection.threshold_tuning import decide_out_of_fold

    Y = labels_of(found, dataset)
    return decide_out_of_fold(found.scores, Y, found.folds, tune_for, dataset.single_label)


def measure(name: str, found: Predictions, dataset: Dataset, tune_for: str) -> list[Score]:
    """Every metric on each fold of out-of-fold scores.

    Labels are decided with thresholds tuned on the other folds; ranking metrics use the scores themselves.
    Labels that are absent from a fold do not lower its macro averages.
    """
    from embedding_core.metrics import multilabel_metrics

    Y, decided = labels_of(found, dataset), decide(found, dataset, tune_for)
    scores = []
    for fold in np.unique(found.folds).tolist():
        chosen = found.folds == fold
        values = multilabel_metrics(Y[chosen], decided[chosen], found.scores[chosen], skip_absent=True)
        scores += [Score(name, name, fold, metric, value) for metric, value in values.items()]
    return scores


def learn_thresholds(tuning: Tuning, dataset: Dataset, store: ArtifactStore) -> NDArray[np.float64]:
    """Thresholds (K,) of a model fitted on all labels, tuned on the out-of-fold scores of all folds."""
    from embedding_core.model_selection.threshold_tuning import tune_thresholds

    found = unpack_predictions(store.read(tuning.scores))
    return tune_thresholds(found.scores, labels_of(found, dataset), tuning.tune_for)
