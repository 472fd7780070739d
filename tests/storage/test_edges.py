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
            {"source": ["x", "y"], "target": ["d", "b"]},
            r"2 of 2 links name ids that are not in the collection: x, y \(ids .*images/a\.jpg",
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


def test_links_to_unknown_ids_are_left_out_and_listed(path: Path) -> None:
    write(path, {"source": ["b", "x", "d", "d"], "target": ["d", "b", "x", "7"], "w": [1.0, 2.0, 3.0, 4.0]})
    lines: list[str] = []
    i, j, w = read_edges(path, IDS, lines.append)
    assert (i.tolist(), j.tolist(), w.tolist()) == ([1, 3], [3, 2], [1.0, 4.0])
    left_out = "2 of 4 links name ids that are not in the collection and are left out"
    assert lines == [f"{left_out}; 1 such ids, the most frequent: x"]
    with pytest.raises(SourceError, match=r"2 of 4 links .*source\.strict=false"):
        read_edges(path, IDS, strict=True)


def test_repeated_and_own_links_are_counted(path: Path) -> None:
    lines: list[str] = []
    read_edges(write(path, {"i": [0, 0, 1, 2], "j": [1, 1, 0, 2]}), IDS, lines.append)
    assert lines == [
        "1 of 4 links is a repetition; the largest weight counts",
        "1 link of an item to itself is left out",
    ]


def test_a_column_of_links(tmp_path: Path) -> None:
    columns = {"id": ["b", "7", "d", "images/a.jpg"], "links": [["7", "d"], [], None, ["b", "gone"]]}
    pq.write_table(pa.table(columns), tmp_path / "items.parquet")
    (tmp_path / "items.csv").write_text("id,links,f0\nb,7|d,1\n7,,2\nd,,3\nimages/a.jpg,b | gone,4\n")
    for name in ("items.parquet", "items.csv"):
        lines: list[str] = []
        i, j, w = read_edges(tmp_path / name, IDS, lines.append)
        assert (i.tolist(), j.tolist(), w.tolist()) == ([1, 1, 0], [2, 3, 1], [1.0, 1.0, 1.0])
        assert len(lines) == 1 and "gone" in lines[0]


def test_numbers_in_a_column_of_links(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7, 12], "links": [[12], [7]]}), tmp_path / "t.parquet")
    i, j, _ = read_edges(tmp_path / "t.parquet", ["7", "12"])
    assert (i.tolist(), j.tolist()) == ([0, 1], [1, 0])
    pq.write_table(pa.table({"id": [7, 12], "links": [12, 7]}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="row 1, column 'links': '12' is not a list of ids"):
        read_edges(tmp_path / "t.parquet", ["7", "12"])


MATRIX = "%%MatrixMarket matrix coordinate {field} {symmetry}\n{size}\n{entries}"


def matrix(
    path: Path, entries: str, size: str = "4 4 2", field: str = "real", symmetry: str = "general"
) -> Path:
    path = path.with_suffix(".mtx")
    path.write_text(MATRIX.format(field=field, symmetry=symmetry, size=size, entries=entries))
    return path


def test_a_sparse_matrix(tmp_path: Path) -> None:
    i, j, w = read_edges(matrix(tmp_path / "m", "1 2 0.5\n4 1 2\n"), IDS)
    assert (i.tolist(), j.tolist(), w.tolist()) == ([0, 3], [1, 0], [0.5, 2.0])
    i, j, w = read_edges(matrix(tmp_path / "m", "2 1\n4 1\n", field="pattern", symmetry="symmetric"), IDS)
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 1), (0, 3), (1, 0), (3, 0)]
    assert set(w.tolist()) == {1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": "5 5 2"}, "has 5 rows and 5 columns; the collection has 4 items"),
        ({"size": "4 3 2"}, "has 4 rows and 3 columns"),
        ({"entries": "1 2 -1\n4 1 1\n"}, "row 1, column 2: -1 is not a similarity"),
        ({"entries": "1 2 nan\n4 1 1\n"}, "nan is not a similarity"),
        ({"entries": "1 9 1\n4 1 1\n"}, "cannot be read"),
        ({"entries": "1 2 1\n"}, "cannot be read"),
        ({"entries": "1 2 x\n4 1 1\n"}, "cannot be read"),
        ({"field": "complex", "entries": "1 2 1 0\n4 1 1 0\n"}, "coordinate complex"),
        ({"size": "4 4 900000000000"}, "needs about .* of memory|cannot be read"),
    ],
)
def test_bad_matrices_are_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    path = matrix(tmp_path / "m", **{"entries": "1 2 1\n4 1 1\n", **changes})
    with pytest.raises(SourceError, match=message) as caught:
        read_edges(path, IDS)
    assert str(path) in str(caught.value)


def test_graphml_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "g.graphml").write_text("<graphml/>")
    with pytest.raises(SourceError, match=r"Convert GraphML to a table"):
        read_edges(tmp_path / "g.graphml", IDS)
