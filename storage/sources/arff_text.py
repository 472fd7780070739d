"""Parse ARFF files: attributes and rows, dense or sparse, in time and memory linear in the file's size."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.quoting import list_names, quote
from storage.sources.numbers import parse_number
from storage.sources.text_file import read_text

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

NUMERIC_TYPES = ("numeric", "real", "integer")
# A nominal attribute with more values is an id or a text.
MOST_VALUES = 100_000
# Possessive quantifiers (`*+`) never backtrack, so that matching takes linear time.
_QUOTED = r"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\""
_ATTRIBUTE = re.compile(rf"@attribute\s++({_QUOTED}|[^\s{{'\"][^\s{{]*+)\s*+(.+)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(rf"\s*+(?:({_QUOTED})\s*+|([^,'\"]*+))(,|\Z)", re.DOTALL)
_PAIR = re.compile(rf"\s*+([0-9]{{1,9}}+)\s++(?:({_QUOTED})\s*+|([^,'\"]++))(,|\Z)", re.DOTALL)
_SPACE = re.compile(r"\s*+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LINE = re.compile(r"([^\r\n]*+)(?:\r\n|\n|\r|\Z)")
_Reader = Callable[[str], float]


@dataclass(frozen=True)
class Attribute:
    """One column. `values` are the names of a nominal attribute; None for a numeric one."""

    name: str
    values: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class ArffData:
    """Attributes and values of an ARFF file.

    `cells` (n, A) float64 contains numbers, or positions in `Attribute.values`, and NaN for `?`. It is sparse
    if the file is. `lines` are the line numbers of the rows, `size` is the number of bytes of the file.
    """

    attributes: list[Attribute]
    cells: np.ndarray | csr_array
    lines: list[int]
    size: int

    @cached_property
    def _by_column(self) -> csc_array:
        assert not isinstance(self.cells, np.ndarray)
        return self.cells.tocsc()

    def column(self, position: int) -> np.ndarray:
        """Cells of one attribute as a dense array."""
        if isinstance(self.cells, np.ndarray):
            return self.cells[:, position]
        part = slice(*self._by_column.indptr[position : position + 2])
        cells = np.zeros(len(self.lines))
        cells[self._by_column.indices[part]] = self._by_column.data[part]
        return cells


@dataclass
class _Rows:
    """Rows as they are read: compact arrays, because lists of Python numbers need ten times the memory."""

    values: array[float] = field(default_factory=lambda: array("d"))
    indices: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q", [0]))
    lines: list[int] = field(default_factory=list)
    sparse: bool = False


def parse_arff(path: Path) -> ArffData:
    """Parse an ARFF file. Errors name the line."""
    text = read_text(path)
    size = len(text)
    lines = _meaningful_lines(text)
    attributes = _parse_header(lines, path)
    readers = [_cell_reader(attribute) for attribute in attributes]
    rows = _Rows()
    for number, line in lines:
        where = f"{path}, line {number}"
        sparse = line.startswith("{")
        if rows.lines and sparse != rows.sparse:
            raise SourceError(f"{where}: dense and sparse rows are mixed. Write all rows in one format.")
        rows.sparse = sparse
        if sparse:
            row = _parse_sparse(line, attributes, readers, where)
            rows.indices.extend(row)
            rows.values.extend(row.values())
        else:
            rows.values.extend(_parse_dense(line, attributes, readers, where))
        rows.ends.append(len(rows.values))
        rows.lines.append(number)
        if len(rows.lines) % 100_000 == 0:
            check_memory(len(rows.lines) * ITEM_BYTES, f"{path}: {len(rows.lines):,} rows or more", size)
    if not rows.lines:
        raise SourceError(f"{path} has no rows after @data. Give a file with rows.")
    return ArffData(attributes, _cells(rows, len(attributes)), rows.lines, size)


def _cells(rows: _Rows, width: int) -> np.ndarray | csr_array:
    from scipy.sparse import csr_array

    values = np.array(rows.values)
    if not rows.sparse:
        return values.reshape(-1, width)
    parts = (values, np.array(rows.indices), np.array(rows.ends))
    return csr_array(parts, shape=(len(rows.lines), width))


def _meaningful_lines(text: str) -> Iterator[tuple[int, str]]:
    # Split at line ends only: str.splitlines also splits at characters that names may contain.
    for number, found in enumerate(_LINE.finditer(text), start=1):
        stripped = found[1].strip()
        if stripped and not stripped.startswith("%"):
            yield number, stripped


def _parse_header(lines: Iterator[tuple[int, str]], path: Path) -> list[Attribute]:
    attributes: list[Attribute] = []
    for number, line in lines:
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            return _check_attributes(attributes, path)
        if keyword == "@attribute":
            attributes.append(_parse_attribute(line, f"{path}, line {number}"))
        elif keyword != "@relation":
            raise SourceError(
                f"{path}, line {number}: {quote(line, 40)} found; expected @relation, @attribute or @data. "
                "Check that this is an ARFF file."
            )
    raise SourceError(
        f"{path} ends without @data: it is not an ARFF file, or it is truncated. Download it again."
    )


def _check_attributes(attributes: list[Attribute], path: Path) -> list[Attribute]:
    names = [attribute.name for attribute in attributes]
    if not names:
        raise SourceError(f"{path} declares no @attribute before @data.")
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise SourceError(f"{path} declares the attribute {quote(repeated)} more than once. Rename one.")
    return attributes


def _parse_attribute(line: str, where: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None:
        raise SourceError(f"{where}: {quote(line, 60)} is not of the form '@attribute name type'.")
    name, kind = _unquote(match[1]), match[2].strip()
    if kind.startswith("{"):
        end = kind.rfind("}")
        if end < 0:
            raise SourceError(f"{where}: the values of {quote(name)} have no closing brace. Add it.")
        return Attribute(name, tuple(_nominal_values(name, kind[1:end], where)))
    word = kind.split(None, 1)[0].lower()
    if word not in NUMERIC_TYPES:
        raise SourceError(
            f"{where}: attribute {quote(name)} has the type {quote(word)}; supported are numeric, real, "
            "integer and {nominal}. Drop or encode the attribute."
        )
    return Attribute(name, None)


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return _ESCAPE.sub(r"\1", text[1:-1])
    return text


def _nominal_values(name: str, text: str, where: str) -> list[str]:
    values = _split_values(text, MOST_VALUES, where)
    if values is None:
        raise SourceError(
            f"{where}: attribute {quote(name)} declares more than {MOST_VALUES:,} values. "
            "Drop the attribute, or encode it as numbers."
        )
    return values


def _split_values(text: str, most: int, where: str) -> list[str] | None:
    """Split text at commas outside quotes; None if there are more than `most` values."""
    if "'" not in text and '"' not in text:
        if text.count(",") >= most:
            return None
        return [value.strip() for value in text.split(",")]
    values: list[str] = []
    position = 0
    while len(values) < most:
        match = _VALUE.match(text, position)
        if match is None:
            raise SourceError(
                f"{where}: the quotes in {quote(text[position : position + 40])} do not match. Close them."
            )
        values.append(_cell_text(match[1], match[2]))
        position = match.end()
        if not match[3]:
            return values
    return None


def _cell_text(quoted: str | None, plain: str) -> str:
    return plain.strip() if quoted is None else _unquote(quoted)


def _cell_reader(attribute: Attribute) -> _Reader:
    if attribute.values is None:
        return parse_number
    positions = {value: float(k) for k, value in enumerate(attribute.values)}
    return positions.__getitem__


def _parse_dense(line: str, attributes: list[Attribute], readers: list[_Reader], where: str) -> list[float]:
    cells = _split_values(line, len(attributes), where)
    if cells is None or len(cells) != len(attributes):
        found = f"more than {len(attributes)}" if cells is None else str(len(cells))
        raise SourceError(f"{where}: {found} values for {len(attributes)} declared attributes. Fix the row.")
    try:
        return [read(cell) for read, cell in zip(readers, cells, strict=True)]
    except (ValueError, KeyError):
        return [_read_cell(k, cell, attributes, readers, where) for k, cell in enumerate(cells)]


def _parse_sparse(
    line: str, attributes: list[Attribute], readers: list[_Reader], where: str
) -> dict[int, float]:
    if not line.endswith("}"):
        raise SourceError(f"{where}: the sparse row has no closing brace. Add it.")
    row: dict[int, float] = {}
    for position, cell in _split_pairs(line[1:-1], where):
        if position >= len(attributes) or position in row:
            problem = "is repeated" if position in row else f"exceeds the last one, {len(attributes) - 1}"
            raise SourceError(f"{where}: attribute {position} {problem}. Attributes are numbered from 0.")
        row[position] = _read_cell(position, cell, attributes, readers, where)
    return row


def _split_pairs(text: str, where: str) -> Iterator[tuple[int, str]]:
    position = 0
    while _SPACE.match(text, position).end() < len(text):  # type: ignore[union-attr]
        match = _PAIR.match(text, position)
        if match is None:
            found = text[position : position + 40].strip()
            raise SourceError(f"{where}: {quote(found)} is not a pair 'attribute-number value'. Fix it.")
        yield int(match[1]), _cell_text(match[2], match[3])
        position = match.end()


def _read_cell(
    position: int, cell: str, attributes: list[Attribute], readers: list[_Reader], where: str
) -> float:
    if cell == "?":
        return np.nan
    attribute = attributes[position]
    try:
        return readers[position](cell)
    except (ValueError, KeyError):
        expected = "a number" if attribute.values is None else f"one of {list_names(attribute.values, 8)}"
        raise SourceError(
            f"{where}: attribute {quote(attribute.name)} is {quote(cell)}; expected {expected}, "
            "or ? if missing."
        ) from None
