"""Decision thresholds tuned for a metric."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.knn_classifier import decide_labels
from embedding_core.model_selection.thresholds import (
    exceed_thresholds,
    f1_thresholds,
    keep_constant,
    shrunk_share_thresholds,
)

TARGETS = ("hamming", "micro_f1", "macro_f1", "label_f1")
"""What thresholds can be tuned for, see `tune_thresholds`."""


def target_of(metric: str, single_label: bool) -> str:
    """Return the element of `TARGETS` for which thresholds should be tuned to do well in a metric.

    The F1 scores have their own thresholds. All other metrics use one half, or the highest score if items
    have exactly one label.

    >>> target_of("micro_f1", single_label=False), target_of("lrap", single_label=False)
    ('micro_f1', 'hamming')
    """
    return metric if metric in ("micro_f1", "macro_f1") and not single_label else "hamming"


def tune_thresholds(scores: NDArray[np.float64], Y: NDArray[np.int8], tune_for: str) -> NDArray[np.float64]:
    """Return the decision threshold of each label (K,), from out-of-sample scores (l, K) and labels Y (l, K).

    A label that no row has, or every row has, gets an infinite threshold and keeps its constant decision.

    ============= ==================================================================================
    "hamming"     one half
    "micro_f1"    one common threshold with the best F1 of all decisions
    "macro_f1"    one threshold per label that gives it to a plausible share of the rows, see
                  `shrunk_share_thresholds`; better on new items than "label_f1", above all for rare labels
    "label_f1"    one threshold per label with the best F1 on these rows, see `f1_thresholds`
    ============= ==================================================================================
    """
    if tune_for == "macro_f1":
        return shrunk_share_thresholds(scores, Y)
    if tune_for == "label_f1":
        return f1_thresholds(scores, Y)[0]
    threshold = 0.5
    if tune_for == "micro_f1":
        threshold = float(f1_thresholds(scores.reshape(-1, 1), Y.reshape(-1, 1))[0][0])
    return keep_constant(threshold, Y)


def decide_out_of_fold(
    scores: NDArray[np.float64],
    Y: NDArray[np.int8],
    folds: NDArray[np.integer],
    tune_for: str,
    single_label: bool = False,
) -> NDArray[np.int8]:
    """Return labels (n, K) from out-of-fold scores (n, K), tuning the thresholds of each fold on the others.

    A row's own labels do not enter its score or the scores of its fold, and its threshold is tuned on scores
    of other rows. The models that produced those other scores were trained on the row, however, so the
    thresholds are not fully independent of its labels; full independence needs nested cross-validation.
    Nothing is refitted. Scores of a single fold have no others to tune on and are decided at one half, as for
    "hamming".

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        In [0, 1]; each row is scored by a fit that did not see its labels.
    Y : ndarray of shape (n, K)
        0/1 labels.
    folds : ndarray of shape (n,)
        Test fold of each row.
    tune_for : {"hamming", "micro_f1", "macro_f1", "label_f1"}
    single_label : bool
        Items have exactly one label: the highest-scored one is chosen for every `tune_for`.
    """
    known = np.unique(folds)
    if single_label or tune_for == "hamming" or len(known) < 2:
        return decide_labels(scores, single_label)
    decided = np.zeros(Y.shape, dtype=np.int8)
    for fold in known:
        here = folds == fold
        thresholds = tune_thresholds(scores[~here], Y[~here], tune_for)
        decided[here] = exceed_thresholds(scores[here], thresholds)
    return decided
