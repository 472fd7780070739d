"""Labeled items with the same features as a labeled item of another fold: the fits have seen a copy of them.

If new items are copies as often as labeled ones are, as in a table of few categories, the scores are right.
If the collection has its items twice and new items are new, the scores are too high.
"""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.predictions import Predictions
from tasks.dataset import Dataset
from tasks.selection.out_of_fold import decide, labels_of

MENTIONED = 0.02
"""Share of the labeled items from which copies are mentioned."""


@dataclass(frozen=True)
class Copies:
    """Number of labeled items, of those with a copy in another fold, and the score on the others.

    `score` is the mean over the folds of the deciding metric; None if no item is without a copy.
    """

    labeled: int
    items: int
    score: float | None

    def record(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    @property
    def many(self) -> bool:
        """Whether there are so many that they should be mentioned."""
        return self.items >= MENTIONED * self.labeled


def find_copies(found: Predictions, dataset: Dataset, metric: str, tune_for: str) -> Copies | None:
    """Find items with a copy in another fold, and score the others; None if there is no copy.

    `found` are the out-of-fold scores of the winner. Thresholds are those of all items.
    """
    helped = _have_copies_elsewhere(_digest_rows(found, dataset), found.folds)
    if not helped.any():
        return None
    return Copies(len(helped), int(helped.sum()), _score(found, dataset, metric, tune_for, ~helped))


def _digest_rows(found: Predictions, dataset: Dataset) -> list[bytes]:
    """A digest of the features of each predicted item."""
    place = {name: row for row, name in enumerate(dataset.ids)}
    chosen, X = [place[name] for name in found.ids], dataset.X
    if isinstance(X, np.ndarray):
        rows = ((X[row] + 0.0).tobytes() for row in chosen)  # -0.0 becomes 0.0
    else:
        X = X[chosen]
        X.eliminate_zeros()
        X.sort_indices()
        parts = (slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0]))
        rows = (X.indices[part].tobytes() + X.data[part].tobytes() for part in parts)
    return [hashlib.blake2b(row, digest_size=16).digest() for row in rows]


def _have_copies_elsewhere(digests: list[bytes], folds: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether an item of another fold has the same digest (n,)."""
    seen: dict[bytes, set[int]] = {}
    for digest, fold in zip(digests, folds.tolist(), strict=True):
        seen.setdefault(digest, set()).add(fold)
    return np.array([len(seen[digest]) > 1 for digest in digests])


def _score(
    found: Predictions, dataset: Dataset, metric: str, tune_for: str, rows: NDArray[np.bool_]
) -> float | None:
    from embedding_core.metrics import multilabel_metrics

    Y, decided = labels_of(found, dataset), decide(found, dataset, tune_for)
    values = []
    for fold in np.unique(found.folds[rows]):
        here = rows & (found.folds == fold)
        made = multilabel_metrics(Y[here], decided[here], found.scores[here], skip_absent=True)
        values.append(made[metric])
    return float(np.mean(values)) if values else None
