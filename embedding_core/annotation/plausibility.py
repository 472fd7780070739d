"""Labels that are given to implausibly many new items, measured by their share among the labeled items."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc

from embedding_core.errors import InvalidInput

MOST_TIMES = 3.0
"""A label given to more than this many times its share is implausible."""
LEVEL = 0.05
"""Probability up to which a count is not explained by chance."""


def times_share(given: ArrayLike, items: int, carriers: ArrayLike, rows: int) -> NDArray[np.float64]:
    """Return the share of new items that got each label, in multiples of its share of the labeled rows (K,).

    NaN for a label that no labeled row carries.

    >>> times_share([6], 40, [5], 100).round(3).tolist()
    [3.0]
    """
    counts, known = np.asarray(given, dtype=np.float64), np.asarray(carriers, dtype=np.float64)
    if items < 1 or rows < 1 or counts.shape != known.shape:
        raise InvalidInput(
            f"{items} new items, {rows} labeled rows, counts of shapes {counts.shape} and {known.shape}; "
            "give one count of each per label, and at least one item and row."
        )
    shares: NDArray[np.float64] = np.divide(
        counts / items, known / rows, out=np.full(len(counts), np.nan), where=known > 0
    )
    return shares


def is_implausible(
    given: ArrayLike, items: int, carriers: ArrayLike, rows: int, most_times: float = MOST_TIMES
) -> NDArray[np.bool_]:
    """Return whether each label was given to more than `most_times` its share, beyond chance (K,).

    If a label belonged to `most_times` its share of the new items, the number that carry it would be
    binomial; a count that is reached with a probability of at most `LEVEL` is implausible. Few new items
    therefore never are: two of three items may well carry a rare label.

    Parameters
    ----------
    given : array-like of shape (K,)
        Number of new items that got each label.
    items : int
        Number of new items.
    carriers : array-like of shape (K,)
        Number of labeled rows that carry each label.
    rows : int
        Number of labeled rows.
    most_times : float, default=3

    Examples
    --------
    >>> is_implausible([40, 3, 1], 40, [2, 2, 2], 95).tolist()
    [True, False, False]
    """
    times = times_share(given, items, carriers, rows)
    counts = np.asarray(given, dtype=np.float64)
    share = np.minimum(most_times * np.asarray(carriers, dtype=np.float64) / rows, 1.0)
    # P(at least `given` of them), for a count of 0 the probability 1
    chance = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), items, share), 1.0)
    found: NDArray[np.bool_] = (times > most_times) & (chance <= LEVEL)
    return found
