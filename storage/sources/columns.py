"""Read columns of Parquet and CSV files as arrays, with errors that name file, row and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"
CSV_SUFFIXES = (".csv", ".tsv")
# Cells that pyarrow reads as empty; the search for a bad cell must agree with it.
NULL_CELLS = ("", "#N/A", "N/A", "NA", "n/a", "NaN", "nan", "-nan", "-NaN", "null", "NULL", "None")


def read_text(path: Path) -> str:
    """Read a UTF-8 file with or without byte-order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}). "
            "Save it as UTF-8."
        ) from error


def guess_delimiter(line: str) -> str:
    """Guess the delimiter from the first line: a comma, unless only ';' or tabs occur."""
    return next((mark for mark in DELIMITERS if mark in line), ",")


def read_header(path: Path) -> tuple[list[str], str]:
    """Column names and delimiter of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    delimiter = guess_delimiter(line)
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error as error:
        raise SourceError(f"{path}, line 1 is not a CSV header: {error}.") from error
    return names, delimiter


def read_columns(path: Path, wanted: Callable[[str], bool], numeric: Callable[[str], bool]) -> pa.Table:
    """Read the wanted columns of a Parquet or CSV file, in the order of the file.

    Parameters
    ----------
    wanted, numeric : callables of a column name
        Which columns to read, and which of them are numbers in a CSV file (the others are text).
    """
    if path.suffix.lower() in CSV_SUFFIXES:
        return _read_csv(path, wanted, numeric)
    return _read_parquet(path, wanted)


def column_names(path: Path) -> list[str]:
    """Column names of a Parquet or CSV file; repeated names are an error."""
    if path.suffix.lower() in CSV_SUFFIXES:
        names = read_header(path)[0]
    else:
        with _open_parquet(path) as file:
            names = list(file.schema_arrow.names)
    repeated = (
        sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    )
    if repeated:
        raise SourceError(f"{path} has the column {repeated[0]!r} more than once. Rename or drop one.")
    return names


def _open_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path} is not a readable Parquet file: {_first_line(error)}") from error


def _read_parquet(path: Path, wanted: Callable[[str], bool]) -> pa.Table:
    import pyarrow as pa

    names = [name for name in column_names(path) if wanted(name)]
    try:
        with _open_parquet(path) as file:
            return file.read(columns=names)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path} is damaged: {_first_line(error)} Download or write it again.") from error


def _read_csv(path: Path, wanted: Callable[[str], bool], numeric: Callable[[str], bool]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pc

    names, delimiter = column_names(path), read_header(path)[1]
    types = {name: pa.float64() if numeric(name) else pa.string() for name in names if wanted(name)}
    try:
        return pc.read_csv(
            path,
            read_options=pc.ReadOptions(column_names=names, skip_rows=1),
            parse_options=pc.ParseOptions(delimiter=delimiter),
            convert_options=pc.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=list(NULL_CELLS)
            ),
        )
    except (OSError, pa.ArrowException) as error:
        _raise_bad_cell(path, names, delimiter, {name for name in types if numeric(name)})
        raise SourceError(f"{path} is not a readable CSV table: {_first_line(error)}") from error


def _raise_bad_cell(path: Path, names: list[str], delimiter: str, numeric: set[str]) -> None:
    """Find the row that stopped pyarrow and report it."""
    rows = csv.reader(read_text(path).splitlines(), delimiter=delimiter)
    next(rows, None)
    for number, cells in enumerate((row for row in rows if row), start=1):
        if len(cells) != len(names):
            raise SourceError(
                f"{path}, row {number}: {len(cells)} cells, but the header has {len(names)}. Fix the row."
            )
        for name, cell in zip(names, cells, strict=True):
            if name in numeric and not _is_number(cell):
                raise SourceError(
                    f"{path}, row {number}, column {name!r}: {cell!r} is not a number. "
                    "Enter a number, or encode the column as numbers."
                )


def _is_number(cell: str) -> bool:
    if cell.strip() in NULL_CELLS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _first_line(error: Exception) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text if text.endswith(".") else f"{text}."


def number_column(table: pa.Table, name: str, path: Path) -> np.ndarray:
    """A column as float64, with NaN for empty cells."""
    import pyarrow as pa
    import pyarrow.types as types

    column = table.column(name)
    kind = column.type
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not (numeric or types.is_decimal(kind) or types.is_null(kind)):
        sample = next((value for value in column.to_pylist() if value is not None), None)
        raise SourceError(
            f"{path}, column {name!r} contains {kind} ({sample!r}), not numbers. Encode it as numbers."
        )
    values = column.cast(pa.float64(), safe=False) if not types.is_boolean(kind) else column.cast(pa.int8())
    numbers: np.ndarray = values.to_numpy().astype(np.float64)
    return numbers


def text_column(table: pa.Table, name: str) -> list[str | None]:
    """A column as stripped text, with None for empty cells."""
    return [cell_text(value) for value in table.column(name).to_pylist()]


def cell_text(value: object) -> str | None:
    """Text of one cell. An integer stored as float, as spreadsheets do, reads as an integer."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value).strip() or None


def unique_ids(values: Sequence[str | None], path: Path) -> list[str]:
    """Check that ids are neither empty nor repeated."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values, start=1):
        if value is None:
            raise SourceError(f"{path}, row {row}: the id is empty. Give each row an id, or drop the column.")
        if value in seen:
            raise SourceError(
                f"{path}, row {row}: the id {value!r} is also that of row {seen[value]}. "
                "Make ids unique, or drop the column to use row numbers."
            )
        seen[value] = row
    return list(seen)
