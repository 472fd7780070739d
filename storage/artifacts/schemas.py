"""The Parquet layout of every kind of artifact: one `pack_*` and one `unpack_*` each, NumPy in between.

| kind | columns | metadata |
|---|---|---|
| manifest | id, digest, split (null without one), labels `int8[K]` (0, 1; all -1 unlabeled) | label_names, single_label, source_kind, notes |
| features | id, digest, features `float32[p]` (NaN when unreadable), error (null when readable) | recipe, feature_names |
| features_sparse | id, digest, indices `list<int32>`, values `list<float32>`, error | recipe, feature_names, n_features |
| parts | part, key, digest, rows: a large artifact stored in parts | - |
| blocks | name, key, digest, rows: blocks of columns that are joined | blocks: how each is prepared |
| edges | i, j, w: upper triangle (i <= j) of a symmetric graph, sorted | n |
| matrix | row, values `float64[m]` | columns |
| embedding | id, coordinates `float64[r]` | eigenvalues, method |
| model | name, format, payload | - |
| annotations | id, labels `int8[K]` (0, 1), scores `float64[K]`, novelty, nearest; see `annotations` | label_names, thresholds, findings |
| scores | method, classifier, fold, metric, value | - |
| cells | condition, preprocessing, metric, trial, value: values of an experiment's trials | - |
| files | name, data: a report | - |

`pack_*` returns an `Artifact` for `ArtifactStore.compute`; `unpack_*` takes the table from `ArtifactStore.read` and
raises StoreError for other columns. Lists in the metadata are JSON. A change of any layout increments
`SCHEMA_VERSION`, which is part of every key.
"""  # noqa: E501

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from storage.artifacts import columns
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.errors import StoreError
from storage.limits import check_memory

if TYPE_CHECKING:
    from scipy import sparse

SCHEMA_VERSION = 1
_TEXT, _BLOB = pa.string(), pa.large_binary()


@dataclass(frozen=True, eq=False)
class Manifest:
    """The items of a collection: labels (n, K), a row of -1 where unlabeled; notes (file, row, message)."""

    ids: list[str]
    digests: list[str]
    labels: np.ndarray
    label_names: list[str]
    split: list[str] | None = None
    single_label: bool = False
    source_kind: str = ""
    notes: list[tuple[str, int | None, str]] = field(default_factory=list)


def pack_manifest(manifest: Manifest) -> Artifact:
    """Pack the items of a collection."""
    if manifest.labels.ndim != 2 or manifest.labels.shape[1] != len(manifest.label_names):
        raise StoreError(
            f"Labels have the shape {manifest.labels.shape}; expected one column for each of the "
            f"{len(manifest.label_names)} label names."
        )
    metadata = {
        "label_names": canonical_json(manifest.label_names),
        "single_label": canonical_json(manifest.single_label),
        "source_kind": manifest.source_kind,
        "notes": canonical_json(manifest.notes),
    }
    split = manifest.split if manifest.split is not None else [None] * len(manifest.ids)
    # Parquet has no lists of length 0, so items without any label get one column of -1.
    labels = manifest.labels if manifest.label_names else np.full((len(manifest.ids), 1), -1)
    return columns.build(
        "manifest",
        {
            "id": columns.texts(manifest.ids),
            "digest": columns.texts(manifest.digests),
            "split": columns.texts(split),
            "labels": columns.vectors(labels, np.int8),
        },
        metadata,
    )


@columns.unpacks
def unpack_manifest(table: pa.Table) -> Manifest:
    """Unpack the items of a collection."""
    layout = {"id": _TEXT, "digest": _TEXT, "split": _TEXT, "labels": None}
    needed = ("label_names", "single_label", "source_kind", "notes")
    metadata = columns.check_table(table, "manifest", layout, needed)
    split = columns.strings(table, "split")
    label_names = columns.names(metadata["label_names"])
    return Manifest(
        ids=columns.strings(table, "id"),
        digests=columns.strings(table, "digest"),
        labels=columns.matrix(table, "labels")[:, : len(label_names)],
        label_names=label_names,
        split=None if all(part is None for part in split) else split,
        single_label=json.loads(metadata["single_label"]),
        source_kind=metadata["source_kind"],
        notes=[(file, row, message) for file, row, message in json.loads(metadata["notes"])],
    )


@dataclass(frozen=True, eq=False)
class Features:
    """Features of items: X (n, p) float32, dense or CSR; a row of NaN (CSR: empty) for an error."""

    ids: list[str]
    digests: list[str]
    X: np.ndarray | sparse.csr_array
    errors: list[str | None] | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    feature_names: list[str] | None = None

    @property
    def readable(self) -> np.ndarray:
        """Mask of the rows that have features."""
        return np.array([error is None for error in self.errors or [None] * len(self.ids)], dtype=bool)


def _feature_columns(features: Features) -> dict[str, pa.Array]:
    known = {"id": columns.texts(features.ids), "digest": columns.texts(features.digests)}
    error = columns.texts(features.errors or [None] * len(features.ids))
    if isinstance(features.X, np.ndarray):
        X = (
            features.X
            if features.errors is None
            else np.where(features.readable[:, None], features.X, np.nan)
        )
        return known | {"features": columns.vectors(X, np.float32), "error": error}
    csr = features.X.tocsr(copy=True)
    csr.sum_duplicates()
    offsets = pa.array(csr.indptr.astype(np.int32))
    indices = pa.ListArray.from_arrays(offsets, pa.array(csr.indices.astype(np.int32)))
    values = pa.ListArray.from_arrays(offsets, pa.array(csr.data.astype(np.float32)))
    return known | {"indices": indices, "values": values, "error": error}


def _feature_metadata(recipe: Mapping[str, Any], feature_names: Sequence[str] | None) -> dict[str, str]:
    return {"recipe": canonical_json(recipe), "feature_names": canonical_json(feature_names)}


def pack_features(features: Features) -> Artifact:
    """Pack features, dense or sparse by the type of X."""
    metadata = _feature_metadata(features.recipe, features.feature_names)
    if isinstance(features.X, np.ndarray):
        return columns.build("features", _feature_columns(features), metadata)
    metadata["n_features"] = str(features.X.shape[1])
    return columns.build("features_sparse", _feature_columns(features), metadata)


@columns.unpacks
def unpack_feature_digests(table: pa.Table) -> tuple[list[str], dict[str, Any]]:
    """Return the content digests of the items and the recipe; other columns may be missing."""
    metadata = columns.read_metadata(table)
    return columns.strings(table, "digest"), json.loads(metadata["recipe"])


@columns.unpacks
def unpack_features(table: pa.Table) -> Features:
    """Unpack features; X is a dense or a CSR array, as it was packed."""
    known: dict[str, pa.DataType | None] = {"id": _TEXT, "digest": _TEXT}
    if columns.read_metadata(table).get("kind") == "features_sparse":
        layout = known | {"indices": pa.list_(pa.int32()), "values": pa.list_(pa.float32()), "error": _TEXT}
        needed = ["recipe", "feature_names", "n_features"]
        metadata = columns.check_table(table, "features_sparse", layout, needed)
        X = _csr(table, int(metadata["n_features"]))
    else:
        layout = known | {"features": None, "error": _TEXT}
        metadata = columns.check_table(table, "features", layout, ["recipe", "feature_names"])
        X = columns.matrix(table, "features")
    ids, digests, errors = (columns.strings(table, name) for name in ("id", "digest", "error"))
    feature_names = json.loads(metadata["feature_names"])
    return Features(ids, digests, X, errors, json.loads(metadata["recipe"]), feature_names)


def _csr(table: pa.Table, n_features: int) -> sparse.csr_array:
    from scipy import sparse

    indices, values = (table.column(name).combine_chunks() for name in ("indices", "values"))
    lengths = indices.value_lengths().to_numpy(zero_copy_only=False)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    parts = (np.array(column.flatten().to_numpy()) for column in (values, indices))
    csr = sparse.csr_array((*parts, indptr), shape=(table.num_rows, n_features))
    csr.check_format()  # indices outside the matrix would crash the process
    return csr


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a large artifact, in order: their number, key, digest and rows."""

    part: np.ndarray
    keys: list[str]
    digests: list[str]
    rows: np.ndarray


def pack_parts(parts: Parts) -> Artifact:
    """Pack the list of parts."""
    return columns.build(
        "parts",
        {
            "part": pa.array(np.asarray(parts.part, np.int32)),
            "key": columns.texts(parts.keys),
            "digest": columns.texts(parts.digests),
            "rows": pa.array(np.asarray(parts.rows, np.int64)),
        },
    )


@columns.unpacks
def unpack_parts(table: pa.Table) -> Parts:
    """Unpack the list of parts."""
    columns.check_table(
        table, "parts", {"part": pa.int32(), "key": _TEXT, "digest": _TEXT, "rows": pa.int64()}
    )
    keys, digests = columns.strings(table, "key"), columns.strings(table, "digest")
    return Parts(columns.numbers(table, "part"), keys, digests, columns.numbers(table, "rows"))


def pack_blocks(refs: Sequence[ArtifactRef], blocks: Sequence[Mapping[str, Any]]) -> Artifact:
    """Pack references to blocks of features, and how each block is prepared."""
    return columns.build(
        "blocks",
        {
            "name": columns.texts([str(block["name"]) for block in blocks]),
            "key": columns.texts([ref.key for ref in refs]),
            "digest": columns.texts([ref.digest for ref in refs]),
            "rows": pa.array([ref.rows for ref in refs], pa.int64()),
        },
        {"blocks": canonical_json(list(blocks))},
    )


def unpack_blocks(table: pa.Table) -> tuple[list[ArtifactRef], list[dict[str, Any]]]:
    """Unpack the references to blocks of features, and how each block is prepared."""
    layout = {"name": _TEXT, "key": _TEXT, "digest": _TEXT, "rows": pa.int64()}
    metadata = columns.check_table(table, "blocks", layout, ["blocks"])
    facts = zip(*(table.column(name).to_pylist() for name in ("key", "digest", "rows")), strict=True)
    refs = [ArtifactRef("features", key, digest, "parts", rows) for key, digest, rows in facts]
    return refs, json.loads(metadata["blocks"])


def pack_edges(W: sparse.sparray | sparse.spmatrix) -> Artifact:
    """Pack a symmetric graph as the edges of its upper triangle."""
    from scipy import sparse

    upper = sparse.coo_array(sparse.triu(W))
    lower = sparse.coo_array(sparse.tril(W)).T
    if W.shape[0] != W.shape[1] or abs(upper - lower).sum() != 0:
        raise StoreError(f"The graph of shape {W.shape} is not symmetric; symmetrize it before storing it.")
    order = np.lexsort((upper.col, upper.row))
    kinds = {"i": np.int32, "j": np.int32, "w": np.float64}
    parts = zip(kinds.items(), (upper.row, upper.col, upper.data), strict=True)
    arrays = {name: pa.array(values[order].astype(kind)) for (name, kind), values in parts}
    return columns.build("edges", arrays, {"n": str(W.shape[0])})


@columns.unpacks
def unpack_edges(table: pa.Table) -> sparse.csr_array:
    """Unpack a graph as a symmetric CSR array (n, n)."""
    from scipy import sparse

    layout = {"i": pa.int32(), "j": pa.int32(), "w": pa.float64()}
    n = int(columns.check_table(table, "edges", layout, ["n"])["n"])
    check_memory(16 * n, f"A graph of {n:,} items", error=StoreError)
    i, j, w = (columns.numbers(table, name) for name in layout)
    off = i != j
    rows, cols = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    return sparse.coo_array((np.concatenate([w, w[off]]), (rows, cols)), shape=(n, n)).tocsr()


@dataclass(frozen=True, eq=False)
class Matrix:
    """A small dense matrix with named rows and columns."""

    values: np.ndarray
    row_names: list[str]
    column_names: list[str]


def pack_matrix(matrix: Matrix) -> Artifact:
    """Pack a named matrix."""
    arrays = {"row": columns.texts(matrix.row_names), "values": columns.vectors(matrix.values, np.float64)}
    if matrix.values.shape[1] != len(matrix.column_names):
        raise StoreError(
            f"{len(matrix.column_names)} column names for a matrix of shape {matrix.values.shape}."
        )
    return columns.build("matrix", arrays, {"columns": canonical_json(matrix.column_names)})


@columns.unpacks
def unpack_matrix(table: pa.Table) -> Matrix:
    """Unpack a named matrix."""
    metadata = columns.check_table(table, "matrix", {"row": _TEXT, "values": None}, ["columns"])
    values, rows = columns.matrix(table, "values"), columns.strings(table, "row")
    return Matrix(values, rows, columns.names(metadata["columns"]))


@dataclass(frozen=True, eq=False)
class Embedding:
    """Coordinates (n, r) of items, the eigenvalues of the axes and the method's name."""

    ids: list[str]
    coordinates: np.ndarray
    eigenvalues: np.ndarray
    method: str


def pack_embedding(embedding: Embedding) -> Artifact:
    """Pack an embedding."""
    coordinates = columns.vectors(embedding.coordinates, np.float64)
    eigenvalues = canonical_json(np.asarray(embedding.eigenvalues, float).tolist())
    metadata = {"eigenvalues": eigenvalues, "method": embedding.method}
    arrays = {"id": columns.texts(embedding.ids), "coordinates": coordinates}
    return columns.build("embedding", arrays, metadata)


@columns.unpacks
def unpack_embedding(table: pa.Table) -> Embedding:
    """Unpack an embedding."""
    layout = {"id": _TEXT, "coordinates": None}
    metadata = columns.check_table(table, "embedding", layout, ["eigenvalues", "method"])
    eigenvalues = np.array(json.loads(metadata["eigenvalues"]), dtype=float)
    coordinates = columns.matrix(table, "coordinates")
    return Embedding(columns.strings(table, "id"), coordinates, eigenvalues, metadata["method"])


class ModelFile(NamedTuple):
    """A fitted model: its name, the format of its bytes, its bytes."""

    name: str
    format: str
    payload: bytes


class Score(NamedTuple):
    """One value of a metric."""

    method: str
    classifier: str
    fold: int
    metric: str
    value: float


class TrialCell(NamedTuple):
    """One value of a metric in one trial of an experiment."""

    condition: str
    preprocessing: str
    metric: str
    trial: int
    value: float


_MODEL = {"name": _TEXT, "format": _TEXT, "payload": _BLOB}
_SCORES = {"method": _TEXT, "classifier": _TEXT, "fold": pa.int32(), "metric": _TEXT, "value": pa.float64()}
_CELLS = {
    "condition": _TEXT,
    "preprocessing": _TEXT,
    "metric": _TEXT,
    "trial": pa.int32(),
    "value": pa.float64(),
}
_FILES = {"name": _TEXT, "data": _BLOB}


def _pack_rows(kind: str, layout: Mapping[str, pa.DataType], rows: Iterable[tuple[Any, ...]]) -> Artifact:
    rows = list(rows)
    cells = [[row[position] for row in rows] for position in range(len(layout))]
    return columns.build(kind, {n: pa.array(c, layout[n]) for n, c in zip(layout, cells, strict=True)})


def _unpack_rows(kind: str, layout: Mapping[str, pa.DataType], table: pa.Table) -> Iterator[tuple[Any, ...]]:
    columns.check_table(table, kind, layout)
    return zip(*(columns.strings(table, name) for name in layout), strict=True)


def pack_model(models: Iterable[ModelFile]) -> Artifact:
    """Pack fitted models."""
    return _pack_rows("model", _MODEL, models)


@columns.unpacks
def unpack_model(table: pa.Table) -> list[ModelFile]:
    """Unpack fitted models (bytes only: `storage.artifacts.models.load_model` loads them)."""
    return [ModelFile(*row) for row in _unpack_rows("model", _MODEL, table)]


def pack_scores(scores: Iterable[Score]) -> Artifact:
    """Pack scores."""
    return _pack_rows("scores", _SCORES, scores)


@columns.unpacks
def unpack_scores(table: pa.Table) -> list[Score]:
    """Unpack scores in the order they were packed."""
    return [Score(*row) for row in _unpack_rows("scores", _SCORES, table)]


def pack_cells(cells: Iterable[TrialCell]) -> Artifact:
    """Pack the values of an experiment's trials."""
    return _pack_rows("cells", _CELLS, cells)


@columns.unpacks
def unpack_cells(table: pa.Table) -> list[TrialCell]:
    """Unpack the values of an experiment's trials in the order they were packed."""
    return [TrialCell(*row) for row in _unpack_rows("cells", _CELLS, table)]


def pack_files(files: Mapping[str, bytes]) -> Artifact:
    """Pack files, such as those of a report, given by name."""
    return _pack_rows("files", _FILES, files.items())


@columns.unpacks
def unpack_files(table: pa.Table) -> dict[str, bytes]:
    """Unpack files by name, in the order they were packed."""
    return dict(_unpack_rows("files", _FILES, table))
