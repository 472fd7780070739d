"""Evidence for predicted labels: the labeled items that are near, and how unlike all of them an item is."""

from dataclasses import dataclass
from functools import cached_property
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
class Evidence:
    """The labeled items as the model sees them; prepared once for all portions of new items."""

    annotator: "Annotator"
    labeled: LabeledItems

    @cached_property
    def known(self) -> Any:
        """Prepared features of the labeled items."""
        return self.annotator.prepare_features(self.labeled.X)

    @property
    def everyone(self) -> Any:
        """Prepared features of the labeled items, with their part of those whose class the model lacks."""
        labeled = self.labeled
        if labeled.apart is None:
            return self.known
        count = round(labeled.apart.shape[0] * len(labeled.rows) / max(len(labeled.ids), 1))
        if not count:
            return self.known
        apart = self.annotator.prepare_features(labeled.apart[:count])
        if isinstance(apart, np.ndarray):
            return np.concatenate([self.known, apart])
        from scipy.sparse import vstack

        return vstack([self.known, apart], format="csr")

    @cached_property
    def _isolation(self) -> NDArray[np.float64]:
        from embedding_core.annotation.evidence import isolation

        return isolation(self.known)

    @cached_property
    def _coordinates(self) -> Any:
        """Coordinates of the labeled items: in the embedding if there is one, else prepared features."""
        if get_method(self.annotator.method).role == "projection":
            return self.annotator.transform(self.labeled.X)
        if self._inner is None:
            return self.known
        apart = self._inner.loo_embedding_
        if len(apart) == self.labeled.total:  # places that do not depend on the item's own labels
            return apart[self.labeled.positions[self.labeled.rows]]
        return self._inner.transform(self.known)

    @property
    def _inner(self) -> Any:
        return getattr(self.annotator.model_, "embedding_model_", None)

    def find_nearest(self, X: Any, decided: NDArray[np.int8]) -> list[list[Neighbor]]:
        """The nearest labeled items that carry each label given to each of the new items X."""
        from embedding_core.annotation.evidence import nearest_carriers

        labeled = self.labeled
        carried = labeled.labels[labeled.rows]
        found = nearest_carriers(self._coordinates, carried, self._place(X), decided, NEAREST)
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

    def _place(self, X: Any) -> Any:
        """Coordinates of new items, as those of the labeled ones."""
        if get_method(self.annotator.method).role == "projection":
            return self.annotator.transform(X)
        prepared = self.annotator.prepare_features(X)
        return prepared if self._inner is None else self._inner.transform(prepared)

    def find_novelty(self, X: Any) -> NDArray[np.float64] | None:
        """How unlike all labeled items each new item is; None if there are fewer than two labeled items.

        In prepared features, not in an embedding that has seen the labels: there labeled items lie closer
        together than new ones.
        """
        from embedding_core.annotation.evidence import novelty

        if self.known.shape[0] < 2:
            return None
        return novelty(self.known, self.annotator.prepare_features(X), among=self._isolation)

    def find_unlike(self, prepared: Any, count: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The new items, given by their prepared features, that are most unlike all labeled ones.

        Their rows, the most isolated first, and their novelty; none with fewer than two labeled items.
        """
        from embedding_core.annotation.evidence import most_isolated

        if self.known.shape[0] < 2:
            return np.zeros(0, dtype=np.intp), np.zeros(0)
        return most_isolated(self.known, prepared, count)
