"""Tables with one row per item: CSV, TSV, Parquet, Feather and Arrow IPC, with the columns that they have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from storage.errors import SourceError
from storage.paths import expand_path
from storage.sources.base import Collection, FileReader, Match, Note, PartName, SourceOptions, combine_digests
from storage.sources.column_kinds import ColumnKind, column_kinds, is_feature_name
from storage.sources.columns import CSV_SUFFIXES, TABLE_SUFFIXES, column_names, read_columns, read_header
from storage.sources.image_files import holds_images
from storage.sources.label_files import NAME_COLUMNS, is_label_file_name
from storage.sources.labeling import Labeling, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.roles import Roles, assign_roles, ignored_notes, no_labels_error
from storage.sources.table_features import part_names, read_parts
from storage.sources.table_labels import (
    check_label_kinds,
    describe_roles,
    join_labels,
    read_ids,
    read_label_table,
    read_labels,
    read_split,
)

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
        return part_names(self.roles(column_kinds(self.path)))

    def digest(self, cache_dir: Path) -> str:
        labels = self.options.labels if self.labels_path is None else None
        # The options choose columns, which the bytes do not show; ingest has the others among its parameters.
        chosen = [] if labels is None else ["column", labels]
        chosen += ["wanted", *self.options.wanted] if self.options.wanted else []
        files = [path for path in (self.path, self.labels_path) if path is not None]
        return combine_digests(["table", *chosen, *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the columns that are used."""
        kinds = column_kinds(self.path)
        roles = self.roles(kinds)
        check_label_kinds(roles, kinds, self.path)
        numeric = {*roles.numbers, *(roles.labels if roles.several else ())}
        used = self._used(roles)
        table = read_columns(
            self.path,
            used.__contains__,
            numeric.__contains__,
            flags={name for name in numeric if kinds[name] == "flag"},
        )
        ids, id_column, id_notes = read_ids(table, roles, self.path)
        split, split_notes = read_split(table, roles, self.path) if self.options.labeled else (None, [])
        labeling, split, recognized, label_notes = self._labels(table, roles, kinds, ids, id_column, split)
        parts, ignored, feature_notes = read_parts(table, roles, self.options, self.path, id_column)
        notes = [*label_notes, *id_notes, *split_notes, *feature_notes]
        notes += ignored_notes([*roles.ignored, *ignored], self.path)
        return Collection(
            kind=self.kind,
            ids=ids,
            parts=parts,
            labels=labeling.Y,
            label_names=labeling.names,
            split=split,
            single_label=labeling.single_label,
            notes=notes,
            recognized=recognized,
        )

    def roles(self, kinds: dict[str, ColumnKind]) -> Roles:
        """The use of each column."""
        options = self.options if self.labels_path is None else replace(self.options, labels=None)
        return assign_roles(kinds, options, self.path)

    def _used(self, roles: Roles) -> set[str]:
        features = {*roles.numbers, *roles.vectors, *roles.categories, *roles.ids}
        if not self.options.labeled:
            return features
        labels = roles.labels if self.labels_path is None else ()
        return {*features, *labels, *([roles.split] if roles.split else [])}

    def _labels(
        self,
        table: object,
        roles: Roles,
        kinds: dict[str, ColumnKind],
        ids: list[str],
        id_column: str | None,
        split: list[str] | None,
    ) -> tuple[Labeling, list[str] | None, dict[str, str], list[Note]]:
        """Labels, split, where they were found, and notes."""
        found = describe_roles(roles, id_column, split)
        if not self.options.labeled:
            found.pop("labels", None)
            return no_labels(len(ids)), split, found, []
        if self.labels_path is not None:
            given = read_label_table(self.labels_path, self.options)
            known = ids if id_column is not None else None
            joined, notes = join_labels(given, known, len(ids), self.path, self.options)
            labeling, more = settle_labels(joined.labeling, self.options, self.labels_path.name)
            found = {**found, **given.recognized, **({"id": found["id"]} if "id" in found else {})}
            return labeling, split or joined.split, found, [*given.notes, *notes, *more]
        if not roles.labels:
            raise no_labels_error(kinds, self.path)
        labels = read_labels(table, roles, self.options, self.path)
        labeling, notes = settle_labels(labels, self.options, self.path.name)
        return labeling, split, found, notes


def find_label_table(options: SourceOptions, path: Path) -> Path | None:
    """The file that `source.labels` names, beside the data or as a path; None if it names columns."""
    if options.labels is None or Path(options.labels).suffix.lower() not in TABLE_SUFFIXES:
        return None
    given = expand_path(options.labels, "source.labels")
    return next((one for one in (path.parent / given, given) if one.is_file()), None)


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
        return TableSource(path, options, find_label_table(options, path) if options.labeled else None)


def _may_be_table(path: Path, names: list[str]) -> bool:
    """Whether a CSV file may be a table of features rather than a list of labels of images."""
    if len(names) < 2:
        return False
    lists_files = any(name.lower() in NAME_COLUMNS for name in names)
    if lists_files and len(names) <= _LABEL_FILE_WIDTH:
        return False
    return not ((lists_files or len(names) == 2) and holds_images(path.parent))
