"""Read columns of Parquet and CSV files as arrays, with errors that name file, row and column."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.quoting import quote, shorten
from storage.sources.numbers import parse_number
from storage.sources.parquet_file import first_line, parquet_names, read_parquet
from storage.sources.text_file import LONGEST_LINE, read_text

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"
CSV_SUFFIXES = (".csv", ".tsv")
# Cells that pyarrow reads as empty; the search for a bad cell must agree with it.
# Memory that pyarrow needs for each column of a CSV file, whatever its length.
_COLUMN_BYTES = 9_000
# Longest text of a column that is used; labels and ids are shorter.
_LONGEST_CELL = 10_000_000
NULL_CELLS = ("", "#N/A", "N/A", "NA", "n/a", "NaN", "nan", "-nan", "-NaN", "null", "NULL", "None")


def guess_delimiter(line: str) -> str:
    """Guess the delimiter from the first line: a comma, unless only ';' or tabs occur."""
    return next((mark for mark in DELIMITERS if mark in line), ",")


def read_header(path: Path) -> tuple[list[str], str]:
    """Column names and delimiter of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(LONGEST_LINE)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    if len(line) == LONGEST_LINE or "\0" in line:
        what = "contains NUL characters" if "\0" in line else f"has more than {LONGEST_LINE:,} characters"
        raise SourceError(f"{path}, line 1 is not a CSV header: it {what}. Check that it is a CSV file.")
    delimiter = guess_delimiter(line)
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error as error:
        raise SourceError(
            f"{path}, line 1 is not a CSV header: {shorten(str(error))}. Check that it is a CSV file."
        ) from error
    return names, delimiter


def read_columns(
    path: Path,
    wanted: Callable[[str], bool],
    numeric: Callable[[str], bool],
    row_bytes: int = ITEM_BYTES,
) -> pa.Table:
    """Read the wanted columns of a Parquet or CSV file, in the order of the file.

    Parameters
    ----------
    wanted, numeric : callables of a column name
        Which columns to read, and which of them are numbers in a CSV file (the others are text).
    row_bytes : int
        Approximate memory that one row needs later.
    """
    if path.suffix.lower() in CSV_SUFFIXES:
        return _read_csv(path, wanted, numeric, row_bytes)
    column_names(path)  # refuses repeated names
    return read_parquet(path, wanted, row_bytes)


def column_names(path: Path) -> list[str]:
    """Column names of a Parquet or CSV file; repeated names are an error."""
    names = read_header(path)[0] if path.suffix.lower() in CSV_SUFFIXES else parquet_names(path)
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise SourceError(f"{path} has the column {quote(repeated[0])} more than once. Rename or drop one.")
    return names


def _read_csv(
    path: Path, wanted: Callable[[str], bool], numeric: Callable[[str], bool], row_bytes: int
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pc

    names, delimiter = column_names(path), read_header(path)[1]
    types = {name: pa.float64() if numeric(name) else pa.string() for name in names if wanted(name)}
    size = path.stat().st_size
    check_memory(len(names) * _COLUMN_BYTES + 6 * size, f"{path}: a table of {len(names):,} columns", size)
    try:
        table = pc.read_csv(
            path,
            read_options=pc.ReadOptions(column_names=names, skip_rows=1, block_size=LONGEST_LINE),
            parse_options=pc.ParseOptions(delimiter=delimiter),
            convert_options=pc.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=list(NULL_CELLS)
            ),
        )
    except (OSError, pa.ArrowException) as error:
        _raise_bad_cell(path, names, delimiter, {name for name in types if numeric(name)})
        raise SourceError(f"{path} is not a readable CSV table: {first_line(error)} Fix it.") from error
    check_memory(table.num_rows * row_bytes, f"{path}: a table of {table.num_rows:,} rows", size)
    return table


def _raise_bad_cell(path: Path, names: list[str], delimiter: str, numeric: set[str]) -> None:
    """Find the row that stopped pyarrow and report it."""
    rows = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter)
    try:
        next(rows, None)
        for number, cells in enumerate((row for row in rows if row), start=1):
            _check_row(path, number, cells, names, numeric)
    except csv.Error as error:
        raise SourceError(f"{path}, line {rows.line_num}: {error}. Fix the line.") from error


def _check_row(path: Path, number: int, cells: list[str], names: list[str], numeric: set[str]) -> None:
    if len(cells) != len(names):
        raise SourceError(
            f"{path}, row {number}: {len(cells)} cells, but the header has {len(names)}. Fix the row."
        )
    for name, cell in zip(names, cells, strict=True):
        if name in numeric and not _is_number(cell):
            raise SourceError(
                f"{path}, row {number}, column {quote(name)}: {quote(cell)} is not a number. "
                "Enter a number, or encode the column as numbers."
            )


def _is_number(cell: str) -> bool:
    if cell.strip() in NULL_CELLS:
        return True
    try:
        parse_number(cell)
    except ValueError:
        return False
    return True


def number_column(table: pa.Table, name: str, path: Path) -> np.ndarray:
    """A column as float64, with NaN for empty cells."""
    import pyarrow as pa
    import pyarrow.types as types

    column = table.column(name)
    kind = column.type
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not (numeric or types.is_decimal(kind) or types.is_null(kind)):
        sample = next((value for value in column_values(column.slice(0, 20)) if value is not None), None)
        raise SourceError(
            f"{path}, column {quote(name)} contains {_type_name(kind)} ({quote(sample)}), not numbers. "
            "Encode it as numbers."
        )
    values = column.cast(pa.float64(), safe=False) if not types.is_boolean(kind) else column.cast(pa.int8())
    numbers: np.ndarray = values.to_numpy().astype(np.float64)
    return numbers


def _type_name(kind: pa.DataType) -> str:
    import pyarrow.types as types

    return shorten(str(kind.value_type if types.is_dictionary(kind) else kind))


def text_column(table: pa.Table, name: str) -> list[str | None]:
    """A column as stripped text, with None for empty cells."""
    return [cell_text(value) for value in column_values(table.column(name))]


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as Python objects; a text that is repeated is one object."""
    import pyarrow as pa

    _check_lengths(column)
    try:
        return [value for chunk in column.chunks for value in _chunk_values(chunk)]
    except (ValueError, LookupError, ArithmeticError, pa.ArrowException) as error:
        raise SourceError(
            f"a column contains {shorten(str(column.type))} values that cannot be used as text or labels "
            f"({first_line(error)}). Convert them to text."
        ) from error


def _check_lengths(column: pa.ChunkedArray) -> None:
    """Refuse texts that are too long before they are copied to Python objects."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    for chunk in column.chunks if column.nbytes > _LONGEST_CELL else ():
        values = chunk.dictionary if types.is_dictionary(chunk.type) else chunk
        if not (types.is_string(values.type) or types.is_large_string(values.type)):
            continue
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        if longest > _LONGEST_CELL:
            raise SourceError(
                f"a text has {longest:,} bytes; at most {_LONGEST_CELL:,} are allowed. Shorten it, or leave "
                "the column out."
            )


def _chunk_values(chunk: pa.Array) -> list[Any]:
    import pyarrow.types as types

    if types.is_dictionary(chunk.type):
        known = chunk.dictionary.to_pylist()
        return [None if index is None else known[index] for index in chunk.indices.to_pylist()]
    if (types.is_list(chunk.type) or types.is_large_list(chunk.type)) and types.is_dictionary(
        chunk.type.value_type
    ):
        values, ends = _chunk_values(chunk.values), chunk.offsets.to_pylist()
        rows = zip(ends, ends[1:], chunk.is_valid().to_pylist(), strict=False)
        return [values[start:stop] if valid else None for start, stop, valid in rows]
    return list(chunk.to_pylist())


def cell_text(value: object) -> str | None:
    """Text of one cell. An integer stored as float, as spreadsheets do, reads as an integer."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
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
                f"{path}, row {row}: the id {quote(value)} is also that of row {seen[value]}. "
                "Make ids unique, or drop the column to use row numbers."
            )
        seen[value] = row
    return list(seen)
