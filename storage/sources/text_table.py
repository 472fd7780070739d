"""Tables with one text per item: CSV, TSV, JSONL or Parquet with a column `text` and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage.errors import SourceError
from storage.limits import check_memory
from storage.quoting import list_names, quote
from storage.sources.base import (
    Collection,
    FileReader,
    Match,
    Note,
    Part,
    PartName,
    SourceOptions,
    combine_digests,
    limit_notes,
    refuse_if_strict,
)
from storage.sources.columns import (
    CSV_SUFFIXES,
    cell_text,
    column_names,
    column_values,
    read_columns,
    unique_ids,
)
from storage.sources.label_files import is_label_file_name, json_records, split_labels
from storage.sources.labeling import Labeling, check_label_matrix, label_sets, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.media import TEXT
from storage.sources.text_columns import CLASS_COLUMNS, JSONL, LABEL_PREFIX, find_text_column, holds_texts

_SUFFIXES = (*CSV_SUFFIXES, JSONL, ".parquet")

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class TextTable:
    """A table with one text per row."""

    path: Path
    options: SourceOptions
    kind: str = "text_table"
    parts: tuple[PartName, ...] = TEXT.parts

    @property
    def name(self) -> str:
        return self.path.stem

    def digest(self, cache_dir: Path) -> str:
        # The options choose columns, which the bytes do not show.
        chosen = [self.options.text or "", self.options.labels or ""]
        files = digest_files([self.path], index_path(cache_dir, self.path))
        return combine_digests(["text table", *chosen, *files])

    def read(self, cache_dir: Path) -> Collection:
        """Read the whole table; rows without a text are listed and have no features."""
        names = _names(self.path)
        text = self._text_column(names)
        labels = self._label_columns(names, text)
        wanted = {text, *labels, *(name for name in ("id", "split") if name in names and name != text)}
        table = _read(self.path, wanted)
        texts = [_text_of(value, row, self.path) for row, value in enumerate(table[text], start=1)]
        labeling, counts = self._labeling(table, labels, len(texts))
        return Collection(
            kind=self.kind,
            ids=_ids(table, len(texts), self.path),
            parts=(Part("text", "text", [_digest(one) for one in texts], texts=texts),),
            labels=labeling.Y,
            label_names=labeling.names,
            split=[cell_text(one) or "" for one in table["split"]] if "split" in table else None,
            single_label=labeling.single_label,
            notes=[*self._empty_notes(texts), *counts, *self._ignored(names, wanted)],
        )

    def _text_column(self, names: Sequence[str]) -> str:
        given = self.options.text
        found = find_text_column(names) if given is None else given
        if found is None or found not in names:
            which = "a column of texts" if given is None else f"the column {quote(given)}"
            raise SourceError(
                f"{self.path} does not have {which}, but {list_names(names, 12)}. Name one in source.text."
            )
        return found

    def _label_columns(self, names: Sequence[str], text: str) -> list[str]:
        """The columns with labels: the one that `source.labels` names, `label:<name>`, or a class."""
        if not self.options.labeled:
            return []
        if self.options.labels is not None:
            if self.options.labels not in names:
                raise SourceError(
                    f"{self.path} has no column {quote(self.options.labels)} to take labels from, but "
                    f"{list_names(names, 12)}. Name one of these in source.labels."
                )
            return [self.options.labels]
        prefixed = [name for name in names if name.startswith(LABEL_PREFIX)]
        classes = [name for name in names if name.lower() in CLASS_COLUMNS and name != text]
        found = prefixed or classes
        if not found or (prefixed and classes) or len(classes) > 1:
            problem = "several label columns" if found else "no label column"
            raise SourceError(
                f"{self.path} has {problem}: {list_names(prefixed + classes or names, 12)}. Name the column "
                "with the class, or with labels joined by a separator, in source.labels."
            )
        return found

    def _labeling(self, table: Columns, labels: list[str], n: int) -> tuple[Labeling, list[Note]]:
        if not self.options.labeled:
            return no_labels(n), []
        if labels[0].startswith(LABEL_PREFIX) and self.options.labels is None:
            found = _indicator(table, labels, self.path)
        else:
            found = self._class_labels(labels[0], table[labels[0]])
        return settle_labels(found, self.options, self.path.name)

    def _class_labels(self, column: str, values: Sequence[Any]) -> Labeling:
        """Classes, or sets of labels if the column is named `labels` or a row has several."""
        separator = self.options.label_separator
        rows = [
            split_labels(value, separator, f"{self.path}, row {row}")
            for row, value in enumerate(values, start=1)
        ]
        several = any(len(row) > 1 for row in rows) or any(isinstance(value, list) for value in values)
        single = column.lower() != "labels" and not several
        return label_sets([row or None for row in rows], single_label=single)

    def _empty_notes(self, texts: Sequence[str | None]) -> list[Note]:
        notes = [
            Note(self.path.name, row, "the text is empty")
            for row, text in enumerate(texts, start=1)
            if text is None
        ]
        refuse_if_strict(notes, self.options)
        return limit_notes(notes)

    def _ignored(self, names: Sequence[str], used: set[str]) -> list[Note]:
        rest = [name for name in names if name not in used]
        if not rest:
            return []
        text = f"{len(rest)} columns are neither text nor labels: {list_names(rest)}"
        return [Note(self.path.name, None, text)]


def _names(path: Path) -> list[str]:
    if path.suffix.lower() != JSONL:
        return column_names(path)
    names: dict[str, None] = {}
    for _, record in json_records(path):
        names.update(dict.fromkeys(record))
    return list(names)


def _read(path: Path, wanted: set[str]) -> Columns:
    """The wanted columns as Python objects."""
    if path.suffix.lower() == JSONL:
        records = [record for _, record in json_records(path)]
        return {name: [record.get(name) for record in records] for name in wanted}
    table = read_columns(path, wanted.__contains__, lambda name: False)
    check_memory(2 * table.nbytes, f"{path}: texts of {table.nbytes:,} bytes", path.stat().st_size)
    return {name: column_values(table.column(name)) for name in table.column_names}


def _text_of(value: object, row: int, path: Path) -> str | None:
    """The text of a cell; None if it is empty."""
    if isinstance(value, list | dict):
        raise SourceError(f"{path}, row {row}: {quote(value, 40)} is not a text. Name the column of texts.")
    text = value if isinstance(value, str) else cell_text(value)
    if text is None or not text.strip():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SourceError(
            f"{path}, row {row}: the text is not valid Unicode (character {error.start}). Save it as UTF-8."
        ) from error
    return text


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _ids(table: Columns, n: int, path: Path) -> list[str]:
    if "id" not in table:
        return [str(row) for row in range(n)]
    return unique_ids([cell_text(value) for value in table["id"]], path)


def _indicator(table: Columns, labels: Sequence[str], path: Path) -> Labeling:
    """The columns `label:<name>` of 0 and 1; a row of empty cells is unlabeled."""
    n = len(table[labels[0]])
    check_label_matrix(n, len(labels))
    Y = np.full((n, len(labels)), -1, dtype=np.int8)
    for k, name in enumerate(labels):
        for row, value in enumerate(table[name]):
            cell = cell_text(value)
            if cell is not None and cell.lower() not in ("0", "1", "true", "false"):
                raise SourceError(
                    f"{path}, row {row + 1}, column {quote(name)}: {quote(cell)}; expected 0, 1 or empty."
                )
            Y[row, k] = -1 if cell is None else cell.lower() in ("1", "true")
    mixed = (Y < 0).any(axis=1) & (Y >= 0).any(axis=1)
    if mixed.any():
        raise SourceError(
            f"{path}, row {int(np.argmax(mixed)) + 1}: some labels are empty while others are given "
            f"({int(mixed.sum())} such rows). Fill the row with 0 and 1, or empty all its labels."
        )
    return Labeling(Y, [name.removeprefix(LABEL_PREFIX) for name in labels], single_label=False)


class TextTableReader(FileReader):
    """Opens tables with a column of texts."""

    kind = "text_table"
    supports = "a .csv, .tsv, .jsonl or .parquet table with a column text and a class or label:<name>"

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """A table with a column of texts and no numeric features, or any table if `source.text` is set."""
        suffix = path.suffix.lower()
        if suffix not in _SUFFIXES or not path.is_file():
            return Match.NO
        if options.text is not None:
            return Match.DATA_SET
        if is_label_file_name(path.name):
            return Match.NO
        try:
            return Match.DATA_SET if holds_texts(path, options.labels) else Match.NO
        except SourceError:  # another reader may know better, or reading reports the damage
            return Match.NO

    def open(self, path: Path, options: SourceOptions) -> TextTable:
        """Open a table."""
        return TextTable(path, options)
