"""Dense arrays with labels beside them or in the archive."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source

N = 12
X = np.random.default_rng(1).normal(size=(N, 4))
KINDS = np.array(["cat", "dog", "car"])[np.arange(N) % 3]


def read(path: Path, **options: object) -> Collection:
    source = open_source(SourceOptions(path=str(path), **options), path.parent / "cache")  # type: ignore[arg-type]
    found = source.read(path.parent / "cache")
    assert source.kind == "arrays"
    assert source.part_names == tuple(part.name for part in found.parts)
    return found


def check(found: Collection) -> None:
    assert np.array_equal(np.asarray(found.X), X.astype(np.float32))
    assert found.label_names == ["car", "cat", "dog"]
    assert [found.label_names[k] for k in found.labels.argmax(axis=1)] == KINDS.tolist()


@pytest.mark.parametrize("name", ["X_labels.csv", "labels.csv", "labels.parquet", "y.npy", "labels.feather"])
@pytest.mark.parametrize("whole", [True, False])
def test_labels_beside_an_array(tmp_path: Path, name: str, whole: bool) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    np.save(folder / "X.npy", X)
    table = pd.DataFrame({"kind": KINDS})
    file = folder / name
    if file.suffix == ".npy":
        np.save(file, KINDS)
    elif file.suffix == ".csv":
        table.to_csv(file, index=False)
    else:
        getattr(table, f"to_{file.suffix[1:]}")(file)
    source = folder if whole else folder / "X.npy"
    found = read(source)
    check(found)
    assert name in found.recognized["labels"]
    first = open_source(SourceOptions(path=str(source)), tmp_path).digest(tmp_path)
    np.save(folder / "X.npy", X + 1)
    assert open_source(SourceOptions(path=str(source)), tmp_path).digest(tmp_path) != first


def test_labels_may_be_named(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    with pytest.raises(SourceError, match=r"v_labels\.csv, labels\.csv.*--set source\.labels=FILE"):
        read(tmp_path / "v.npy")
    pd.DataFrame({"id": range(N), "kind": KINDS}).to_csv(tmp_path / "kinds.csv", index=False)
    check(read(tmp_path / "v.npy", labels="kinds.csv"))
    assert read(tmp_path / "v.npy", labeled=False).labels.shape == (N, 0)


def test_an_archive_of_several_blocks_with_labels_and_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, clip=X, dino=X[:, :2], y=KINDS, ids=[f"i{k}" for k in range(N)], extra=np.zeros(3))
    found = read(path)
    check(found)
    assert [part.name for part in found.parts] == ["clip", "dino"]
    assert found.ids[1] == "i1"
    assert [note.message for note in found.notes] == ["arrays that are not used: extra"]


def test_a_matrix_of_labels(tmp_path: Path) -> None:
    Y = np.array([[0, 1], [1, 1], [-1, -1]] * 4)
    np.savez_compressed(tmp_path / "a.npz", X=X, Y=Y, label_names=["sky", "sea"])
    found = read(tmp_path / "a.npz")
    assert found.label_names == ["sky", "sea"]
    assert np.array_equal(found.labels, Y)
    assert not found.single_label


def test_a_table_of_labels_is_joined_by_the_ids_of_the_archive(tmp_path: Path) -> None:
    order = np.random.default_rng(2).permutation(N)
    np.savez(tmp_path / "a.npz", X=X, ids=[f"i{k}" for k in range(N)])
    table = pd.DataFrame({"id": [f"i{k}" for k in order], "kind": KINDS[order]})
    table.to_csv(tmp_path / "labels.csv", index=False)
    check(read(tmp_path / "a.npz"))
    table.iloc[:-1].to_csv(tmp_path / "labels.csv", index=False)
    assert (read(tmp_path / "a.npz").labels[order[-1]] == -1).all()


def test_dense_and_sparse_archives_are_told_apart(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "s_X.npz", sparse.csr_array(X))
    pd.DataFrame({"class": KINDS}).to_csv(tmp_path / "s_labels.csv", index=False)
    np.savez(tmp_path / "d.npz", X=X, y=KINDS)
    kinds = [
        open_source(SourceOptions(path=str(tmp_path / name)), tmp_path).kind for name in ("s_X.npz", "d.npz")
    ]
    assert kinds == ["sparse", "arrays"]


HOLES = np.where(np.arange(N)[:, None] % 5 == 1, np.nan, X)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X[0]}, r"no array of shape \(items, features\), but y \(12,\), X \(4,\)"),
        ({"X": X.reshape(N, 2, 2)}, r"X \(12, 2, 2\).*reshape"),
        ({"X": X.astype(complex)}, "complex128 values; expected real numbers"),
        ({"X": X.astype(str)}, "values; expected real numbers"),
        ({"X": np.full((N, 2), {}, dtype=object)}, "Python objects"),
        ({"X": HOLES}, r"3 of 12 vectors contain missing values: rows 2, 7, 12.*features\.fill"),
        ({"X": X * 1e300}, "12 of 12 vectors contain numbers that are not finite 32-bit"),
        ({"X": X, "Z": X[1:]}, r"different numbers of items: X \(12, 4\), Z \(11, 4\)"),
        ({"X": X, "y": KINDS[1:]}, "has 12 rows, .* has 11"),
        ({"X": X, "y": X}, "expected one class per item, or a matrix of 0 and 1"),
        ({"X": X, "Y": np.array([[0, -1]] * N)}, "set the whole row to -1"),
        ({"X": X, "ids": ["a"] * N}, "the id 'a' is also that of row 1"),
    ],
)
def test_arrays_that_do_not_fit_are_named(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    labels = {} if "Y" in arrays else {"y": KINDS}
    np.savez(tmp_path / "a.npz", **(labels | arrays))
    with pytest.raises(SourceError, match=message):
        read(tmp_path / "a.npz")


def test_missing_values_pass_if_they_are_filled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=HOLES, y=KINDS)
    found = read(tmp_path / "a.npz", allow_missing=True)
    assert found.parts[0].allows_missing
    assert np.array_equal(np.asarray(found.X), HOLES.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(
    "names",
    [("x_{}", "y_{}"), ("X_{}", "Y_{}"), ("{}_images", "{}_labels"), ("{}_x", "{}_targets")],
)
def test_an_archive_with_arrays_by_split(tmp_path: Path, names: tuple[str, str]) -> None:
    """As `keras.datasets` and MedMNIST store them, with items of any shape."""
    features, labels = names
    shaped = X.reshape(N, 2, 2)
    arrays = {
        features.format("train"): shaped[:7],
        labels.format("train"): KINDS[:7, None],
        features.format("test"): shaped[7:],
        labels.format("test"): KINDS[7:, None],
    }
    np.savez(tmp_path / "a.npz", extra=np.zeros(3), **arrays)
    found = read(tmp_path / "a.npz")
    check(found)
    assert found.split == ["train"] * 7 + ["test"] * 5
    assert (found.ids[0], found.ids[7]) == ("train/0", "test/0")
    assert found.single_label
    assert [note.message for note in found.notes] == [
        "each item of 2 x 2 values is a row of 4 features",
        "arrays that are not used: extra",
    ]


def test_a_split_without_labels_is_unlabeled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=X[:7], y_train=np.arange(7) % 2, x_test=X[7:])
    found = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.labels[7:], -1)
    assert (found.labels[:7] >= 0).all()
    np.savez(tmp_path / "b.npz", x_train=X[:7], x_test=X[7:])
    with pytest.raises(
        SourceError, match=r"x_train \(7, 4\), x_test \(5, 4\), but no labels: name them y_tr"
    ):
        read(tmp_path / "b.npz")
    assert read(tmp_path / "b.npz", labeled=False).labels.shape == (N, 0)


def test_other_archives_list_their_arrays_and_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, points=X, kinds=KINDS, more=X[:, :2])
    with pytest.raises(SourceError, match=r"points \(12, 4\), kinds \(12,\).*--set source\.labels=NAME"):
        read(path)
    with pytest.raises(SourceError, match=r"no array 'kind', but the arrays points"):
        read(path, labels="kind")
    with pytest.raises(SourceError, match=r"no array \(items, features\) 'pints' for source\.features"):
        read(path, labels="kinds", features=("pints",))
    found = read(path, labels="kinds", features=("poi*",))
    check(found)
    assert found.recognized["labels"] == "array kinds of a.npz"
    digests = {
        open_source(SourceOptions(path=str(path), labels=name), tmp_path).digest(tmp_path)
        for name in ("kinds", "more")
    }
    assert len(digests) == 2, "the bytes do not show which array has the labels"
