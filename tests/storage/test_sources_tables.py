"""Parquet and CSV tables, and the built-in sets."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source

ROWS = {
    "f0": [1.5, 2.0, 3.25, -4.0],
    "f1": [0, 1, 0, 7],
    "f10": [5.0, 6.0, 7.0, 8.0],
    "label:sky": [1, 0, None, 1],
    "label:a b": [0, 1, None, 1],
    "split": ["train", "test", "train", None],
}


def write(path: Path, columns: dict[str, list]) -> Path:
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


def read(path: Path, **options: object) -> Collection:
    cache = path.parent / "cache"
    return open_source(SourceOptions(path=str(path), **options), cache).read(cache)  # type: ignore[arg-type]


@pytest.fixture(params=[".parquet", ".csv"])
def suffix(request: pytest.FixtureRequest) -> str:
    return request.param


def test_multi_label_table(tmp_path: Path, suffix: str) -> None:
    collection = read(write(tmp_path / f"songs{suffix}", ROWS))
    assert collection.label_names == ["sky", "a b"]
    assert collection.labels.tolist() == [[1, 0], [0, 1], [-1, -1], [1, 1]]
    assert collection.X is not None
    assert collection.X.dtype == np.float32
    assert np.asarray(collection.X).tolist() == [[1.5, 0, 5], [2, 1, 6], [3.25, 0, 7], [-4, 7, 8]]
    assert collection.feature_names == ["f0", "f1", "f10"]
    assert collection.split == ["train", "test", "train", ""]
    assert collection.ids == ["0", "1", "2", "3"]
    assert not collection.single_label
    assert collection.paths is None


def test_parquet_and_csv_give_the_same(tmp_path: Path) -> None:
    a, b = (read(write(tmp_path / f"t{end}", ROWS)) for end in (".parquet", ".csv"))
    assert a.digests == b.digests
    assert np.array_equal(a.labels, b.labels)


def test_features_are_ordered_by_number_and_others_listed(tmp_path: Path, suffix: str) -> None:
    columns = {"f10": [1, 2], "target": [3.0, 4.0], "f2": [5, 6], "class": ["x", "y"], "f": [7, 8]}
    collection = read(write(tmp_path / f"t{suffix}", columns))
    assert collection.feature_names == ["f2", "f10"]
    assert np.asarray(collection.X).tolist() == [[5, 1], [6, 2]]
    assert [note.message for note in collection.notes if "neither" in note.message] == [
        "2 columns are neither features nor labels: target, f"
    ]


@pytest.mark.parametrize(
    ("values", "names", "labeled"),
    [
        (["b", "a", "", None, " a "], ["a", "b"], [True, True, False, False, True]),
        ([10, 9, None, 9, 10], ["9", "10"], [True, True, False, True, True]),
        ([1.0, -1.0, float("nan"), None, 1.0], ["-1", "1"], [True, True, False, False, True]),
    ],
)
def test_class_column(tmp_path: Path, values: list, names: list[str], labeled: list[bool]) -> None:
    collection = read(write(tmp_path / "t.parquet", {"f0": [0.0] * 5, "class": values}))
    assert collection.single_label
    assert collection.label_names == names
    assert (collection.labels[:, 0] >= 0).tolist() == labeled
    assert (collection.labels[labeled].sum(axis=1) == 1).all()


def test_class_as_dictionary_and_from_another_column(tmp_path: Path) -> None:
    kind = pa.array(["x", "y", None]).dictionary_encode()
    pq.write_table(
        pa.table({"f0": [1, 2, 3], "genre": kind, "class": ["p", "q", "r"]}), tmp_path / "t.parquet"
    )
    assert read(tmp_path / "t.parquet").label_names == ["p", "q", "r"]
    collection = read(tmp_path / "t.parquet", labels="genre")
    assert collection.label_names == ["x", "y"]
    assert collection.labels[2].tolist() == [-1, -1]


def test_ids_are_read_and_must_be_unique(tmp_path: Path, suffix: str) -> None:
    columns = {"id": ["u", "v", "w"], "f0": [1, 2, 3], "class": ["x", "y", ""]}
    path = write(tmp_path / f"t{suffix}", columns)
    assert read(path).ids == ["u", "v", "w"]
    write(path, columns | {"id": ["u", "v", "u"]})
    with pytest.raises(SourceError, match="row 3: the id 'u' is also that of row 1"):
        read(path)
    write(path, columns | {"id": ["u", "", "w"]})
    with pytest.raises(SourceError, match="row 2: the id is empty"):
        read(path)


def test_minus_one_rows_are_unlabeled(tmp_path: Path, suffix: str) -> None:
    columns = {"f0": [1, 2, 3], "label:a": [1, -1, 0], "label:b": [0, -1, 1]}
    assert read(write(tmp_path / f"t{suffix}", columns)).labels.tolist() == [[1, 0], [-1, -1], [0, 1]]


def test_a_row_with_no_positive_label_is_labeled(tmp_path: Path) -> None:
    columns = {"f0": [1, 2, 3], "label:a": [1, 0, 0], "label:b": [0, 0, 1]}
    assert read(write(tmp_path / "t.parquet", columns)).labels[1].tolist() == [0, 0]


def test_csv_with_byte_order_mark_blanks_and_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufefff0; f1 ;class\r\n1; 2;é\r\n3;4e-1; y \r\n".encode())
    collection = read(path)
    assert collection.label_names == ["y", "é"]
    assert np.asarray(collection.X).tolist() == [[1, 2], [3, np.float32(0.4)]]


def test_csv_ids_and_classes_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,f0,class\n007,1,01\n7,2,1\n1e3,2.5,true\n")
    collection = read(path)
    assert collection.ids == ["007", "7", "1e3"]
    assert collection.label_names == ["01", "1", "true"]


def test_digests_follow_the_features_not_the_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    before = read(write(path, ROWS)).digests
    assert read(write(path, ROWS | {"label:sky": [0, 1, None, 1]})).digests == before
    changed = read(write(path, ROWS | {"f1": [0, 2, 0, 7]})).digests
    assert [a == b for a, b in zip(before, changed, strict=True)] == [True, False, True, True]


def test_source_digest_changes_with_the_file(tmp_path: Path) -> None:
    source = open_source(SourceOptions(path=str(write(tmp_path / "t.parquet", ROWS))), tmp_path / "cache")
    first = source.digest(tmp_path / "cache")
    assert source.digest(tmp_path / "cache") == first
    write(tmp_path / "t.parquet", ROWS | {"label:sky": [0, 1, None, 1]})
    assert source.digest(tmp_path / "cache") != first


def test_a_partition_like_folder_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "f7=3"
    folder.mkdir()
    assert read(write(folder / "t.parquet", ROWS)).feature_names == ["f0", "f1", "f10"]


def test_min_label_count_and_drop_labels(tmp_path: Path) -> None:
    columns = {"f0": [1, 2, 3, 4], "label:a": [1, 1, 0, 1], "label:b": [1, 1, 1, 0], "label:c": [0, 0, 1, 1]}
    path = write(tmp_path / "t.parquet", columns | {"label:never": [0, 0, 0, 0]})
    plain = read(path)
    assert plain.label_names == ["a", "b", "c"]
    assert "label 'never' is dropped: no item has it" in [note.message for note in plain.notes]
    assert read(path, min_label_count=0).label_names == ["a", "b", "c", "never"]
    assert read(path, min_label_count=3).label_names == ["a", "b"]
    assert read(path, drop_labels=("b",)).label_names == ["a", "c"]


def test_dropping_a_class_leaves_its_items_unlabeled(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"f0": [1, 2, 3, 4], "class": ["x", "y", "z", "y"]})
    collection = read(path, drop_labels=("z",))
    assert collection.labels.tolist() == [[1, 0], [0, 1], [-1, -1], [0, 1]]
    assert any("1 item had dropped labels only" in note.message for note in collection.notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "single"),
    [
        ("emotions", (593, 72, 6), False),
        ("scene", (2407, 294, 6), False),
        ("yeast", (2417, 103, 14), False),
        ("corel5k", (5000, 499, 374), False),
        ("wine", (178, 13, 3), True),
    ],
)
def test_real_tables_by_folder_and_by_file(
    shared_data: Path, tmp_path: Path, name: str, shape: tuple[int, int, int], single: bool
) -> None:
    for path in (shared_data / name, shared_data / name / f"{name}.parquet"):
        source = open_source(SourceOptions(path=str(path)), tmp_path)
        collection = source.read(tmp_path)
        assert collection.X is not None
        assert (source.kind, source.name) == ("table", name)
        assert (*collection.X.shape, len(collection.label_names)) == shape
        assert collection.single_label is single


def test_real_cardinality(shared_data: Path, tmp_path: Path) -> None:
    collection = open_source(SourceOptions(path=str(shared_data / "emotions")), tmp_path).read(tmp_path)
    assert collection.labels.sum(axis=1).mean() == pytest.approx(1.868, abs=5e-4)
    assert collection.feature_names is not None
    assert collection.feature_names[0] == "Mean_Acc1298_Mean_Mem40_Centroid"


@pytest.mark.parametrize(
    ("name", "shape"), [("iris", (150, 4, 3)), ("wine", (178, 13, 3)), ("digits", (1797, 64, 10))]
)
def test_builtin_tables(tmp_path: Path, name: str, shape: tuple[int, int, int]) -> None:
    source = open_source(SourceOptions(path=name), tmp_path)
    collection = source.read(tmp_path)
    assert collection.X is not None
    assert (*collection.X.shape, len(collection.label_names)) == shape
    assert collection.single_label
    assert source.digest(tmp_path) == source.digest(tmp_path)
    assert len({open_source(SourceOptions(path=p), tmp_path).digest(tmp_path) for p in ("iris", "wine")}) == 2


def test_the_demo_is_drawn_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def draw(folder: Path) -> None:
        drawn.append(folder)
        (folder / "images").mkdir(parents=True, exist_ok=True)
        for k in range(3):
            (folder / "images" / f"scene_{k}.jpg").write_bytes(b"%d" % k)
        (folder / "labels.csv").write_text(
            "filename,labels\nscene_0.jpg,sky|sea\nscene_1.jpg,sky\nscene_2.jpg,\n"
        )
        (folder / "demo.json").write_text("{}")

    monkeypatch.setattr("storage.sources.demo.write_demo", draw)
    source = open_source(SourceOptions(), tmp_path)
    assert not drawn
    collection = source.read(tmp_path)
    assert (source.kind, source.name, drawn) == ("images", "demo", [tmp_path / "demo"])
    assert collection.ids == [f"images/scene_{k}.jpg" for k in range(3)]
    assert collection.labels.tolist() == [[1, 1], [0, 1], [-1, -1]]
    assert source.digest(tmp_path) == source.digest(tmp_path)


@pytest.mark.slow
def test_readers_import_nothing_heavy(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys; from pathlib import Path; from storage.sources import SourceOptions, open_source;"
        f"open_source(SourceOptions(path='iris'), Path({str(tmp_path)!r})).digest(Path({str(tmp_path)!r}));"
        "bad = {'sklearn', 'pandas', 'pyarrow', 'prefect', 'mlflow', 'scipy'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(bad)) or 0)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
