"""Texts: folders of .txt files and tables with a column of texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source

ROWS = [
    ("m1", "The ball is round", "sport"),
    ("m2", 'She said: "sing", twice\nand again', "music"),
    ("m3", "Goal, goal; goal", "sport"),
    ("m4", "A quiet song", "music"),
]


def read(path: Path, **options: Any) -> Collection:
    cache = path.parent / "cache"
    source = open_source(SourceOptions(path=str(path), **options), cache)
    source.digest(cache)
    return source.read(cache)


def write_table(path: Path, columns: dict[str, list[Any]]) -> Path:
    table = pa.table(columns)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        pc.write_csv(table, path, pc.WriteOptions(delimiter=mark))
    return path


def write_texts(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("column", ["text", "body", "Content"])
def test_a_table_of_texts(tmp_path: Path, suffix: str, column: str) -> None:
    ids, texts, classes = map(list, zip(*ROWS, strict=True))
    path = write_table(tmp_path / f"posts{suffix}", {"id": ids, column: texts, "category": classes})
    found = read(path)
    assert (found.kind, found.ids, found.label_names) == ("text_table", ids, ["music", "sport"])
    assert found.single_label
    assert found.parts[0].texts == texts
    np.testing.assert_array_equal(found.labels[:, 1], [1, 0, 1, 0])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_several_labels(tmp_path: Path, suffix: str) -> None:
    table = {"text": ["aa", "bb", "cc"], "label:sky": [1, 0, None], "label:sea": [1, 1, None]}
    found = read(write_table(tmp_path / f"t{suffix}", table))
    np.testing.assert_array_equal(found.labels, [[1, 1], [0, 1], [-1, -1]])
    assert not found.single_label
    joined = {"text": ["aa", "bb", "cc"], "labels": ["sky|sea", "sea", ""]}
    found = read(write_table(tmp_path / f"u{suffix}", joined))
    np.testing.assert_array_equal(found.labels, [[1, 1], [1, 0], [-1, -1]])
    assert found.label_names == ["sea", "sky"]


def test_lists_of_labels(tmp_path: Path) -> None:
    table = {"text": ["aa", "bb"], "labels": [["sky", "sea"], ["sea"]]}
    for suffix in (".parquet", ".jsonl"):
        found = read(write_table(tmp_path / f"t{suffix}", table))
        np.testing.assert_array_equal(found.labels, [[1, 1], [1, 0]])


def test_an_empty_text_is_listed_and_has_no_digest(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"text": ["aa", "", "cc"], "class": ["x", "y", "y"]})
    found = read(path)
    assert [bool(digest) for digest in found.digests] == [True, False, True]
    assert [(note.row, note.message) for note in found.notes] == [(2, "the text is empty")]
    with pytest.raises(SourceError, match=r"t\.csv, line 2: the text is empty"):
        read(path, strict=True)


def test_a_column_with_another_name(tmp_path: Path) -> None:
    table = {"message": ["aa bb", "cc dd"], "length": [5, 5], "mood": ["good", "bad"]}
    path = write_table(tmp_path / "t.csv", table)
    with pytest.raises(SourceError, match=r"message, length, mood|columns"):
        read(path)
    found = read(path, text="message", labels="mood")
    assert (found.kind, found.parts[0].texts) == ("text_table", ["aa bb", "cc dd"])
    assert found.notes[-1].message == "1 columns are neither text nor labels: length"
    with pytest.raises(SourceError, match=r"does not have the column 'massage'.*source\.text"):
        read(path, text="massage")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a"], "other": ["b"]}, r"no label column.*text, other.*source\.labels"),
        ({"text": ["a"], "class": ["b"], "target": ["c"]}, r"several label columns: class, target"),
        ({"text": ["a", "b"], "label:x": [1, 2]}, r"row 2, column 'label:x': '2'; expected 0, 1 or empty"),
        ({"text": ["a"], "label:x": [1], "label:y": [None]}, r"row 1: some labels are empty"),
        ({"id": ["q", "q"], "text": ["a", "b"], "class": ["x", "y"]}, r"row 2: the id 'q' is also that of"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(write_table(tmp_path / "t.csv", columns))


def test_tables_with_numeric_features_are_not_tables_of_texts(tmp_path: Path) -> None:
    table = {"text": ["a", "b"], "f0": [1.0, 2.0], "class": ["x", "y"]}
    for suffix in (".csv", ".parquet"):
        assert read(write_table(tmp_path / f"t{suffix}", table)).kind == "table"


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(WORDS, st.sampled_from(["x", "y", None])), min_size=1, max_size=8))
def test_any_text_comes_back_from_json(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    rows = [*rows, ("p", "x"), ("q", "y")]
    path = tmp_path_factory.mktemp("texts") / "t.jsonl"
    path.write_text("".join(json.dumps({"text": text, "class": name}) + "\n" for text, name in rows))
    found = read(path)
    assert found.parts[0].texts == [text if text.strip() else None for text, _ in rows]
    assert [bool(digest) for digest in found.digests] == [bool(text.strip()) for text, _ in rows]
    named = ["xy"[int(row[1])] if row[0] >= 0 else None for row in found.labels]
    assert named == [name for _, name in rows]


def test_a_folder_with_one_sub_folder_per_class(tmp_path: Path) -> None:
    texts = {"sport/1.txt": "ball", "sport/2.TXT": "goal", "music/1.txt": "song", "9.txt": "later"}
    found = read(write_texts(tmp_path / "texts", texts))
    assert (found.kind, found.ids) == ("text", ["9.txt", "music/1.txt", "sport/1.txt", "sport/2.TXT"])
    assert found.label_names == ["music", "sport"]
    np.testing.assert_array_equal(found.labels, [[-1, -1], [1, 0], [0, 1], [0, 1]])
    assert found.parts[0].content == "text"
    assert found.parts[0].paths is not None


@pytest.mark.parametrize("header", ["filename,labels\n", ""])
def test_a_folder_with_a_label_file(tmp_path: Path, header: str) -> None:
    folder = write_texts(tmp_path / "texts", {"a.txt": "ball", "b.txt": "goal", "c.txt": "song"})
    (folder / "labels.csv").write_text(f"{header}a.txt,sport|loud\nb.txt,sport\n")
    for path in (folder, folder / "labels.csv"):
        found = read(path)
        assert (found.kind, found.label_names) == ("text", ["loud", "sport"])
        np.testing.assert_array_equal(found.labels, [[1, 1], [0, 1], [-1, -1]])


def test_unlabeled_texts(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts", {"a.txt": "ball", "b.txt": "goal"})
    with pytest.raises(SourceError, match=r"contains 2 texts but no labels"):
        read(folder)
    assert read(folder, labeled=False).ids == ["a.txt", "b.txt"]


class TestMixedFolders:
    """The medium of most files decides; texts count for a tenth."""

    def test_pictures_with_captions_are_pictures(self, tmp_path: Path) -> None:
        folder = tmp_path / "pictures"
        for name in ("cat/1", "cat/2", "dog/1"):
            write_texts(folder, {f"{name}.txt": "a caption", f"{name}.en.txt": "another"})
            Image.new("RGB", (4, 4)).save(folder / f"{name}.png")
        found = read(folder)
        assert (found.kind, len(found.ids)) == ("images", 3)

    def test_texts_with_a_picture_are_texts(self, tmp_path: Path) -> None:
        folder = write_texts(tmp_path / "t", {f"{name}/{k}.txt": "word" for name in "ab" for k in range(10)})
        Image.new("RGB", (4, 4)).save(folder / "logo.png")
        found = read(folder)
        assert (found.kind, len(found.ids)) == ("text", 20)
        assert found.notes[0].message.startswith("skipped: .png is not a supported format of texts (.txt)")

    def test_the_user_decides_otherwise(self, tmp_path: Path) -> None:
        folder = write_texts(tmp_path / "t", {"cat/1.txt": "a caption", "dog/2.txt": "another"})
        Image.new("RGB", (4, 4)).save(folder / "cat" / "1.png")
        assert read(folder, kind="text").ids == ["cat/1.txt", "dog/2.txt"]

    def test_notes_beside_a_table_do_not_hide_it(self, tmp_path: Path) -> None:
        folder = write_texts(tmp_path / "t", {"README.txt": "notes", "docs/license.txt": "free"})
        write_table(folder / "data.csv", {"f0": [1.0, 2.0], "class": ["x", "y"]})
        assert read(folder).kind == "table"
