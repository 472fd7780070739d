"""Feather and Arrow files: what a file claims is counted before it is decompressed."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from storage.arrow_claims import claimed_buffers
from storage.errors import SourceError
from storage.sources.arrow_file import read_arrow
from tests.storage.test_reader_bounds import peak_of

TABLE = pa.table(
    {
        "x": np.arange(1000.0),
        "y": pa.array([None if k % 3 == 0 else k for k in range(1000)], pa.int32()),
        "t": ["some text"] * 1000,
        "d": pa.array(["a", "b"] * 500).dictionary_encode(),
        "v": [[1.0, 2.0]] * 1000,
    }
)


def claims(data: bytes) -> int:
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    return sum(claimed_buffers(one.metadata.to_pybytes(), one.body or b"") for one in messages)


def written(compression: str | None) -> bytes:
    target = io.BytesIO()
    with pa.ipc.new_stream(
        target, TABLE.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as out:
        out.write_table(TABLE, max_chunksize=300)
    return target.getvalue()


def test_the_claims_are_the_sizes_in_memory() -> None:
    plain = claims(written(None))
    assert claims(written("lz4")) == claims(written("zstd"))
    # Buffers that are not compressed are padded to 8 bytes.
    assert TABLE.nbytes <= claims(written("zstd")) <= plain <= TABLE.nbytes + 5_000
    assert len(written("zstd")) < plain / 2


@pytest.mark.parametrize("size", range(0, 200, 7))
def test_a_damaged_description_is_a_value_error_or_a_number(size: int) -> None:
    message = next(iter(pa.ipc.MessageReader.open_stream(pa.BufferReader(written("zstd")))))
    data = message.metadata.to_pybytes()[:size]
    try:
        assert claimed_buffers(data, b"") >= 0
    except ValueError as error:
        assert "damaged" in str(error) or "outside" in str(error) or "negative" in str(error)


def test_only_the_wanted_columns_are_kept(tmp_path: Path) -> None:
    pa.feather.write_feather(TABLE, tmp_path / "t.feather")
    found = read_arrow(tmp_path / "t.feather", lambda name: name in "xd", 100)
    assert found.column_names == ["x", "d"]
    assert found.column("x").to_pylist() == TABLE.column("x").to_pylist()


@pytest.mark.slow
def test_a_small_file_of_many_zeros_is_refused_before_it_is_decompressed(tmp_path: Path) -> None:
    batch = pa.record_batch({"x": np.zeros(1 << 24)})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(file, batch.schema, options=options) as out:
            for _ in range(16):
                out.write_batch(batch)
    text, megabytes = peak_of(lambda: read_arrow(tmp_path / "t.arrow", lambda name: True, 100))
    assert "needs about 4.3 GB of memory" in text
    assert megabytes < 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", [b"", b"ARROW1\0\0", b"FEA1" + bytes(50), b"hello", written("lz4")[:-400]]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.feather").write_bytes(content)
    with pytest.raises(SourceError, match=r"t\.feather"):
        read_arrow(tmp_path / "t.feather", lambda name: True, 100)
