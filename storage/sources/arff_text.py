"""Parse ARFF files: attributes and rows, dense or sparse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storage.errors import SourceError
from storage.sources.columns import read_text

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NUMERIC_TYPES = ("numeric", "real", "integer")
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.+)", re.IGNORECASE)
_VALUE = re.compile(rf"\s*({_QUOTED}|[^,'\"]*?)\s*(,|$)")
_PAIR = re.compile(rf"\s*(\d+)\s+({_QUOTED}|[^,'\"]+?)\s*(,|$)")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Attribute:
    """One column. `values` are the names of a nominal attribute; None for a numeric one."""

    name: str
    values: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class ArffData:
    """Attributes and values of an ARFF file.

    `cells` (n, A) float64 contains numbers, or positions in `Attribute.values`, and NaN for `?`. It is sparse
    if the file is. `lines` are the line numbers of the rows.
    """

    attributes: list[Attribute]
    cells: np.ndarray | csr_array
    lines: list[int]

    def column(self, position: int) -> np.ndarray:
        """Cells of one attribute as a dense array."""
        if isinstance(self.cells, np.ndarray):
            return self.cells[:, position]
        cells: np.ndarray = self.cells[:, [position]].toarray().ravel()
        return cells


def parse_arff(path: Path) -> ArffData:
    """Parse an ARFF file. Errors name the line."""
    lines = _meaningful_lines(read_text(path))
    attributes = _parse_header(lines, path)
    readers = [_cell_reader(attribute) for attribute in attributes]
    dense: list[np.ndarray] = []
    sparse: list[dict[int, float]] = []
    numbers = []
    for number, line in lines:
        where = f"{path}, line {number}"
        if line.startswith("{"):
            sparse.append(_parse_sparse(line, attributes, readers, where))
        else:
            dense.append(_parse_dense(line, attributes, readers, where))
        if sparse and dense:
            raise SourceError(f"{where}: dense and sparse rows are mixed. Write all rows in one format.")
        numbers.append(number)
    if not numbers:
        raise SourceError(f"{path} has no rows after @data. Give a file with rows.")
    return ArffData(attributes, np.stack(dense) if dense else _to_csr(sparse, len(attributes)), numbers)


def _meaningful_lines(text: str) -> Iterator[tuple[int, str]]:
    # Split at line ends only: str.splitlines also splits at characters that names may contain.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        stripped = line.strip()
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
                f"{path}, line {number}: {line[:40]!r} found; expected @relation, @attribute or @data. "
                "Check that this is an ARFF file."
            )
    raise SourceError(
        f"{path} ends without @data: it is not an ARFF file, or it is truncated. Download it again."
    )


def _check_attributes(attributes: list[Attribute], path: Path) -> list[Attribute]:
    names = [attribute.name for attribute in attributes]
    if not names:
        raise SourceError(f"{path} declares no @attribute before @data.")
    if len(set(names)) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        raise SourceError(f"{path} declares the attribute {repeated!r} more than once. Rename one.")
    return attributes


def _parse_attribute(line: str, where: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None:
        raise SourceError(f"{where}: {line[:60]!r} is not of the form '@attribute name type'.")
    name, kind = _unquote(match[1]), match[2].strip()
    if kind.startswith("{"):
        end = kind.rfind("}")
        if end < 0:
            raise SourceError(f"{where}: the values of {name!r} have no closing brace.")
        return Attribute(name, tuple(_split_values(kind[1:end], where)))
    word = kind.split()[0].lower()
    if word not in NUMERIC_TYPES:
        raise SourceError(
            f"{where}: attribute {name!r} has the type {word!r}; supported are numeric, real, integer "
            "and {{nominal}}. Drop or encode the attribute."
        )
    return Attribute(name, None)


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return _ESCAPE.sub(r"\1", text[1:-1])
    return text


def _split_values(text: str, where: str) -> list[str]:
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    values, position = [], 0
    while True:
        match = _VALUE.match(text, position)
        if match is None:
            raise SourceError(f"{where}: the quotes in {text[position : position + 40]!r} do not match.")
        values.append(_unquote(match[1]))
        position = match.end()
        if not match[2]:
            return values


def _cell_reader(attribute: Attribute) -> Callable[[str], float]:
    if attribute.values is None:
        return float
    positions = {value: float(k) for k, value in enumerate(attribute.values)}
    return positions.__getitem__


def _parse_dense(
    line: str, attributes: list[Attribute], readers: list[Callable[[str], float]], where: str
) -> np.ndarray:
    cells = _split_values(line, where)
    if len(cells) != len(attributes):
        raise SourceError(
            f"{where}: {len(cells)} values for {len(attributes)} declared attributes. Fix the row."
        )
    try:
        return np.array([read(cell) for read, cell in zip(readers, cells, strict=True)])
    except (ValueError, KeyError):
        return np.array([_read_cell(k, cell, attributes, readers, where) for k, cell in enumerate(cells)])


def _parse_sparse(
    line: str, attributes: list[Attribute], readers: list[Callable[[str], float]], where: str
) -> dict[int, float]:
    if not line.endswith("}"):
        raise SourceError(f"{where}: the sparse row has no closing brace.")
    row: dict[int, float] = {}
    for position, cell in _split_pairs(line[1:-1], where):
        if position >= len(attributes) or position in row:
            problem = "is repeated" if position in row else f"exceeds the last one, {len(attributes) - 1}"
            raise SourceError(f"{where}: attribute {position} {problem}. Attributes are numbered from 0.")
        row[position] = _read_cell(position, cell, attributes, readers, where)
    return row


def _split_pairs(text: str, where: str) -> Iterator[tuple[int, str]]:
    position = 0
    while text[position:].strip():
        match = _PAIR.match(text, position)
        if match is None:
            raise SourceError(
                f"{where}: {text[position : position + 40].strip()!r} is not a pair 'attribute-number value'."
            )
        yield int(match[1]), _unquote(match[2])
        position = match.end()


def _read_cell(
    position: int, cell: str, attributes: list[Attribute], readers: list[Callable[[str], float]], where: str
) -> float:
    if cell == "?":
        return np.nan
    attribute = attributes[position]
    try:
        return readers[position](cell)
    except (ValueError, KeyError):
        expected = "a number" if attribute.values is None else f"one of {', '.join(attribute.values[:8])}"
        raise SourceError(
            f"{where}: attribute {attribute.name!r} is {cell!r}; expected {expected}, or ? if missing."
        ) from None


def _to_csr(rows: list[dict[int, float]], width: int) -> csr_array:
    from scipy.sparse import csr_array

    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((k for row in rows for k in row), dtype=np.int64, count=int(indptr[-1]))
    data = np.fromiter((v for row in rows for v in row.values()), dtype=np.float64, count=int(indptr[-1]))
    return csr_array((data, indices, indptr), shape=(len(rows), width))
