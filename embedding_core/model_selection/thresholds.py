"""Thresholds of real-valued scores, and scores in [0, 1] from them."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

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
