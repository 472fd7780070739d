"""Read given links between items: an edge list, a table with a column of links, or a sparse matrix.

A link to an id that is not in the collection is left out and counted: a collection is often a part of a
larger one. If no link is between two items of the collection, the file belongs to another one and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.errors import SourceError
from storage.limits import check_memory
from storage.quoting import list_names, quote
from storage.sources.boundary import reading
from storage.sources.columns import (
    TABLE_SUFFIXES,
    cell_text,
    column_names,
    column_values,
    number_column,
    read_columns,
    text_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

POSITION_COLUMNS = ("i", "j")
ID_COLUMNS = (("source", "target"), ("id_i", "id_j"))
WEIGHT_COLUMNS = ("w", "weight")
LINKS_COLUMN, ITEM_COLUMN = "links", "id"
MATRIX_SUFFIX = ".mtx"
_LISTED = 5
# Memory of one stored entry of a matrix while it is read: two indices and a value, twice.
_ENTRY_BYTES = 48
_FORMS = (
    "an edge list has i, j (positions from 0), or source, target or id_i, id_j (ids), and optionally w or "
    "weight; a table of links has id and links"
)

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]
Report = Callable[[str], None]


def read_edges(
    path: Path, ids: Sequence[str], report: Report | None = None, strict: bool = False, separator: str = "|"
) -> Edges:
    """Read the links between the items of a collection.

    Parameters
    ----------
    path : Path
        A Parquet, Feather or CSV table with the columns `i, j` (positions from 0 in the order of `ids`), or
        `source, target` or `id_i, id_j` (ids), and optionally `w` or `weight` (default 1); or with the
        columns `id` and `links`, a list of ids (in CSV separated by `separator`); or a square Matrix Market
        file (.mtx) with one row per item.
    ids : sequence of str
        Ids of the collection.
    report : callable, optional
        Gets a line about links that are left out, repeated, or from an item to itself.
    strict : bool
        Whether links to unknown ids are an error.
    separator : str
        Separates the links of an item in a CSV file.

    Returns
    -------
    i, j : ndarray of int64
        Ends of each edge as listed: in either direction, possibly repeated or from an item to itself.
    w : ndarray of float64
        Weights, finite and nonnegative.
    """
    path = Path(path)
    lines: list[str] = []
    with reading(path):
        if path.suffix.lower() == MATRIX_SUFFIX:
            found = _read_matrix(path, len(ids))
        else:
            found = _read_table(path, ids, strict, separator, lines)
    lines += _count_odd(found)
    for line in lines if report else ():
        assert report is not None
        report(line)
    return found


def count_by_position(path: Path) -> bool:
    """Whether a file of links names items by their positions instead of their ids."""
    path = Path(path)
    if path.suffix.lower() == MATRIX_SUFFIX:
        return True
    with reading(path):
        names = _edge_columns(path)
    return set(POSITION_COLUMNS) <= set(names)


def _count_odd(found: Edges) -> list[str]:
    """Say how many links are repeated or from an item to itself."""
    i, j, _ = found
    own = int((i == j).sum())
    pairs = np.stack([i, j], axis=1)[i != j]
    repeated = len(pairs) - len(np.unique(pairs, axis=0))
    lines = []
    if repeated:
        verb = "is a repetition" if repeated == 1 else "are repetitions"
        lines.append(f"{repeated:,} of {len(i):,} links {verb}; the largest weight counts")
    if own:
        verb = "link of an item to itself is" if own == 1 else "links of an item to itself are"
        lines.append(f"{own:,} {verb} left out")
    return lines


def _read_table(path: Path, ids: Sequence[str], strict: bool, separator: str, lines: list[str]) -> Edges:
    names = _edge_columns(path)
    if {ITEM_COLUMN, LINKS_COLUMN} <= set(names) and not any(
        set(pair) <= set(names) for pair in (POSITION_COLUMNS, *ID_COLUMNS)
    ):
        sources, targets = _link_lists(path, separator)
        found = _known_ends(sources, targets, ids, path, strict, lines)
        return found[0], found[1], np.ones(len(found[0]))
    ends, weight = _choose_columns(names, path)
    positional = ends == POSITION_COLUMNS
    numeric = {weight, *(ends if positional else ())}
    row_bytes = 40 if positional else 160
    table = read_columns(path, lambda name: name in (*ends, weight), lambda name: name in numeric, row_bytes)
    w = _weights(table, weight, path)
    if positional:
        i, j = (_positions(table, name, len(ids), path) for name in ends)
        return i, j, w
    sources, targets = (_id_column(table, name, path) for name in ends)
    i, j, kept = _known_ends(sources, targets, ids, path, strict, lines)
    return i, j, w[kept]


def _edge_columns(path: Path) -> list[str]:
    if not path.is_file():
        raise SourceError(f"there is no edge list at {path}. Give a .parquet, .csv or .mtx file.")
    if path.suffix.lower() not in TABLE_SUFFIXES:
        other = " Convert GraphML to a table with the columns source and target."
        raise SourceError(
            f"{path} is not an edge list: expected a .parquet, .csv or .mtx file."
            + (other if path.suffix.lower() == ".graphml" else "")
        )
    return column_names(path)


def _choose_columns(names: list[str], path: Path) -> tuple[tuple[str, str], str | None]:
    choices = (POSITION_COLUMNS, *ID_COLUMNS)
    ends = next((pair for pair in choices if set(pair) <= set(names)), None)
    if ends is None:
        raise SourceError(f"{path} has the columns {list_names(names)}; {_FORMS}.")
    return ends, next((name for name in WEIGHT_COLUMNS if name in names), None)


def _positions(table: pa.Table, name: str, n: int, path: Path) -> np.ndarray:
    values = number_column(table, name, path)
    bad = ~((values >= 0) & (values < n) & (values == np.floor(values)))
    if bad.any():
        row = int(np.argmax(bad))
        found = "an empty cell" if np.isnan(values[row]) else f"{values[row]:g}"
        raise SourceError(
            f"{path}, row {row + 1}, column {name!r}: {found} is not a position among {n} items. "
            f"Positions are integers from 0 to {n - 1}."
        )
    return values.astype(np.int64)


def _id_column(table: pa.Table, name: str, path: Path) -> list[str]:
    found: list[str] = []
    for row, value in enumerate(text_column(table, name), start=1):
        if value is None:
            raise SourceError(
                f"{path}, row {row}, column {name!r}: an empty cell is not an id of the collection. Enter "
                "the id or drop the row."
            )
        found.append(value)
    return found


def _link_lists(path: Path, separator: str) -> tuple[list[str], list[str]]:
    """Both ends of the links of a table with one row per item; an item may have none."""
    table = read_columns(path, (ITEM_COLUMN, LINKS_COLUMN).__contains__, lambda name: False, 160)
    sources, targets = [], []
    names = _id_column(table, ITEM_COLUMN, path)
    for row, (name, cell) in enumerate(zip(names, column_values(table.column(LINKS_COLUMN)), strict=True), 1):
        values = cell.split(separator) if isinstance(cell, str) else [] if cell is None else cell
        if not isinstance(values, list):
            raise SourceError(
                f"{path}, row {row}, column {LINKS_COLUMN!r}: {quote(str(cell))} is not a list of ids. Store "
                f"lists, or ids separated by {separator}."
            )
        found = [text for text in map(cell_text, values) if text is not None]
        sources += [name] * len(found)
        targets += found
    return sources, targets


def _known_ends(
    sources: list[str], targets: list[str], ids: Sequence[str], path: Path, strict: bool, lines: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of both ends of the links between items, and which of the links these are."""
    position = {name: k for k, name in enumerate(ids)}
    i, j = (
        np.array([position.get(name, -1) for name in ends], dtype=np.int64) for ends in (sources, targets)
    )
    kept = (i >= 0) & (j >= 0)
    if not kept.all():
        unknown = Counter(name for ends in (sources, targets) for name in ends if name not in position)
        listed = list_names([name for name, _ in unknown.most_common(_LISTED)])
        what = f"{int((~kept).sum()):,} of {len(kept):,} links name ids that are not in the collection"
        if strict or not kept.any():
            some = ", ".join(quote(known) for known in islice(position, 3))
            raise SourceError(
                f"{path}: {what}: {listed} (ids of the collection look like {some}). Check that the file "
                "belongs to this collection"
                + (", or set source.strict=false to leave such links out." if kept.any() else ".")
            )
        lines.append(f"{what} and are left out; {len(unknown):,} such ids, the most frequent: {listed}")
    return i[kept], j[kept], kept


def _read_matrix(path: Path, n: int) -> Edges:
    """The entries of a Matrix Market file."""
    from scipy.io import mminfo, mmread

    with open_regular(path) as file:
        rows, columns, entries, form, field, _ = mminfo(file)
    if form != "coordinate" or field == "complex":
        raise SourceError(
            f"{path} is a Matrix Market file of {form} {field} numbers; expected coordinate real, integer or "
            "pattern, one entry per link."
        )
    if (rows, columns) != (n, n):
        raise SourceError(
            f"{path} has {rows:,} rows and {columns:,} columns; the collection has {n:,} items. Give one row "
            "and column per item, in the order of the items."
        )
    check_memory(2 * entries * _ENTRY_BYTES, f"{path}: a matrix of {entries:,} entries", path.stat().st_size)
    with open_regular(path) as file:
        matrix = mmread(file).tocoo()
    w = np.asarray(matrix.data, dtype=np.float64)
    bad = ~(np.isfinite(w) & (w >= 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise SourceError(
            f"{path}, row {matrix.row[k] + 1}, column {matrix.col[k] + 1}: {w[k]:g} is not a similarity, "
            "which is a finite nonnegative number. Correct it or drop the entry."
        )
    return matrix.row.astype(np.int64), matrix.col.astype(np.int64), w


def _weights(table: pa.Table, name: str | None, path: Path) -> np.ndarray:
    if name is None:
        return np.ones(table.num_rows)
    values = number_column(table, name, path)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        found = "an empty cell" if np.isnan(values[row]) else f"{values[row]:g}"
        raise SourceError(
            f"{path}, row {row + 1}, column {name!r}: {found} is not a similarity, which is a finite "
            "nonnegative number. Correct it or drop the row."
        )
    return values
