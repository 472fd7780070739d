"""Recognize tables whose features are one column of texts, from their header and first rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.artifacts.regular_files import open_regular
from storage.sources.column_kinds import ColumnKind, column_kinds, is_feature_name
from storage.sources.columns import CSV_SUFFIXES, read_header
from storage.sources.label_files import NAME_COLUMNS
from storage.sources.roles import LEFT_OUT, assign_text_roles, match_names

if TYPE_CHECKING:
    from storage.sources.base import SourceOptions

TEXT_COLUMNS = ("text", "content", "document", "body")
JSONL = ".jsonl"
# Rows that show whether a column contains sentences.
_SAMPLE_ROWS, _SAMPLE_BYTES = 50, 200_000
# Words that half of the texts must have beside columns of numbers; names and codes have fewer.
_SENTENCE = 3


def find_text_column(
    names: Iterable[str], options: SourceOptions, path: Path, known: Mapping[str, ColumnKind] | None = None
) -> str | None:
    """The column with the texts: `source.text`, or by its usual name in any case, if it is not left out."""
    if options.text is not None:
        return options.text if options.text in set(names) else None
    listed = list(names)
    left_out = set(match_names(options.ignore, listed, path, "source.ignore", strict=False))
    found = {name.lower(): name for name in listed if name not in left_out}
    usable = [found[name] for name in TEXT_COLUMNS if name in found]
    return next((name for name in usable if known is None or known[name] == "text"), None)


def holds_texts(path: Path, options: SourceOptions) -> bool:
    """Whether a table has a column of texts that its features are made of.

    Features f0, f1, ... and embeddings come first. Beside other columns of numbers texts must be sentences.

    Parameters
    ----------
    path : Path
        A CSV, TSV, JSONL, Parquet or Feather file.
    options : SourceOptions
    """
    kinds = _sampled_kinds(path)
    text = find_text_column(kinds, options, path, kinds)
    if text is None or any(name.lower() in NAME_COLUMNS for name in kinds):
        return False
    # Settings that do not fit are reported when the table is read.
    roles = assign_text_roles(kinds, text, replace(options, labeled=False), path)
    rest = {one.name: kinds[one.name] for one in roles.ignored if one.reason != LEFT_OUT}
    if any(is_feature_name(name) or kind == "vector" for name, kind in rest.items()):
        return False
    return "number" not in rest.values() or _are_sentences(_sample(path, text))


def value_kinds(records: Sequence[Mapping[str, Any]]) -> dict[str, ColumnKind]:
    """Kind of each member of JSON objects."""
    values: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            values.setdefault(name, []).append(value)
    return {name: _kind_of(found) for name, found in values.items()}


def _kind_of(values: Iterable[Any]) -> ColumnKind:
    """Kind of JSON values; numbers and texts together are texts."""
    given = [value for value in values if value is not None]
    kinds = {type(value) for value in given}
    if not kinds:
        return "empty"
    if dict in kinds:
        return "other"
    if list in kinds:
        inner = _kind_of(one for value in given if isinstance(value, list) for one in value)
        return "vector" if inner in ("number", "flag") else "texts" if inner in ("text", "empty") else "other"
    return "flag" if kinds == {bool} else "number" if str not in kinds else "text"


def _sampled_kinds(path: Path) -> dict[str, ColumnKind]:
    return value_kinds(_first_records(path)) if path.suffix.lower() == JSONL else column_kinds(path)


def _first_records(path: Path) -> list[dict[str, Any]]:
    """The objects of the first complete lines of a JSONL file."""
    found = []
    for line in _first_bytes(path).split("\n")[:_SAMPLE_ROWS]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut off, or reading reports the damage
        if isinstance(record, dict):
            found.append(record)
    return found


def _first_bytes(path: Path) -> str:
    with open_regular(path) as file:
        return file.read(_SAMPLE_BYTES).decode("utf-8-sig", "replace")


def _sample(path: Path, column: str) -> list[str]:
    """The texts of the first rows."""
    suffix = path.suffix.lower()
    if suffix == JSONL:
        return [str(record.get(column) or "") for record in _first_records(path)]
    if suffix not in CSV_SUFFIXES:
        return _first_texts(path, column)
    names, delimiter = read_header(path)
    rows = csv.reader(io.StringIO(_first_bytes(path), newline=""), delimiter=delimiter)
    try:
        sampled = list(islice(rows, 1, _SAMPLE_ROWS + 1))
    except csv.Error:
        return []
    return [row[names.index(column)] for row in sampled if len(row) == len(names)]


def _first_texts(path: Path, column: str) -> list[str]:
    """The first texts of a Parquet file; those of other files are taken for sentences."""
    import pyarrow.parquet as pq

    if path.suffix.lower() != ".parquet":
        return ["a few words"]
    with open_regular(path) as file, pq.ParquetFile(file) as table:
        batch = next(table.iter_batches(batch_size=_SAMPLE_ROWS, columns=[column]), None)
    return [] if batch is None else [str(text or "")[:_SAMPLE_BYTES] for text in batch.column(0).to_pylist()]


def _are_sentences(texts: Sequence[str]) -> bool:
    given = [len(text.split()) for text in texts if text.strip()]
    return bool(given) and sum(words >= _SENTENCE for words in given) >= len(given) / 2
