"""`table:PATH`: rows of a table in the order of the items."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import SourceError
from storage.sources.feature_table import join_table

IDS = ["b/two.jpg", "a/one.jpg", "c/three.png"]
VALUES = {"two": [1.0, 2.0], "one": [3.0, 4.0], "three": [5.0, 6.0]}


def write(path: Path, ids: list[str], rows: list[list[float]]) -> Path:
    frame = pd.DataFrame({"id": ids, "x": [row[0] for row in rows], "y2": [row[1] for row in rows]})
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("shorten", "how"),
    [
        (lambda name: name, "joined by id"),
        (lambda name: name.rpartition("/")[2], "joined by file name (column"),
        (lambda name: name.rpartition("/")[2].partition(".")[0], "joined by file name without ending"),
    ],
)
def test_items_are_found_by_id_or_file_name(tmp_path: Path, shorten, how: str) -> None:  # type: ignore[no-untyped-def]
    order = [IDS[2], IDS[0], IDS[1]]
    rows = [VALUES[name.rpartition("/")[2].partition(".")[0]] for name in order]
    found = join_table(write(tmp_path / "e.csv", [shorten(name) for name in order], rows), IDS, False)
    assert np.asarray(found.part.X).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.part.feature_names == ["x", "y2"]
    assert how in found.lines[0]


@pytest.mark.slow
@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_every_item_gets_its_own_row(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.from_regex(r"[a-z]{1,3}/[a-z]{1,4}\.png", fullmatch=True), unique=True, min_size=2)
    )
    listed = data.draw(st.permutations(names))
    listed = listed[: data.draw(st.integers(1, len(listed)))]
    rows = [[float(k), float(k * k)] for k in range(len(listed))]
    path = write(tmp_path / "e.csv", list(listed), rows)
    found = join_table(path, names, allow_missing=True, wanted=("x", "y2"))
    expected = [rows[listed.index(name)] if name in listed else [np.nan, np.nan] for name in names]
    assert np.array_equal(np.asarray(found.part.X), expected, equal_nan=True)


def test_names_that_are_not_unique_are_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", ["one.jpg", "x.jpg"], [[1.0, 2.0], [3.0, 4.0]])
    ids = ["a/one.jpg", "b/one.jpg", "x.jpg"]
    with pytest.raises(SourceError, match=r"no row for 2 of 3 items: a/one\.jpg, b/one\.jpg\. Add the rows"):
        join_table(path, ids, False)


def test_extra_rows_are_counted(tmp_path: Path) -> None:
    names = ["a/one.jpg", *(f"z{k}" for k in range(9))]
    path = write(tmp_path / "e.csv", names, [[float(k), 1.0 + k] for k in range(10)])
    found = join_table(path, ["a/one.jpg"], False)
    assert found.extra == 9
    assert found.lines[-1] == "9 rows of other items: z0, z1, z2, z3, z4, ..."


def test_labels_in_the_table_are_no_features(tmp_path: Path) -> None:
    pd.DataFrame({"id": IDS, "x": [1.0, 2.0, 4.0], "label": [0, 1, 0]}).to_parquet(tmp_path / "e.parquet")
    assert join_table(tmp_path / "e.parquet", IDS, False).part.feature_names == ["x"]


def test_an_archive_with_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", clip=np.eye(3), dino=np.ones((3, 2)), ids=IDS[::-1])
    found = join_table(tmp_path / "e.npz", IDS, False)
    assert np.array_equal(np.asarray(found.part.X)[:, :3], np.eye(3)[::-1])
    assert found.part.feature_names == ["clip[0]", "clip[1]", "clip[2]", "dino[0]", "dino[1]"]
    np.save(tmp_path / "e.npy", np.eye(3))
    with pytest.raises(SourceError, match="no ids to join by"):
        join_table(tmp_path / "e.npy", IDS, False)
    (tmp_path / "e.txt").write_text("x")
    with pytest.raises(SourceError, match=r"is not a table of features; supported: \.csv"):
        join_table(tmp_path / "e.txt", IDS, False)
