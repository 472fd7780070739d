"""Edge lists by position and by id."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from storage.errors import SourceError
from storage.sources import read_edges

IDS = ["images/a.jpg", "b", "7", "d"]
POSITIONS = {"i": [0, 1, 3], "j": [1, 2, 0], "w": [0.5, 2.0, 0.0]}


def write(path: Path, columns: dict[str, list]) -> Path:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(pa.table(columns), path)
    else:
        pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(params=[".parquet", ".csv"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"edges{request.param}"


@pytest.mark.parametrize(
    "columns",
    [
        POSITIONS,
        {"weight": POSITIONS["w"], "j": POSITIONS["j"], "i": POSITIONS["i"], "comment": ["x", "y", "z"]},
        {"source": [IDS[0], "b", "d"], "target": ["b", "7", IDS[0]], "weight": POSITIONS["w"]},
        {"id_i": [IDS[0], "b", "d"], "id_j": ["b", "7", IDS[0]], "w": POSITIONS["w"]},
    ],
)
def test_every_form_gives_the_same_edges(path: Path, columns: dict[str, list]) -> None:
    i, j, w = read_edges(write(path, columns), IDS)
    assert (i.tolist(), j.tolist(), w.tolist()) == (POSITIONS["i"], POSITIONS["j"], POSITIONS["w"])
    assert i.dtype == j.dtype == np.int64
    assert w.dtype == np.float64


def test_without_weights_each_edge_counts_one(path: Path) -> None:
    assert read_edges(write(path, {"i": [0, 1], "j": [1, 0]}), IDS)[2].tolist() == [1.0, 1.0]


def test_numeric_ids_match_as_text(path: Path) -> None:
    i, j, _ = read_edges(write(path, {"source": [7, 12], "target": [12, 7]}), ["7", "12"])
    assert (i.tolist(), j.tolist()) == ([0, 1], [1, 0])


def test_no_edges_is_an_empty_graph(path: Path) -> None:
    path = path.with_suffix(".csv")
    path.write_text("i,j,w\n")
    assert [len(part) for part in read_edges(path, IDS)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            POSITIONS | {"j": [1, 4, 0]},
            r"row 2, column 'j': 4 is not a position among 4 items.*0 to 3",
        ),
        (POSITIONS | {"i": [0, 1, -1]}, "row 3, column 'i': -1 is not a position"),
        (POSITIONS | {"i": [0.5, 1, 2]}, "row 1, column 'i': 0.5 is not a position"),
        (POSITIONS | {"i": [0, None, 2]}, "row 2, column 'i': an empty cell"),
        (POSITIONS | {"w": [1.0, -0.1, 1.0]}, "row 2, column 'w': -0.1"),
        (POSITIONS | {"w": [1.0, 1.0, float("inf")]}, "row 3, column 'w': inf"),
        (POSITIONS | {"w": [None, 1.0, 1.0]}, "row 1, column 'w': an empty cell"),
        (POSITIONS | {"w": ["much", "1", "1"]}, "column 'w'.*'much'"),
        (
            {"source": ["b", "x"], "target": ["d", "b"]},
            r"row 2, column 'source': 'x' is not an id.*images/a\.jpg",
        ),
        ({"source": ["b", "b"], "target": ["d", ""]}, "row 2, column 'target': an empty cell"),
        ({"from": ["b"], "to": ["d"]}, "has the columns from, to; an edge list has"),
    ],
)
def test_bad_edges_are_named(path: Path, columns: dict[str, list], message: str) -> None:
    write(path, columns)
    with pytest.raises(SourceError, match=message) as caught:
        read_edges(path, IDS)
    assert str(path) in str(caught.value)


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no edge list at .*nowhere\.csv"):
        read_edges(tmp_path / "nowhere.csv", IDS)
    (tmp_path / "edges.txt").write_text("0 1\n")
    with pytest.raises(SourceError, match="is not an edge list"):
        read_edges(tmp_path / "edges.txt", IDS)
