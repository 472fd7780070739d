"""TODO."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from embedding_core.knn_classifier import decide_labels

TIE = 1e-6
"""Scores nearer than this to each other are not told apart (labels are 0 and 1)."""


def f1_thresholds(
    scores: NDArray[np.float64], Y: NDArray[np.int8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Threshold of each label that maximizes its F1 score.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
    Y : ndarray of shape (n, K)
        0/1 labels.

    Returns
    -------
    thresholds : ndarray of shape (K,)
        Half-way between two neighboring scores; of equal F1 the one that says yes least often. Where yes to
        all rows is best, just below the lowest score. Infinite for a label that nobody has, minus infinite
        for one that everybody has: it stays as it was seen.
    f1 : ndarray of shape (K,)
        F1 on these rows, 0 for a label that nobody has.

    Examples
    --------
    >>> import numpy as np
    >>> thresholds, f1 = f1_thresholds(np.array([[0.1], [0.3], [0.5], [0.9]]), np.array([[0], [1], [0], [1]]))
    >>> thresholds.round(3).tolist(), f1.tolist()
    ([0.2], [0.8])
    """
    n, positives = len(Y), Y.sum(axis=0, dtype=np.int64)
    order = np.argsort(-scores, axis=0)
    ranked = np.take_along_axis(scores, order, axis=0)
    below = np.vstack([ranked[1:], ranked[-1:] - 2 * TIE])
    hits = np.take_along_axis(Y, order, axis=0).cumsum(axis=0, dtype=np.int64)
    f1 = np.where(ranked - below > TIE, 2 * hits / (np.arange(1, n + 1)[:, None] + positives), -1.0)
    best = f1.argmax(axis=0)[None]
    cut = np.take_along_axis(ranked + below, best, axis=0)[0] / 2
    thresholds = np.where(positives == 0, np.inf, np.where(positives == n, -np.inf, cut))
    return thresholds, np.take_along_axis(f1, best, axis=0)[0]


def shift_scores(scores: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores in [0, 1] that pass one half where `scores` (m, K) pass their threshold (K,).

    1 / (1 + exp(-4 (score - threshold))), about 1/2 + score - threshold near the threshold: rising with the
    score, and the same for all labels, so that the labels of an item are ranked by how far they pass their
    thresholds, in the unit of the labels. An infinite threshold gives 0, a minus infinite one 1.
    """
    return expit(4 * (scores - thresholds))


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
