"""Conversion of NumPy and text columns to Arrow and back, and the check of a table's columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from storage.artifacts.artifact import Artifact
from storage.errors import StoreError
from storage.quoting import quote, shorten

Unpacked = TypeVar("Unpacked")


def unpacks(function: Callable[[pa.Table], Unpacked]) -> Callable[[pa.Table], Unpacked]:
    """Decorate a function that unpacks a table: content that it cannot use is a StoreError."""

    @wraps(function)
    def unpack(table: pa.Table) -> Unpacked:
        try:
            return function(table)
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError) as error:
            kind = read_metadata(table).get("kind")
            raise StoreError(
                f"The content of an artifact of kind {quote(kind)} is not usable "
                f"({type(error).__name__}: {shorten(str(error), 200)}). It was not written by this version "
                "of labelscape: delete it and run again."
            ) from error

    return unpack


def build(kind: str, columns: Mapping[str, pa.Array], metadata: Mapping[str, str] | None = None) -> Artifact:
    """Build an artifact from columns of equal length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise StoreError(
            f"The columns of a {kind} artifact have different lengths: {lengths}; expected equal lengths."
        )
    return Artifact(kind, pa.table(dict(columns)), dict(metadata or {}))


def read_metadata(table: pa.Table) -> dict[str, str]:
    """Return the metadata of a table as strings."""
    raw = table.schema.metadata or {}
    return {name.decode("utf-8", "replace"): text.decode("utf-8", "replace") for name, text in raw.items()}


def check_table(
    table: pa.Table,
    kind: str,
    columns: Mapping[str, pa.DataType | None],
    metadata: Sequence[str] = (),
) -> dict[str, str]:
    """Return the metadata of a table; StoreError if its kind or its columns are not those expected.

    None as the type of a column means a fixed-size list of any length.
    """
    found = read_metadata(table)
    if found.get("kind") != kind:
        raise StoreError(f"Found an artifact of kind {found.get('kind')!r}; expected {kind!r}.")
    types = {field.name: field.type for field in table.schema}
    wrong = list(types) != list(columns) or any(
        not pa.types.is_fixed_size_list(types[name]) if wanted is None else types[name] != wanted
        for name, wanted in columns.items()
    )
    missing = [name for name in metadata if name not in found]
    if wrong or missing:
        expected = {name: str(wanted or "fixed_size_list") for name, wanted in columns.items()}
        present = {name: str(given) for name, given in types.items()}
        raise StoreError(
            f"A {kind} artifact has the columns {present}; expected {expected}. Metadata missing: {missing}. "
            "It was written by another version: compute it again."
        )
    return found


def texts(values: Sequence[str | None]) -> pa.Array:
    """Return a column of strings."""
    return pa.array(list(values), pa.string())


def vectors(values: np.ndarray, dtype: type[np.generic]) -> pa.Array:
    """Return a matrix as one fixed-size list per row; never null, because pyarrow cannot read null lists."""
    if values.ndim != 2 or values.shape[1] == 0:
        raise StoreError(f"Found an array of shape {values.shape}; expected rows of at least one number.")
    flat = np.ascontiguousarray(values, dtype=dtype).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """Return a column of numbers as a writable array."""
    column = table.column(name)
    return _join(column.chunks, column.type)


def strings(table: pa.Table, name: str) -> list[Any]:
    """Return a column of strings or bytes as a list, with None for null."""
    return list(table.column(name).to_pylist())


def matrix(table: pa.Table, name: str) -> np.ndarray:
    """Return a column of fixed-size lists as a writable matrix."""
    column = table.column(name)
    width = column.type.list_size
    # Like `flatten`, which would import pyarrow.compute (0.1 s).
    chunks = [chunk.values.slice(chunk.offset * width, len(chunk) * width) for chunk in column.chunks]
    return _join(chunks, column.type.value_type).reshape(-1, width)


def _join(chunks: Sequence[pa.Array], dtype: pa.DataType) -> np.ndarray:
    """Concatenate chunks; `to_numpy` would import pandas (0.5 s)."""
    empty = pa.nulls(0, dtype)  # determines the type if there are no chunks
    return np.concatenate([np.from_dlpack(chunk) for chunk in (*chunks, empty)])


def names(text: str) -> list[str]:
    """Parse a JSON list of strings from the metadata."""
    return [str(item) for item in json.loads(text)]
