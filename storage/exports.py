"""Tables and matrices written for users and other programs; a file is written completely or not at all.

The umask with which the program was started decides who may read a file, unlike files of the home folder.
`chosen_by` names the option with which the user chooses another path, for messages.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.artifacts.disk import replace_atomically, store_errors
from storage.csv_cells import guard_cell
from storage.permissions import users_file_mode

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array


def write_parquet(table: "pa.Table", path: Path, chosen_by: str) -> Path:
    """Write a table as Parquet."""
    import pyarrow.parquet as pq

    return _write(path, lambda file: pq.write_table(table, file, compression="zstd"), chosen_by)


def write_csv(table: "pa.Table", path: Path, chosen_by: str) -> Path:
    """Write a table as CSV with a header; text that a spreadsheet could execute is marked as text."""
    import pyarrow as pa
    import pyarrow.csv as pc

    def guarded(column: "pa.ChunkedArray") -> "pa.ChunkedArray | pa.Array":
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column
        cells = [None if text is None else guard_cell(text) for text in column.to_pylist()]
        return pa.array(cells, column.type)

    names = [guard_cell(name) for name in table.column_names]
    safe = pa.table([guarded(column) for column in table.columns], names=names)
    return _write(path, lambda file: pc.write_csv(safe, file), chosen_by)


def write_bytes(content: bytes, path: Path, chosen_by: str) -> Path:
    """Write a file as it is."""
    return _write(path, lambda file: _put(file, content), chosen_by)


def write_json_lines(records: Iterable[Mapping[str, Any]], path: Path, chosen_by: str) -> Path:
    """Write one JSON object per line."""

    def save(file: Path) -> None:
        with file.open("w", encoding="utf-8", newline="\n") as stream:
            for record in records:
                text = json.dumps(record, ensure_ascii=False, allow_nan=False)
                # A name of a file may not be Unicode; JSON escapes what UTF-8 cannot hold.
                stream.write(text if text.isascii() else _encodable(text, record))
                stream.write("\n")

    return _write(path, save, chosen_by)


def _encodable(text: str, record: Mapping[str, Any]) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False)
    return text


def write_npz(X: "csr_array", path: Path, chosen_by: str) -> Path:
    """Write a sparse matrix in SciPy's format."""
    from scipy.sparse import save_npz

    def save(file: Path) -> None:
        with file.open("wb") as stream:  # `save_npz` would append .npz to a name
            save_npz(stream, X)

    return _write(path, save, chosen_by)


def _put(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _write(path: Path, write: Callable[[Path], None], chosen_by: str) -> Path:
    with store_errors(path, chosen_by), replace_atomically(path, users_file_mode()) as temporary:
        write(temporary)
    return path
