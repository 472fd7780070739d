"""Features of a Parquet file in blocks of rows, for fits that must not load all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import StoreError

BATCH_ROWS = 4096


class ParquetRows:
    """One column `fixed_size_list<float32>[p]` (or float64) as blocks of rows, read again on every pass.

    It implements the RowBlocks interface of `embedding_core`: `shape`, `dtype` and `iter_blocks`. A pass
    keeps one row group in memory, so files should have row groups of a few megabytes, as those of the store
    do.

    Parameters
    ----------
    path : path of the Parquet file
    column : str
        Name of the column of features.
    """

    def __init__(self, path: Path | str, column: str = "features") -> None:
        self.path = Path(path)
        self.column = column
        with self._open() as parquet:
            schema = parquet.schema_arrow
            found = schema.field(column).type if column in schema.names else None
            if found is None or not pa.types.is_fixed_size_list(found) or found.value_type not in _NUMBERS:
                raise StoreError(
                    f"{self.path}: column {column!r} is {found or 'missing'} (columns: "
                    f"{', '.join(schema.names)}); expected fixed_size_list of float32 or float64."
                )
            self.shape = (int(parquet.metadata.num_rows), int(found.list_size))
            self.dtype = np.dtype(_NUMBERS[found.value_type])

    def iter_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over (start, block) from the first row to the last; blocks are read-only."""
        start = 0
        with self._open() as parquet:
            batches = parquet.iter_batches(BATCH_ROWS, columns=[self.column], use_threads=False)
            while (batch := self._next(batches)) is not None:
                block = batch.column(0).flatten().to_numpy().reshape(-1, self.shape[1])
                yield start, block
                start += len(block)

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        """Return the next batch; pyarrow raises for damaged pages and null lists."""
        try:
            return next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{self.path}: {self.column!r} cannot be read: {error}.") from error

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path, memory_map=False, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{self.path} cannot be read as Parquet: {error}.") from error


_NUMBERS = {pa.float32(): np.float32, pa.float64(): np.float64}
