"""Put together the labeled items that are tracked with a model, for `annotate`."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.labeled_items import LabeledItems, dump_labeled_items
from storage.artifacts.predictions import Predictions, unpack_predictions
from storage.artifacts.store import ArtifactStore
from tasks.dataset import Dataset, load_dataset
from tasks.stages.embedding import Data

# Larger collections are sampled: this many items tell enough about thresholds, and about similarity.
MOST_ITEMS, MOST_WITH_FEATURES = 20_000, 5_000
MOST_FEATURE_BYTES = 64 * 10**6
# Settings of the source that are of no use for new items.
_UNUSED = {"paranoid"}


def pack_labeled_items(
    data: Data,
    scores: ArtifactRef | None,
    tune_for: str,
    source: Mapping[str, Any],
    store: ArtifactStore,
    apart: Collection[str] = (),
) -> bytes:
    """Return the labeled items of a model as bytes.

    Parameters
    ----------
    data : Data
        What the model was fitted to.
    scores : ArtifactRef or None
        Its out-of-fold scores.
    tune_for : str
        What its thresholds are tuned for.
    source : mapping
        The settings of the source.
    apart : collection of str
        Ids of labeled items whose class the model does not have.
    """
    assert data.manifest and data.features
    dataset = load_dataset(store, data.manifest, data.features)
    found = unpack_predictions(store.read(scores)) if scores else None
    return dump_labeled_items(
        collect_labeled_items(dataset, found, tune_for, source, linked=data.edges_given, apart=apart)
    )


def collect_labeled_items(
    dataset: Dataset,
    found: Predictions | None,
    tune_for: str,
    source: Mapping[str, Any],
    linked: bool = False,
    apart: Collection[str] = (),
) -> LabeledItems:
    """Return the labeled items of a dataset, a random part of them if there are many.

    Of the items `apart`, whose class the model does not have, the same part is kept. If the items are
    `linked` the ids of all of them are kept, because new items may link to each.
    """
    rng = np.random.default_rng(0)
    labeled = np.flatnonzero((dataset.Y >= 0).all(axis=1))
    positions = _sample(len(labeled), MOST_ITEMS, rng)
    items = labeled[positions]
    rows = _sample(len(items), _most_rows(dataset.X), rng)
    named = frozenset(apart)
    others = np.array([row for row, name in enumerate(dataset.ids) if name in named], dtype=np.int64)
    others = others[_sample(len(others), round(len(others) * len(items) / max(len(labeled), 1)), rng)]
    folds, scores = _scores_of(found, [dataset.ids[item] for item in items])
    return LabeledItems(
        ids=[dataset.ids[item] for item in items],
        label_names=dataset.label_names,
        labels=dataset.Y[items],
        positions=positions,
        total=len(labeled),
        single_label=dataset.single_label,
        folds=folds,
        scores=scores,
        tune_for=tune_for,
        rows=rows,
        X=dataset.X[items[rows]],
        source={name: value for name, value in source.items() if name not in _UNUSED},
        item_ids=dataset.ids if linked else None,
        unreadable=len(dataset.errors),
        apart=dataset.X[others] if len(others) else None,
    )


def _sample(count: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most `most` of the numbers below `count`, ascending."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.sort(rng.choice(count, most, replace=False)).astype(np.int64)


def _most_rows(X: Any) -> int:
    """How many rows of features are kept."""
    row_bytes = 4 * X.shape[1] if isinstance(X, np.ndarray) else 8 * (X.nnz // max(X.shape[0], 1) + 1)
    return int(min(MOST_WITH_FEATURES, max(1, MOST_FEATURE_BYTES // row_bytes)))


def _scores_of(
    found: Predictions | None, ids: list[str]
) -> tuple[NDArray[np.int32] | None, NDArray[np.float64] | None]:
    """Folds and scores of items; None if an item has none, as after a candidate that was stopped early."""
    if found is None or not np.isfinite(found.scores).all():
        return None, None
    place = {name: row for row, name in enumerate(found.ids)}
    if any(name not in place for name in ids):
        return None, None
    rows = [place[name] for name in ids]
    return found.folds[rows], found.scores[rows]
