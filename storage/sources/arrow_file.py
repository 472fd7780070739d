"""Read Feather and Arrow IPC files: the sizes that a file claims are checked before it is decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.arrow_claims import claimed_buffers
from storage.errors import SourceError
from storage.limits import check_memory
from storage.sources.parquet_file import first_line

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_SUFFIXES = (".feather", ".arrow", ".ipc")
# A file begins with this and contains a stream; its end repeats where the batches are, and is not used.
_MAGIC = b"ARROW1\0\0"
_OLD = b"FEA1"


def arrow_schema(path: Path) -> pa.Schema:
    """Names and types of the columns."""
    import pyarrow as pa

    with _stream(path) as source, pa.ipc.open_stream(source) as stream:
        return stream.schema


def read_arrow(path: Path, wanted: Callable[[str], bool], row_bytes: int) -> pa.Table:
    """Read the wanted columns."""
    import pyarrow as pa

    with _stream(path) as source:
        start = source.tell()
        needed = _claimed_bytes(source)
        size = path.stat().st_size
        check_memory(2 * needed, f"{path}: a table of {needed:,} bytes", size)
        source.seek(start)
        with pa.ipc.open_stream(source) as stream:
            names = [name for name in stream.schema.names if wanted(name)]
            table = stream.read_all().select(names)
        table.validate(full=True)
        check_memory(table.num_rows * row_bytes, f"{path}: a table of {table.num_rows:,} rows", size)
        return table


@contextmanager
def _stream(path: Path) -> Iterator[Any]:
    """The stream in a file; what pyarrow raises names the file."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            begin = source.read(len(_MAGIC))
            if begin.startswith(_OLD):
                raise SourceError(
                    f"{path} has the first version of Feather. Write it again with pandas or pyarrow, or as "
                    "Parquet."
                )
            if begin != _MAGIC:
                source.seek(0)  # a stream without the frame of a file, as Hugging Face writes it
            yield source
    except (OSError, ValueError, pa.ArrowException) as error:
        raise SourceError(
            f"{path} is not a readable Feather or Arrow file: {first_line(error)} Download or write it again."
        ) from error


def _claimed_bytes(source: Any) -> int:
    """Bytes that all record batches and dictionaries have after decompression."""
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(source)
    return sum(claimed_buffers(one.metadata.to_pybytes(), one.body or b"") for one in messages)
