"""Thresholds of scores for what a user wants to be good at."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.classifiers.thresholds import f1_thresholds

TARGETS = ("hamming", "micro_f1", "macro_f1")


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
