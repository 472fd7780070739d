"""Read columns of Parquet, Feather and CSV files as arrays, with errors that name file, row and column."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.quoting import list_names, quote, shorten
from storage.sources.arrow_file import ARROW_SUFFIXES, arrow_schema, read_arrow
from storage.sources.numbers import parse_number
from storage.sources.parquet_file import first_line, parquet_schema, read_parquet
from storage.sources.text_file import LONGEST_LINE, read_text

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"
CSV_SUFFIXES = (".csv", ".tsv")
TABLE_SUFFIXES = (*CSV_SUFFIXES, ".parquet", *ARROW_SUFFIXES)
# Cells that pyarrow reads as empty; the search for a bad cell must agree with it.
# Memory that pyarrow needs for each column of a CSV file, whatever its length.
_COLUMN_BYTES = 9_000
# Longest text of a column that is used; labels and ids are shorter.
_LONGEST_CELL = 10_000_000
NULL_CELLS = ("", "#N/A", "N/A", "NA", "n/a", "NaN", "nan", "-nan", "-NaN", "null", "NULL", "None", "?")


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
    flags: Container[str] = (),
) -> pa.Table:
    """Read the wanted columns of a Parquet, Feather or CSV file, in the order of the file.

    Parameters
    ----------
    wanted, numeric : callables of a column name
        Which columns to read, and which of them are numbers in a CSV file (the others are text).
    row_bytes : int
        Approximate memory that one row needs later.
    flags : container of str
        Numeric columns of a CSV file that contain true and false.
    """
    suffix = path.suffix.lower()
    if suffix in CSV_SUFFIXES:
        return _read_csv(path, wanted, numeric, row_bytes, flags)
    column_names(path)  # refuses repeated names
    return (read_arrow if suffix in ARROW_SUFFIXES else read_parquet)(path, wanted, row_bytes)


def table_schema(path: Path) -> pa.Schema:
    """Names and types of the columns of a Parquet or Feather file."""
    return (arrow_schema if path.suffix.lower() in ARROW_SUFFIXES else parquet_schema)(path)


def column_names(path: Path) -> list[str]:
    """Column names of a table; repeated names are an error."""
    is_csv = path.suffix.lower() in CSV_SUFFIXES
    names = read_header(path)[0] if is_csv else list(table_schema(path).names)
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise SourceError(f"{path} has the column {quote(repeated[0])} more than once. Rename or drop one.")
    return names


def csv_schema(path: Path, numeric: Callable[[str], bool]) -> pa.Schema:
    """Types of the columns of a CSV file, guessed from its first rows.

    Parameters
    ----------
    numeric : callable of a column name
        Columns that are known to be numbers; other content is an error.
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    names, delimiter = column_names(path), read_header(path)[1]
    size = path.stat().st_size
    check_memory(len(names) * _COLUMN_BYTES + 6 * size, f"{path}: a table of {len(names):,} columns", size)
    with _csv_errors(path, names, delimiter, set(filter(numeric, names))):
        try:
            return pc.open_csv(path, **_csv_options(names, delimiter, {})).schema
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise
            return pa.schema({name: pa.string() for name in names})


def _read_csv(
    path: Path,
    wanted: Callable[[str], bool],
    numeric: Callable[[str], bool],
    row_bytes: int,
    flags: Container[str],
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pc

    def kind(name: str) -> pa.DataType:
        return pa.bool_() if name in flags else pa.float64() if numeric(name) else pa.string()

    names, delimiter = column_names(path), read_header(path)[1]
    types = {name: kind(name) for name in names if wanted(name)}
    size = path.stat().st_size
    check_memory(len(names) * _COLUMN_BYTES + 6 * size, f"{path}: a table of {len(names):,} columns", size)
    if not types:  # pyarrow would read every column
        types = {name: pa.string() for name in names[:1]}
    with _csv_errors(path, names, delimiter, {name for name, one in types.items() if one == pa.float64()}):
        table = pc.read_csv(path, **_csv_options(names, delimiter, types))
    check_memory(table.num_rows * row_bytes, f"{path}: a table of {table.num_rows:,} rows", size)
    return table


def _csv_options(names: list[str], delimiter: str, types: dict[str, pa.DataType]) -> dict[str, Any]:
    import pyarrow.csv as pc

    return {
        "read_options": pc.ReadOptions(column_names=names, skip_rows=1, block_size=LONGEST_LINE),
        "parse_options": pc.ParseOptions(delimiter=delimiter),
        "convert_options": pc.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=list(NULL_CELLS)
        ),
    }


@contextmanager
def _csv_errors(path: Path, names: list[str], delimiter: str, numeric: set[str]) -> Iterator[None]:
    """Report the row that stopped pyarrow."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        _raise_bad_cell(path, names, delimiter, numeric)
        raise SourceError(f"{path} is not a readable CSV table: {first_line(error)} Fix it.") from error


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
                f"Enter a number, or leave the column out: --set source.ignore={quote(name)}."
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


ROW_NUMBERS = ", or use row numbers: --set source.id=none"
"""Advice that does not apply to a table that is joined by id."""


def unique_ids(values: Sequence[str | None], path: Path) -> list[str]:
    """Check that ids are neither empty nor repeated."""
    if problem := id_problem(values):
        raise SourceError(f"{path}, {problem}. Make ids unique{ROW_NUMBERS}.")
    return [value for value in values if value is not None]


def id_problem(values: Sequence[str | None]) -> str | None:
    """What is wrong with ids: where the first one is empty or repeated, and how many are."""
    empty = [row for row, value in enumerate(values, start=1) if value is None]
    if empty:
        return f"row {empty[0]}: the id is empty ({len(empty)} such rows)"
    seen: dict[str, int] = {}
    repeated: list[tuple[int, str]] = []
    for row, value in enumerate(values, start=1):
        if value is None:
            continue
        if value in seen:
            repeated.append((row, value))
        seen.setdefault(value, row)
    if not repeated:
        return None
    row, first = repeated[0]
    names = list(dict.fromkeys(value for _, value in repeated))
    more = f"; {len(names)} ids are repeated: {list_names(names, 5)}" if len(names) > 1 else ""
    return f"row {row}: the id {quote(first)} is also that of row {seen[first]}{more}"
