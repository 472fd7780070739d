"""Changed labels in CSV files: only the changed lines differ."""

from pathlib import Path

import pytest

from storage.errors import SourceError
from storage.label_edits import add_to_log, find_label_place, log_path, read_log, undone_on_error
from storage.sources import SourceOptions, open_source
from tests.picture_collections import draw

CACHE = "cache"


def place_of(path: Path, tmp_path: Path, **options: str):
    source = open_source(SourceOptions(str(path), **options), tmp_path / CACHE)
    return find_label_place(source, source.read(tmp_path / CACHE).ids)


def pictures(folder: Path, labels: bytes, name: str = "labels.csv") -> Path:
    for number in range(4):
        draw(folder / "images" / f"p{number}.png")
    (folder / name).write_bytes(labels)
    return folder


def test_only_the_changed_lines_of_a_label_file_differ(tmp_path: Path) -> None:
    before = b'filename,note,labels\r\nimages/p0.png,"a, b",sky|sea\r\np1.png,,"sky"\r\np2.png,x,sea\r\n'
    place = place_of(pictures(tmp_path / "p", before), tmp_path)
    assert place
    after = place.edit({"images/p1.png": ("sea", "sky"), "images/p3.png": ("sky",)})
    lines = before.split(b"\r\n")
    assert after.split(b"\r\n") == [*lines[:2], b"p1.png,,sea|sky", lines[3], b"images/p3.png,,sky", b""]


def test_a_byte_order_mark_and_a_missing_last_line_end_are_kept(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbffilename;labels\nimages/p0.png;sky\nimages/p1.png;sea"
    place = place_of(pictures(tmp_path / "p", content), tmp_path)
    assert place
    assert place.edit({"images/p2.png": ("sea",)}) == content + b"\nimages/p2.png;sea\n"
    assert place.edit({}) == content


def test_a_label_that_is_a_formula_is_marked_as_text(tmp_path: Path) -> None:
    content = b"filename,labels\nimages/p0.png,sky\nimages/p1.png,sea\n"
    place = place_of(pictures(tmp_path / "p", content), tmp_path)
    assert place
    assert b"images/p0.png,'=1+2\n" in place.edit({"images/p0.png": ("=1+2",)})


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("id,f0,labels", "b,1,sky|sea", "b,2,sea"),
        ("id,f0,label:sea,label:sky", "b,1,1,1", "b,2,1,0"),
    ],
    ids=["joined", "columns of 0/1"],
)
def test_label_columns_of_a_table(tmp_path: Path, header: str, row: str, expected: str) -> None:
    others = {"id,f0,labels": ["a,3,sky", "c,5,sea|sky"]}.get(header, ["a,3,0,1", "c,5,1,1"])
    table = tmp_path / "t.csv"
    second = expected.replace(",sea", ",").replace("b,2,1,0", "b,2,,")
    table.write_text("\n".join([header, others[0], second, others[1]]) + "\n")
    place = place_of(table, tmp_path)
    assert place
    text = place.edit({"b": ("sea",)}).decode().splitlines()
    assert text == [header, others[0], expected, others[1]]


def test_a_table_without_a_column_for_a_label_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,f0,label:sea,label:sky\na,1,0,1\nb,2,1,0\n")
    place = place_of(table, tmp_path)
    assert place
    with pytest.raises(SourceError, match="no column for the label 'cow'"):
        place.edit({"a": ("cow",)})


def test_labels_by_folder_cannot_be_edited(tmp_path: Path) -> None:
    for name in ("cat/a.png", "cat/b.png", "dog/c.png"):
        draw(tmp_path / "p" / name)
    assert place_of(tmp_path / "p", tmp_path) is None


def test_the_log_grows_and_survives_damage(tmp_path: Path) -> None:
    log = log_path(tmp_path / "labels.csv")
    assert log.name == "labels.corrections.jsonl"
    add_to_log(log, [{"id": "a", "after": ["sky"]}])
    log.write_text(log.read_text() + "not json\n")
    add_to_log(log, [{"id": "b"}])
    assert [one["id"] for one in read_log(log)] == ["a", "b"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_files_get_their_content_back(tmp_path: Path, error: type[BaseException]) -> None:
    changed, gone, made, folder = (tmp_path / name for name in ("changed", "gone", "made", "folder"))
    changed.write_bytes(b"1")
    gone.write_bytes(b"2")
    folder.mkdir()
    with pytest.raises(error), undone_on_error(changed, gone, made, folder):
        changed.write_bytes(b"3")
        gone.unlink()
        made.write_bytes(b"4")
        raise error
    assert (changed.read_bytes(), gone.read_bytes(), made.exists(), folder.is_dir()) == (
        b"1",
        b"2",
        False,
        True,
    )


def test_files_stay_changed_without_an_error(tmp_path: Path) -> None:
    with undone_on_error(tmp_path / "made"):
        (tmp_path / "made").write_bytes(b"1")
    assert (tmp_path / "made").read_bytes() == b"1"
