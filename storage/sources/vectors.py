"""Matrices of vectors: a column of lists is read chunk by chunk, and every vector is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from storage.errors import SourceError
from storage.limits import check_memory
from storage.sources.base import Note

_LISTED = 5
# Rows that are checked at a time.
_BLOCK_ROWS = 8192


def read_vectors(chunks: Iterable[Any], n: int, where: str, allow_missing: bool) -> np.ndarray:
    """A column of n lists of numbers as a matrix (n, p) of float32; one chunk is in memory at a time.

    The first vector gives the width. If another one has another length, only the lengths of the rest matter:
    they are in the error.
    """
    lengths = np.full(n, np.nan)
    X: np.ndarray | None = None
    start = 0
    for chunk in chunks:
        rows = slice(start, start + len(chunk))
        lengths[rows] = _list_lengths(chunk)
        given = ~np.isnan(lengths[rows])
        if X is None and given.any():
            X = _empty_matrix(n, int(lengths[rows][given][0]), where)
        if X is not None and (lengths[rows][given] == X.shape[1]).all():
            X[rows][given] = _flat_values(chunk).reshape(-1, X.shape[1])
        start += len(chunk)
    given = ~np.isnan(lengths)
    sizes = Counter(lengths[given].astype(np.int64).tolist())
    width = sizes.most_common(1)[0][0] if sizes else 0
    if X is None or width == 0:
        raise SourceError(f"{where} contains no vectors. Fill it, or leave it out with source.ignore.")
    _refuse_rows(given & (lengths != width), where, f"have another length than {width}", lengths)
    if not allow_missing:
        _refuse_rows(~given, where, "have no vector", None)
    check_vectors(X, given, where, allow_missing)
    return X


def _list_lengths(chunk: Any) -> np.ndarray:
    """Length of each list, NaN for a missing one."""
    import pyarrow.compute as pc

    found: np.ndarray = pc.list_value_length(chunk).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _empty_matrix(n: int, width: int, where: str) -> np.ndarray:
    check_memory(4 * n * width, f"{where}: {n:,} vectors of {width:,} numbers")
    return np.full((n, width), np.nan, dtype=np.float32)


def _flat_values(chunk: Any) -> np.ndarray:
    """The numbers of all lists of a chunk as float32."""
    import pyarrow as pa
    import pyarrow.types as types

    flat = chunk.flatten()
    if types.is_boolean(flat.type):
        flat = flat.cast(pa.int8())
    if types.is_float32(flat.type):
        numbers: np.ndarray = flat.to_numpy(zero_copy_only=False)
        return numbers
    with np.errstate(over="ignore"):
        values: np.ndarray = flat.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return values.astype(np.float32)


def check_vectors(X: np.ndarray, given: np.ndarray, where: str, allow_missing: bool) -> None:
    """Refuse vectors with infinite or missing numbers."""
    infinite, missing = np.empty(len(X), dtype=bool), np.empty(len(X), dtype=bool)
    for start in range(0, len(X), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        infinite[rows], missing[rows] = np.isinf(X[rows]).any(axis=1), np.isnan(X[rows]).any(axis=1)
    _refuse_rows(infinite, where, "contain numbers that are not finite 32-bit numbers", None)
    if not allow_missing:
        _refuse_rows(given & missing, where, "contain missing values", None)


def _refuse_rows(bad: np.ndarray, where: str, what: str, lengths: np.ndarray | None) -> None:
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    listed = ", ".join(
        f"{row + 1}" + ("" if lengths is None else f" ({int(lengths[row])})")
        for row in rows[:_LISTED].tolist()
    )
    more = ", ..." if len(rows) > _LISTED else ""
    missing = " Fill them from the training rows with --set features.fill=mean." if "missing" in what else ""
    missing = missing or (" Or fill them with --set features.fill=mean." if "no vector" in what else "")
    raise SourceError(
        f"{where}: {len(rows):,} of {len(bad):,} vectors {what}: rows {listed}{more}. Compute these vectors "
        f"again, or drop the rows.{missing}"
    )


def zero_notes(X: np.ndarray, what: str, path: Path) -> list[Note]:
    """A note about vectors of zeros, which often stand for items that could not be embedded."""
    rows = np.flatnonzero(~X.any(axis=1))
    if not len(rows):
        return []
    listed = ", ".join(str(row + 1) for row in rows[:_LISTED].tolist()) + (
        ", ..." if len(rows) > _LISTED else ""
    )
    text = f"{what}: {len(rows)} of {len(X)} vectors are zero (rows {listed})"
    return [Note(path.name, None, f"{text}; they have no direction, and features.scale=unit keeps them zero")]
