"""NumPy and text columns to Arrow and back, and the check that a table has the columns it should."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from storage.artifacts.artifact import Artifact
from storage.errors import StoreError


def build(kind: str, columns: Mapping[str, pa.Array], metadata: Mapping[str, str] | None = None) -> Artifact:
    """An artifact of the given columns, which must be of one length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise StoreError(f"The columns of a {kind} artifact differ in length: {lengths}; expected one.")
    return Artifact(kind, pa.table(dict(columns)), dict(metadata or {}))


def read_metadata(table: pa.Table) -> dict[str, str]:
    """Metadata of a table as texts."""
    raw = table.schema.metadata or {}
    return {name.decode(): text.decode() for name, text in raw.items()}


def check_table(
    table: pa.Table,
    kind: str,
    columns: Mapping[str, pa.DataType | None],
    metadata: Sequence[str] = (),
) -> dict[str, str]:
    """Refuse a table of another kind or with other columns; gives its metadata.

    A column given as None is a fixed-size list, whose length the caller looks up.
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
    """A column of texts."""
    return pa.array(list(values), pa.string())


def vectors(values: np.ndarray, dtype: type[np.generic]) -> pa.Array:
    """A matrix as one fixed-size list a row; never null, since pyarrow cannot read null ones from Parquet."""
    if values.ndim != 2 or values.shape[1] == 0:
        raise StoreError(f"Found an array of shape {values.shape}; expected rows of at least one number.")
    flat = np.ascontiguousarray(values, dtype=dtype).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """A column of numbers, as an array that may be written to."""
    column = table.column(name)
    return _join(column.chunks, column.type)


def strings(table: pa.Table, name: str) -> list[Any]:
    """A column of texts or bytes, None where null."""
    return list(table.column(name).to_pylist())


def matrix(table: pa.Table, name: str) -> np.ndarray:
    """A column of fixed-size lists as a matrix, which may be written to."""
    column = table.column(name)
    width = column.type.list_size
    # As `flatten` would give them, which imports pyarrow.compute, a tenth of a second.
    chunks = [chunk.values.slice(chunk.offset * width, len(chunk) * width) for chunk in column.chunks]
    return _join(chunks, column.type.value_type).reshape(-1, width)


def _join(chunks: Sequence[pa.Array], dtype: pa.DataType) -> np.ndarray:
    """One array of all chunks; `to_numpy` would import pandas, half a second."""
    empty = pa.nulls(0, dtype)  # gives the type where there are no chunks
    return np.concatenate([np.from_dlpack(chunk) for chunk in (*chunks, empty)])


def names(text: str) -> list[str]:
    """A JSON list of texts in the metadata."""
    return [str(item) for item in json.loads(text)]
