"""Features of a table: columns of numbers, one-hot encoded texts, and lists of numbers (embeddings)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.errors import SourceError
from storage.quoting import count_of, list_names, quote
from storage.sources.base import Note, Part, PartName, SourceOptions, digest_rows
from storage.sources.columns import number_column, text_column
from storage.sources.roles import TEXTS, Ignored, Roles, looks_like_index, quote_word
from storage.sources.vectors import read_vectors, zero_notes

if TYPE_CHECKING:
    import pyarrow as pa

GIVEN = "given"
# The block of plain columns, where there are embeddings beside it.
COLUMNS = "columns"
# A text column with more different values is not encoded.
MOST_LEVELS = 50
# The level of empty cells.
MISSING = "(missing)"
CONSTANT = "have the same value in every row and are not used"
INDEX = "look like row numbers or ids and are not used; name them in source.features to use them"
_LISTED = 5
# Fewer consecutive numbers may be an accident.
_FEWEST_COUNTED = 10


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """Features made of plain columns: X (n, p), their names, columns that are not used, and notes."""

    X: np.ndarray
    names: list[str]
    ignored: list[Ignored]
    notes: list[Note]


def part_names(roles: Roles) -> tuple[PartName, ...]:
    """The blocks of features: "given" if there is one, else the columns."""
    plain = [COLUMNS] if roles.numbers or roles.categories or not roles.vectors else []
    names = [*plain, *roles.vectors]
    return tuple(PartName(GIVEN if len(names) == 1 else name, "features") for name in names)


def read_parts(
    table: pa.Table,
    roles: Roles,
    options: SourceOptions,
    path: Path,
    id_column: str | None,
    vectors: Callable[[str], Iterable[Any]],
) -> tuple[tuple[Part, ...], list[Ignored], list[Note]]:
    """The blocks of features of a table; `vectors` gives the chunks of a column of embeddings."""
    blocks: list[tuple[np.ndarray, list[str]]] = []
    ignored: list[Ignored] = []
    notes: list[Note] = []
    if roles.numbers or roles.categories or not roles.vectors:
        found = read_plain(table, roles, options, path, id_column)
        blocks.append((found.X, found.names))
        ignored, notes = found.ignored, found.notes
    for name in roles.vectors:
        where = f"{path}, column {quote(name)}"
        X = read_vectors(vectors(name), table.num_rows, where, options.allow_missing)
        blocks.append((X, [f"{name}[{k}]" for k in range(X.shape[1])]))
        notes += zero_notes(X, f"column {quote(name)}", path)
    parts = tuple(
        Part(
            part.name,
            "features",
            digest_rows(X),
            X=X,
            feature_names=names,
            allows_missing=options.allow_missing and bool(np.isnan(X).any()),
        )
        for part, (X, names) in zip(part_names(roles), blocks, strict=True)
    )
    return parts, ignored, notes


def read_plain(
    table: pa.Table, roles: Roles, options: SourceOptions, path: Path, id_column: str | None
) -> FeatureColumns:
    """Numbers and encoded texts side by side, as float32."""
    ignored: list[Ignored] = []
    columns: list[np.ndarray] = []
    names: list[str] = []
    notes: list[Note] = []
    for name in roles.numbers:
        values = number_column(table, name, path)
        reason = None if roles.chosen else _useless(name, values, id_column)
        if reason is not None:
            ignored += [Ignored(name, reason)] if reason else []
            continue
        if not roles.chosen and _counts(values):
            notes.append(_counting_note(name, path))
        columns.append(_narrow(values, f"{path}, column {quote(name)}"))
        names.append(name)
    for name in roles.categories:
        encoded, more = _encode(text_column(table, name), name, roles, path)
        notes += more
        columns += encoded.values()
        names += encoded
    if not columns:
        raise _no_features(roles, path, ignored)
    X = np.stack(columns, axis=1) if table.num_rows else np.zeros((0, len(columns)), np.float32)
    check_missing(X, names, path, options)
    return FeatureColumns(X, _stored_names(table, names), ignored, notes)


def _narrow(values: np.ndarray, where: str) -> np.ndarray:
    """Convert one feature to float32; reject infinite and too large values."""
    with np.errstate(over="ignore"):
        narrow: np.ndarray = values.astype(np.float32)
    bad = np.isinf(narrow)
    if bad.any():
        row = int(np.argmax(bad))
        raise SourceError(
            f"{where}, row {row + 1}: {values[row]:g} is not a finite 32-bit number ({int(bad.sum())} such "
            "cells in this column). Correct the cells, or drop the rows or the column."
        )
    return narrow


def _useless(name: str, values: np.ndarray, id_column: str | None) -> str | None:
    """Why a column has no information; "" for the id, which is used otherwise."""
    if name == id_column:
        return ""
    if len(values) < 2:
        return None
    if np.isnan(values).all():
        return "are empty"
    if (values == values[0]).all():
        return CONSTANT
    whole = np.isfinite(values).all() and (values == np.floor(values)).all()
    if whole and looks_like_index(name) and len(np.unique(values)) == len(values):
        return INDEX
    return None


def _counts(values: np.ndarray) -> bool:
    """Whether a column contains each of n consecutive whole numbers once, as row or customer numbers do."""
    first, last = values.min(initial=np.inf), values.max(initial=-np.inf)
    if len(values) < _FEWEST_COUNTED or last - first != len(values) - 1 or first != np.floor(first):
        return False
    return bool((np.sort(values) == first + np.arange(len(values))).all())


def _counting_note(name: str, path: Path) -> Note:
    text = f"column {quote(name)} is used as a feature but looks like an id: it contains consecutive numbers"
    word = quote_word(name)
    return Note(path.name, None, f"{text}; --set source.id={word}, or --set source.ignore={word}")


def _no_features(roles: Roles, path: Path, ignored: Sequence[Ignored]) -> SourceError:
    left = [*ignored, *roles.ignored]
    found = "; ".join(f"{quote(one.name)} {one.reason.partition(' and ')[0]}" for one in left[:_LISTED])
    texts = [one.name for one in left if one.reason == TEXTS]
    read = f" Read the texts of a column with --set source.text={quote_word(texts[-1])}." if texts else ""
    return SourceError(
        f"{path} has no feature columns: no column of numbers is left ({found or 'no other column'}). Name "
        "them with --set source.features=COLUMNS, or encode columns of text with --set "
        f"source.categorical=onehot.{read}"
    )


def check_missing(X: np.ndarray, names: Sequence[str], path: Path, options: SourceOptions) -> None:
    """Refuse missing values, unless they are filled later: how many, where, and what to do."""
    if options.allow_missing or not (missing := np.isnan(X)).any():
        return
    rows, columns = np.nonzero(missing)
    affected = list(dict.fromkeys(names[column] for column in columns.tolist()))
    first = zip(rows[:_LISTED].tolist(), columns[:_LISTED].tolist(), strict=True)
    cells = [f"row {row + 1}, column {quote(names[column])}" for row, column in first]
    example = ",".join(map(quote_word, affected[:3]))
    raise SourceError(
        f"{path}: {len(rows):,} missing values in {len(affected):,} of {len(names):,} features and "
        f"{len(set(rows.tolist())):,} of {len(X):,} rows: {'; '.join(cells)}"
        f"{' and others' if len(rows) > _LISTED else ''}. Fill them from the training rows with "
        f"--set features.fill=median (or mean), or leave columns out with --set source.ignore={example}."
    )


def _encode(
    texts: Sequence[str | None], name: str, roles: Roles, path: Path
) -> tuple[dict[str, np.ndarray], list[Note]]:
    """One column of 0/1 for each value; nothing and a note if there are too many values."""
    values = np.array([MISSING if text is None else text for text in texts], dtype=object)
    counts = Counter(values.tolist())
    known = roles.levels.get(name)
    if known is None and (len(counts) > MOST_LEVELS or len(counts) > max(2, len(values) // 2)):
        text = f"column {quote(name)} is not encoded: {len(counts)} different texts in {len(values)} rows"
        return {}, [Note(path.name, None, f"{text}; at most {MOST_LEVELS} and half of the rows are encoded")]
    levels = sorted(counts) if known is None else list(known)
    strange = {value: count for value, count in counts.items() if value not in set(levels)}
    notes = []
    if strange:
        listed = list_names(map(quote, strange), _LISTED)
        rows = count_of(sum(strange.values()), "row has a value", "rows have values")
        text = f"column {quote(name)}: {rows} that the model does not know"
        notes.append(Note(path.name, None, f"{text}, encoded as zeros: {listed}"))
    return {f"{name}={level}": (values == level).astype(np.float32) for level in levels}, notes


def _stored_names(table: pa.Table, names: list[str]) -> list[str]:
    """Names from the schema metadata if they fit the columns, else the column names."""
    stored = (table.schema.metadata or {}).get(b"feature_names")
    try:
        found = json.loads(stored) if stored else None
    except (ValueError, RecursionError):
        return names
    if isinstance(found, list) and len(found) == len(names) and all(isinstance(one, str) for one in found):
        return found
    return names
