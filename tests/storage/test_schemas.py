"""Every kind of artifact survives packing, storing, reading and unpacking."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from storage.artifacts import columns, schemas
from storage.artifacts.annotations import Annotations, Neighbor, pack_annotations, unpack_annotations
from storage.artifacts.store import Artifact, ArtifactStore
from storage.errors import StoreError
from tests.store_helpers import recipe


@pytest.fixture
def through(tmp_path: Path) -> Any:
    """Store an artifact and read it back."""
    store = ArtifactStore.local(tmp_path)
    return lambda artifact: store.read(store.compute(recipe(), lambda: artifact, force=True).ref)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def manifest(**changes: Any) -> schemas.Manifest:
    content: dict[str, Any] = {
        "ids": ["a/ü.jpg", "b.jpg", "c.jpg"],
        "digests": ["1", "2", "3"],
        "labels": np.array([[0, 1], [-1, -1], [1, 1]], dtype=np.int8),
        "label_names": ["sky", "sea, deep"],
        "split": ["train", "test", "train"],
        "single_label": True,
        "source_kind": "images",
        "notes": [("labels.csv", 3, "no such file"), ("x.jpg", None, "no label")],
    }
    return schemas.Manifest(**content | changes)


@pytest.mark.parametrize("split", [None, ["train", "test", "train"]])
def test_manifest(through: Any, split: list[str] | None) -> None:
    found = schemas.unpack_manifest(through(schemas.pack_manifest(manifest(split=split))))
    np.testing.assert_array_equal(found.labels, manifest().labels)
    assert found.labels.dtype == np.int8
    assert {**vars(found), "labels": 0} == {**vars(manifest(split=split)), "labels": 0}


def dense(n: int = 6, p: int = 5) -> schemas.Features:
    X = rng().normal(size=(n, p)).astype(np.float32)
    errors: list[str | None] = [None] * n
    if n:
        X[n // 2], errors[n // 2] = np.nan, "truncated"
    ids = [str(row) for row in range(n)]
    return schemas.Features(ids, ids, X, errors, {"grid": [8, 8]}, [f"f{column}" for column in range(p)])


@pytest.mark.parametrize("n", [0, 1, 6, 5000])
def test_dense_features_with_an_unreadable_item(through: Any, n: int) -> None:
    table = through(schemas.pack_features(dense(n)))
    found = schemas.unpack_features(table)
    assert table.column("error").null_count == max(0, n - 1)
    np.testing.assert_array_equal(found.X, dense(n).X)
    assert found.X.dtype == np.float32
    np.testing.assert_array_equal(found.readable, dense(n).readable)
    assert {**vars(found), "X": 0} == {**vars(dense(n)), "X": 0}


def test_digests_and_recipe_are_read_without_the_numbers(tmp_path: Path) -> None:
    store, whole = ArtifactStore.local(tmp_path), dense(10)
    ref = store.compute(recipe(0), lambda: schemas.pack_features(whole)).ref
    table = store.read(ref, ["digest"])
    assert table.column_names == ["digest"]
    assert schemas.unpack_feature_digests(table) == (whole.digests, whole.recipe)


def test_features_without_errors_or_names(through: Any) -> None:
    plain = schemas.Features(["a"], ["b"], np.ones((1, 2)))
    found = schemas.unpack_features(through(schemas.pack_features(plain)))
    assert found.errors == [None]
    assert found.feature_names is None
    assert found.readable.all()


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_features(through: Any, form: Any) -> None:
    X = sparse.random_array((7, 30), density=0.1, rng=rng(), dtype=np.float32)
    features = schemas.Features([str(row) for row in range(7)], ["d"] * 7, form(X), recipe={"kind": "text"})
    found = schemas.unpack_features(through(schemas.pack_features(features)))
    assert isinstance(found.X, sparse.csr_array)
    assert found.X.dtype == np.float32
    np.testing.assert_array_equal(found.X.toarray(), X.toarray())
    assert found.recipe == {"kind": "text"}


def test_packing_sparse_features_leaves_the_given_matrix_alone() -> None:
    X = sparse.csr_array((np.ones(3, np.float32), [2, 0, 2], [0, 3]), shape=(1, 4))
    schemas.pack_features(schemas.Features(["a"], ["b"], X))
    np.testing.assert_array_equal(X.indices, [2, 0, 2])


def test_parts(through: Any) -> None:
    parts = schemas.Parts(np.array([0, 2]), ["k0", "k2"], ["d0", "d2"], np.array([100, 7]))
    found = schemas.unpack_parts(through(schemas.pack_parts(parts)))
    np.testing.assert_array_equal(found.part, parts.part)
    np.testing.assert_array_equal(found.rows, parts.rows)
    assert (found.keys, found.digests) == (parts.keys, parts.digests)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_edges(through: Any, form: Any) -> None:
    half = sparse.random_array((9, 9), density=0.2, rng=rng())
    W = sparse.csr_array(half + half.T)  # diagonal and isolated nodes included
    table = through(schemas.pack_edges(form(W)))
    i, j = table.column("i").to_numpy(), table.column("j").to_numpy()
    assert np.all(i <= j)
    assert np.all(np.diff(i * 9 + j) > 0)
    found = schemas.unpack_edges(table)
    assert isinstance(found, sparse.csr_array)
    np.testing.assert_array_equal(found.toarray(), W.toarray())


def test_a_graph_without_edges(through: Any) -> None:
    assert schemas.unpack_edges(through(schemas.pack_edges(sparse.csr_array((4, 4))))).shape == (4, 4)


@pytest.mark.parametrize("W", [np.array([[0, 1.0], [2, 0]]), np.array([[0, 1.0], [0, 0]]), np.zeros((2, 3))])
def test_a_graph_must_be_symmetric(W: np.ndarray) -> None:
    with pytest.raises(StoreError, match="not symmetric"):
        schemas.pack_edges(sparse.csr_array(W))


def test_matrix(through: Any) -> None:
    values = rng().normal(size=(2, 3))
    found = schemas.unpack_matrix(
        through(schemas.pack_matrix(schemas.Matrix(values, ["a", "b"], ["x", "y", "z"])))
    )
    np.testing.assert_array_equal(found.values, values)
    assert (found.row_names, found.column_names) == (["a", "b"], ["x", "y", "z"])


def test_embedding(through: Any) -> None:
    Z, eigenvalues = rng().normal(size=(4, 2)), np.array([0.1 + 0.2, 1e-300])
    made = schemas.Embedding(list("abcd"), Z, eigenvalues, "mlda")
    found = schemas.unpack_embedding(through(schemas.pack_embedding(made)))
    np.testing.assert_array_equal(found.coordinates, Z)
    np.testing.assert_array_equal(found.eigenvalues, eigenvalues)
    assert (found.ids, found.method) == (list("abcd"), "mlda")


ROWS = {
    "model": [schemas.ModelFile("mlda", "skops", bytes(range(256))), schemas.ModelFile("svm", "skops", b"")],
    "scores": [
        schemas.Score("mlda", "1nn", 0, "macro_f1", 0.1 + 0.2),
        schemas.Score("svm", "svm", 4, "é", -0.0),
    ],
    "cells": [schemas.TrialCell("10 % labeled", "zscore", "accuracy", 9, 0.1 + 0.2)],
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("empty", [False, True])
def test_rows(through: Any, kind: str, empty: bool) -> None:
    rows = [] if empty else ROWS[kind]
    pack, unpack = getattr(schemas, f"pack_{kind}"), getattr(schemas, f"unpack_{kind}")
    found = unpack(through(pack(iter(rows))))
    assert found == rows
    assert [type(row) for row in found] == [type(row) for row in rows]


@pytest.mark.parametrize("files", [{}, {"index.html": b"<p>\x00\xff", "a.csv": b""}])
def test_files(through: Any, files: dict[str, bytes]) -> None:
    assert list(schemas.unpack_files(through(schemas.pack_files(files))).items()) == list(files.items())


KINDS = ["manifest", "features", "parts", "edges", "matrix", "embedding", "files", *ROWS]


@pytest.mark.parametrize("kind", KINDS)
def test_another_kind_or_other_columns_are_refused(through: Any, kind: str) -> None:
    unpack = getattr(schemas, f"unpack_{kind}")
    foreign = through(schemas.pack_files({}) if kind != "files" else schemas.pack_scores([]))
    with pytest.raises(StoreError, match=f"expected '{kind}'"):
        unpack(foreign)
    with pytest.raises(StoreError, match="compute it again"):
        unpack(through(Artifact(kind, pa.table({"id": ["a"]}))))


def test_other_types_and_missing_metadata_are_refused(through: Any) -> None:
    good = schemas.pack_edges(sparse.csr_array((2, 2)))
    wide = good.table.cast(pa.schema({"i": pa.int64(), "j": pa.int32(), "w": pa.float64()}))
    with pytest.raises(StoreError, match="int64"):
        schemas.unpack_edges(through(Artifact("edges", wide, good.metadata)))
    with pytest.raises(StoreError, match="missing: \\['n'\\]"):
        schemas.unpack_edges(through(Artifact("edges", good.table)))


@pytest.mark.parametrize(
    "pack",
    [
        lambda: schemas.pack_manifest(manifest(ids=["a"])),
        lambda: schemas.pack_manifest(manifest(label_names=["sky"])),
        lambda: schemas.pack_manifest(manifest(labels=np.zeros((3, 0), np.int8))),
        lambda: schemas.pack_matrix(schemas.Matrix(np.zeros((2, 0)), ["a", "b"], [])),
        lambda: pack_annotations(Annotations(["a"], ["x", "y"], np.ones((1, 2)), np.ones((2, 2)))),
        lambda: pack_annotations(Annotations(["a"], ["x"], np.ones((1, 2)), np.ones((1, 2)))),
        lambda: schemas.pack_features(schemas.Features(["a"], ["b"], np.zeros(3))),
        lambda: schemas.pack_matrix(schemas.Matrix(np.eye(2), ["a", "b"], ["x"])),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(pack: Any) -> None:
    with pytest.raises(StoreError):
        pack()


def test_a_manifest_without_labels(through: Any) -> None:
    given = manifest(labels=np.zeros((3, 0), np.int8), label_names=[])
    found = schemas.unpack_manifest(through(schemas.pack_manifest(given)))
    assert (found.labels.shape, found.label_names) == ((3, 0), [])
    assert found.ids == given.ids


def test_annotations(through: Any) -> None:
    labels, scores = np.array([[0, 1], [1, 1]], np.int8), np.array([[0.1, 0.9], [0.6, 1.0]])
    nearest = [[Neighbor(1, "p", 0.25)], []]
    cuts, novelty = np.array([0.5, np.inf]), np.array([0.0, 1.0])
    given = Annotations(["a", "b"], ["sea", "sky"], labels, scores, cuts, novelty, nearest, {"drift": None})
    found = unpack_annotations(through(pack_annotations(given)))
    assert (found.nearest, found.findings) == (nearest, {"drift": None})
    assert found.thresholds is not None
    assert found.thresholds.tolist() == [0.5, np.inf]
    assert found.novelty is not None
    assert found.novelty.tolist() == [0.0, 1.0]
    bare = unpack_annotations(through(pack_annotations(Annotations(["a", "b"], ["x", "y"], labels, scores))))
    assert (bare.thresholds, bare.novelty, bare.nearest) == (None, None, [[], []])
    assert (found.ids, found.label_names) == (given.ids, given.label_names)
    assert found.counts() == {"sea": 1, "sky": 2}
    assert found.labels.dtype == np.int8
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.scores, scores)


def test_a_matrix_of_slices_is_its_rows() -> None:
    X = np.arange(24.0).reshape(6, 4)
    table = pa.table({"x": columns.vectors(X, np.float64)})
    parts = pa.concat_tables([table.slice(1, 2), table.slice(4)])
    np.testing.assert_array_equal(columns.matrix(parts, "x"), X[[1, 2, 4, 5]])
    assert columns.matrix(table.slice(6), "x").shape == (0, 4)


# Content that no version of the program writes.


def with_metadata(artifact: Artifact, **changes: str) -> pa.Table:
    """The table of an artifact as the store returns it, with other metadata."""
    table = pa.Table.from_batches(list(artifact.batches()), artifact.columns)
    return table.replace_schema_metadata({"kind": artifact.kind, **artifact.metadata, **changes})


def edges() -> Artifact:
    return schemas.pack_edges(sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])))


def sparse_features() -> Artifact:
    return schemas.pack_features(
        schemas.Features(["a"], ["d"], sparse.csr_array(np.eye(1, 5, dtype=np.float32)))
    )


@pytest.mark.parametrize("n", ["1", "-1", "x", "9" * 5000, "1" + "0" * 12])
def test_a_graph_of_an_impossible_size_is_refused(n: str) -> None:
    with pytest.raises(StoreError) as caught:
        schemas.unpack_edges(with_metadata(edges(), n=n))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"n_features": "0"},
        {"n_features": "x"},
        {"recipe": "{"},
        {"recipe": "[" * 100_000},
        {"feature_names": "\ud7ff"},
    ],
)
def test_features_with_impossible_metadata_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(StoreError, match="not usable"):
        schemas.unpack_features(with_metadata(sparse_features(), **changes))
