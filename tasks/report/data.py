"""Input of the report: plain arrays and names, no references and no files."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tasks.report.judged import JudgedItems

ScoreRow = tuple[str, str, int, str, float]
"""One score: method, classifier, fold, metric, value."""

NoteRow = tuple[str, int | None, str]
"""One finding in the data: file, row in it (or None), message."""


@dataclass(frozen=True)
class EmbeddingView:
    """One method's embedding: coordinates (n, r) of the items and its eigenvalues (r,)."""

    title: str
    coordinates: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


@dataclass(frozen=True)
class Thumb:
    """A small JPEG of one item and its labels (None: unlabeled)."""

    id: str
    jpeg: bytes
    labels: Sequence[str] | None = None


@dataclass(frozen=True)
class ShownCase:
    """An item to look at first: why, its labels, and a small JPEG if it has a picture."""

    id: str
    reason: str
    labels: Sequence[str]
    jpeg: bytes = b""


@dataclass(frozen=True)
class ReportData:
    """Everything one report shows.

    Parameters
    ----------
    title, source : str
        Heading, and name of the source of the items.
    n_items, n_labeled : int
        Number of all items, and of labeled items.
    label_names : sequence of K str
    Y : int8 array (n, K)
        0/1, whole rows of -1 for unlabeled items.
    correlation : array (K, K)
        Label correlation C.
    embeddings : mapping of method name to EmbeddingView
    scores : sequence of ScoreRow
    method_titles : mapping of method name to display title
    baselines : set of method names that are plain baselines
    sampled : str
        How test items were sampled; empty if all were tested.
    notes : sequence of NoteRow
    facts : mapping
        Configuration, digests and versions, shown unchanged.
    thumbnails : sequence of Thumb
    judged : JudgedItems or None
        Out-of-fold predictions of the best method.
    cases : mapping of title to sequence of ShownCase
        The most doubtful and the most wrong items.
    """

    title: str
    source: str
    n_items: int
    n_labeled: int
    label_names: Sequence[str]
    Y: NDArray[np.int8]
    correlation: NDArray[np.float64]
    embeddings: Mapping[str, EmbeddingView]
    scores: Sequence[ScoreRow]
    method_titles: Mapping[str, str]
    baselines: Set[str]
    sampled: str = ""
    notes: Sequence[NoteRow] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    thumbnails: Sequence[Thumb] = ()
    judged: "JudgedItems | None" = None
    cases: Mapping[str, Sequence[ShownCase]] = field(default_factory=dict)
