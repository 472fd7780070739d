"""Tables of features and labels: Parquet or CSV with columns `f0, f1, ...` and `label:<name>` or `class`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.errors import SourceError
from storage.quoting import list_names, quote
from storage.sources.base import (
    FEATURE_PARTS,
    Collection,
    FileReader,
    Match,
    Note,
    PartName,
    SourceOptions,
    combine_digests,
    digest_rows,
    given_features,
)
from storage.sources.columns import (
    CSV_SUFFIXES,
    column_names,
    number_column,
    read_columns,
    read_header,
    text_column,
    unique_ids,
)
from storage.sources.label_files import is_label_file_name
from storage.sources.labeling import Labeling, check_label_matrix, label_classes, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path

if TYPE_CHECKING:
    import pyarrow as pa

LABEL_PREFIX = "label:"
_FEATURE = re.compile(r"f[0-9]{1,9}")


def is_feature_name(name: str) -> bool:
    """Whether a column name is that of a feature."""
    return _FEATURE.fullmatch(name) is not None


def to_float32(values: np.ndarray, where: str) -> np.ndarray:
    """Convert one feature to float32; reject missing, infinite and too large values."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    bad = ~np.isfinite(narrow)
    if bad.any():
        row = int(np.argmax(bad))
        value = values[row]
        what = "a missing value" if np.isnan(value) else f"{value:g} is not a finite 32-bit number"
        raise SourceError(
            f"{where}, row {row + 1}: {what} ({int(bad.sum())} such cells in this column). "
            "Fill the cells (for instance with the column's mean) or drop the rows or the column."
        )
    return narrow


def read_labeling(
    table: pa.Table, path: Path, options: SourceOptions, class_column: str = "class"
) -> tuple[Labeling, list[Note]]:
    """Labels of a table according to the options, with notes about them."""
    if not options.labeled:
        return no_labels(table.num_rows), []
    return settle_labels(_read_labels(table, path, class_column), options, path.name)


def _read_labels(table: pa.Table, path: Path, class_column: str) -> Labeling:
    """The `label:<name>` columns of a table, or its class column."""
    names = [name for name in table.column_names if name.startswith(LABEL_PREFIX)]
    single = class_column in table.column_names
    if names and single:
        raise SourceError(
            f"{path} has both {quote(class_column)} and {len(names)} label:<name> columns. "
            "Keep only one of them."
        )
    if single:
        return label_classes(text_column(table, class_column))
    if not names:
        raise SourceError(
            f"{path} has neither label:<name> columns nor a {quote(class_column)} column. Add one."
        )
    check_label_matrix(table.num_rows, len(names))
    columns = [_label_column(table, name, path) for name in names]
    Y = np.stack(columns, axis=1)
    _check_whole_rows(Y, names, path)
    return Labeling(Y, [name.removeprefix(LABEL_PREFIX) for name in names], single_label=False)


def _label_column(table: pa.Table, name: str, path: Path) -> np.ndarray:
    values = number_column(table, name, path)
    values[np.isnan(values)] = -1
    bad = ~np.isin(values, (-1, 0, 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise SourceError(
            f"{path}, row {row + 1}, column {quote(name)}: {values[row]:g}; expected 0, 1 or an empty cell."
        )
    return values.astype(np.int8)


def _check_whole_rows(Y: np.ndarray, names: list[str], path: Path) -> None:
    missing = Y < 0
    mixed = missing.any(axis=1) & ~missing.all(axis=1)
    if mixed.any():
        row = int(np.argmax(mixed))
        name = names[int(np.argmax(missing[row]))]
        raise SourceError(
            f"{path}, row {row + 1}: column {quote(name)} is empty while other labels of the row are given "
            f"({int(mixed.sum())} such rows). Fill the row with 0 and 1, or empty all its labels."
        )


def read_split(table: pa.Table) -> list[str] | None:
    """The `split` column with "" for empty cells; None if there is no such column."""
    if "split" not in table.column_names:
        return None
    return [value or "" for value in text_column(table, "split")]


def read_ids(table: pa.Table, path: Path) -> list[str]:
    """The `id` column, or row numbers from 0."""
    if "id" in table.column_names:
        return unique_ids(text_column(table, "id"), path)
    return [str(row) for row in range(table.num_rows)]


def ignored_note(path: Path, names: list[str], used: list[str]) -> list[Note]:
    """A note about columns that are neither features nor labels."""
    known = set(used)
    ignored = [name for name in names if name not in known]
    if not ignored:
        return []
    shown = list_names(ignored)
    return [Note(path.name, None, f"{len(ignored)} columns are neither features nor labels: {shown}")]


def feature_columns(names: list[str], path: Path) -> list[str]:
    """The columns f0, f1, ... ordered by number."""
    features = sorted(filter(is_feature_name, names), key=lambda name: int(name[1:]))
    if not features:
        raise SourceError(
            f"{path} has no feature columns f0, f1, ... but {_shown(names)}. Rename the features."
        )
    return features


def feature_matrix(table: pa.Table, features: list[str], path: Path) -> np.ndarray:
    """The features (n, p) as float32."""
    X = np.empty((table.num_rows, len(features)), dtype=np.float32)
    for j, name in enumerate(features):
        X[:, j] = to_float32(number_column(table, name, path), f"{path}, column {name!r}")
    return X


@dataclass(frozen=True)
class TableSource:
    """A Parquet or CSV table with one row per item."""

    path: Path
    options: SourceOptions
    kind: str = "table"
    parts: tuple[PartName, ...] = FEATURE_PARTS

    @property
    def name(self) -> str:
        return self.path.stem

    def digest(self, cache_dir: Path) -> str:
        # The options choose the label column, which the bytes do not show.
        chosen = [] if self.options.labels is None else ["column", self.options.labels]
        return combine_digests(
            ["table", *chosen, *digest_files([self.path], index_path(cache_dir, self.path))]
        )

    def read(self, cache_dir: Path) -> Collection:
        """Read the whole table."""
        names = column_names(self.path)
        class_column = self._class_column(names)
        features = feature_columns(names, self.path)
        table = read_columns(self.path, lambda name: self._is_wanted(name, class_column), _is_numeric)
        labeling, notes = read_labeling(table, self.path, self.options, class_column)
        X = feature_matrix(table, features, self.path)
        return Collection(
            kind=self.kind,
            ids=read_ids(table, self.path),
            parts=given_features(X, digest_rows(X), _feature_names(table, features)),
            labels=labeling.Y,
            label_names=labeling.names,
            split=read_split(table),
            single_label=labeling.single_label,
            notes=[*notes, *ignored_note(self.path, names, table.column_names)],
        )

    def _class_column(self, names: list[str]) -> str:
        if self.options.labels is None or not self.options.labeled:
            return "class"
        if self.options.labels not in names:
            raise SourceError(
                f"{self.path} has no column {quote(self.options.labels)} to take labels from, "
                f"but {_shown(names)}. Name one of these."
            )
        return self.options.labels

    def _is_wanted(self, name: str, class_column: str) -> bool:
        if not self.options.labeled:
            return is_feature_name(name) or name == "id"
        if self.options.labels is not None and name.startswith(LABEL_PREFIX):
            return False
        return is_feature_name(name) or name.startswith(LABEL_PREFIX) or name in (class_column, "split", "id")


def _is_numeric(name: str) -> bool:
    return is_feature_name(name) or name.startswith(LABEL_PREFIX)


def _shown(names: list[str]) -> str:
    return list_names(names, 12) + (f" ({len(names)} columns)" if len(names) > 12 else "")


def _feature_names(table: pa.Table, features: list[str]) -> list[str]:
    """Names from the schema metadata if they fit the columns, else the column names."""
    stored = (table.schema.metadata or {}).get(b"feature_names")
    try:
        names = json.loads(stored) if stored else None
    except (ValueError, RecursionError):
        return features
    if isinstance(names, list) and len(names) == len(features) and all(isinstance(n, str) for n in names):
        return names
    return features


class TableReader(FileReader):
    """Opens tables with feature columns."""

    kind = "table"
    supports = "a .parquet or .csv table with columns f0, f1, ... and label:<name> or class"

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """A CSV file with feature columns, or a Parquet file."""
        suffix = path.suffix.lower()
        if not path.is_file() or is_label_file_name(path.name):
            return Match.NO
        if suffix in CSV_SUFFIXES:
            return Match.DATA_SET if any(map(is_feature_name, read_header(path)[0])) else Match.NO
        if suffix != ".parquet":
            return Match.NO
        try:
            return Match.DATA_SET if any(map(is_feature_name, column_names(path))) else Match.POSSIBLE
        except SourceError:  # reading the table reports the damage
            return Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> TableSource:
        """Open a table."""
        return TableSource(path, options)
