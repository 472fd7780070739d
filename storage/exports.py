"""Tables for people and other programs, written whole or not at all.

`chosen_by` is how a user names another place for them, for messages.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from storage.artifacts.disk import store_errors, temporary_path

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array


def write_parquet(table: "pa.Table", path: Path, chosen_by: str) -> Path:
    """Write a table as Parquet."""
    import pyarrow.parquet as pq

    return _replace(path, lambda place: pq.write_table(table, place, compression="zstd"), chosen_by)


def write_csv(table: "pa.Table", path: Path, chosen_by: str) -> Path:
    """Write a table as CSV with a header."""
    import pyarrow.csv as pc

    return _replace(path, lambda place: pc.write_csv(table, place), chosen_by)


def write_npz(X: "csr_array", path: Path, chosen_by: str) -> Path:
    """Write a sparse matrix as SciPy keeps it."""
    from scipy.sparse import save_npz

    def write(place: Path) -> None:
        with place.open("wb") as file:  # a name would get .npz added
            save_npz(file, X)

    return _replace(path, write, chosen_by)


def _replace(path: Path, write: Callable[[Path], None], chosen_by: str) -> Path:
    place = temporary_path(path)
    with store_errors(path, chosen_by):
        try:
            write(place)
            place.replace(path)
        finally:
            place.unlink(missing_ok=True)
    return path
