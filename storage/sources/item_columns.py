"""Ids, labels and the split of a table with one row per item, with its features or its texts beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from storage.paths import expand_path
from storage.sources.base import Note, SourceOptions
from storage.sources.columns import TABLE_SUFFIXES
from storage.sources.labeling import Labeling, no_labels, settle_labels
from storage.sources.roles import Roles, no_labels_error
from storage.sources.table_labels import (
    check_label_kinds,
    describe_roles,
    join_labels,
    read_ids,
    read_label_table,
    read_labels,
    read_split,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from storage.sources.column_kinds import ColumnKind


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """What a table says about its items besides their features.

    Attributes
    ----------
    ids : list of n str
    id_column : str or None
        None for row numbers.
    labeling : Labeling
    split : list of n str or None
    recognized : dict of str to str
        Where ids, labels and the split were found, in words.
    notes : list of Note
    """

    ids: list[str]
    id_column: str | None
    labeling: Labeling
    split: list[str] | None
    recognized: dict[str, str]
    notes: list[Note]


def find_label_table(options: SourceOptions, path: Path) -> Path | None:
    """The file that `source.labels` names, beside the data or as a path; None if it names columns."""
    if not options.labeled or options.labels is None:
        return None
    if Path(options.labels).suffix.lower() not in TABLE_SUFFIXES:
        return None
    given = expand_path(options.labels, "source.labels")
    return next((one for one in (path.parent / given, given) if one.is_file()), None)


def item_columns(
    roles: Roles,
    kinds: Mapping[str, ColumnKind],
    options: SourceOptions,
    path: Path,
    labels_path: Path | None,
) -> set[str]:
    """The columns that `read_items` reads; labels that cannot be read together are refused."""
    if not options.labeled:
        return set(roles.ids)
    if labels_path is None:
        check_label_kinds(roles, kinds, path)
    labels = roles.labels if labels_path is None else ()
    return {*roles.ids, *labels, *([roles.split] if roles.split else [])}


def read_items(
    table: pa.Table,
    roles: Roles,
    kinds: Mapping[str, ColumnKind],
    options: SourceOptions,
    path: Path,
    labels_path: Path | None = None,
) -> ItemColumns:
    """Read ids, labels and the split by the roles of the columns.

    Parameters
    ----------
    table : pyarrow.Table
        With the columns that `item_columns` names.
    labels_path : Path or None
        A table of labels beside this one, see `find_label_table`.
    """
    ids, column, notes = read_ids(table, roles, path)
    if not options.labeled:
        found = describe_roles(roles, column, None)
        found.pop("labels", None)
        return ItemColumns(ids, column, no_labels(len(ids)), None, found, notes)
    split, more = read_split(table, roles, path, options.split)
    found = describe_roles(roles, column, split)
    notes = [*notes, *more]
    if labels_path is None:
        if not roles.labels:
            raise no_labels_error(kinds, path)
        labels = read_labels(table, roles, options, path)
        labeling, dropped = settle_labels(labels, options, path.name)
        return ItemColumns(ids, column, labeling, split, found, [*dropped, *notes])
    given = read_label_table(labels_path, options)
    joined, joins = join_labels(given, None if column is None else ids, len(ids), path, options)
    labeling, dropped = settle_labels(joined.labeling, options, labels_path.name)
    found = {**found, **given.recognized, **({"id": found["id"]} if "id" in found else {})}
    return ItemColumns(
        ids, column, labeling, split or joined.split, found, [*given.notes, *joins, *dropped, *notes]
    )
