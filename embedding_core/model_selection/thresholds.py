"""Decision thresholds of real-valued scores, and scores in [0, 1] relative to them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

TIE = 1e-6
"""Scores closer than this count as equal (labels are 0 and 1)."""
PRIOR_CARRIERS = 10.0
"""Number of carriers at which the F1 threshold and the prior share have equal weight."""
MOST_TIMES = 3.0
"""A label is given to at most this many times its share of the labeled rows."""
# A fraction of exactly one half may be computed as 0.5 + 1e-16.
_ROUNDING = 1e-9


def rank_scores(
    scores: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Sort each column of scores (n, K) in descending order.

    Returns
    -------
    order : ndarray of shape (n, K)
        Row of the j-th highest score, from j = 0.
    cuts : ndarray of shape (n, K)
        In the middle between the j-th and the next score; in the last row just below the lowest score.
    gaps : ndarray of shape (n, K)
        Distance of the two scores. Rows with the same score cannot be separated: only a gap above `TIE` is a
        possible place of a threshold.
    """
    order = np.argsort(-scores, axis=0, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=0)
    below = np.vstack([ranked[1:], ranked[-1:] - 2 * TIE])
    return order, (ranked + below) / 2, ranked - below


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
    order, cuts, gaps = rank_scores(scores)
    hits = np.take_along_axis(Y, order, axis=0).cumsum(axis=0, dtype=np.int64)
    f1 = np.where(gaps > TIE, 2 * hits / (np.arange(1, n + 1)[:, None] + positives), -1.0)
    best = f1.argmax(axis=0)[None]
    cut = np.take_along_axis(cuts, best, axis=0)[0]
    return keep_constant(cut, Y), np.take_along_axis(f1, best, axis=0)[0]


def shrunk_share_thresholds(
    scores: NDArray[np.float64],
    Y: NDArray[np.int8],
    prior_carriers: float = PRIOR_CARRIERS,
    most_times: float = MOST_TIMES,
) -> NDArray[np.float64]:
    """Return the threshold of each label that gives it to a plausible share of the rows.

    The best F1 on few carriers is mostly noise: `f1_thresholds` gives a label with 2 of 95 rows to all new
    items if its scores say little. Here the share of rows that pass the F1 threshold is shrunk towards the
    share of carriers, the more the fewer carriers there are, and is limited to a multiple of it.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Out-of-fold scores.
    Y : ndarray of shape (n, K)
        0/1 labels.
    prior_carriers : float, default=10
        Number m of carriers at which both shares have equal weight; 0 uses the F1 threshold, up to the limit.
    most_times : float, default=3
        Limit, in multiples of the share of carriers.

    Returns
    -------
    thresholds : ndarray of shape (K,)
        In the middle between two adjacent scores; inf for a label that no row has, -inf for a label that
        every row has.

    Notes
    -----
    With q0 = n_pos / n, the share q1 of rows above the F1 threshold and w = n_pos / (n_pos + m), the share is

        q = min(q1^w q0^(1 - w), most_times q0),

    and the threshold lies below the round(q n)-th highest score. It depends on the order of the scores only.

    Rows with tied scores pass together or not at all. Among the numbers of rows that can pass, the one with
    the smallest ratio to round(q n) is taken, the smaller one of two, as long as it is within the limit. If
    the rows that share the highest score already exceed the limit, the threshold lies just above them.

    The shares are those of the labeled rows. If new items have another mix of labels, so should they.

    Examples
    --------
    Two of 40 rows carry a label, and the scores know nothing about it:

    >>> import numpy as np
    >>> scores, Y = np.linspace(1, 0, 40)[:, None], np.zeros((40, 1), dtype=np.int8)
    >>> Y[[20, 35]] = 1
    >>> int((scores > f1_thresholds(scores, Y)[0]).sum())
    36
    >>> int((scores > shrunk_share_thresholds(scores, Y)).sum())
    3
    """
    positives = Y.sum(axis=0, dtype=np.float64)
    passed = (scores > f1_thresholds(scores, Y)[0]).sum(axis=0)
    weight = positives / np.maximum(positives + prior_carriers, 1.0)
    wanted = np.rint(np.minimum(passed**weight * positives ** (1 - weight), most_times * positives))
    counts = np.arange(1, len(Y) + 1)[:, None]
    _, cuts, gaps = rank_scores(scores)
    possible = (gaps > TIE) & (counts <= np.maximum(wanted, most_times * positives))
    distance = np.where(possible, np.abs(np.log(counts / np.maximum(wanted, 1.0))), np.inf)
    nearest = np.take_along_axis(cuts, distance.argmin(axis=0)[None], axis=0)[0]
    return keep_constant(np.where(possible.any(axis=0), nearest, scores.max(axis=0) + TIE), Y)


def keep_constant(thresholds: ArrayLike, Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return thresholds (K,) with inf for labels that no row of Y (n, K) has, -inf for those of every row."""
    positives = Y.sum(axis=0, dtype=np.int64)
    return np.where(positives == 0, np.inf, np.where(positives == len(Y), -np.inf, thresholds))


def exceed_thresholds(scores: NDArray[np.float64], thresholds: ArrayLike) -> NDArray[np.int8]:
    """Return 1 where scores (m, K) exceed their threshold (K,), else 0.

    A score that equals its threshold, up to rounding, does not exceed it. A threshold of inf gives 0, a
    threshold of -inf gives 1.

    >>> exceed_thresholds(np.array([[0.5, 0.6]]), [0.5, 0.5]).tolist()
    [[0, 1]]
    """
    return (scores - np.asarray(thresholds, dtype=np.float64) > _ROUNDING).astype(np.int8)


def shift_scores(scores: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores in [0, 1] that exceed one half where `scores` (m, K) exceed their threshold (K,).

    1 / (1 + exp(-4 (score - threshold))) is about 1/2 + score - threshold near the threshold. It increases
    with the score and is the same function for all labels, so the labels of an item are ranked by their
    distance from their thresholds. A threshold of inf gives 0, a threshold of -inf gives 1.
    """
    shifted: NDArray[np.float64] = expit(4 * (scores - thresholds))
    return shifted
