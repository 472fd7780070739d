"""Read files with the labels of images: labels.csv, metadata.csv/.jsonl/.parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storage.errors import SourceError
from storage.sources.columns import (
    CSV_SUFFIXES,
    cell_text,
    column_names,
    guess_delimiter,
    read_columns,
    read_text,
)
from storage.sources.image_files import is_image_name

LABEL_FILE_NAMES = tuple(
    f"{stem}{suffix}" for stem in ("labels", "metadata") for suffix in (*CSV_SUFFIXES, ".jsonl", ".parquet")
)
NAME_COLUMNS = ("filename", "file_name")
LABEL_COLUMNS = ("labels", "label")
_EXPECTED = (
    "Expected: columns filename (or file_name) and labels (or label), or two columns, "
    "the name of the file and its labels joined by {separator!r}."
)


@dataclass(frozen=True)
class LabelEntry:
    """Labels of one file; empty if it is unlabeled."""

    name: str
    labels: tuple[str, ...]
    row: int
    split: str


@dataclass(frozen=True)
class LabelFile:
    """Content of a label file. Single-label unless its column is named `labels` or a file has several."""

    entries: list[LabelEntry]
    single_label: bool
    has_split: bool


def is_label_file_name(name: str) -> bool:
    """Whether a file name is that of a label file."""
    return name.lower() in LABEL_FILE_NAMES


def read_label_file(path: Path, separator: str) -> LabelFile:
    """Read a label file.

    Parameters
    ----------
    path : Path
        A .csv or .tsv file with or without header, a .jsonl or a .parquet file.
    separator : str
        Separates the labels of a cell.
    """
    suffix = path.suffix.lower()
    if suffix in CSV_SUFFIXES:
        return _read_csv(path, separator)
    if suffix == ".jsonl":
        return _read_jsonl(path, separator)
    if suffix == ".parquet":
        return _read_parquet(path, separator)
    raise SourceError(f"{path} is not a label file; supported: {', '.join(LABEL_FILE_NAMES)}.")


def _read_csv(path: Path, separator: str) -> LabelFile:
    text = read_text(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=guess_delimiter(text.partition("\n")[0]))
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise SourceError(f"{path}, line {reader.line_num}: {error}. Fix the line.") from error
    if not rows:
        raise SourceError(f"{path} is empty. {_EXPECTED.format(separator=separator)}")
    if is_image_name(rows[0][1][0].strip()):
        header, columns = None, _Columns(0, 1, None, "")
    else:
        header = [cell.strip().lower() for cell in rows.pop(0)[1]]
        columns = _choose_columns(header, path, separator)
    width = len(header) if header else 2
    for line, row in rows:
        if len(row) > width:
            raise SourceError(
                f"{path}, line {line}: {len(row)} cells, expected {width}. Join the labels of a file "
                f"by {separator!r}, and quote names that contain the delimiter."
            )
    return _label_file([_csv_entry(line, row, columns, path, separator) for line, row in rows], columns)


@dataclass(frozen=True)
class _Columns:
    """Positions of the relevant columns, and the name of the label column."""

    name: int
    labels: int
    split: int | None
    title: str


def _choose_columns(header: Sequence[str], path: Path, separator: str) -> _Columns:
    name = next((column for column in NAME_COLUMNS if column in header), None)
    title = next((column for column in LABEL_COLUMNS if column in header), None)
    split = header.index("split") if "split" in header else None
    if name is not None and title is not None:
        return _Columns(header.index(name), header.index(title), split, title)
    if len(header) == 2:
        # One of the two columns may have its usual name, in either position.
        first = header.index(name) if name else 1 - header.index(title) if title else 0
        return _Columns(first, 1 - first, None, title or "")
    raise SourceError(
        f"{path} has the columns {', '.join(header[:10])}. {_EXPECTED.format(separator=separator)}"
    )


def _csv_entry(line: int, row: list[str], columns: _Columns, path: Path, separator: str) -> LabelEntry:
    def cell(position: int | None) -> str:
        return row[position] if position is not None and position < len(row) else ""

    return _entry(cell(columns.name), cell(columns.labels), line, cell(columns.split), path, separator)


def _read_jsonl(path: Path, separator: str) -> LabelFile:
    records = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{path}, line {line}: not JSON ({error}). Write one object per line."
            ) from error
        if not isinstance(record, dict):
            raise SourceError(f"{path}, line {line}: expected a JSON object, not {text.strip()[:40]!r}.")
        records.append((line, record))
    return _from_records(records, path, separator)


def _read_parquet(path: Path, separator: str) -> LabelFile:
    wanted = (*NAME_COLUMNS, *LABEL_COLUMNS, "split")
    found = [name for name in column_names(path) if name in wanted]
    _choose_columns(found if len(found) > 1 else [*column_names(path), ""], path, separator)
    table = read_columns(path, lambda name: name in wanted, lambda name: False)
    return _from_records(list(enumerate(table.to_pylist(), start=1)), path, separator)


def _from_records(records: list[tuple[int, dict[str, object]]], path: Path, separator: str) -> LabelFile:
    keys = {key for _, record in records for key in record}
    name = next((column for column in NAME_COLUMNS if column in keys), None)
    title = next((column for column in LABEL_COLUMNS if column in keys), None)
    if name is None or title is None:
        found = ", ".join(sorted(keys)[:10]) or "none"
        raise SourceError(f"{path} has the columns {found}. {_EXPECTED.format(separator=separator)}")
    columns = _Columns(0, 1, 2 if "split" in keys else None, title)
    entries = [
        _entry(record.get(name), record.get(title), row, record.get("split"), path, separator)
        for row, record in records
    ]
    # Lists mean multi-label data even if each contains one label.
    listed = any(isinstance(record.get(title), list) for _, record in records)
    return _label_file(entries, columns, several=listed)


def _label_file(entries: list[LabelEntry], columns: _Columns, several: bool = False) -> LabelFile:
    single = not several and columns.title != "labels" and all(len(entry.labels) <= 1 for entry in entries)
    return LabelFile(entries, single, columns.split is not None)


def _entry(name: object, labels: object, row: int, split: object, path: Path, separator: str) -> LabelEntry:
    if not isinstance(name, str) or not name.strip():
        raise SourceError(f"{path}, line {row}: the file name is empty or not text. Name the file.")
    where = f"{path}, line {row}"
    return LabelEntry(name, _labels(labels, separator, where), row, cell_text(split) or "")


def _labels(value: object, separator: str, where: str) -> tuple[str, ...]:
    parts: list[object]
    if isinstance(value, str):
        parts = list(value.split(separator))
    elif isinstance(value, list):
        parts = value
    else:
        parts = [value]
    if any(isinstance(part, list | dict) for part in parts):
        raise SourceError(f"{where}: the labels are nested; expected text or a list of texts.")
    names = (cell_text(part) for part in parts)
    return tuple(dict.fromkeys(name for name in names if name is not None))
