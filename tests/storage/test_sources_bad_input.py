"""Bad input: an error that names file, row and remedy, or a note."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.errors import LabelscapeError, SourceError
from storage.sources import Collection, Note, SourceOptions, open_source
from storage.sources.hygiene import label_notes
from tests.storage.test_sources_images import CSV, labels_of, put_images


def read(path: Path | str, cache: Path, **options: object) -> Collection:
    return open_source(SourceOptions(path=str(path), **options), cache).read(cache)  # type: ignore[arg-type]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_images(tmp_path / "pics", "a.jpg", "b.png", "c.jpg")
    (tmp_path / "pics" / "labels.csv").write_text(CSV)
    return tmp_path / "pics"


def test_source_errors_are_user_errors() -> None:
    assert issubclass(SourceError, LabelscapeError)


# Paths that do not exist or are not supported.


def test_missing_folder_suggests_a_similar_name(folder: Path, cache: Path) -> None:
    with pytest.raises(
        SourceError, match=r"no file or folder .*pisc.* Did you mean 'pics'\? Expected: a sparse"
    ):
        read(folder.parent / "pisc", cache)
    with pytest.raises(SourceError, match="Did you mean 'digits'"):
        read("digit", cache)
    with pytest.raises(SourceError, match="does not exist either"):
        read(folder / "deep" / "deeper", cache)


def test_empty_folder(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"empty is empty\. Expected: .* a folder of images"):
        read(tmp_path / "empty", cache)


def test_a_folder_without_data_lists_what_it_contains(tmp_path: Path, cache: Path) -> None:
    put_images(tmp_path / "x", "a.docx", "b.docx", "c", "sub/d.docx")
    with pytest.raises(SourceError, match=r"found: 2 x \.docx, .*1 x folder"):
        read(tmp_path / "x", cache)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.jpg", "is a single image. Give its folder"),
        ("a.zip", "is an archive. Unpack it"),
        ("a.xml", r"Give the \.arff file"),
        ("a.docx", r"unknown kind \(\.docx\)"),
        ("noending", r"unknown kind \(no extension\)"),
    ],
)
def test_files_of_other_kinds(tmp_path: Path, cache: Path, name: str, message: str) -> None:
    put_images(tmp_path, name)
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path / name, cache)
    assert "Supported: " in str(caught.value)


def test_another_csv_lists_its_columns(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "t.csv").write_text("name,age,city\nx,1,y\n")
    with pytest.raises(SourceError, match=r"but name, age, city\..*--set source\.labels=city"):
        read(tmp_path / "t.csv", cache)


def test_several_sets_in_one_folder(tmp_path: Path, cache: Path) -> None:
    columns = pa.table({"f0": [1, 2], "class": ["x", "y"]})
    for name in ("one", "two"):
        pq.write_table(columns, tmp_path / f"{name}.parquet")
    with pytest.raises(SourceError, match=r"several data sets: one\.parquet, two\.parquet"):
        read(tmp_path, cache)
    (tmp_path / "two.parquet").unlink()
    pq.write_table(pa.table({"i": [0], "j": [1]}), tmp_path / "edges.parquet")
    put_images(tmp_path, "figure.png")
    assert read(tmp_path, cache).kind == "table"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "music"}, "kind 'music' is unknown; use one of auto, sparse, text_table, table"),
        ({"label_separator": ""}, "label_separator is empty"),
        ({"min_label_count": -1}, "min_label_count=-1 is negative"),
        (
            {"kind": "builtin"},
            "is not a built-in set; choose one of demo, digits, iris, wine, torus, clusdat, three_suns",
        ),
        ({"kind": "table"}, "must contain exactly one data set of kind table; found: none"),
        ({"drop_labels": ("skies",)}, r"drop_labels names 'skies', which labels\.csv does not have.*'sky'"),
    ],
)
def test_bad_options(folder: Path, cache: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(folder, cache, **options)


# Images and their label files.


def test_images_without_any_label(tmp_path: Path, cache: Path) -> None:
    put_images(tmp_path / "set", "images/a.jpg", "images/b.jpg")
    with pytest.raises(SourceError, match=r"contains 2 images but no labels\. Add labels\.csv"):
        read(tmp_path / "set", cache)
    (tmp_path / "set" / "labels.csv").write_text("a.jpg,x\nb.jpg,y\n")
    with pytest.raises(SourceError, match=r"There is a label file in .*set: give that folder"):
        read(tmp_path / "set" / "images", cache)


def test_labels_for_missing_files_and_files_without_labels(folder: Path, cache: Path) -> None:
    put_images(folder, "d.jpg")
    (folder / "labels.csv").write_text(CSV + "gone.jpg,sky\nA.JPG,sky\n")
    collection = read(folder, cache)
    assert collection.ids == ["a.jpg", "b.png", "c.jpg", "d.jpg"]
    assert labels_of(collection)["d.jpg"] is None
    assert collection.notes[:3] == [
        Note("labels.csv", 5, "labels for 'gone.jpg', which does not exist"),
        Note("labels.csv", 6, "labels for 'A.JPG', which does not exist (but 'a.jpg' does)"),
        Note("d.jpg", None, "no entry in labels.csv; treated as unlabeled"),
    ]
    with pytest.raises(SourceError, match=r"labels\.csv, line 5: labels for 'gone\.jpg'.*3 problems.*strict"):
        read(folder, cache, strict=True)


def test_strict_rejects_unknown_files(folder: Path, cache: Path) -> None:
    read(folder, cache, strict=True)
    put_images(folder, "movie.mp4")
    with pytest.raises(SourceError, match=r"movie\.mp4: skipped"):
        read(folder, cache, strict=True)


def test_no_entry_names_an_image(folder: Path, cache: Path) -> None:
    (folder / "labels.csv").write_text("filename,labels\nx/a.jpg,sky\n../pics/b.png,sea\n")
    with pytest.raises(
        SourceError, match=r"none of its 2 entries names an image .*'x/a\.jpg'; the folder contains 'a\.jpg'"
    ):
        read(folder, cache)


def test_duplicate_names(folder: Path, cache: Path) -> None:
    (folder / "labels.csv").write_text(CSV + "a.jpg,water|sky\n")
    notes = read(folder, cache).notes
    assert Note("labels.csv", 5, "'a.jpg' is repeated, as in line 2") in notes
    (folder / "labels.csv").write_text(CSV + "./a.jpg,water\n")
    with pytest.raises(SourceError, match=r"labels\.csv, line 5: './a\.jpg' is repeated .* in line 2"):
        read(folder, cache)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty. Expected: columns filename"),
        (b"\n \n", "is empty"),
        (b"filename,labels\na.jpg,sky,water\n", r"line 2: 3 cells, expected 2\. Join the labels"),
        (b"a.jpg,sky\nb.png,sky,water\n", "line 2: 3 cells"),
        (b"x,y,z\na.jpg,sky,water\n", "has the columns x, y, z. Expected: columns"),
        (b"filename,labels\n,sky\n", "line 2: the file name is empty"),
        (b"filename,labels\na.jpg,caf\xe9\n", r"is not UTF-8 text \(byte 25 is 0xe9\)"),
        ("filename,labels\na.jpg,sky\n".encode("utf-16"), "is not UTF-8 text"),
        (b"filename,labels\na.jpg,\nb.png,|\n", "none of the 3 items carries a label"),
        (b"filename,labels\n", "none of its 0 entries"),
    ],
)
def test_bad_label_files(folder: Path, cache: Path, content: bytes, message: str) -> None:
    (folder / "labels.csv").write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        read(folder, cache)
    assert "labels.csv" in str(caught.value)


def test_metadata_without_the_columns(folder: Path, cache: Path) -> None:
    (folder / "labels.csv").unlink()
    pq.write_table(pa.table({"file_name": ["a.jpg"], "caption": ["hi"]}), folder / "metadata.parquet")
    with pytest.raises(SourceError, match=r"has the columns (file_name, caption|caption, file_name)"):
        read(folder, cache)
    (folder / "metadata.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(SourceError, match=r"metadata\.parquet is not a readable Parquet file"):
        read(folder, cache)
    (folder / "metadata.parquet").unlink()
    (folder / "metadata.jsonl").write_text('{"file_name": "a.jpg"}\n')
    with pytest.raises(SourceError, match="has the columns file_name"):
        read(folder, cache)


def test_two_label_files(folder: Path, cache: Path) -> None:
    (folder / "metadata.csv").write_text("file_name,label\na.jpg,x\n")
    with pytest.raises(SourceError, match=r"several label files: labels\.csv, metadata\.csv\. Name one"):
        read(folder, cache)
    assert read(folder, cache, labels="labels.csv").label_names == ["sky", "water"]


def test_a_name_that_is_not_utf8_is_listed(folder: Path, cache: Path) -> None:
    try:
        with open(bytes(folder) + b"/caf\xe9.jpg", "wb") as file:
            file.write(b"x")
    except OSError:
        pytest.skip("this file system keeps UTF-8 names only")
    collection = read(folder, cache)
    assert collection.ids == ["a.jpg", "b.png", "c.jpg"]
    assert any("the name is not UTF-8" in note.message for note in collection.notes)
    open_source(SourceOptions(path=str(folder)), cache).digest(cache)


# Labels that cannot be learned.


@pytest.mark.parametrize("layout", ["file", "folders", "table"])
def test_one_label_alone(tmp_path: Path, cache: Path, layout: str) -> None:
    path = tmp_path / "set"
    if layout == "table":
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"f0": [1, 2], "label:sky": [1, 0]}), path)
    else:
        put_images(path, "sky/a.jpg", "sky/b.jpg")
        if layout == "file":
            (path / "labels.csv").write_text("sky/a.jpg,sky\nsky/b.jpg,sky\n")
    with pytest.raises(SourceError, match=r"has one label only, 'sky' .*needs at least two.* second class"):
        read(path, cache)


def test_all_labels_dropped(folder: Path, cache: Path) -> None:
    with pytest.raises(SourceError, match=r"no label is left \(2 found, 2 dropped .*min_label_count=50\)"):
        read(folder, cache, min_label_count=50)
    with pytest.raises(SourceError, match="has one label only, 'sky'"):
        read(folder, cache, drop_labels=("water",))


def test_a_class_with_one_member_is_noted(folder: Path, cache: Path) -> None:
    few = "2 of 2 labels have fewer than 5 items, too few for training and testing: 'water' (1), 'sky' (2); "
    assert label_notes(read(folder, cache)) == [
        Note("labels", None, f"{few}source.min_label_count=5 drops them")
    ]


# Tables.

GOOD = {"f0": [1.0, 2.0, 3.0], "f1": [1, 2, 3], "label:a": [1, 0, 1], "label:b": [0, 1, 1]}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"f1": [1.0, None, None]},
            r"2 missing values in 1 of 2 features.*row 2, column 'f1'.*features\.fill",
        ),
        ({"f1": [1.0, 2.0, float("inf")]}, "column 'f1', row 3: inf is not a finite"),
        ({"f1": [1e60, 2.0, 3.0]}, r"column 'f1', row 1: 1e\+60 is not a finite 32-bit"),
        ({"f1": ["1", "red", "3"]}, "column 'f1'.*(red|string).*(number)"),
        ({"label:b": [0, 2, 1]}, "row 2, column 'label:b': 2; expected 0, 1 or an empty cell"),
        ({"label:b": [0, 1, None]}, r"row 3: column 'label:b' is empty while .*\(1 such rows\)"),
        ({"label:b": ["no", "yes", "no"]}, "column 'label:b'"),
        ({"class": ["x", "y", "x"]}, "has both 'class' and 2 label:<name> columns"),
        ({"label:a": [None] * 3, "label:b": [None] * 3}, "none of the 3 items carries a label"),
    ],
)
def test_bad_tables(tmp_path: Path, cache: Path, suffix: str, change: dict[str, list], message: str) -> None:
    path = tmp_path / f"t{suffix}"
    columns = GOOD | change
    if suffix == ".csv":
        rows = zip(*columns.values(), strict=True)
        lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
        path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    else:
        pq.write_table(pa.table(columns), path)
    with pytest.raises(SourceError, match=message) as caught:
        read(path, cache)
    assert path.name in str(caught.value)


def test_tables_without_features_or_labels(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"width": ["a", "b"], "class": ["x", "y"]}), path)
    with pytest.raises(SourceError, match=r"no feature columns.*'width' contain text.*source\.features"):
        read(path, cache)
    pq.write_table(pa.table({"f0": [1.0], "kind": ["x"]}), path)
    with pytest.raises(
        SourceError, match=r"neither label:<name> columns nor a column class.*--set source\.labels=kind"
    ):
        read(path, cache)
    with pytest.raises(SourceError, match=r"no column 'z' for source\.labels, but f0, kind"):
        read(path, cache, labels="z")
    pq.write_table(pa.table({"f0": pa.array([], pa.float64()), "class": pa.array([], pa.string())}), path)
    with pytest.raises(SourceError, match="has no items"):
        read(path, cache)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f0,f1,class\n1,2,x\n1,2\n", "row 2: 2 cells, but the header has 3"),
        ("f0,f1,class\n1,2,x\n1,2,y,z\n", "row 2: 4 cells, but the header has 3"),
        ("f0,f0,class\n1,2,x\n", "column 'f0' more than once"),
        ("f0,f1,class\n1,2,x\n\n1,2a,y\n", "row 2, column 'f1': '2a' is not a number"),
        ("f0,f1,class\n", "has no items"),
    ],
)
def test_bad_csv_tables(tmp_path: Path, cache: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SourceError, match=message):
        read(tmp_path / "t.csv", cache)


def test_torn_parquet(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(GOOD), path)
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-20], whole[4:40] + b"\0" * 64 + whole[100:]):
        path.write_bytes(content)
        with pytest.raises(SourceError, match=r"t\.parquet"):
            read(path, cache)
