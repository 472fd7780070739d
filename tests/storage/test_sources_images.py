"""Image folders: label files in every format, classes by folder, real-world file names."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source


def put_images(folder: Path, *names: str) -> None:
    """Files named like images; readers use names and bytes, not pixels."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"pixels of {name}".encode())


def read(path: Path, **options: object) -> Collection:
    cache = path.parent / "cache" if path.is_dir() else path.parent.parent / "cache"
    return open_source(SourceOptions(path=str(path), **options), cache).read(cache)  # type: ignore[arg-type]


def labels_of(collection: Collection) -> dict[str, set[str] | None]:
    """Labels by id, None for unlabeled items."""
    result: dict[str, set[str] | None] = {}
    for name, row in zip(collection.ids, collection.labels, strict=True):
        labels = {label for label, value in zip(collection.label_names, row, strict=True) if value == 1}
        result[name] = None if (row == -1).all() else labels
    return result


EXPECTED = {"a.jpg": {"sky", "water"}, "b.png": {"sky"}, "c.jpg": None}
CSV = "filename,labels\na.jpg,sky|water\nb.png,sky\nc.jpg,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_images(tmp_path / "pics", "a.jpg", "b.png", "c.jpg")
    return tmp_path / "pics"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.csv", CSV.encode()),
        ("labels.csv", b"\xef\xbb\xbf" + CSV.encode()),
        ("labels.csv", CSV.replace("\n", "\r\n").encode()),
        ("labels.csv", b'"filename","labels"\n"a.jpg","sky|water"\n"b.png","sky"\n"c.jpg",""\n'),
        ("labels.csv", b"a.jpg,sky|water\nb.png,sky\nc.jpg\n"),
        ("labels.csv", b"picture,what\na.jpg, sky | water |\nb.png,sky|sky\nc.jpg,\n\n"),
        ("labels.csv", b"filename;labels\na.jpg;sky|water\nb.png;sky\nc.jpg;\n"),
        ("labels.tsv", b"filename\tlabels\na.jpg\tsky|water\nb.png\tsky\nc.jpg\t\n"),
        ("Labels.CSV", CSV.encode()),
        ("metadata.csv", b"caption,file_name,label,x\nhi,a.jpg,sky|water,1\nho,b.png,sky,2\n,c.jpg,,3\n"),
        (
            "metadata.jsonl",
            b'{"file_name": "a.jpg", "labels": ["sky", "water"]}\n'
            b'{"file_name": "b.png", "labels": "sky"}\n\n{"file_name": "c.jpg", "labels": null}\n',
        ),
        (
            "metadata.jsonl",
            b'{"filename":"a.jpg","label":"water|sky"}\r\n{"filename":"b.png","label":"sky"}\n',
        ),
    ],
)
def test_every_format_of_label_file_reads_the_same(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    for path in (folder, folder / name):
        collection = read(path)
        assert labels_of(collection) == EXPECTED
        assert collection.label_names == ["sky", "water"]
        assert collection.labels.dtype == np.int8
        assert not collection.single_label
        assert collection.kind == "images"
        assert collection.paths == [folder / name for name in collection.ids]
        assert len(set(collection.digests)) == 3


@pytest.mark.parametrize("column", ["label", "labels"])
@pytest.mark.parametrize("listed", [True, False])
def test_parquet_metadata_with_lists_or_text(folder: Path, column: str, listed: bool) -> None:
    values = [["sky", "water"], ["sky"], None] if listed else ["sky|water", "sky", None]
    table = pa.table(
        {"file_name": ["a.jpg", "b.png", "c.jpg"], column: values, "split": ["train", "test", None]}
    )
    pq.write_table(table, folder / "metadata.parquet")
    collection = read(folder)
    assert labels_of(collection) == EXPECTED
    assert collection.split == ["train", "test", ""]


def test_another_separator(folder: Path) -> None:
    (folder / "labels.csv").write_text("filename,labels\na.jpg,sky; water\nb.png,sky\nc.jpg,\n")
    assert labels_of(read(folder, label_separator=";")) == EXPECTED


def test_a_label_file_with_another_name(folder: Path) -> None:
    (folder / "labels.csv").write_text("a.jpg,wrong\nb.png,other\n")
    (folder / "mine.csv").write_text(CSV)
    assert labels_of(read(folder, labels="mine.csv")) == EXPECTED
    with pytest.raises(SourceError, match=r"labels='nowhere\.csv': no such file"):
        read(folder, labels="nowhere.csv")


def test_single_label_by_column_name_and_content(folder: Path) -> None:
    (folder / "labels.csv").write_text("filename,label\na.jpg,sky\nb.png,sea\nc.jpg,\n")
    assert read(folder).single_label
    (folder / "labels.csv").write_text("filename,labels\na.jpg,sky\nb.png,sea\nc.jpg,\n")
    assert not read(folder).single_label


def test_names_relative_to_the_folder_or_to_its_images(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    put_images(folder, "images/a.jpg", "images/deep/b.jpg", "top.jpg")
    (folder / "labels.csv").write_text("a.jpg,x\nimages/deep/b.jpg,y\n./top.jpg,x|y\n")
    expected = {"images/a.jpg": {"x"}, "images/deep/b.jpg": {"y"}, "top.jpg": {"x", "y"}}
    assert labels_of(read(folder)) == expected
    (folder / "labels.csv").write_text('a.jpg,x\n"deep\\b.jpg",y\ntop.jpg,x|y\n')
    assert labels_of(read(folder)) == expected


def test_metadata_inside_images_is_found_and_relative_to_itself(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    put_images(folder, "images/a.jpg", "images/b.jpg", "a.jpg")
    (folder / "images" / "metadata.csv").write_text("file_name,label\na.jpg,x\nb.jpg,y\n")
    assert labels_of(read(folder)) == {"a.jpg": None, "images/a.jpg": {"x"}, "images/b.jpg": {"y"}}


def test_real_world_file_names(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    decomposed = unicodedata.normalize("NFD", "café.jpg")
    names = ["SHOUT.JPG", "a, b.jpg", 'say "hi".png', "雪 山.webp", decomposed, "dots.in.name.jpeg"]
    put_images(folder, *names)
    rows = [
        "SHOUT.JPG,x",
        '"a, b.jpg",y',
        '"say ""hi"".png",x',
        "雪 山.webp,雪|x",
        "café.jpg,y",
        "dots.in.name.jpeg,y",
    ]
    (folder / "labels.csv").write_text("\n".join(rows), encoding="utf-8")
    collection = read(folder)
    assert collection.ids == sorted(names)
    assert labels_of(collection)[decomposed] == {"y"}
    assert labels_of(collection)["雪 山.webp"] == {"雪", "x"}
    assert collection.notes == []


def test_one_folder_per_class(tmp_path: Path) -> None:
    folder = tmp_path / "pets"
    put_images(
        folder, "cat/1.jpg", "cat/young/2.jpg", "dog/1.jpg", "unlabelled/7.jpg", "Unlabeled/8.jpg", "9.jpg"
    )
    collection = read(folder)
    assert collection.single_label
    assert collection.label_names == ["cat", "dog"]
    assert labels_of(collection) == {
        "9.jpg": None,
        "Unlabeled/8.jpg": None,
        "cat/1.jpg": {"cat"},
        "cat/young/2.jpg": {"cat"},
        "dog/1.jpg": {"dog"},
        "unlabelled/7.jpg": None,
    }


@pytest.mark.parametrize("prefix", ["images/", "train/"])
def test_classes_below_images_or_a_split(tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "pets"
    put_images(folder, f"{prefix}cat/1.jpg", f"{prefix}dog/1.jpg", f"{prefix}unlabeled/2.jpg")
    collection = read(folder)
    assert collection.label_names == ["cat", "dog"]
    assert collection.split == (["train"] * 3 if prefix == "train/" else None)


def test_hidden_and_companion_files_are_skipped_and_unknown_ones_listed(folder: Path) -> None:
    (folder / "labels.csv").write_text(CSV)
    put_images(folder, ".hidden.jpg", ".git/x.jpg", "__MACOSX/a.jpg", "README", "notes.txt", "movie.mp4")
    collection = read(folder)
    assert collection.ids == ["a.jpg", "b.png", "c.jpg"]
    assert [note.file for note in collection.notes if ".mp4" in note.message] == ["movie.mp4"]
    assert not [note for note in collection.notes if note.file in ("README", "notes.txt")]


def test_the_cache_inside_the_folder_is_skipped(folder: Path) -> None:
    (folder / "labels.csv").write_text(CSV)
    put_images(folder, "home/demo/x.jpg")
    options = SourceOptions(path=str(folder))
    assert open_source(options, folder / "home").read(folder / "home").ids == ["a.jpg", "b.png", "c.jpg"]


def test_links_are_followed_once(folder: Path) -> None:
    (folder / "labels.csv").write_text(CSV)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "gone.jpg").symlink_to(folder / "nowhere.jpg")
    collection = read(folder)
    assert collection.ids == ["a.jpg", "b.png", "c.jpg"]
    assert [note.file for note in collection.notes if "skipped" in note.message] == ["gone.jpg"]


def test_digest_follows_content_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    (folder / "labels.csv").write_text(CSV)
    cache = tmp_path / "cache"
    source = open_source(SourceOptions(path=str(folder)), cache)
    first, before = source.digest(cache), source.read(cache)
    (folder / "b.png").touch()
    (folder / "notes.txt").write_text("beside the point")
    assert source.digest(cache) == first
    put_images(folder, "b.png")
    (folder / "b.png").write_bytes(b"other pixels")
    assert source.digest(cache) != first
    after = source.read(cache)
    assert [a == b for a, b in zip(before.digests, after.digests, strict=True)] == [True, False, True]
    second = source.digest(cache)
    (folder / "labels.csv").write_text(CSV.replace("b.png,sky", "b.png,sea"))
    assert source.digest(cache) not in (first, second)
    assert source.read(cache).digests == after.digests


def test_the_digest_does_not_depend_on_where_the_folder_is(folder: Path, tmp_path: Path) -> None:
    (folder / "labels.csv").write_text(CSV)
    cache = tmp_path / "cache"
    first = open_source(SourceOptions(path=str(folder)), cache).digest(cache)
    moved = folder.rename(tmp_path / "moved")
    assert open_source(SourceOptions(path=str(moved)), cache).digest(cache) == first


def test_long_lists_of_files_without_an_entry_are_shortened(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    put_images(folder, *(f"{k:04}.jpg" for k in range(300)))
    (folder / "labels.csv").write_text("0000.jpg,x\n0001.jpg,y\n")
    notes = [note for note in read(folder).notes if "no entry" in note.message]
    assert len(notes) == 101
    assert notes[-1].message.startswith("and 198 more")


@pytest.mark.slow
def test_msrc_by_folder_and_by_file(shared_data: Path, tmp_path: Path) -> None:
    for path in (shared_data / "msrc_v2", shared_data / "msrc_v2" / "labels.csv"):
        source = open_source(SourceOptions(path=str(path)), tmp_path)
        collection = source.read(tmp_path)
        assert source.name == "msrc_v2"
        assert collection.labels.shape == (591, 23)
        assert collection.labels.sum() / 591 == pytest.approx(2.607, abs=5e-4)
        assert not collection.notes
    dropped = open_source(SourceOptions(path=str(shared_data / "msrc_v2"), drop_labels=("horse",)), tmp_path)
    assert dropped.read(tmp_path).labels.shape == (591, 22)


def test_jsonl_errors_name_the_line(folder: Path) -> None:
    path = folder / "metadata.jsonl"
    for bad in (
        "{not json}",
        '["a.jpg", "x"]',
        '{"file_name": "", "label": "x"}',
        '{"file_name": "b.png", "label": [["x"]]}',
    ):
        path.write_text(json.dumps({"file_name": "a.jpg", "label": "x"}) + "\n" + bad + "\n")
        with pytest.raises(SourceError, match=r"metadata\.jsonl, line 2"):
            read(folder)
