"""The files that `annotate` writes: tables and JSON lines of annotations, and a file of labels for a run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.annotations import Annotations
from storage.artifacts.schemas import Manifest
from storage.errors import ConfigError
from storage.sources.registry import source_names
from tasks.annotation.findings import finite

ENDINGS = (".parquet", ".csv", ".jsonl")
# Kinds of sources whose labels may stand in a table of their own, and the column that names the items there.
LABEL_TABLES: Mapping[str, str] = {
    "images": "filename",
    "sound": "filename",
    "text": "filename",
    "video": "filename",
    "table": "id",
    "arrays": "id",
    "sparse": "id",
}


@dataclass(frozen=True)
class Doubt:
    """The label of an item that is closest to being decided otherwise; `rank` 1 is the most doubtful item."""

    rank: int
    label: int
    margin: float


@dataclass(frozen=True, eq=False)
class Margins:
    """How far the scores of items are from being decided otherwise, and the items in order of doubt."""

    found: Annotations

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Score minus threshold (n, K); without thresholds minus the best other score."""
        from embedding_core.annotation.evidence import margins

        found = self.found
        if found.thresholds is not None:
            return margins(found.scores, found.thresholds)
        return found.scores - _best_other(found.scores)

    @cached_property
    def doubts(self) -> list[Doubt]:
        """The doubt about each item."""
        from embedding_core.annotation.evidence import rank_by_doubt

        rows, labels = rank_by_doubt(self.values)
        made: dict[int, Doubt] = {}
        for rank, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True), start=1):
            made[row] = Doubt(rank, label, float(self.values[row, label]))
        return [made[row] for row in range(len(self.found.ids))]

    @cached_property
    def order(self) -> list[int]:
        """Rows, the most doubtful first."""
        return sorted(range(len(self.doubts)), key=lambda row: self.doubts[row].rank)


def _best_other(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The highest score of the other labels (n, K); 0 for a single label."""
    n, K = scores.shape
    if K == 1:
        return np.zeros((n, 1))
    ranked = np.sort(scores, axis=1)
    first = scores.argmax(axis=1)
    best = np.repeat(ranked[:, -1:], K, axis=1)
    best[np.arange(n), first] = ranked[:, -2]
    return best


def describe_items(found: Annotations, margins: Margins) -> Iterator[dict[str, Any]]:
    """One record per item: its labels with threshold, margin and evidence, all scores, novelty and doubt."""
    cuts = [None] * len(found.label_names) if found.thresholds is None else found.thresholds.tolist()
    nearest = found.nearest or [()] * len(found.ids)
    for row, name in enumerate(found.ids):
        doubt = margins.doubts[row]
        yield {
            "id": name,
            "origin": "predicted",
            "labels": [
                {
                    "label": found.label_names[k],
                    "score": float(found.scores[row, k]),
                    "threshold": None if cuts[k] is None else finite(cuts[k]),
                    "margin": finite(margins.values[row, k]),
                    "nearest": [
                        {"id": one.id, "distance": one.distance} for one in nearest[row] if one.label == k
                    ],
                }
                for k in np.flatnonzero(found.labels[row]).tolist()
            ],
            "scores": dict(zip(found.label_names, found.scores[row].tolist(), strict=True)),
            "novelty": None if found.novelty is None else float(found.novelty[row]),
            "doubt": {
                "rank": doubt.rank,
                "label": found.label_names[doubt.label],
                "margin": finite(doubt.margin),
            },
        }


def write_annotations(found: Annotations, out: Path, facts: Mapping[str, str]) -> list[Path]:
    """Write one row per item as Parquet and CSV, and one object per item as JSON lines.

    The tables have the id, the labels joined by |, the place in the order of doubt with the label in doubt,
    the novelty, and for each label its score and the threshold that decided.
    """
    import pyarrow as pa

    from storage.exports import write_csv, write_json_lines, write_parquet

    margins = Margins(found)
    n, doubts = len(found.ids), margins.doubts
    names = np.array(found.label_names)
    columns: dict[str, Any] = {
        "id": found.ids,
        "labels": ["|".join(names[row > 0]) for row in found.labels],
        "doubt_rank": [one.rank for one in doubts],
        "doubt_label": [found.label_names[one.label] for one in doubts],
        "novelty": pa.nulls(n, pa.float64()) if found.novelty is None else found.novelty,
    }
    for k, name in enumerate(found.label_names):
        columns[f"score:{name}"] = found.scores[:, k]
        if found.thresholds is not None:
            columns[f"threshold:{name}"] = np.full(n, found.thresholds[k])
    table = pa.table(columns).replace_schema_metadata(dict(facts))
    files = dict(zip(ENDINGS, (out.with_name(out.name + ending) for ending in ENDINGS), strict=True))
    return [
        write_parquet(table, files[".parquet"], "--out"),
        write_csv(table, files[".csv"], "--out"),
        write_json_lines(describe_items(found, margins), files[".jsonl"], "--out"),
    ]


def check_label_table(kind: str, path: str) -> None:
    """Raise ConfigError if a run of such a source does not take labels from a table of their own."""
    if kind not in LABEL_TABLES or path in source_names():
        raise ConfigError(
            f"--write-labels: a run of {path} ({kind}) reads labels from the data themselves, not from a "
            "file of labels. Leave the option out and use the files of --out."
        )


@dataclass(frozen=True)
class WrittenLabels:
    """Number of items in a file of labels: with given labels, with predicted ones, and without any."""

    file: Path
    given: int
    predicted: int
    without: int


def write_labels(manifest: Manifest, found: Annotations, path: Path, separator: str) -> WrittenLabels:
    """Write the labels of a collection, given and predicted, as a table that a run of it reads.

    A column says which labels were predicted. An item that got no label stays without; so does one that was
    labeled as having none, which such a table cannot tell apart.
    """
    import pyarrow as pa

    from storage.exports import write_csv

    check_separator({*manifest.label_names, *found.label_names}, separator, "--write-labels")
    given = dict(zip(manifest.ids, _joined(manifest.labels, manifest.label_names, separator), strict=True))
    predicted = dict(zip(found.ids, _joined(found.labels, found.label_names, separator), strict=True))
    cells = [predicted.get(name, given[name]) for name in manifest.ids]
    origins = ["predicted" if name in predicted else "given" for name in manifest.ids]
    origins = [origin if cell else "" for origin, cell in zip(origins, cells, strict=True)]
    # The name of the column says whether items may have several labels.
    title = "label" if manifest.single_label else "labels"
    table = pa.table({LABEL_TABLES[manifest.source_kind]: manifest.ids, title: cells, "origin": origins})
    write_csv(table, path, "--write-labels")
    return WrittenLabels(path, *(origins.count(kind) for kind in ("given", "predicted", "")))


def _joined(labels: NDArray[np.int8], label_names: list[str], separator: str) -> list[str]:
    names = np.array(label_names)
    return [separator.join(names[row > 0]) for row in labels]


def check_separator(names: set[str], separator: str, option: str) -> None:
    """Raise ConfigError if a label contains the character that separates labels."""
    bad = next((name for name in sorted(names) if separator in name), None)
    if bad is not None:
        raise ConfigError(
            f"{option}: the label {bad!r} contains {separator!r}, which separates labels. Choose "
            "another separator with --set source.label_separator=';', or rename the label."
        )
