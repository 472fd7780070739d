"""Read columns of Parquet files: what the file claims is checked before its pages are decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.errors import SourceError
from storage.limits import check_memory
from storage.parquet_claims import claimed_bytes, has_lists
from storage.parquet_footer import count_values
from storage.quoting import shorten

if TYPE_CHECKING:
    import pyarrow as pa


SUFFIX = ".parquet"
_BATCH_ROWS = 8192


def parquet_schema(path: Path) -> pa.Schema:
    """Names and types of the columns of a Parquet file."""
    with _open(path) as file:
        return file.schema_arrow


def read_parquet(path: Path, wanted: Callable[[str], bool], row_bytes: int) -> pa.Table:
    """Read the wanted columns. Texts are dictionary-encoded, so that a repeated text is in memory once."""
    with _open(path) as file:
        leaves = [column.path for column in file.schema if column.physical_type == "BYTE_ARRAY"]
    with _reading(path), _open(path, leaves) as file:
        names = [name for name in file.schema_arrow.names if wanted(name)]
        values = count_values(path) if has_lists(file, names) else None
        check_memory(
            claimed_bytes(file, names, values) + file.metadata.num_rows * row_bytes,
            f"{path}: {file.metadata.num_rows:,} rows of {len(names):,} columns",
            path.stat().st_size,
        )
        return _read_columns(file, names)


def parquet_chunks(path: Path, name: str) -> Iterator[pa.Array]:
    """The values of one column of lists, some rows at a time."""
    # Threads and buffers would read ahead, up to the whole column.
    with _reading(path), _open(path, pre_buffer=False) as file:
        check_memory(
            claimed_bytes(file, [name], count_values(path)),
            f"{path}: {file.metadata.num_rows:,} rows of {name}",
            path.stat().st_size,
        )
        for batch in file.iter_batches(_BATCH_ROWS, columns=[name], use_threads=False):
            yield batch.column(0)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What pyarrow raises names the file."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if "Expected all lists to be of size" in str(error):  # pyarrow cannot read what it writes
            raise SourceError(
                f"{path} has a column of vectors of fixed size in which some are missing, which pyarrow "
                "cannot read. Write the column as lists of any size, or as Feather, or drop these rows."
            ) from error
        raise SourceError(f"{path} is damaged: {first_line(error)} Download or write it again.") from error


def _read_columns(file: Any, names: Sequence[str]) -> pa.Table:
    """Read columns. Lists of encoded texts must be read one row group at a time: pyarrow cannot join them."""
    import pyarrow as pa

    if file.num_row_groups < 2 or not has_lists(file, names):
        return file.read(columns=names)
    return pa.concat_tables([file.read_row_group(group, names) for group in range(file.num_row_groups)])


def _open(path: Path, read_dictionary: Sequence[str] = (), pre_buffer: bool = True) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, read_dictionary=list(read_dictionary), pre_buffer=pre_buffer)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"{path} is not a readable Parquet file: {first_line(error)} Download or write it again."
        ) from error


def first_line(error: Exception) -> str:
    """First line of an error of pyarrow, as a sentence."""
    text = shorten((str(error).strip() or type(error).__name__).splitlines()[0], 200)
    return text if text.endswith(".") else f"{text}."
