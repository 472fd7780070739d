"""Sparse features: a matrix and its label table."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from storage.errors import SourceError
from storage.sources import SourceOptions, open_source

DENSE = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 0], [0, 2, 0]])


def write_set(folder: Path, X: object = None, labels: dict[str, list] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    sparse.save_npz(folder / "news_X.npz", sparse.csr_array(DENSE) if X is None else X)
    table = labels or {"label:a": [1, 0, None, 1], "label:b": [0, 1, None, 1], "extra": [1, 2, 3, 4]}
    pq.write_table(pa.table(table), folder / "news_labels.parquet")
    return folder


@pytest.mark.parametrize("name", ["", "news_X.npz", "news_labels.parquet"])
def test_a_set_opens_by_folder_matrix_and_labels(tmp_path: Path, name: str) -> None:
    folder = write_set(tmp_path / "news")
    source = open_source(SourceOptions(path=str(folder / name)), tmp_path)
    collection = source.read(tmp_path)
    assert (source.kind, source.name) == ("sparse", "news")
    assert sparse.issparse(collection.X)
    assert np.array_equal(collection.X.toarray(), DENSE)  # type: ignore[union-attr]
    assert collection.X.dtype == np.float32  # type: ignore[union-attr]
    assert collection.labels.tolist() == [[1, 0], [0, 1], [-1, -1], [1, 1]]
    assert [note.message for note in collection.notes if "extra" in note.message]
    assert collection.digests[0] == collection.digests[3]
    assert len(set(collection.digests)) == 3


def test_any_sparse_format_gives_the_same_rows(tmp_path: Path) -> None:
    noisy = sparse.coo_array(([1, 1, 1, 2, 0], ([0, 0, 1, 3, 2], [1, 1, 0, 1, 2])), shape=(4, 3))
    untidy = sparse.csr_array(
        ([1, 1, 1, 0, 2], [1, 1, 0, 2, 1], [0, 2, 3, 4, 5]), shape=(4, 3), dtype=np.float32
    )
    digests = []
    for X in (sparse.csr_array(DENSE), sparse.csc_matrix(DENSE), noisy, untidy):
        folder = write_set(tmp_path / "news", X)
        digests.append(open_source(SourceOptions(path=str(folder)), tmp_path).read(tmp_path).digests)
    assert all(found == digests[0] for found in digests)


def test_labels_may_be_a_csv_and_may_be_named(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "news")
    (folder / "news_labels.parquet").unlink()
    (folder / "news_labels.csv").write_text("class,id\nx,p\ny,q\n,r\nx,s\n")
    collection = open_source(SourceOptions(path=str(folder)), tmp_path).read(tmp_path)
    assert collection.ids == ["p", "q", "r", "s"]
    assert collection.labels.tolist() == [[1, 0], [0, 1], [-1, -1], [1, 0]]
    (folder / "news_labels.csv").rename(folder / "topics.csv")
    with pytest.raises(SourceError, match=r"news_labels\.parquet is expected"):
        open_source(SourceOptions(path=str(folder / "news_X.npz")), tmp_path)
    options = SourceOptions(path=str(folder / "news_X.npz"), labels="topics.csv")
    assert open_source(options, tmp_path).read(tmp_path).single_label


def test_the_digest_covers_both_files(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "news")
    source = open_source(SourceOptions(path=str(folder)), tmp_path)
    first = source.digest(tmp_path)
    write_set(folder, labels={"class": ["x", "y", "x", "y"]})
    second = source.digest(tmp_path)
    write_set(folder, sparse.csr_array(DENSE + 1), labels={"class": ["x", "y", "x", "y"]})
    assert len({first, second, source.digest(tmp_path)}) == 3


def test_rows_must_agree(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "news", labels={"class": ["x", "y", "x"]})
    with pytest.raises(SourceError, match=r"has 4 rows, .*news_labels\.parquet has 3"):
        open_source(SourceOptions(path=str(folder)), tmp_path).read(tmp_path)


def test_values_must_be_finite_real_numbers(tmp_path: Path) -> None:
    bad = DENSE.astype(float)
    bad[3, 1] = np.nan
    folder = write_set(tmp_path / "news", sparse.csr_array(bad))
    source = open_source(SourceOptions(path=str(folder)), tmp_path)
    with pytest.raises(SourceError, match=r"news_X\.npz, row 4, column 1: nan"):
        source.read(tmp_path)
    write_set(folder, sparse.csr_array(DENSE.astype(complex)))
    with pytest.raises(SourceError, match="complex128"):
        source.read(tmp_path)


@pytest.mark.slow
def test_other_files_are_rejected_and_never_unpickled(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "news")
    source = open_source(SourceOptions(path=str(folder)), tmp_path)
    matrix = folder / "news_X.npz"
    whole = matrix.read_bytes()
    for content in (b"", b"no archive", whole[: len(whole) // 2]):
        matrix.write_bytes(content)
        with pytest.raises(SourceError, match="no SciPy sparse matrix"):
            source.read(tmp_path)
    for position in range(60, len(whole), 7):
        matrix.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:  # some bytes do not matter; every other flipped byte must give a user error
            source.read(tmp_path)
        except SourceError as error:
            assert "news_X.npz" in str(error)
    np.savez(matrix, X=DENSE)
    with pytest.raises(SourceError, match="no SciPy sparse matrix"):
        source.read(tmp_path)
    np.savez(
        matrix, format="csr", shape=[4, 3], data=np.array([print, 1], dtype=object), indices=[0], indptr=[0]
    )
    with pytest.raises(SourceError, match="no SciPy sparse matrix"):
        source.read(tmp_path)
    np.savez(matrix, format="csr", shape=[4, 3], data=[1.0], indices=[9], indptr=[0, 1, 1, 1, 1])
    with pytest.raises(SourceError, match="no SciPy sparse matrix"):
        source.read(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "K", "single"),
    [("yahoo_science", (6428, 37187), 40, False), ("tdt2", (9394, 36771), 30, True)],
)
def test_real_text(
    shared_data: Path, tmp_path: Path, name: str, shape: tuple[int, int], K: int, single: bool
) -> None:
    for file in ("", f"{name}_X.npz"):
        source = open_source(SourceOptions(path=str(shared_data / name / file)), tmp_path)
        collection = source.read(tmp_path)
        assert source.name == name
        assert collection.X is not None
        assert collection.X.shape == shape
        assert len(collection.label_names) == K
        assert collection.single_label is single
    options = SourceOptions(path=str(shared_data / name), min_label_count=100)
    if name == "yahoo_science":
        assert len(open_source(options, tmp_path).read(tmp_path).label_names) == 22
