"""Blocks of rows from Parquet files: the numbers, the passes, fits from a file, bad files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedding_core import DLE, MLDA
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.linalg.row_blocks import RowBlocks, load_rows
from storage.artifacts import row_blocks as parquet_module
from storage.artifacts.columns import vectors
from storage.artifacts.row_blocks import ParquetRows
from storage.errors import StoreError
from tests.synthetic import single_label


def write(path, X, group=16):
    table = pa.table({"id": pa.array(np.arange(len(X))), "features": vectors(X, X.dtype.type)})
    pq.write_table(table, path, row_group_size=group, compression="zstd")
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("group", [1, 16, 1000])
@pytest.mark.parametrize("batch", [3, 4096])
def test_blocks_are_the_rows(tmp_path, monkeypatch, dtype, group, batch):
    monkeypatch.setattr(parquet_module, "BATCH_ROWS", batch)
    X = single_label()[0].astype(dtype)
    rows = ParquetRows(write(tmp_path / "x.parquet", X, group))
    assert isinstance(rows, RowBlocks)
    assert (rows.shape, rows.dtype) == ((60, 7), dtype)
    for _ in range(2):
        np.testing.assert_array_equal(load_rows(rows), X)
    assert max(len(block) for _, block in rows.iter_blocks()) <= batch


@pytest.mark.parametrize("method", [DLE, MLDA])
def test_a_fit_from_a_file_is_that_of_the_array(tmp_path, method):
    X, y = single_label()
    X, y[::3] = X.astype(np.float32), -1
    W = build_knn_graph(X, 5)
    streamed = method().fit(ParquetRows(write(tmp_path / "x.parquet", X)), y, W)
    np.testing.assert_allclose(streamed.embedding_, method().fit(X, y, W).embedding_, atol=1e-8)


def test_no_rows(tmp_path):
    rows = ParquetRows(write(tmp_path / "x.parquet", np.zeros((0, 3), dtype=np.float32)))
    assert rows.shape == (0, 3)
    assert list(rows.iter_blocks()) == []


def test_bad_files_are_named(tmp_path):
    path = write(tmp_path / "x.parquet", np.ones((5, 2), dtype=np.float32))
    with pytest.raises(StoreError, match=r"column 'x' is missing \(columns: id, features\)"):
        ParquetRows(path, "x")
    with pytest.raises(StoreError, match="column 'id' is int64"):
        ParquetRows(path, "id")
    with pytest.raises(StoreError, match="cannot be read as Parquet"):
        ParquetRows(tmp_path / "nothing.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet at all")
    with pytest.raises(StoreError, match="cannot be read as Parquet"):
        ParquetRows(tmp_path / "text.parquet")
    path.write_bytes(path.read_bytes()[:4] + b"\0" * (path.stat().st_size - 4))
    with pytest.raises(StoreError, match="cannot be read as Parquet"):
        ParquetRows(path)


def test_damaged_pages_and_null_rows_are_named(tmp_path):
    path = write(tmp_path / "x.parquet", np.random.default_rng(0).normal(size=(500, 4)))
    rows = ParquetRows(path)
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="'features' cannot be read"):
        list(rows.iter_blocks())
    nulls = pa.table({"features": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))})
    pq.write_table(nulls, path)
    with pytest.raises(StoreError, match="'features' cannot be read"):
        list(ParquetRows(path).iter_blocks())
