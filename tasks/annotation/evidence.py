"""Evidence for predicted labels: the labeled items that are near, and how unlike all of them an item is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.registry import get_method
from storage.artifacts.annotations import Neighbor
from storage.artifacts.labeled_items import LabeledItems

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator

NEAREST = 3
"""Labeled items that are named for each label."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Labeled and new items as the model sees them: features before and after they are prepared."""

    known: Any
    new: Any
    known_prepared: Any
    new_prepared: Any


def prepare_rows(annotator: "Annotator", labeled: LabeledItems, X: Any) -> Rows:
    """Prepare the features of labeled and of new items alike."""
    return Rows(labeled.X, X, annotator.prepare_features(labeled.X), annotator.prepare_features(X))


def find_nearest(
    annotator: "Annotator", labeled: LabeledItems, rows: Rows, decided: NDArray[np.int8]
) -> list[list[Neighbor]]:
    """The nearest labeled items that carry each label given to each new item."""
    from embedding_core.annotation.evidence import nearest_carriers

    known, new = _coordinates(annotator, labeled, rows)
    found = nearest_carriers(known, labeled.labels[labeled.rows], new, decided, NEAREST)
    nearest: list[list[Neighbor]] = [[] for _ in range(len(decided))]
    for row, label, places, distances in zip(
        found.rows.tolist(),
        found.labels.tolist(),
        found.indices.tolist(),
        found.distances.tolist(),
        strict=True,
    ):
        for place, distance in zip(places, distances, strict=True):
            if place >= 0:
                nearest[row].append(Neighbor(label, labeled.ids[labeled.rows[place]], distance))
    return nearest


def find_novelty(rows: Rows) -> NDArray[np.float64] | None:
    """How unlike all labeled items each new item is; None if there are fewer than two labeled items.

    In prepared features, not in an embedding that has seen the labels: there labeled items lie closer
    together than new ones.
    """
    from embedding_core.annotation.evidence import novelty

    return novelty(rows.known_prepared, rows.new_prepared) if rows.known_prepared.shape[0] > 1 else None


def _coordinates(annotator: "Annotator", labeled: LabeledItems, rows: Rows) -> tuple[Any, Any]:
    """Coordinates of labeled and new items: in the embedding if there is one, else prepared features."""
    if get_method(annotator.method).role == "projection":
        return annotator.transform(rows.known), annotator.transform(rows.new)
    inner = getattr(annotator.model_, "embedding_model_", None)
    if inner is None:
        return rows.known_prepared, rows.new_prepared
    apart = inner.loo_embedding_
    if len(apart) == labeled.total:  # places that do not depend on the item's own labels
        return apart[labeled.positions[labeled.rows]], inner.transform(rows.new_prepared)
    return inner.transform(rows.known_prepared), inner.transform(rows.new_prepared)
