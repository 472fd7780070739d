"""Input of the map: plain arrays and names, no references and no files."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.report.judged import JudgedItems


@dataclass(frozen=True, eq=False)
class MapView:
    """One placement of all items: coordinates (n, r), a title, and a remark for the reader.

    `group` joins views that are shown side by side, such as two values of a parameter and their controls.
    """

    title: str
    coordinates: NDArray[np.float64]
    remark: str = ""
    group: str = ""


@dataclass(frozen=True, eq=False)
class MapData:
    """Everything that a map shows of a collection.

    Attributes
    ----------
    title, source : str
        Heading, and name of the source.
    ids : sequence of n str
    Y : (n, K) int8 array
        0/1; rows of -1 for unlabeled items.
    label_names : sequence of K str
    split : sequence of n str or None, or None
    views : sequence of MapView
    judged : JudgedItems or None
        Predictions for the items.
    support : int
        Number of the view in whose coordinates supporting items are searched.
    first : int
        Number of the view that is shown first.
    """

    title: str
    source: str
    ids: Sequence[str]
    Y: NDArray[np.int8]
    label_names: Sequence[str]
    split: Sequence[str | None] | None
    views: Sequence[MapView]
    judged: JudgedItems | None
    support: int = 0
    first: int = 0


def sample_rows(n: int, most: int) -> NDArray[np.intp]:
    """At most `most` of n rows, ascending. A smaller sample is part of a larger one."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:most])
