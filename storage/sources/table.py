"""Tables with one row per item: CSV, TSV, Parquet, Feather and Arrow IPC, with the columns that they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from storage.errors import SourceError
from storage.sources.base import Collection, FileReader, Match, PartName, SourceOptions, combine_digests
from storage.sources.column_kinds import ColumnKind, column_kinds, is_feature_name
from storage.sources.columns import CSV_SUFFIXES, TABLE_SUFFIXES, column_names, read_columns, read_header
from storage.sources.image_files import holds_images
from storage.sources.item_columns import find_label_table, item_columns, read_items
from storage.sources.label_files import NAME_COLUMNS, is_label_file_name
from storage.sources.listing import digest_files, index_path
from storage.sources.parquet_file import SUFFIX as PARQUET
from storage.sources.parquet_file import parquet_chunks
from storage.sources.roles import Roles, assign_roles, ignored_notes
from storage.sources.table_features import part_names, read_parts

# A label file of images has at most these columns: file, labels, split.
_LABEL_FILE_WIDTH = 3


@dataclass(frozen=True)
class TableSource:
    """A table with one row per item; `labels_path` is a table of labels beside it."""

    path: Path
    options: SourceOptions
    labels_path: Path | None = None
    kind: str = "table"

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def parts(self) -> tuple[PartName, ...]:
        """One block, or one for each column of embeddings."""
        if self.path.suffix.lower() in CSV_SUFFIXES:
            return part_names(Roles())
        return part_names(self.roles(self.kinds()))

    def digest(self, cache_dir: Path) -> str:
        labels = self.options.labels if self.labels_path is None else None
        # The options choose columns, which the bytes do not show; ingest has the others among its parameters.
        chosen = [] if labels is None else ["column", labels]
        chosen += ["wanted", *self.options.wanted] if self.options.wanted else []
        files = [path for path in (self.path, self.labels_path) if path is not None]
        return combine_digests(["table", *chosen, *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the columns that are used."""
        kinds = self.kinds()
        roles = self.roles(kinds)
        numeric = {*roles.numbers, *(roles.labels if roles.several else ())}
        features = {*roles.numbers, *roles.vectors, *roles.categories}
        used = features | item_columns(roles, kinds, self.options, self.path, self.labels_path)
        streamed = set(roles.vectors) if self.path.suffix.lower() == PARQUET else set()
        table = read_columns(
            self.path,
            (used - streamed).__contains__,
            numeric.__contains__,
            flags={name for name in numeric if kinds[name] == "flag"},
        )

        def chunks(name: str) -> Iterable[Any]:
            return parquet_chunks(self.path, name) if name in streamed else table.column(name).chunks

        items = read_items(table, roles, kinds, self.options, self.path, self.labels_path)
        parts, ignored, notes = read_parts(table, roles, self.options, self.path, items.id_column, chunks)
        return Collection(
            kind=self.kind,
            ids=items.ids,
            parts=parts,
            labels=items.labeling.Y,
            label_names=items.labeling.names,
            split=items.split,
            single_label=items.labeling.single_label,
            notes=[*items.notes, *notes, *ignored_notes([*roles.ignored, *ignored], self.path)],
            recognized=items.recognized,
        )

    def kinds(self) -> dict[str, ColumnKind]:
        """What the columns contain."""
        return column_kinds(self.path)

    def roles(self, kinds: dict[str, ColumnKind]) -> Roles:
        """The use of each column."""
        options = self.options if self.labels_path is None else replace(self.options, labels=None)
        return assign_roles(kinds, options, self.path)


class TableReader(FileReader):
    """Opens tables."""

    kind = "table"
    supports = (
        "a .csv, .tsv, .parquet or .feather table with columns of numbers or embeddings and a column class, "
        "label, labels, target or y, or label:<name> columns"
    )

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """A table with columns f0, f1, ... for certain; possibly any other one."""
        suffix = path.suffix.lower()
        if not path.is_file() or suffix not in TABLE_SUFFIXES or is_label_file_name(path.name):
            return Match.NO
        try:
            names = read_header(path)[0] if suffix in CSV_SUFFIXES else column_names(path)
        except SourceError:
            if suffix in CSV_SUFFIXES:
                raise
            return Match.POSSIBLE  # reading the table reports the damage
        if any(map(is_feature_name, names)):
            return Match.DATA_SET
        return Match.NO if suffix in CSV_SUFFIXES and not _may_be_table(path, names) else Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> TableSource:
        """Open a table."""
        return TableSource(path, options, find_label_table(options, path))


def _may_be_table(path: Path, names: list[str]) -> bool:
    """Whether a CSV file may be a table of features rather than a list of labels of images."""
    if len(names) < 2:
        return False
    lists_files = any(name.lower() in NAME_COLUMNS for name in names)
    if lists_files and len(names) <= _LABEL_FILE_WIDTH:
        return False
    return not ((lists_files or len(names) == 2) and holds_images(path.parent))
