"""Public copies of data sets: a download has the expected content, or nothing is written."""

import errno
import io
import json
import sys
import tempfile
import threading
from dataclasses import replace
from functools import partial
from http.client import IncompleteRead
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from storage import limits
from storage.errors import ServiceDown, SourceError, StoreError
from storage.reference import fetch_files
from storage.reference.fetch import content_digest, fetch_set
from storage.reference.sets import ReferenceSet, locate, reference_sets
from storage.sources.base import SourceOptions
from storage.sources.sparse_text import SparseSource, find_labels, load_matrix
from storage.sources.table import TableSource


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """A folder, and the address of a loopback server for its files."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def wanted_set(X, labels, path, *addresses, **more):
    return ReferenceSet(
        "toy",
        "Toy",
        path,
        origin="its authors",
        content=content_digest(X, labels),
        addresses=addresses,
        **more,
    )


def draw(n=12, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 255, size=(n, p)).astype(np.uint8), np.arange(n) % 3 + 1


def test_a_matlab_file_becomes_a_table(web, tmp_path):
    folder, address = web
    X, y = draw()
    scipy.io.savemat(folder / "toy.mat", {"fea": X.astype(float), "gnd": y[:, None], "more": 1})
    wanted = wanted_set(X, {"class": y}, "toy/toy.parquet", f"{address}/toy.mat")
    assert "toy/toy.parquet" in fetch_set(wanted, tmp_path)
    found = TableSource(tmp_path / "toy/toy.parquet", SourceOptions()).read(tmp_path)
    np.testing.assert_array_equal(found.X, X)
    assert [found.label_names[k] for k in found.labels.argmax(axis=1)] == [str(value) for value in y]


def test_a_sparse_matlab_file_becomes_a_matrix_beside_its_labels(web, tmp_path):
    folder, address = web
    X, y = draw()
    counts = sp.csr_array(np.where(X > 128, X, 0).astype(float))
    scipy.io.savemat(folder / "toy.mat", {"fea": sp.csc_array(counts), "gnd": y[:, None]})
    wanted = wanted_set(counts, {"class": y}, "toy/toy_X.npz", f"{address}/toy.mat")
    fetch_set(wanted, tmp_path)
    matrix = tmp_path / "toy/toy_X.npz"
    found = SparseSource(matrix, find_labels(matrix), SourceOptions()).read(tmp_path)
    np.testing.assert_array_equal(found.X.toarray(), counts.toarray())
    assert len(found.labels) == len(y)


def write_arff(file, X, Y):
    lines = ["@relation toy", *(f"@attribute a{j} numeric" for j in range(X.shape[1]))]
    lines += [*(f"@attribute L{k} {{0,1}}" for k in range(Y.shape[1])), "@data"]
    lines += [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    file.write_text("\n".join(lines), encoding="utf-8")


def test_two_arff_files_are_the_training_and_the_test_part(web, tmp_path):
    folder, address = web
    X = draw()[0].astype(np.float32) / 7
    Y = np.random.default_rng(1).integers(0, 2, size=(12, 2)).astype(np.int8)
    write_arff(folder / "train.arff", X[:8], Y[:8])
    write_arff(folder / "test.arff", X[8:], Y[8:])
    labels = {"label:L0": Y[:, 0], "label:L1": Y[:, 1]}
    wanted = wanted_set(
        X, labels, "toy.parquet", f"{address}/train.arff", f"{address}/test.arff", reading={"labels": 2}
    )
    fetch_set(wanted, tmp_path)
    found = TableSource(tmp_path / "toy.parquet", SourceOptions()).read(tmp_path)
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.labels, Y)
    assert found.label_names == ["L0", "L1"]
    assert found.split == ["train"] * 8 + ["test"] * 4


def test_values_of_an_hdf5_file_are_scaled_and_rounded(web, tmp_path):
    h5py = pytest.importorskip("h5py", reason="the extra `fetch` is not installed")
    folder, address = web
    X, y = draw()
    gray = np.round(2 * (X / 255) - 1, 3).astype(np.float32)
    with h5py.File(folder / "toy.h5", "w") as file:
        for part, rows in (("train", slice(0, 8)), ("test", slice(8, None))):
            group = file.create_group(part)
            group["data"] = (gray[rows] + 1) / 2
            group["target"] = y[rows]
    wanted = wanted_set(
        gray,
        {"class": y},
        "toy.parquet",
        f"{address}/toy.h5",
        reading={"range": [-1, 1], "decimals": 3},
    )
    fetch_set(wanted, tmp_path)
    assert pq.read_table(tmp_path / "toy.parquet")["split"].to_pylist() == ["train"] * 8 + ["test"] * 4


def test_other_content_is_refused_and_not_written(web, tmp_path):
    folder, address = web
    X, y = draw()
    wanted = wanted_set(X, {"class": y}, "toy.parquet", f"{address}/toy.mat")
    X[3, 1] += 1
    scipy.io.savemat(folder / "toy.mat", {"fea": X, "gnd": y[:, None]})
    with pytest.raises(SourceError, match=r"toy\.mat is not the data set.*its authors.*nothing was written"):
        fetch_set(wanted, tmp_path)
    assert not (tmp_path / "toy.parquet").exists()


def test_an_html_page_and_a_missing_file_are_reported(web, tmp_path):
    folder, address = web
    wanted = wanted_set(*draw_labeled(), "toy.parquet", f"{address}/toy.mat")
    with pytest.raises(SourceError, match=r"answers 404 .*into the data folder yourself, as .*toy\.parquet"):
        fetch_set(wanted, tmp_path)
    (folder / "toy.mat").write_text("<html>moved</html>", encoding="utf-8")
    with pytest.raises(SourceError, match=r"toy\.mat cannot be read"):
        fetch_set(wanted, tmp_path)


def test_an_endless_download_is_stopped(web, tmp_path, monkeypatch):
    folder, address = web
    monkeypatch.setattr(fetch_files, "_LARGEST", 1000)
    (folder / "toy.mat").write_bytes(bytes(1001))
    wanted = wanted_set(*draw_labeled(), "toy.parquet", f"{address}/toy.mat")
    with pytest.raises(SourceError, match=r"sends more than 1,000 bytes.*nothing was written"):
        fetch_set(wanted, tmp_path)


def test_a_file_that_unpacks_to_very_much_is_refused(web, tmp_path, monkeypatch):
    folder, address = web
    monkeypatch.setattr(limits, "SMALL", 10**6)
    scipy.io.savemat(folder / "toy.mat", {"fea": np.zeros((1000, 1000)), "gnd": 1}, do_compression=True)
    wanted = wanted_set(*draw_labeled(), "toy.parquet", f"{address}/toy.mat")
    with pytest.raises(SourceError, match=r"toy\.mat: fea needs about .*Nothing was written"):
        fetch_set(wanted, tmp_path)


def test_a_flipped_byte_of_a_compressed_file_is_reported(web, tmp_path):
    folder, address = web
    X, y = draw(40)
    scipy.io.savemat(folder / "toy.mat", {"fea": X, "gnd": y[:, None]}, do_compression=True)
    data = bytearray((folder / "toy.mat").read_bytes())
    data[200] ^= 255
    (folder / "toy.mat").write_bytes(data)
    wanted = wanted_set(X, {"class": y}, "toy.parquet", f"{address}/toy.mat")
    with pytest.raises(SourceError, match=r"toy\.mat cannot be read \(Error .*nothing was written"):
        fetch_set(wanted, tmp_path)


def test_indices_beyond_a_sparse_matrix_are_reported_and_do_not_crash_the_process(web, tmp_path):
    folder, address = web
    X = sp.csc_array(np.eye(6)[::-1])
    scipy.io.savemat(folder / "toy.mat", {"fea": X, "gnd": np.arange(6)[:, None]})
    data = (folder / "toy.mat").read_bytes()
    rows = np.arange(6, dtype=np.int32)[::-1].tobytes()
    assert data.count(rows) == 1
    (folder / "toy.mat").write_bytes(
        data.replace(rows, np.array([5, 4, 3, 2, 1, 1 << 30], np.int32).tobytes())
    )
    wanted = wanted_set(X.toarray(), {"class": np.arange(6)}, "toy_X.npz", f"{address}/toy.mat")
    with pytest.raises(SourceError, match=r"toy\.mat cannot be read \(indices.*< 6"):
        fetch_set(wanted, tmp_path)


def test_an_error_in_a_line_names_the_url(web, tmp_path):
    folder, address = web
    (folder / "toy.arff").write_text("@relation t\n@attribute a numeric\n@attribute L {0,1}\n@data\n1,2,3\n")
    wanted = wanted_set(*draw_labeled(), "toy.parquet", f"{address}/toy.arff", reading={"labels": 1})
    with pytest.raises(
        SourceError, match=rf"^{address}/toy\.arff, line 5: .*Nothing was written\.$"
    ) as reported:
        fetch_set(wanted, tmp_path)
    assert tempfile.gettempdir() not in str(reported.value)


def test_a_full_disk_is_not_reported_as_a_network_error(web, tmp_path, monkeypatch):
    folder, address = web
    (folder / "toy.mat").write_bytes(b"some bytes")
    wanted = wanted_set(*draw_labeled(), "toy.parquet", f"{address}/toy.mat")
    with monkeypatch.context() as full:
        full.setattr("storage.reference.fetch_files.Path.open", lambda *given: FullFile())
        with pytest.raises(StoreError, match=r"No room to write .*0\.mat.*TMPDIR"):
            fetch_set(wanted, tmp_path)
    monkeypatch.setattr("tempfile.TemporaryDirectory", FullFile().write)
    with pytest.raises(StoreError, match=r"No room for a temporary file \(No space.*TMPDIR"):
        fetch_set(wanted, tmp_path)


class FullFile(io.BytesIO):
    """A file on a full disk."""

    def write(self, *data):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_created_is_reported_with_a_remedy(web, tmp_path):
    folder, address = web
    X, y = draw()
    scipy.io.savemat(folder / "toy.mat", {"fea": X, "gnd": y[:, None]})
    (tmp_path / "toy").write_text("a file")
    wanted = wanted_set(X, {"class": y}, "toy/toy.parquet", f"{address}/toy.mat")
    with pytest.raises(
        StoreError, match=r"toy is a file where a folder is needed.*--data or LABELSCAPE_DATA"
    ):
        fetch_set(wanted, tmp_path)


def test_an_incomplete_download_is_reported(web, tmp_path, monkeypatch):
    _, address = web
    monkeypatch.setattr(QuietHandler, "do_GET", lambda handler: handler.wfile.write(BROKEN))
    wanted = wanted_set(*draw_labeled(), "toy.parquet", f"{address}/toy.mat")
    with pytest.raises(SourceError, match=r"download of .*toy\.mat is incomplete \(IncompleteRead.*yourself"):
        fetch_set(wanted, tmp_path)


BROKEN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"


def test_a_missing_package_is_reported_before_anything_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    wanted = wanted_set(*draw_labeled(), "toy.parquet", "http://127.0.0.1:9/toy.h5")
    with pytest.raises(SourceError, match=r"need h5py.*labelscape\[fetch\]"):
        fetch_set(wanted, tmp_path)


def draw_labeled():
    X, y = draw()
    return X, {"class": y}


def test_without_a_network_the_host_is_named(tmp_path):
    wanted = wanted_set(*draw_labeled(), "toy.parquet", "http://127.0.0.1:9/toy.mat")
    with pytest.raises(ServiceDown, match=r"127\.0\.0\.1:9 does not answer.*yourself, as .* \(its authors\)"):
        fetch_set(wanted, tmp_path)


def test_the_digest_does_not_depend_on_row_order_or_sparsity():
    X, labels = draw_labeled()
    order = np.random.default_rng(3).permutation(len(X))
    shuffled = {"class": labels["class"][order]}
    assert content_digest(X, labels) == content_digest(X[order], shuffled)
    thin = sp.csr_array(np.where(X > 128, X, 0))
    assert content_digest(thin, labels) == content_digest(sp.csr_array(thin[order]), shuffled)


def test_the_digest_depends_on_the_classes_but_not_on_their_names():
    X, labels = draw_labeled()
    renamed = {"class": np.array(["c", "a", "b", "c"])[labels["class"]]}
    assert content_digest(X, labels) == content_digest(X, renamed)
    assert content_digest(X, labels) != content_digest(
        X, {"class": labels["class"][[1, 0, *range(2, len(X))]]}
    )
    Y = np.random.default_rng(5).integers(0, 2, size=(len(X), 2))
    both = content_digest(X, {"label:a": Y[:, 0], "label:b": Y[:, 1]})
    assert both == content_digest(X, {"label:b": Y[:, 1], "label:c": Y[:, 0]})
    assert both != content_digest(X, {"label:a": Y[::-1, 0], "label:b": Y[:, 1]})


class Answer:
    """What scikit-learn returns for a set of OpenML."""

    feature_names = ("size", "kind", "rad")
    categories: ClassVar = {"kind": ["low", "high"], "rad": ["1", "4", "24"]}
    data = np.array([[1.5, 0, 2], [2.5, 1, 0], [np.nan, 1, 1], [4.0, 0, 1]])
    target = np.array(["10", "20", "30", "25"], dtype=object)


def openml_set(X, y, **recipe):
    content = content_digest(np.asarray(X), {"class": np.asarray(y)})
    return ReferenceSet(
        "toy", "Toy", "toy.parquet", content=content, openml={"name": "toy", "version": 1, **recipe}
    )


def test_numeric_categories_of_openml_become_numbers_and_incomplete_rows_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **more: Answer)
    X = [[1.5, 0, 24], [2.5, 1, 1], [4.0, 0, 4]]
    fetch_set(openml_set(X, ["10", "20", "25"], drop_incomplete=True), tmp_path)
    found = TableSource(tmp_path / "toy.parquet", SourceOptions()).read(tmp_path)
    np.testing.assert_array_equal(found.X, np.float32(X))


def test_terciles_of_a_number_become_classes(tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **more: Answer)
    X = [[1.5, 0, 24], [2.5, 1, 1], [4.0, 0, 4]]
    fetch_set(openml_set(X, [0, 0, 1], drop_incomplete=True, terciles=True), tmp_path)
    assert pq.read_table(tmp_path / "toy.parquet")["class"].to_pylist() == ["0", "0", "1"]


@pytest.mark.parametrize(
    ("raised", "expected", "words"),
    [
        (OSError("no route"), ServiceDown, "OpenML does not answer"),
        (ValueError("404"), SourceError, "has no version 1 of toy"),
        (IncompleteRead(b""), SourceError, "download of toy from OpenML is incomplete"),
        (EOFError("ended"), SourceError, "download of toy from OpenML is incomplete"),
    ],
)
def test_errors_of_openml_are_reported(tmp_path, monkeypatch, raised, expected, words):
    def fail(*args, **more):
        raise raised

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    with pytest.raises(expected, match=words):
        fetch_set(openml_set([[1.0]], ["a"]), tmp_path)


@pytest.mark.slow
def test_content_digests_are_those_of_the_real_sets(shared_data):
    for wanted in reference_sets().values():
        if not wanted.copy:
            continue
        file = shared_data / wanted.path
        if file.suffix == ".npz":
            table, X = pq.read_table(find_labels(file)), load_matrix(file)
        else:
            table, X = pq.read_table(file), TableSource(file, SourceOptions()).read(shared_data).X
        names = [name for name in table.column_names if name == "class" or name.startswith("label:")]
        labels = {name: table[name].to_numpy() for name in names}
        assert content_digest(X, labels) == wanted.content, wanted.name


def test_a_missing_set_is_reported_with_its_path(tmp_path):
    with pytest.raises(SourceError, match=r"expected .*soybean_complete562.parquet.*fetch.*LABELSCAPE_DATA"):
        locate("soybean", tmp_path)
    with pytest.raises(SourceError, match=r"fetch. downloads it from https://.*Yale_32x32\.mat"):
        locate("yale", tmp_path)
    with pytest.raises(SourceError, match="no public copy"):
        locate("pie", tmp_path)
    assert locate("iris", tmp_path) == "iris"


def fetch_by_command(command, tmp_path, monkeypatch, fetch, *more):
    monkeypatch.setattr("storage.reference.fetch.fetch_set", fetch)
    return command("reproduce", "fetch", *more, "--home", tmp_path, "--data", tmp_path / "data")


@pytest.mark.parametrize("problem", [SourceError("other bytes"), StoreError("no room")])
def test_fetch_prints_json(command, tmp_path, monkeypatch, problem):
    files = {one.path: name for name, one in reversed(reference_sets().items()) if one.copy}
    first, *others = reversed(files.values())

    def fetch(wanted, folder):
        if wanted.name == first:
            raise problem
        return "written"

    answer = fetch_by_command(command, tmp_path, monkeypatch, fetch, "--json")
    assert answer.code == 2
    failed, *found = json.loads(answer.out)
    assert failed == {"name": first, "file": None, "problem": str(problem)}
    assert [one["name"] for one in found] == others
    assert all(one["file"].startswith(str(tmp_path)) and one["problem"] is None for one in found)


def test_an_unreachable_host_is_tried_once_and_others_are_still_tried(command, tmp_path, monkeypatch):
    asked = []

    def fetch(wanted, folder):
        asked.append(wanted.host)
        if wanted.host == "OpenML":
            raise ServiceDown("OpenML does not answer (no route).")
        return f"written to {folder / wanted.path}"

    answer = fetch_by_command(command, tmp_path, monkeypatch, fetch)
    assert answer.code == 2
    assert asked.count("OpenML") == 1
    assert asked.count("raw.githubusercontent.com") > 5
    assert "OpenML does not answer (no route)" in answer.out
    assert "skipped: OpenML does not answer." in answer.out


def test_every_recipe_has_a_reader_and_a_digest():
    from storage.reference.fetch_files import READERS

    for wanted in reference_sets().values():
        if wanted.copy:
            assert len(wanted.content) == 64, wanted.name
        assert all(address.startswith("https://") for address in wanted.addresses)
        assert all(f".{address.rpartition('.')[2]}" in READERS for address in wanted.addresses)
    assert not replace(reference_sets()["pie"]).copy
