"""Tables for people and other programs, written whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from storage.disk import store_errors, temporary_path

if TYPE_CHECKING:
    import pyarrow as pa


def write_parquet(table: "pa.Table", path: Path) -> Path:
    """Write a table as Parquet."""
    import pyarrow.parquet as pq

    return _replace(path, lambda place: pq.write_table(table, place, compression="zstd"))


def write_csv(table: "pa.Table", path: Path) -> Path:
    """Write a table as CSV with a header."""
    import pyarrow.csv as pc

    return _replace(path, lambda place: pc.write_csv(table, place))


def _replace(path: Path, write: Callable[[Path], None]) -> Path:
    place = temporary_path(path)
    with store_errors(path):
        try:
            write(place)
            place.replace(path)
        finally:
            place.unlink(missing_ok=True)
    return path
