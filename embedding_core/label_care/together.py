"""Labels that always or never occur together: a rule of the collection, or a mistake in it."""

from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.errors import InvalidInput

FEWEST = 5
"""Items that a rule needs: carriers of the rarer label, or items that chance would give both labels."""
EXCEPTIONS = 0.05
"""Share of the items that may contradict a rule; they are the interesting ones."""


@dataclass(frozen=True)
class LabelPair:
    """Two labels and how they occur together.

    Attributes
    ----------
    kind : {"always", "never"}
        "always": items with `first` also carry `second`. "never": no item has both.
    first, second : int
    both : int
        Items with both labels.
    expected : float
        Items that would have both if the labels were independent.
    exceptions : tuple of int
        The rows that contradict the rule, if there are any.
    """

    kind: Literal["always", "never"]
    first: int
    second: int
    both: int
    expected: float
    exceptions: tuple[int, ...]


def label_pairs(Y: ArrayLike, most: int = 50) -> list[LabelPair]:
    """Find pairs of labels that (almost) always or (almost) never occur together, the surest first.

    Parameters
    ----------
    Y : array-like of shape (n, K)
        0/1 labels of labeled items.
    most : int, default=50
        Pairs that are returned.

    Notes
    -----
    "Always": at least 95 % of the carriers of `first`, five of them at least, carry `second`, which is not
    carried by as many of the others. "Never": chance would give both labels to at least five items, and at
    most 5 % of that number have both.

    Examples
    --------
    >>> Y = [[1, 1, 0]] * 6 + [[0, 1, 1]] * 6 + [[0, 0, 1]] * 6
    >>> [(pair.kind, pair.first, pair.second) for pair in label_pairs(Y, 1)]
    [('always', 0, 1)]
    """
    labels = np.asarray(Y)
    if labels.ndim != 2:
        raise InvalidInput(f"labels have shape {labels.shape}; expected (items, labels).")
    has = labels == 1
    n, counts = len(has), has.sum(axis=0)
    both = has.astype(np.float64).T @ has
    expected = np.outer(counts, counts) / max(n, 1)
    found = [*_always(has, counts, both, expected), *_never(has, both, expected)]
    found.sort(
        key=lambda pair: (len(pair.exceptions) / max(pair.expected, 1), -abs(pair.both - pair.expected))
    )
    return list(islice(found, most))


def _always(
    has: NDArray[np.bool_],
    counts: NDArray[np.intp],
    both: NDArray[np.float64],
    expected: NDArray[np.float64],
) -> list[LabelPair]:
    n = len(has)
    pairs = []
    often = (both >= (1 - EXCEPTIONS) * counts[:, None]) & (counts[:, None] >= FEWEST)
    np.fill_diagonal(often, False)
    for first, second in np.argwhere(often).tolist():
        others = n - counts[first]
        carried = counts[second] - both[first, second]
        if others == 0 or carried >= (1 - EXCEPTIONS) * others:
            continue  # nearly every item carries the second label
        rows = np.flatnonzero(has[:, first] & ~has[:, second])
        pairs.append(_pair("always", first, second, both, expected, rows))
    return pairs


def _never(
    has: NDArray[np.bool_], both: NDArray[np.float64], expected: NDArray[np.float64]
) -> list[LabelPair]:
    seldom = np.triu((expected >= FEWEST) & (both <= EXCEPTIONS * expected), k=1)
    return [
        _pair("never", first, second, both, expected, np.flatnonzero(has[:, first] & has[:, second]))
        for first, second in np.argwhere(seldom).tolist()
    ]


def _pair(
    kind: Literal["always", "never"],
    first: int,
    second: int,
    both: NDArray[np.float64],
    expected: NDArray[np.float64],
    rows: NDArray[np.intp],
) -> LabelPair:
    return LabelPair(
        kind, first, second, int(both[first, second]), float(expected[first, second]), tuple(rows.tolist())
    )
