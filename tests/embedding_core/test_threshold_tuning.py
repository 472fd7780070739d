"""Decisions from out-of-fold scores: each fold by thresholds of the others."""

import numpy as np
import pytest

from embedding_core.knn_classifier import decide_labels
from embedding_core.metrics import METRICS, multilabel_metrics
from embedding_core.model_selection.threshold_tuning import (
    TARGETS,
    decide_out_of_fold,
    target_of,
    tune_thresholds,
)


def draw(n=120, n_folds=4):
    """Labels of different frequency whose scores lie low, as those of rare labels do."""
    rng = np.random.default_rng(3)
    Y = (rng.random((n, 3)) < [0.1, 0.3, 0.5]).astype(np.int8)
    scores = np.clip((Y * 0.35 + rng.random(Y.shape) * 0.5) * [0.4, 0.8, 1.0], 0, 1)
    return scores, Y, np.arange(n) % n_folds


@pytest.mark.parametrize("tune_for", TARGETS)
def test_each_fold_is_decided_by_thresholds_of_the_others(tune_for):
    scores, Y, folds = draw()
    decided = decide_out_of_fold(scores, Y, folds, tune_for)
    for fold in range(4):
        here = folds == fold
        cut = tune_thresholds(scores[~here], Y[~here], tune_for)
        np.testing.assert_array_equal(decided[here], scores[here] > cut)


@pytest.mark.parametrize("tune_for", ["micro_f1", "macro_f1"])
def test_a_row_does_not_set_its_own_threshold(tune_for):
    scores, Y, folds = draw()
    before = decide_out_of_fold(scores, Y, folds, tune_for)
    here = folds == 2
    turned = Y.copy()
    turned[here] = 1 - Y[here]
    after = decide_out_of_fold(scores, turned, folds, tune_for)
    np.testing.assert_array_equal(after[here], before[here])
    assert (after[~here] != before[~here]).any()


@pytest.mark.parametrize("tune_for", ["micro_f1", "macro_f1"])
def test_tuning_raises_what_it_is_for_where_scores_lie_low(tune_for):
    scores, Y, folds = draw()

    def value(decided):
        return multilabel_metrics(Y, decided, scores)[tune_for]

    assert value(decide_out_of_fold(scores, Y, folds, tune_for)) > value(decide_labels(scores)) + 0.1


def test_one_fold_is_decided_at_one_half_and_single_labels_by_the_best_score():
    scores, Y, folds = draw()
    alone = np.zeros_like(folds)
    np.testing.assert_array_equal(decide_out_of_fold(scores, Y, alone, "macro_f1"), decide_labels(scores))
    single = decide_out_of_fold(scores, Y, folds, "macro_f1", single_label=True)
    np.testing.assert_array_equal(single, decide_labels(scores, single_label=True))


def test_the_metric_names_what_is_tuned():
    tuned = {metric.name for metric in METRICS if target_of(metric.name, False) != "hamming"}
    assert tuned == {"micro_f1", "macro_f1"}
    assert {target_of(metric.name, True) for metric in METRICS} == {"hamming"}
