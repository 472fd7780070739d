"""Out-of-fold predictions as a table: the scores of each item by a model that was not trained on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from storage.artifacts import columns
from storage.artifacts.artifact import Artifact


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores (m, K) in [0, 1] of m items, and the fold that tests each item."""

    ids: list[str]
    folds: np.ndarray
    scores: np.ndarray


def pack_predictions(found: Predictions) -> Artifact:
    """Pack out-of-fold predictions."""
    return columns.build(
        "predictions",
        {
            "id": columns.texts(found.ids),
            "fold": pa.array(np.asarray(found.folds, np.int32)),
            "scores": columns.vectors(found.scores, np.float64),
        },
    )


def unpack_predictions(table: pa.Table) -> Predictions:
    """Unpack out-of-fold predictions, in the order they were packed."""
    columns.check_table(table, "predictions", {"id": pa.string(), "fold": pa.int32(), "scores": None})
    return Predictions(
        columns.strings(table, "id"), columns.numbers(table, "fold"), columns.matrix(table, "scores")
    )
