"""Thresholds of scores for what a user wants to be good at."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.knn_classifier import decide_labels
from embedding_core.model_selection.thresholds import f1_thresholds, shift_scores

TARGETS = ("hamming", "micro_f1", "macro_f1")


def target_of(metric: str, single_label: bool) -> str:
    """What labels are to be decided for, of `TARGETS`, so that a metric comes out well.

    The F1 scores have thresholds of their own; one half, or the best score where items carry exactly one
    label, serves all else.

    >>> target_of("micro_f1", single_label=False), target_of("lrap", single_label=False)
    ('micro_f1', 'hamming')
    """
    return metric if metric in TARGETS and not single_label else "hamming"


def tune_thresholds(scores: NDArray[np.float64], Y: NDArray[np.int8], tune_for: str) -> NDArray[np.float64]:
    """What a score has to pass for yes, one number a label (K,).

    One half for "hamming"; for "micro_f1" the one threshold, for "macro_f1" each label's, of the best F1 on
    scores (l, K) of rows that their own labels Y (l, K) did not decide. A label that no row has, or every
    row, stays as it was seen whatever the threshold of the others.
    """
    if tune_for == "macro_f1":
        return f1_thresholds(scores, Y)[0]
    threshold = 0.5
    if tune_for == "micro_f1":
        threshold = float(f1_thresholds(scores.reshape(-1, 1), Y.reshape(-1, 1))[0][0])
    positives = Y.sum(axis=0, dtype=np.int64)
    return np.where(positives == 0, np.inf, np.where(positives == len(Y), -np.inf, threshold))


def decide_out_of_fold(
    scores: NDArray[np.float64],
    Y: NDArray[np.int8],
    folds: NDArray[np.integer],
    tune_for: str,
    single_label: bool = False,
) -> NDArray[np.int8]:
    """Labels (n, K) from out-of-fold scores (n, K), the thresholds of each fold tuned on the other folds.

    So no row has a say in its own decision, and nothing is fitted again. Scores of a single fold have no
    others to learn from: they are decided at one half, as for "hamming".

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        In [0, 1], each row's from a fit that did not see its labels.
    Y : ndarray of shape (n, K)
        0/1 labels.
    folds : ndarray of shape (n,)
        In which fold each row was tested.
    tune_for : {"hamming", "micro_f1", "macro_f1"}
    single_label : bool
        Items carry exactly one label: the best-scored one, whatever `tune_for`.
    """
    known = np.unique(folds)
    if single_label or tune_for == "hamming" or len(known) < 2:
        return decide_labels(scores, single_label)
    decided = np.zeros(Y.shape, dtype=np.int8)
    for fold in known:
        here = folds == fold
        thresholds = tune_thresholds(scores[~here], Y[~here], tune_for)
        decided[here] = decide_labels(shift_scores(scores[here], thresholds))
    return decided
