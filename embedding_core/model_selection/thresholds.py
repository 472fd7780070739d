"""Decision thresholds of real-valued scores, and scores in [0, 1] relative to them."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

TIE = 1e-6
"""Scores closer than this count as equal (labels are 0 and 1)."""


def f1_thresholds(
    scores: NDArray[np.float64], Y: NDArray[np.int8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the threshold of each label that maximizes its F1 score.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
    Y : ndarray of shape (n, K)
        0/1 labels.

    Returns
    -------
    thresholds : ndarray of shape (K,)
        In the middle between two adjacent scores; among equal F1 the one with the fewest positive decisions.
        If accepting all rows is best, just below the lowest score. inf for a label that no row has, -inf for
        a label that every row has.
    f1 : ndarray of shape (K,)
        F1 on these rows; 0 for a label that no row has.

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
    """Return scores in [0, 1] that exceed one half where `scores` (m, K) exceed their threshold (K,).

    1 / (1 + exp(-4 (score - threshold))) is about 1/2 + score - threshold near the threshold. It increases
    with the score and is the same function for all labels, so the labels of an item are ranked by their
    distance from their thresholds. A threshold of inf gives 0, a threshold of -inf gives 1.
    """
    shifted: NDArray[np.float64] = expit(4 * (scores - thresholds))
    return shifted
