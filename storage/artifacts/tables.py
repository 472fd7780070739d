"""The Parquet file of an artifact: written in one pass with its digest in the footer, verified before use.

The footer contains `labelscape.kind`, the artifact's metadata as `labelscape.<name>` and `labelscape.digest`:
the SHA-256 of every byte before the footer followed by the canonical JSON of the other entries. A file can
therefore be verified without its manifest. Its bytes do not depend on when, where or in what batches it was
written.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from storage.artifacts.artifact import Artifact
from storage.artifacts.blobs import DamagedBlob
from storage.artifacts.disk import create_file, store_errors
from storage.artifacts.keys import canonical_json
from storage.errors import StoreError
from storage.limits import check_memory
from storage.parquet_claims import claimed_bytes
from storage.quoting import shorten

PREFIX = "labelscape."
GROUP_BYTES = 16 * 2**20
_VARIABLE_BYTES = (
    1024  # assumed size of a text, list or binary cell; only the size of row groups depends on it
)
_CHUNK = 2**20
_MAGIC = b"PAR1"


@dataclass(frozen=True)
class Written:
    """A finished file: SHA-256 of all its bytes, its size, its rows."""

    digest: str
    bytes: int
    rows: int


class _HashingFile(io.RawIOBase):
    """A file that hashes what is written to it; OSErrors become StoreErrors."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self.hash = hashlib.sha256()
        self.size = 0
        self.abandoned = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        if self.abandoned:  # pyarrow closes a failed file with a footer, which is not needed
            return size
        self.hash.update(rest)
        self.size += size
        with store_errors(self._path):
            while rest:
                rest = rest[self._file.write(rest) :]
        return size


def rows_per_group(schema: pa.Schema) -> int:
    """Rows per row group: about 16 MB. It depends only on the schema, so equal content gives equal bytes."""

    def width(kind: pa.DataType) -> int:
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size) * width(kind.value_type)
        return kind.bit_width // 8 if pa.types.is_primitive(kind) else _VARIABLE_BYTES

    return max(1, GROUP_BYTES // max(1, sum(width(kind) for kind in schema.types)))


def _row_groups(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Regroup batches of any size into row groups of one size."""
    size = rows_per_group(schema)
    waiting = schema.empty_table()
    for batch in batches:
        if batch.schema.remove_metadata() != schema:
            raise StoreError(f"A batch has the columns {batch.schema}; expected {schema}.")
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).replace_schema_metadata(None)])
        while waiting.num_rows >= size:
            yield waiting.slice(0, size).combine_chunks()
            waiting = waiting.slice(size)
    if waiting.num_rows:
        yield waiting.combine_chunks()


def _footer(kind: str, metadata: Mapping[str, str], body: Any) -> dict[str, str]:
    entries = {f"{PREFIX}kind": kind, **{f"{PREFIX}{name}": text for name, text in metadata.items()}}
    return entries | {f"{PREFIX}digest": _body_digest(body, entries)}


def _body_digest(body: Any, entries: Mapping[str, str]) -> str:
    signed = body.copy()
    signed.update(canonical_json(entries).encode())
    return str(signed.hexdigest())


def write_table(path: Path, artifact: Artifact) -> Written:
    """Write an artifact batch by batch and flush it to disk."""
    schema = artifact.columns.remove_metadata()
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    options = {"compression": "zstd", "use_dictionary": texts, "write_statistics": False}
    with store_errors(path):
        file = create_file(path, buffering=0)
    with file:
        sink = _HashingFile(file, path)
        writer = pq.ParquetWriter(sink, schema, **options)
        try:
            rows = 0
            for group in _row_groups(schema, artifact.batches()):
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
            writer.add_key_value_metadata(_footer(artifact.kind, artifact.metadata, sink.hash))
            writer.close()
        except BaseException:
            sink.abandoned = True
            writer.close()
            raise
        with store_errors(path):
            os.fsync(file.fileno())
    return Written(sink.hash.hexdigest(), sink.size, rows)


def _hash_file(file: pa.NativeFile) -> tuple[Any, str]:
    """Hash a file in one pass; return the hash object at the beginning of the footer and the final digest."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    footer = int.from_bytes(tail[:4], "little")
    if len(tail) < 8 or tail[4:] != _MAGIC or footer + 8 > size:
        raise DamagedBlob("it does not end like a Parquet file")
    file.seek(0)
    digest = hashlib.sha256()
    left = size - 8 - footer
    while left and (chunk := file.read(min(_CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    body = digest.copy()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return body, digest.hexdigest()


def _open_parquet(file: pa.NativeFile) -> tuple[pq.ParquetFile, dict[str, str]]:
    try:
        parquet = pq.ParquetFile(file)
        raw = parquet.metadata.metadata or {}
        entries = {name.decode(): text.decode() for name, text in raw.items()}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedBlob(f"pyarrow cannot read its footer: {error}") from error
    return parquet, {name: text for name, text in entries.items() if name.startswith(PREFIX)}


def read_table(parquet: pq.ParquetFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Read columns of an open file, if memory is available for them."""
    check_memory(claimed_bytes(parquet, columns), "The artifact", error=StoreError)
    try:
        # For a few small columns threads cost more than they save.
        return parquet.read(columns, use_threads=columns is None)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise StoreError(
            f"The artifact cannot be read ({shorten(str(error), 200)}). It was not written by labelscape: "
            "delete it and run again."
        ) from error


@contextmanager
def open_verified(path: Path, digest: str) -> Iterator[tuple[pq.ParquetFile, dict[str, str]]]:
    """Open a file after verifying both digests; yield the file and its metadata, including `kind`.

    Raises
    ------
    DamagedBlob
        If the file is missing or its bytes do not match.
    """
    with store_errors(path):
        try:
            # Arrow's own file class: its threads may release a Python file while the interpreter shuts down,
            # which aborts the process.
            file = pa.OSFile(str(path), "rb")
        except FileNotFoundError as error:
            raise DamagedBlob("its data file is missing") from error
    with file:
        with store_errors(path):
            body, found = _hash_file(file)
        if found != digest:
            raise DamagedBlob(f"its digest is {found[:12]}…, not {digest[:12]}…")
        file.seek(0)
        parquet, entries = _open_parquet(file)
        signed = entries.pop(f"{PREFIX}digest", None)
        if signed != _body_digest(body, entries):
            raise DamagedBlob("the digest in its footer does not match")
        yield parquet, {name.removeprefix(PREFIX): text for name, text in entries.items()}
