"""Labels of too few items to judge a candidate by them: left out of the model, or only of the scores.

A label of one item is in the training rows or in the test rows of a fold, never in both. The score of a label
of two items is that of two fits, each on a single item.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.predictions import Predictions
from storage.artifacts.schemas import pack_manifest, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from storage.quoting import quote
from tasks.dataset import Dataset
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.ingest import digest_labels

FEWEST = 3
"""Labels of fewer labeled items are too rare to judge."""
# Number of labels that a message names.
_LISTED = 5


@dataclass(frozen=True)
class RareLabels:
    """Labels that are too rare to judge.

    Attributes
    ----------
    items : tuple of (label, number of items)
    kept : bool
        Whether the model has them.
    apart : tuple of str
        Ids of the items of classes that the model does not have; empty if items may have several labels.
    missing : float
        Share of new items to expect in such classes, by the estimate of Good and Turing [1]_: that of the
        labeled items whose class would be left out if one of its items were missing. It is larger than the
        share of the items `apart`, because a class is left out if few of its items happened to be labeled.

    References
    ----------
    .. [1] I. J. Good, "The Population Frequencies of Species and the Estimation of Population Parameters",
       Biometrika 40, 1953.
    """

    items: tuple[tuple[str, int], ...] = ()
    kept: bool = False
    apart: tuple[str, ...] = ()
    missing: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(name for name, _ in self.items)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the labels that the model does not predict."""
        return () if self.kept else self.names

    def record(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {"kept": self.kept, "items": dict(self.items), "missing": self.missing}

    def describe(self) -> str:
        """Name the labels, the reason and what can be done."""
        listed = [f"{quote(name)} ({count})" for name, count in self.items[:_LISTED]]
        more = [f"{len(self.items) - _LISTED} more"] if len(self.items) > _LISTED else []
        *first, last = [*listed, *more]
        names = f"{', '.join(first)} and {last}" if first else last
        one = len(self.items) == 1
        carried = f"{names}, {'a label' if one else 'labels'} of fewer than {FEWEST} labeled items"
        if self.kept:
            return f"{carried}: {'it is' if one else 'they are'} predicted, but not part of the scores"
        apart = len(self.apart)
        count = f"item{'s' * (apart > 1)}" if one else f"{apart} items"
        without = (
            f", and the scores are without {'its' if one else 'their'} {count}. Expect {self.missing:.0%} of "
            "new items in classes that the model lacks"
            if apart
            else ""
        )
        return (
            f"{carried}: {'it is' if one else 'they are'} not predicted{without}. Label more items, or keep "
            f"{'it' if one else 'them'} with --set auto.rare_labels=keep"
        )


NO_RARE_LABELS = RareLabels()
"""Every label is judged."""


def find_rare_labels(dataset: Dataset, keep: bool) -> RareLabels:
    """Find the labels that are too rare to judge.

    If fewer than two labels would remain, only labels of a single item are too rare.

    Raises
    ------
    SourceError
        If fewer than two labels have two or more items.
    """
    labeled = (dataset.Y >= 0).all(axis=1)
    counts = dataset.Y[labeled].sum(axis=0, dtype=np.int64)
    for fewest in (FEWEST, 2):
        if (counts >= fewest).sum() >= 2:
            rare = np.flatnonzero((counts > 0) & (counts < fewest))
            named = tuple((dataset.label_names[k], int(counts[k])) for k in rare)
            carries = (dataset.Y[:, rare] == 1).any(axis=1) if dataset.single_label and not keep else []
            apart = tuple(dataset.ids[row] for row in np.flatnonzero(carries))
            missing = float(counts[counts <= fewest].sum() / counts.sum()) if apart else 0.0
            return RareLabels(named, keep, apart, missing)
    raise SourceError(
        f"{int((counts >= 2).sum())} of {int((counts > 0).sum())} labels have two or more labeled items, and "
        "candidates are judged by at least two such labels. Label more items."
    )


def without_labels(manifest: ArtifactRef | None, rare: RareLabels, workspace: Workspace) -> Stage:
    """Stage that makes a manifest without the rare labels, for everything that follows."""
    return Stage(
        name="frequent_labels",
        code=(),
        params={"left_out": list(rare.names)},
        inputs={"manifest": digest_of(manifest)},
        produce=lambda: _drop(manifest, rare, workspace.store),
    )


def _drop(ref: ArtifactRef | None, rare: RareLabels, store: ArtifactStore) -> Artifact:
    """Drop columns; an item that has a rare class only becomes unlabeled, as with source.min_label_count."""
    assert ref
    found = unpack_manifest(store.read(ref))
    kept = [name not in rare.names for name in found.label_names]
    labels = np.ascontiguousarray(found.labels[:, kept])
    if found.single_label:
        labels[~(labels == 1).any(axis=1)] = -1
    names = [name for name, stays in zip(found.label_names, kept, strict=True) if stays]
    manifest = replace(found, labels=labels, label_names=names)
    packed, known = pack_manifest(manifest), store.details(ref)["metadata"]
    return replace(packed, metadata={**known, **packed.metadata, "labels": digest_labels(manifest)})


def judged_part(found: Predictions, dataset: Dataset, rare: RareLabels) -> tuple[Predictions, Dataset]:
    """The predictions and the data without the rare labels, and without items that have a rare class."""
    if not (rare.kept and rare.items):
        return found, dataset
    kept = [name not in rare.names for name in dataset.label_names]
    names = [name for name, stays in zip(dataset.label_names, kept, strict=True) if stays]
    part = replace(dataset, Y=dataset.Y[:, kept], label_names=names)
    judged = np.ones(len(found.ids), dtype=bool)
    if dataset.single_label:
        labeled = {name for name, row in zip(dataset.ids, part.Y, strict=True) if (row == 1).any()}
        judged = np.array([name in labeled for name in found.ids])
    ids = [name for name, stays in zip(found.ids, judged, strict=True) if stays]
    return Predictions(ids, found.folds[judged], found.scores[judged][:, kept]), part
