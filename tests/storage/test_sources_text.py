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
    assert found.notes[-1].message == (
        "1 column contains numbers beside texts and is not used; --set source.features=COLUMNS uses it "
        "instead: length"
    )
    with pytest.raises(SourceError, match=r"does not have the column 'massage'.*source\.text"):
        read(path, text="massage")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a"], "other": ["b"]}, r"neither label:<name> columns nor.*--set source\.labels=other"),
        ({"text": ["a"], "class": ["b"], "label:x": [1]}, r"both 'class' and 1 label:<name> column"),
        ({"text": ["a", "b"], "label:x": [1, 2]}, r"row 2, column 'label:x': 2; expected 0, 1 or an empty"),
        ({"text": ["a"], "label:x": [1], "label:y": [None]}, r"row 1: column 'label:y' is empty while"),
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


COLUMNS: dict[str, list[Any]] = {
    "post": ["p1", "p2", "p3", "p4"],
    "text": ["one two three", "two three four", "three four five", "four five six"],
    "sky": [1, 0, 1, 0],
    "sea": [0, 1, 1, 0],
    "mood": ["good", "bad", "good", "bad"],
    "part": ["train", "train", "test", "test"],
    "stars": [5, 2, 4, 1],
}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
class TestRolesOfTextTables:
    """Columns are chosen as in other tables."""

    def test_settings_choose_columns(self, tmp_path: Path, suffix: str) -> None:
        path = write_table(tmp_path / f"t{suffix}", COLUMNS)
        found = read(path, id="post", labels="s[ke]*", split="part", ignore=("mo*", "stars"))
        assert (found.kind, found.ids, found.label_names) == ("text_table", COLUMNS["post"], ["sky", "sea"])
        np.testing.assert_array_equal(found.labels, [[1, 0], [0, 1], [1, 1], [0, 0]])
        assert found.split == COLUMNS["part"]
        assert found.recognized == {
            "id": "column 'post'",
            "labels": "2 columns of 0/1",
            "split": "column 'part'",
            "text": "column 'text'",
        }
        assert [note.message for note in found.notes] == [
            "2 columns are left out by source.ignore: mood, stars"
        ]

    def test_a_list_of_columns(self, tmp_path: Path, suffix: str) -> None:
        path = write_table(tmp_path / f"t{suffix}", COLUMNS)
        assert read(path, labels="sky,sea").label_names == ["sky", "sea"]
        with pytest.raises(SourceError, match=r"column 'mood' does not contain 0 and 1"):
            read(path, labels="sky,mood")
        with pytest.raises(SourceError, match=r"no column 'modo' for source\.labels.*'mood'"):
            read(path, labels="modo")
        with pytest.raises(SourceError, match=r"no column 'pots' for source\.id.*'post'"):
            read(path, labels="mood", id="pots")

    def test_labels_in_a_file_beside_the_texts(self, tmp_path: Path, suffix: str) -> None:
        path = write_table(tmp_path / f"t{suffix}", {"id": COLUMNS["post"], "text": COLUMNS["text"]})
        write_table(tmp_path / "marks.csv", {"id": ["p4", "p3", "p1"], "label": ["bad", "good", "good"]})
        found = read(path, labels="marks.csv")
        np.testing.assert_array_equal(found.labels, [[0, 1], [-1, -1], [0, 1], [1, 0]])

    def test_sentences_win_over_columns_of_numbers(self, tmp_path: Path, suffix: str) -> None:
        path = write_table(tmp_path / f"t{suffix}", COLUMNS)
        found = read(path, labels="mood")
        assert found.kind == "text_table"
        said = " ".join(note.message for note in found.notes)
        assert "3 columns contain numbers beside texts and are not used" in said
        assert "--set source.features=COLUMNS uses them instead: sky, sea, stars" in said

    def test_other_rules(self, tmp_path: Path, suffix: str) -> None:
        """A class that holds the separator, and a quantity, are read as in other tables."""
        joined = {"text": COLUMNS["text"], "class": ["a|b", "b", "a", ""]}
        found = read(write_table(tmp_path / f"j{suffix}", joined))
        np.testing.assert_array_equal(found.labels, [[1, 1], [0, 1], [1, 0], [-1, -1]])
        many = {"text": [f"text {k}" for k in range(30)], "y": [k / 7 for k in range(30)]}
        with pytest.raises(SourceError, match="a quantity, not classes"):
            read(write_table(tmp_path / f"q{suffix}", many))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_beside_numbers_are_not_texts(tmp_path: Path, suffix: str) -> None:
    """A matrix of words per document; the notes say how to read the texts instead."""
    table = {"document": ["d1", "d2"], "sun": [1.5, 2.0], "class": ["x", "y"]}
    path = write_table(tmp_path / f"t{suffix}", table)
    found = read(path)
    assert found.kind == "table"
    assert "--set source.text=COLUMN reads one as texts: document" in found.notes[-1].message
    assert read(path, text="document").kind == "text_table"
    sentences = write_table(tmp_path / f"s{suffix}", COLUMNS)
    assert read(sentences, labels="mood", features=("stars",)).kind == "table"


def test_a_column_of_numbers_is_not_the_text(tmp_path: Path) -> None:
    table = {"text": [1, 2], "body": ["one two three", "four five six"], "class": ["x", "y"]}
    for suffix in (".csv", ".jsonl", ".parquet"):
        found = read(write_table(tmp_path / f"t{suffix}", table))
        assert found.recognized["text"] == "column 'body'"


def test_embeddings_win_over_texts(tmp_path: Path) -> None:
    table = {"text": ["a b c d"] * 2, "clip": [[1.0, 2.0], [3.0, 4.0]], "class": ["x", "y"]}
    path = write_table(tmp_path / "t.parquet", table)
    assert read(path).kind == "table"
    assert read(path, text="text").kind == "text_table"


def test_a_table_of_other_texts_names_the_setting(tmp_path: Path) -> None:
    table = {"id": ["a", "b"], "message": ["hello you", "bye you"], "mood": ["good", "bad"]}
    path = write_table(tmp_path / "t.csv", table)
    with pytest.raises(SourceError, match=r"no feature columns.*--set source\.text=message"):
        read(path, labels="mood")


@pytest.mark.parametrize("bad", ['{"text": "c", "label": {"a": 1}}', '{"text": "c", "label": [["a"]]}'])
def test_nested_labels_of_json_are_refused(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": 3}\n' + bad)
    with pytest.raises(SourceError, match="nested"):
        read(path, labels="label")


def test_json_labels_of_several_types(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": "x"}, {"text": "c", "label": None}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = read(path)
    assert found.label_names == ["1", "x"]
    np.testing.assert_array_equal(found.labels, [[1, 0], [0, 1], [-1, -1]])


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@pytest.mark.slow
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
