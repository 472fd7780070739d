"""Read given pairwise similarities: an edge list as Parquet or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.errors import SourceError
from storage.quoting import list_names, quote
from storage.sources.boundary import reading
from storage.sources.columns import CSV_SUFFIXES, column_names, number_column, read_columns, text_column

if TYPE_CHECKING:
    import pyarrow as pa

POSITION_COLUMNS = ("i", "j")
ID_COLUMNS = (("source", "target"), ("id_i", "id_j"))
WEIGHT_COLUMNS = ("w", "weight")


def read_edges(path: Path, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the edges between the items of a collection.

    Parameters
    ----------
    path : Path
        Columns `i, j` (positions from 0 in the order of `ids`), or `source, target` or `id_i, id_j`
        (ids), and optionally `w` or `weight` (default 1).
    ids : sequence of str
        Ids of the collection.

    Returns
    -------
    i, j : ndarray of int64
        Ends of each edge as listed: in either direction, possibly repeated or from an item to itself.
    w : ndarray of float64
        Weights, finite and nonnegative.
    """
    path = Path(path)
    with reading(path):
        return _read_edges(path, ids)


def _read_edges(path: Path, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    names = _edge_columns(path)
    ends, weight = _choose_columns(names, path)
    positional = ends == POSITION_COLUMNS
    numeric = {weight, *(ends if positional else ())}
    row_bytes = 40 if positional else 160
    table = read_columns(path, lambda name: name in (*ends, weight), lambda name: name in numeric, row_bytes)
    if positional:
        i, j = (_positions(table, name, len(ids), path) for name in ends)
    else:
        position = {name: k for k, name in enumerate(ids)}
        i, j = (_lookup(table, name, position, path) for name in ends)
    return i, j, _weights(table, weight, path)


def _edge_columns(path: Path) -> list[str]:
    if not path.is_file():
        raise SourceError(f"there is no edge list at {path}. Give a .parquet or .csv file.")
    if path.suffix.lower() not in (".parquet", *CSV_SUFFIXES):
        raise SourceError(f"{path} is not an edge list: expected a .parquet or .csv file.")
    return column_names(path)


def _choose_columns(names: list[str], path: Path) -> tuple[tuple[str, str], str | None]:
    choices = (POSITION_COLUMNS, *ID_COLUMNS)
    ends = next((pair for pair in choices if set(pair) <= set(names)), None)
    if ends is None:
        raise SourceError(
            f"{path} has the columns {list_names(names)}; an edge list has i, j (positions "
            "from 0), or source, target or id_i, id_j (ids), and optionally w or weight."
        )
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


def _lookup(table: pa.Table, name: str, position: dict[str, int], path: Path) -> np.ndarray:
    found = np.empty(table.num_rows, dtype=np.int64)
    for row, value in enumerate(text_column(table, name)):
        if value is None or value not in position:
            what = "an empty cell" if value is None else quote(value)
            some = ", ".join(quote(known) for known in islice(position, 3))
            raise SourceError(
                f"{path}, row {row + 1}, column {name!r}: {what} is not an id of the collection "
                f"(ids look like {some}). Correct the id or drop the row."
            )
        found[row] = position[value]
    return found


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
