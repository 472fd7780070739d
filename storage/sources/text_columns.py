"""Recognize tables whose features are one column of texts, from their header and first rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from storage.sources.columns import column_names, read_header
from storage.sources.label_files import NAME_COLUMNS
from storage.sources.numbers import parse_number

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_COLUMNS = ("text", "content", "document", "body")
CLASS_COLUMNS = ("class", "label", "labels", "target", "category", "y")
LABEL_PREFIX = "label:"
JSONL = ".jsonl"
# Rows that decide whether a column is numeric.
_SAMPLE_ROWS, _SAMPLE_BYTES = 50, 200_000


def find_text_column(names: Iterable[str]) -> str | None:
    """The column with the texts by its usual name, in any case."""
    known = {name.lower(): name for name in names}
    return next((known[name] for name in TEXT_COLUMNS if name in known), None)


def holds_texts(path: Path, labels: str | None) -> bool:
    """Whether a table has a column of texts and no numeric features.

    Parameters
    ----------
    path : Path
        A CSV, TSV, JSONL or Parquet file.
    labels : str or None
        The column that `source.labels` names.
    """
    names, numeric = _sample(path)
    text = find_text_column(names)
    if text is None or text in numeric or any(name.lower() in NAME_COLUMNS for name in names):
        return False
    return all(_is_label_column(name) or name in ("id", "split", labels) for name in numeric)


def _is_label_column(name: str) -> bool:
    return name.lower() in CLASS_COLUMNS or name.startswith(LABEL_PREFIX)


def _sample(path: Path) -> tuple[list[str], set[str]]:
    """Column names, and those that are numeric in the first rows (by their type in a Parquet file)."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet_columns(path)
    with path.open("rb") as file:
        lines = file.read(_SAMPLE_BYTES).decode("utf-8-sig", "replace")
    if suffix == JSONL:
        return _json_columns(lines)
    names, delimiter = read_header(path)
    try:
        rows = list(csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter))[1 : _SAMPLE_ROWS + 1]
    except csv.Error:
        return names, set()
    cells = {name: [row[k] for row in rows if len(row) == len(names)] for k, name in enumerate(names)}
    return names, {name for name, values in cells.items() if _are_numbers(values)}


def _parquet_columns(path: Path) -> tuple[list[str], set[str]]:
    import pyarrow.parquet as pq
    import pyarrow.types as types

    names = column_names(path)
    schema = pq.read_schema(path)

    def is_numeric(kind: pa.DataType) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_nested(kind))

    return names, {one.name for one in schema if is_numeric(one.type) and one.name not in CLASS_COLUMNS}


def _json_columns(lines: str) -> tuple[list[str], set[str]]:
    try:
        record = json.loads(lines.partition("\n")[0])
    except (ValueError, RecursionError):
        return [], set()
    if not isinstance(record, dict):
        return [], set()
    numeric = {name for name, value in record.items() if isinstance(value, int | float | list | dict)}
    return list(record), {name for name in numeric if name not in CLASS_COLUMNS}


def _are_numbers(cells: Sequence[str]) -> bool:
    given = [cell for cell in cells if cell.strip()]
    try:
        for cell in given:
            parse_number(cell)
    except ValueError:
        return False
    return bool(given)
