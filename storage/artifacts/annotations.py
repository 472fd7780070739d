"""Predicted labels of new items as a table: scores, decisions, thresholds and evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from storage.artifacts import columns
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError

_TEXT = pa.string()
_NEAREST = pa.list_(
    pa.struct([("label", pa.int32()), ("id", pa.string()), ("distance", pa.float64())]),
)


class Neighbor(NamedTuple):
    """A labeled item that carries a label, near a new item that got it; `label` is its number."""

    label: int
    id: str
    distance: float


@dataclass(frozen=True, eq=False)
class Annotations:
    """Predicted labels (n, K) in 0/1 of new items, with scores (n, K) in [0, 1].

    Attributes
    ----------
    thresholds : (K,) array, or None
        Scores above them are yes; None if the highest score decides.
    novelty : (n,) array, or None
        How unlike all labeled items each item is, from 0 to 1.
    nearest : sequence of n sequences of Neighbor
        Labeled items that support the labels of each item.
    findings : mapping
        What is known about the labels as a whole; see `tasks.annotation.findings`.
    """

    ids: list[str]
    label_names: list[str]
    labels: np.ndarray
    scores: np.ndarray
    thresholds: np.ndarray | None = None
    novelty: np.ndarray | None = None
    nearest: Sequence[Sequence[Neighbor]] = ()
    findings: Mapping[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Number of items with each label."""
        return dict(zip(self.label_names, self.labels.sum(axis=0).tolist(), strict=True))


def pack_annotations(annotations: Annotations) -> Artifact:
    """Pack predicted labels."""
    if not annotations.labels.shape[1] == annotations.scores.shape[1] == len(annotations.label_names):
        raise StoreError(
            f"Labels of shape {annotations.labels.shape} and scores of shape {annotations.scores.shape}; "
            f"expected one column for each of the {len(annotations.label_names)} label names."
        )
    cuts = annotations.thresholds
    novelty = annotations.novelty
    nearest = annotations.nearest or [()] * len(annotations.ids)
    return columns.build(
        "annotations",
        {
            "id": columns.texts(annotations.ids),
            "labels": columns.vectors(annotations.labels, np.int8),
            "scores": columns.vectors(annotations.scores, np.float64),
            "novelty": pa.nulls(len(annotations.ids), pa.float64()) if novelty is None else pa.array(novelty),
            "nearest": pa.array([[one._asdict() for one in row] for row in nearest], _NEAREST),
        },
        {
            "label_names": canonical_json(annotations.label_names),
            # JSON has no infinite numbers.
            "thresholds": canonical_json(None if cuts is None else [repr(float(cut)) for cut in cuts]),
            "findings": canonical_json(dict(annotations.findings)),
        },
    )


@columns.unpacks
def unpack_annotations(table: pa.Table) -> Annotations:
    """Unpack predicted labels."""
    layout = {"id": _TEXT, "labels": None, "scores": None, "novelty": pa.float64(), "nearest": _NEAREST}
    needed = ("label_names", "thresholds", "findings")
    metadata = columns.check_table(table, "annotations", layout, needed)
    novelty = columns.strings(table, "novelty")
    return Annotations(
        ids=columns.strings(table, "id"),
        label_names=columns.names(metadata["label_names"]),
        labels=columns.matrix(table, "labels"),
        scores=columns.matrix(table, "scores"),
        thresholds=_thresholds(metadata),
        novelty=None if None in novelty else np.array(novelty, dtype=np.float64),
        nearest=[[Neighbor(**one) for one in row] for row in columns.strings(table, "nearest")],
        findings=json.loads(metadata["findings"]),
    )


def join_annotations(
    store: ArtifactStore, refs: Sequence[ArtifactRef], findings: Mapping[str, Any]
) -> Artifact:
    """Put portions of annotations together, read one at a time; portions without items are left out."""
    filled = [ref for ref in refs if ref.rows]
    first = store.read(filled[0])
    known = {name: text for name, text in columns.read_metadata(first).items() if name != "kind"}

    def batches() -> Iterator[pa.RecordBatch]:
        for ref in filled:
            yield from store.read(ref).replace_schema_metadata(None).to_batches()

    return Artifact(
        "annotations",
        batches(),
        {**known, "findings": canonical_json(dict(findings))},
        schema=first.schema.remove_metadata(),
        links=tuple(refs),
    )


def count_given(store: ArtifactStore, refs: Sequence[ArtifactRef]) -> tuple[np.ndarray, np.ndarray | None]:
    """How many items of some portions have each label (K,), and the thresholds that decided."""
    filled = [ref for ref in refs if ref.rows]
    given = sum(columns.matrix(store.read(ref, ["labels"]), "labels").sum(axis=0) for ref in filled)
    return np.asarray(given), _thresholds(columns.read_metadata(store.read(filled[0])))


def _thresholds(metadata: Mapping[str, str]) -> np.ndarray | None:
    cuts = json.loads(metadata["thresholds"])
    return None if cuts is None else np.array([float(cut) for cut in cuts])
