"""Tables with one text per item: CSV, TSV, JSONL or Parquet with a column `text` and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from storage.sources.column_kinds import ColumnKind, column_kinds
from storage.sources.columns import TABLE_SUFFIXES, cell_text, column_values, read_columns
from storage.sources.item_columns import find_label_table, item_columns, read_items
from storage.sources.label_files import is_label_file_name, json_records
from storage.sources.listing import digest_files, index_path
from storage.sources.media import TEXT
from storage.sources.roles import Roles, assign_text_roles, ignored_notes
from storage.sources.text_columns import JSONL, find_text_column, holds_texts, value_kinds

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = (*TABLE_SUFFIXES, JSONL)


@dataclass(frozen=True)
class TextTable:
    """A table with one text per row."""

    path: Path
    options: SourceOptions
    labels_path: Path | None = None
    kind: str = "text_table"
    parts: tuple[PartName, ...] = TEXT.parts

    @property
    def name(self) -> str:
        return self.path.stem

    def digest(self, cache_dir: Path) -> str:
        # The options choose columns, which the bytes do not show; ingest has the others among its parameters.
        labels = self.options.labels if self.labels_path is None else None
        chosen = [self.options.text or "", labels or ""]
        files = [path for path in (self.path, self.labels_path) if path is not None]
        return combine_digests(
            ["text table", *chosen, *digest_files(files, index_path(cache_dir, self.path))]
        )

    def read(self, cache_dir: Path) -> Collection:
        """Read the whole table; rows without a text are listed and have no features."""
        records = [record for _, record in json_records(self.path)] if self._is_json else None
        kinds = column_kinds(self.path) if records is None else value_kinds(records)
        text = self._text_column(kinds)
        roles = self.roles(kinds)
        used = item_columns(roles, kinds, self.options, self.path, self.labels_path)
        if records is None:
            table = self._read_table({*used, text}, roles, kinds)
            cells = column_values(table.column(text))
        else:
            table = _to_table(records, used, self.path)
            cells = [record.get(text) for record in records]
        texts = [_text_of(value, row, self.path) for row, value in enumerate(cells, start=1)]
        items = read_items(table, roles, kinds, self.options, self.path, self.labels_path)
        return Collection(
            kind=self.kind,
            ids=items.ids,
            parts=(Part("text", "text", [_digest(one) for one in texts], texts=texts),),
            labels=items.labeling.Y,
            label_names=items.labeling.names,
            split=items.split,
            single_label=items.labeling.single_label,
            notes=[*self._empty_notes(texts), *items.notes, *ignored_notes(roles.ignored, self.path)],
            recognized={**items.recognized, "text": f"column {quote(text)}"},
        )

    @property
    def _is_json(self) -> bool:
        return self.path.suffix.lower() == JSONL

    def kinds(self) -> dict[str, ColumnKind]:
        """What the columns contain."""
        if self._is_json:
            return value_kinds([record for _, record in json_records(self.path)])
        return column_kinds(self.path)

    def roles(self, kinds: Mapping[str, ColumnKind]) -> Roles:
        """The use of each column except that of the texts."""
        options = self.options if self.labels_path is None else replace(self.options, labels=None)
        return assign_text_roles(kinds, self._text_column(kinds), options, self.path)

    def _text_column(self, kinds: Mapping[str, ColumnKind]) -> str:
        found = find_text_column(kinds, self.options, self.path, kinds)
        found = found or find_text_column(kinds, self.options, self.path)  # empty, or of mixed content
        if found is None:
            given = self.options.text
            which = "a column of texts" if given is None else f"the column {quote(given)}"
            raise SourceError(
                f"{self.path} does not have {which}, but {list_names(kinds, 12)}. Name one in source.text."
            )
        return found

    def _read_table(self, wanted: set[str], roles: Roles, kinds: Mapping[str, ColumnKind]) -> pa.Table:
        numeric = set(roles.labels) if roles.several else set()
        flags = {name for name in numeric if kinds[name] == "flag"}
        table = read_columns(self.path, wanted.__contains__, numeric.__contains__, flags=flags)
        size = self.path.stat().st_size
        check_memory(2 * table.nbytes, f"{self.path}: texts of {table.nbytes:,} bytes", size)
        return table

    def _empty_notes(self, texts: Sequence[str | None]) -> list[Note]:
        notes = [
            Note(self.path.name, row, "the text is empty")
            for row, text in enumerate(texts, start=1)
            if text is None
        ]
        refuse_if_strict(notes, self.options)
        return limit_notes(notes)


def _to_table(records: Sequence[Mapping[str, Any]], wanted: set[str], path: Path) -> pa.Table:
    """Some members of JSON objects as a table."""
    import pyarrow as pa

    columns = {name: _to_column([record.get(name) for record in records], name, path) for name in wanted}
    if not columns:  # a table of no columns has no rows
        columns = {"": pa.nulls(len(records))}
    return pa.table(columns)


def _to_column(values: Sequence[Any], name: str, path: Path) -> pa.Array:
    """A column of JSON values; values of several types, and lists of them, become texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        if any(isinstance(value, dict) for value in values):
            raise SourceError(
                f"{path}, column {quote(name)}: the values are nested; expected texts or numbers."
            ) from None
    if not any(isinstance(value, list) for value in values):
        return pa.array([cell_text(value) for value in values], pa.string())
    lists = [value if isinstance(value, list) or value is None else [value] for value in values]
    if any(isinstance(one, list | dict) for value in lists for one in value or ()):
        raise SourceError(f"{path}, column {quote(name)}: the lists are nested; expected lists of texts.")
    return pa.array([None if value is None else [cell_text(one) for one in value] for value in lists])


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


class TextTableReader(FileReader):
    """Opens tables with a column of texts."""

    kind = "text_table"
    supports = (
        "a .csv, .tsv, .jsonl, .parquet or .feather table with a column text and a class or label:<name>"
    )

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """A table with a column of texts, or any table if `source.text` is set."""
        suffix = path.suffix.lower()
        if suffix not in _SUFFIXES or not path.is_file():
            return Match.NO
        if options.text is not None:
            return Match.DATA_SET
        if options.features or options.wanted or is_label_file_name(path.name):
            return Match.NO
        try:
            return Match.DATA_SET if holds_texts(path, options) else Match.NO
        except SourceError:  # another reader may know better, or reading reports the damage
            return Match.NO

    def open(self, path: Path, options: SourceOptions) -> TextTable:
        """Open a table."""
        return TextTable(path, options, find_label_table(options, path))
