"""Tables and matrices written for users and other programs; a file is written completely or not at all.

`chosen_by` names the option with which the user chooses another path, for messages.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from storage.artifacts.disk import replace_atomically, store_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array


def write_parquet(table: "pa.Table", path: Path, chosen_by: str) -> Path:
    """Write a table as Parquet."""
    import pyarrow.parquet as pq

    return _write(path, lambda file: pq.write_table(table, file, compression="zstd"), chosen_by)


def write_csv(table: "pa.Table", path: Path, chosen_by: str) -> Path:
    """Write a table as CSV with a header."""
    import pyarrow.csv as pc

    return _write(path, lambda file: pc.write_csv(table, file), chosen_by)


def write_npz(X: "csr_array", path: Path, chosen_by: str) -> Path:
    """Write a sparse matrix in SciPy's format."""
    from scipy.sparse import save_npz

    def save(file: Path) -> None:
        with file.open("wb") as stream:  # `save_npz` would append .npz to a name
            save_npz(stream, X)

    return _write(path, save, chosen_by)


def _write(path: Path, write: Callable[[Path], None], chosen_by: str) -> Path:
    with store_errors(path, chosen_by), replace_atomically(path) as temporary:
        write(temporary)
    return path
