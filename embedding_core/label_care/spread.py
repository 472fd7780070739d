"""Choose items of a ranking that are spread over the collection, not copies of one another."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.checks import check_count
from embedding_core.graph.knn import squared_lengths

POOL = 4
"""Candidates per chosen item: the best of the ranking among which the spread is chosen."""


def spread_out(order: ArrayLike, Z: Any, count: int) -> NDArray[np.intp]:
    """Return `count` rows from the beginning of a ranking that lie far from each other.

    The first of the ranking is taken; then, among the first `POOL` x `count`, always the one farthest from
    all taken ones (farthest-first). The result is in the order of the ranking.

    Parameters
    ----------
    order : array-like of shape (m,)
        Rows of Z, the most wanted first.
    Z : array or CSR matrix of shape (n, r)
        Coordinates.
    count : int
        All of them if there are not more.

    Examples
    --------
    >>> spread_out([0, 1, 2, 3], np.array([[0.0], [0.1], [5.0], [9.0]]), 2).tolist()
    [0, 3]
    """
    check_count("count", count)
    pool: NDArray[np.intp] = np.asarray(order, dtype=np.intp)[: POOL * count]
    if len(pool) <= count:
        return pool
    taken = [0]
    nearest = np.full(len(pool), np.inf)
    while len(taken) < count:
        nearest = np.minimum(nearest, squared_lengths(Z, pool, np.full(len(pool), pool[taken[-1]])))
        nearest[taken] = -1.0
        taken.append(int(np.argmax(nearest)))
    chosen: NDArray[np.intp] = pool[np.sort(taken)]
    return chosen
