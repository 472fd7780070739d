"""Count the values of each column by the footer of a Parquet file.

pyarrow has the same numbers (`ColumnChunkMetaData.num_values`), but aborts the process if the description of
a column is damaged. The footer is a Thrift structure in compact encoding; only a few of its fields are read.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"PAR1"
# Compact types: what follows a field header. 1 and 2 are booleans, which have no content of their own.
_BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = 3, (4, 5, 6), 7, 8, (9, 10), 11, 12
# Field numbers of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS, _COLUMNS, _DESCRIPTION, _PATH, _NUM_VALUES = 4, 1, 3, 3, 5


def count_values(path: Path) -> Counter[str]:
    """Number of values of each column, by its path (`labels.list.element`)."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length + 8 > size:
            raise ValueError("not a Parquet file")
        file.seek(size - 8 - length)
        reader = _Compact(file.read(length))
    found: Counter[str] = Counter()
    for _ in reader.structs_of(_ROW_GROUPS):
        for _ in reader.structs_of(_COLUMNS):
            for number, kind in reader.fields():
                if number == _DESCRIPTION and kind == _STRUCT:
                    name, count = reader.column()
                    found[name] += max(count, 0)
                else:
                    reader.skip(kind)
    return found


class _Compact:
    """Reads the compact encoding of Thrift, one field after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> int:
        """Advance; return the position before."""
        if self._at + count > len(self._data):
            raise ValueError("the footer is truncated")
        self._at += count
        return self._at - count

    def _byte(self) -> int:
        return self._data[self._take(1)]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("a number of the footer is too long")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _binary(self) -> bytes:
        start = self._take(self._varint())
        return self._data[start : self._at]

    def _list(self) -> tuple[int, int]:
        """Type and number of the elements of a list."""
        head = self._byte()
        return head & 15, self._varint() if head >> 4 == 15 else head >> 4

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; the caller reads or skips its content."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            yield number, head & 15

    def structs_of(self, wanted: int) -> Iterator[None]:
        """Pause at each structure in one list of a structure; the caller reads it."""
        for number, kind in self.fields():
            if number != wanted or kind not in _LISTS:
                self.skip(kind)
                continue
            element, count = self._list()
            if element != _STRUCT:
                raise ValueError("the footer has another layout")
            for _ in range(count):
                yield

    def column(self) -> tuple[str, int]:
        """Path and number of values of a column."""
        name, count = "", 0
        for number, kind in self.fields():
            if number == _PATH and kind in _LISTS:
                name = ".".join(self._binary().decode("utf-8", "replace") for _ in range(self._list()[1]))
            elif number == _NUM_VALUES and kind in _INTEGERS:
                count = self._integer()
            else:
                self.skip(kind)
        return name, count

    def skip(self, kind: int) -> None:
        """Skip the content of a field."""
        if kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in _LISTS:
            element, count = self._list()
            for _ in range(count):
                self._skip_element(element)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_element(kinds >> 4)
                self._skip_element(kinds & 15)
        elif kind == _BINARY:
            self._binary()
        elif kind in _INTEGERS:
            self._varint()
        elif kind in (_BYTE, _DOUBLE):
            self._take(1 if kind == _BYTE else 8)
        elif kind > _STRUCT or kind == 0:
            raise ValueError("the footer has another layout")

    def _skip_element(self, kind: int) -> None:
        self._take(int(kind in (1, 2)))  # booleans in a list take one byte
        self.skip(kind)
