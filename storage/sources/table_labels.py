"""Labels, ids and the split of a table, read by the roles of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.errors import SourceError
from storage.quoting import count_of, list_names, quote
from storage.sources.base import LONGEST_NAME, Note, SourceOptions, check_texts, refuse_if_strict
from storage.sources.column_kinds import LABEL_PREFIX, ColumnKind, column_kinds, is_feature_name
from storage.sources.columns import (
    cell_text,
    column_values,
    id_problem,
    number_column,
    read_columns,
    text_column,
    unique_ids,
)
from storage.sources.labeling import Labeling, check_label_matrix, label_classes, label_sets
from storage.sources.roles import (
    NUMBERS,
    OTHERS,
    Ignored,
    Roles,
    assign_roles,
    ignored_notes,
    no_labels_error,
)

if TYPE_CHECKING:
    import pyarrow as pa

# Words of a column that states a split.
_SPLIT_WORDS = {
    *("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval", "holdout"),
}
# A column of numbers with more different values than this is a quantity, unless each occurs often.
_MOST_NUMBERS = 20


def read_labels(table: pa.Table, roles: Roles, options: SourceOptions, path: Path) -> Labeling:
    """The labels of a table; empty cells are unlabeled."""
    if not roles.several:
        # In our own form, f0, f1, ... and class, a class may contain the separator.
        own = roles.labels[0] == "class" and bool(roles.numbers) and not roles.vectors
        own = own and all(map(is_feature_name, roles.numbers))
        return _one_column(table, roles.labels[0], None if own else options.label_separator, path)
    names = list(roles.labels)
    check_label_matrix(table.num_rows, len(names))
    Y = np.stack([_label_column(table, name, path) for name in names], axis=1)
    _check_whole_rows(Y, names, path)
    return Labeling(Y, [name.removeprefix(LABEL_PREFIX) for name in names], single_label=False)


def _one_column(table: pa.Table, name: str, separator: str | None, path: Path) -> Labeling:
    """Classes, texts with several labels, or lists of labels."""
    values = column_values(table.column(name))
    if any(isinstance(value, list) for value in values):
        return label_sets([_list_cell(value, path, name) for value in values], single_label=False)
    if any(isinstance(value, dict) for value in values):
        raise SourceError(f"{path}, column {quote(name)}: the labels are nested; expected texts or numbers.")
    texts = [cell_text(value) for value in values]
    if separator is not None and any(text is not None and separator in text for text in texts):
        rows = [None if text is None else _split_cell(text, separator) for text in texts]
        return label_sets(rows, single_label=False)
    check_classes(texts, f"{path}, column {quote(name)}")
    return label_classes(texts)


def _split_cell(text: str, separator: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(separator) if name.strip()))


def _list_cell(value: object, path: Path, name: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict) for item in items):
        raise SourceError(f"{path}, column {quote(name)}: the labels are nested; expected lists of texts.")
    texts = tuple(dict.fromkeys(text for item in items if (text := cell_text(item)) is not None))
    check_texts(texts, f"{path}, column {quote(name)}: the label", LONGEST_NAME)
    return texts


def check_classes(texts: Sequence[str | None], where: str) -> None:
    """Refuse a column of numbers that are quantities rather than classes."""
    given = [text for text in texts if text is not None]
    distinct = set(given)
    if len(distinct) <= _MOST_NUMBERS:
        return
    try:
        numbers = {text: float(text) for text in distinct}
    except ValueError:
        return
    fractions = [text for text in given if not numbers[text].is_integer()]
    if not fractions and len(distinct) <= len(given) / 2:
        return
    example = ", ".join((fractions or given)[:3])
    raise SourceError(
        f"{where} has {len(distinct):,} different numbers ({example}, ...) in {len(given):,} rows: a "
        "quantity, not classes. Group the values into classes (for instance low, middle, high), or name "
        "another column: --set source.labels=COLUMN."
    )


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


def check_label_kinds(roles: Roles, kinds: Mapping[str, ColumnKind], path: Path) -> None:
    """Refuse label columns that cannot be labels together."""
    odd = [name for name in roles.labels if kinds[name] not in (*NUMBERS, "empty")]
    if len(roles.labels) > 1 and odd:
        raise SourceError(
            f"{path}, column {quote(odd[0])} does not contain 0 and 1, as each of the {len(roles.labels)} "
            "label columns must. Encode it, or name one column of classes: --set source.labels=COLUMN."
        )


def read_ids(table: pa.Table, roles: Roles, path: Path) -> tuple[list[str], str | None, list[Note]]:
    """The ids, the column that holds them (None for row numbers), and notes about other candidates."""
    notes: list[Note] = []
    for name in roles.ids:
        values = text_column(table, name)
        if roles.id_given:
            return unique_ids(values, path), name, []
        problem = id_problem(values)
        if problem is None and values:
            return [value or "" for value in values], name, notes
        notes.append(Note(path.name, None, f"column {quote(name)} is not used as id: {problem}"))
    return [str(row) for row in range(table.num_rows)], None, notes


def read_split(
    table: pa.Table, roles: Roles, path: Path, given: str | None = None
) -> tuple[list[str] | None, list[Note]]:
    """The split with "" for empty cells; None if there is none.

    A column of other words is only used if it is `given` by the setting.
    """
    name = roles.split
    if name is None:
        return None, []
    values = [value or "" for value in text_column(table, name)]
    odd = sorted({value for value in values if value and value.lower() not in _SPLIT_WORDS})
    if odd and name not in ("split", given):
        words = f"it contains {list_names(map(quote, odd), 3)}"
        return None, [Note(path.name, None, f"column {quote(name)} is not used as split: {words}")]
    return values, []


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table of labels beside features: one row per item, with ids or in the order of the features."""

    path: Path
    labeling: Labeling
    ids: list[str] | None
    split: list[str] | None
    notes: list[Note]
    recognized: dict[str, str]


def read_label_table(path: Path, options: SourceOptions) -> LabelTable:
    """Read a table that holds only labels, ids and the split.

    Its labels are recognized as in a table of features; the only column besides the id is one, too.
    """
    kinds = column_kinds(path)
    # `source.labels` names the file, and the columns of features are elsewhere.
    name = options.id if options.id in kinds else None
    split = options.split if options.split in kinds else None
    options = replace(
        options, labels=None, id=name, split=split, features=(), ignore=(), labeled=True, wanted=()
    )
    roles = assign_roles(kinds, options, path)
    if not roles.labels:
        rest = [name for name in kinds if name not in (*roles.ids, roles.split)]
        if len(rest) != 1:
            raise no_labels_error(kinds, path)
        roles = assign_roles(kinds, replace(options, labels=rest[0]), path)
    numeric = set(roles.labels) if roles.several else set()
    used = {*roles.labels, *roles.ids, *([roles.split] if roles.split else [])}
    flags = {name for name in numeric if kinds[name] == "flag"}
    table = read_columns(path, used.__contains__, numeric.__contains__, flags=flags)
    ids, column, notes = read_ids(table, roles, path)
    parts, more = read_split(table, roles, path, options.split)
    unused = [Ignored(name, OTHERS) for name in kinds if name not in used]
    return LabelTable(
        path,
        read_labels(table, roles, options, path),
        ids if column is not None else None,
        parts,
        [*notes, *more, *ignored_notes(unused, path)],
        describe_roles(roles, column, parts, f" of {path.name}"),
    )


def describe_roles(
    roles: Roles, id_column: str | None, split: list[str] | None, of: str = ""
) -> dict[str, str]:
    """Where ids, labels and the split were found, in words."""
    found = {}
    if id_column is not None:
        found["id"] = f"column {quote(id_column)}{of}"
    if roles.labels:
        many = f"{len(roles.labels)} columns of 0/1" if roles.several else f"column {quote(roles.labels[0])}"
        found["labels"] = f"{many}{of}"
    if split is not None and roles.split is not None:
        found["split"] = f"column {quote(roles.split)}{of}"
    return found


def join_labels(
    labels: LabelTable, ids: list[str] | None, n: int, features: Path, options: SourceOptions
) -> tuple[LabelTable, list[Note]]:
    """The labels in the order of the items: by id if both have ids, else row by row.

    Parameters
    ----------
    labels : LabelTable
    ids : list of n str or None
        Ids of the items; None if they only have row numbers.
    features : Path
        File of the features, for messages.
    """
    if ids is None or labels.ids is None:
        if len(labels.labeling.Y) != n:
            raise SourceError(
                f"{features} has {n} rows, {labels.path} has {len(labels.labeling.Y)}. "
                "Both must list the same items in the same order, or both must have ids."
            )
        return labels, []
    position = {name: row for row, name in enumerate(labels.ids)}
    rows = [position.get(name, -1) for name in ids]
    missing = [name for name, row in zip(ids, rows, strict=True) if row < 0]
    if len(missing) == n:
        raise SourceError(
            f"{labels.path}: none of its {len(position)} ids is one of {features}, whose ids look like "
            f"{quote(ids[0])}; its own look like {quote(labels.ids[0])}. Use the same ids in both."
        )
    notes = _join_notes(labels, ids, missing, features)
    refuse_if_strict(notes, options)
    taken = np.array(rows)
    Y = labels.labeling.Y[taken]
    Y[taken < 0] = -1
    split = None if labels.split is None else ["" if row < 0 else labels.split[row] for row in rows]
    labeling = replace(labels.labeling, Y=Y)
    return replace(labels, labeling=labeling, ids=ids, split=split), notes


def _join_notes(labels: LabelTable, ids: list[str], missing: list[str], features: Path) -> list[Note]:
    notes = []
    if missing:
        many = "items have no entry and are unlabeled"
        found = count_of(len(missing), "item has no entry and is unlabeled", many)
        text = f"{found}: {list_names(missing, 5)}"
        notes.append(Note(labels.path.name, None, text))
    known = set(ids)
    extra = [name for name in labels.ids or () if name not in known]
    if extra:
        found = count_of(len(extra), "entry is", "entries are")
        text = f"{found} not in {features.name}: {list_names(extra, 5)}"
        notes.append(Note(labels.path.name, None, text))
    return notes
