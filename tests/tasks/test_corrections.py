"""Merging corrections: what is written, what is logged, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from storage.errors import ConfigError, SourceError
from storage.sources import OpenedSource, SourceOptions, open_source
from tasks.label_care.corrections import (
    Correction,
    Merged,
    labels_by_id,
    load_checked,
    merge_corrections,
    read_corrections,
)
from tests.picture_collections import draw, task, write_json


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three labeled pictures and one without labels."""
    folder = tmp_path / "photos"
    for number in range(4):
        draw(folder / f"p{number}.png")
    (folder / "labels.csv").write_text("filename,labels\np0.png,sky|sea\np1.png,sky\np2.png,sea\n")
    return folder


def opened(path: Path, **options: Any):
    return open_source(SourceOptions(str(path), **options), path.parent / "cache")


def labels_of(path: Path, **options: Any) -> dict[str, tuple[str, ...] | None]:
    return labels_by_id(opened(path, **options).read(path.parent / "cache"))


def merge(path: Path, *answers: Correction, replace: bool = False, **options: Any) -> Merged:
    beside = path.with_name(f"{path.stem}-labels.csv")
    return merge_corrections(answers, opened(path, **options), path.parent / "cache", beside, replace)


def test_corrections_answers_and_confirmations(photos: Path) -> None:
    done = merge(
        photos,
        Correction(
            "p0.png", ("sea", "sky"), ("sky",), ("sea",), "ann", "2026-11-18T10:00:00Z", "probable error"
        ),
        Correction("p1.png", ("sky",), ("sky",), ("sky",), "ann"),
        Correction("p3.png", (), ("cow",), ("*",), "bob"),
    )
    assert (done.changed, done.answered, done.confirmed, done.cells) == (1, 1, 1, 2)
    assert labels_of(photos) == {
        "p0.png": ("sky",),
        "p1.png": ("sky",),
        "p2.png": ("sea",),
        "p3.png": ("cow",),
    }
    logged = [json.loads(line) for line in done.log.read_text().splitlines()]
    assert logged[0] == {
        "id": "p0.png",
        "before": ["sea", "sky"],
        "after": ["sky"],
        "checked": ["sea"],
        "who": "ann",
        "when": "2026-11-18T10:00:00Z",
        "why": "probable error",
    }
    assert logged[2]["before"] is None
    assert all(one["who"] and one["when"] for one in logged)


def test_decided_labels_do_not_come_back(photos: Path) -> None:
    merge(photos, Correction("p1.png", ("sky",), ("sky",), ("sky", "sea")))
    source = opened(photos)
    ids = source.read(photos.parent / "cache").ids
    assert load_checked(source, ids, photos / "unused.csv") == {("p1.png", "sky"), ("p1.png", "sea")}


def test_a_label_that_changed_since_is_a_conflict_and_nothing_is_written(photos: Path) -> None:
    content = (photos / "labels.csv").read_bytes()
    answers = (Correction("p2.png", ("sea",), ("sky",)), Correction("p1.png", ("cow",), ("sea",)))
    said = r"labels of 1 item changed .* 'p1.png' had cow then and has sky now.*Nothing was changed\.$"
    with pytest.raises(ConfigError, match=said):  # --replace would not help
        merge(photos, *answers)
    assert (photos / "labels.csv").read_bytes() == content
    assert not list(photos.glob("*.jsonl"))


def test_merging_twice_changes_nothing_more(photos: Path) -> None:
    answer = Correction("p0.png", ("sea", "sky"), ("sky",))
    merge(photos, answer)
    content = (photos / "labels.csv").read_bytes()
    log = (photos / "labels.corrections.jsonl").read_bytes()
    again = merge(photos, answer)
    assert (again.changed, again.confirmed, again.repeated) == (0, 0, 1)
    assert (photos / "labels.csv").read_bytes() == content
    assert (photos / "labels.corrections.jsonl").read_bytes() == log


def test_answers_without_before_replace_labels_only_if_asked(photos: Path) -> None:
    with pytest.raises(ConfigError, match="--replace"):
        merge(photos, Correction("p0.png", None, ("cow",)))
    merge(photos, Correction("p0.png", None, ("cow",)), replace=True)
    assert labels_of(photos)["p0.png"] == ("cow",)


def test_unknown_items_are_refused(photos: Path) -> None:
    with pytest.raises(ConfigError, match="1 of 1 corrections name items"):
        merge(photos, Correction("other.png", ("sky",), ("sea",)))


def test_labels_by_folder_go_to_a_new_file_that_a_run_reads(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    for name in ("cat/a.png", "cat/b.png", "cat/d.png", "dog/c.png"):
        draw(folder / name)
    done = merge(folder, Correction("cat/b.png", ("cat",), ("dog",)))
    assert done.is_new
    assert done.place == tmp_path / "classes-labels.csv"
    assert labels_of(folder, labels=str(done.place))["cat/b.png"] == ("dog",)
    again = merge(folder, Correction("cat/a.png", ("cat",), ("dog",)), labels=str(done.place))
    assert again.place == done.place
    with pytest.raises(ConfigError, match=r"source\.labels="):
        merge(folder, Correction("cat/a.png", ("cat",), ("dog",)))
    with pytest.raises(ConfigError, match="one class each"):
        merge(folder, Correction("dog/c.png", ("dog",), ("dog", "cat")), labels=str(done.place))


def test_a_table_of_columns(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,f0,label:sea,label:sky\na,1.5,0,1\nb,2,1,0\nc,3,,\n")
    merge(table, Correction("a", ("sky",), ("sea",)), Correction("c", (), ("sea", "sky")))
    assert table.read_text() == "id,f0,label:sea,label:sky\na,1.5,1,0\nb,2,1,0\nc,3,1,1\n"


def test_a_file_that_a_person_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "next.csv"
    file.write_text(
        'id,before,after,checked,why\na,,sky|sea,,x\nb,,,,"not answered"\nc,sky,,,\n\'=d,sea,sky,,\n'
    )
    found = read_corrections(file, "|")
    assert [(one.id, one.before, one.after) for one in found] == [
        ("a", (), ("sky", "sea")),
        ("=d", ("sea",), ("sky",)),
    ]


def test_two_answers_for_one_item_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    file.write_text("id,before,after\na,,sky\na,,sea\n")
    with pytest.raises(SourceError, match="answered twice"):
        read_corrections(file, "|")


def test_exports_of_other_tools(photos: Path) -> None:
    tasks = [task(1, "/data/local-files/?d=photos/p3.png", [["cow"]])]
    found = read_corrections(write_json(photos.parent / "export.json", tasks), "|")
    merge(photos, *found)
    assert labels_of(photos)["p3.png"] == ("cow",)
    lines = '{"file_name": "p2.png", "labels": ["sea"]}\n{"file_name": "p3.png", "labels": []}\n'
    (photos.parent / "metadata.jsonl").write_text(lines)
    answers = read_corrections(photos.parent / "metadata.jsonl", "|")
    assert [one.id for one in answers] == ["p2.png"]
    assert merge(photos, *answers).confirmed == 1


HIDDEN = pytest.mark.parametrize(
    "options", [{"min_label_count": 2}, {"drop_labels": ("rare",)}], ids=["min_label_count", "drop_labels"]
)


def with_rare_label(photos: Path) -> Path:
    """The pictures of `photos` with a label that one item has."""
    file = photos / "labels.csv"
    file.write_text("filename,labels\np0.png,sky|rare\np1.png,sky|sea\np2.png,sea\n")
    return file


@HIDDEN
def test_labels_that_the_settings_hide_are_kept_in_a_label_file(
    photos: Path, options: dict[str, Any]
) -> None:
    file = with_rare_label(photos)
    done = merge(photos, Correction("p0.png", ("sky",), ("sea",)), **options)
    assert file.read_text() == "filename,labels\np0.png,sea|rare\np1.png,sky|sea\np2.png,sea\n"
    assert (done.changed, done.cells) == (1, 2)
    logged = json.loads(done.log.read_text())
    assert (set(logged["before"]), set(logged["after"])) == ({"sky", "rare"}, {"sea", "rare"})


@HIDDEN
def test_labels_that_the_settings_hide_are_kept_in_label_columns(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table = tmp_path / "t.csv"
    header = "id,f0,label:rare,label:sea,label:sky\n"
    table.write_text(header + "a,1.5,1,0,1\nb,2,0,1,1\nc,3,0,1,0\n")
    merge(table, Correction("a", ("sky",), ("sea",)), **options)
    assert table.read_text() == header + "a,1.5,1,1,0\nb,2,0,1,1\nc,3,0,1,0\n"


@HIDDEN
def test_labels_that_the_settings_hide_are_kept_in_a_table_of_labels(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table, labels = tmp_path / "t.csv", tmp_path / "l.csv"
    table.write_text("id,f0\na,1.5\nb,2\nc,3\n")
    labels.write_text("id,labels\na,sky|rare\nb,sky|sea\nc,sea\n")
    merge(table, Correction("a", ("sky",), ("sea",)), labels=str(labels), **options)
    assert labels.read_text() == "id,labels\na,sea|rare\nb,sky|sea\nc,sea\n"


def test_classes_that_the_settings_hide_are_kept_in_a_new_file(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    for name in ("cat/a.png", "cat/b.png", "cat/e.png", "dog/c.png", "dog/d.png", "emu/f.png"):
        draw(folder / name)
    with pytest.raises(ConfigError, match=r"'emu/f.png'.*has emu now.*min_label_count.*Nothing was changed"):
        merge(folder, Correction("emu/f.png", (), ("cat",)), min_label_count=2)
    done = merge(folder, Correction("cat/b.png", ("cat",), ("dog",)), min_label_count=2)
    found = labels_of(folder, labels=str(done.place))
    assert (found["cat/b.png"], found["emu/f.png"]) == (("dog",), ("emu",))


def test_a_label_that_becomes_rare_by_a_correction_stays(photos: Path) -> None:
    (photos / "labels.csv").write_text("filename,labels\np0.png,sky|sea\np1.png,sky|cow\np2.png,sea|cow\n")
    first = Correction("p0.png", ("sea", "sky"), ("sky",))
    merge(photos, first, min_label_count=2)
    assert labels_of(photos)["p2.png"] == ("cow", "sea")
    # Reviewed when `sea` was frequent: the person saw it, so it is theirs to keep or to remove.
    again = merge(photos, first, Correction("p2.png", ("cow", "sea"), ("cow",)), min_label_count=2)
    assert (again.changed, again.repeated) == (1, 1)
    assert labels_of(photos)["p2.png"] == ("cow",)


def test_an_answer_may_name_a_hidden_label(photos: Path) -> None:
    with_rare_label(photos)
    done = merge(
        photos,
        Correction("p0.png", ("sky",), ("rare", "sky")),
        Correction("p2.png", ("sea",), ("sea", "new")),
        min_label_count=2,
    )
    assert (done.changed, done.confirmed) == (1, 1)
    assert labels_of(photos)["p0.png"] == ("rare", "sky")
    assert labels_of(photos)["p2.png"] == ("new", "sea")


def test_an_answer_without_before_keeps_hidden_labels(photos: Path) -> None:
    (photos / "labels.csv").write_text("filename,labels\np0.png,rare\np1.png,sky|sea\np2.png,sea|sky\n")
    merge(photos, Correction("p0.png", None, ("sky",)), min_label_count=2)
    assert labels_of(photos)["p0.png"] == ("rare", "sky")
    merge(photos, Correction("p0.png", None, ("sea",)), min_label_count=2, replace=True)
    assert labels_of(photos)["p0.png"] == ("rare", "sea")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
@pytest.mark.parametrize("where", ["storage.sources.open_source", "tasks.label_care.corrections.add_to_log"])
def test_an_interrupted_merge_changes_nothing(
    photos: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], where: str
) -> None:
    source, content = opened(photos), (photos / "labels.csv").read_bytes()
    seen = []

    def stop(*_: object) -> None:
        seen.append((photos / "labels.csv").read_bytes())
        raise error

    monkeypatch.setattr(where, stop)
    answers = [Correction("p0.png", ("sea", "sky"), ("sky",))]
    with pytest.raises(error):
        merge_corrections(answers, source, photos.parent / "cache", photos / "unused.csv")
    assert seen != [content]  # it was written
    assert (photos / "labels.csv").read_bytes() == content
    assert not list(photos.glob("*.jsonl"))


def test_an_interrupted_merge_leaves_no_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, beside = tmp_path / "classes", tmp_path / "classes-labels.csv"
    for name in ("cat/a.png", "cat/b.png", "dog/c.png"):
        draw(folder / name)
    source = opened(folder)

    def stop(*_: object) -> None:
        assert beside.is_file()
        raise KeyboardInterrupt

    monkeypatch.setattr("storage.sources.open_source", stop)
    with pytest.raises(KeyboardInterrupt):
        merge_corrections([Correction("cat/b.png", ("cat",), ("dog",))], source, tmp_path / "cache", beside)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == []


def test_ids_with_spaces_at_their_ends(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    for name in ("cat/ lead.png", "cat/b.png", "cat/d.png", "dog/c.png"):
        draw(folder / name)
    file = tmp_path / "c.csv"
    file.write_text("id,before,after\ncat/ lead.png,cat,cat\n cat/b.png ,cat,dog\n")
    done = merge(folder, *read_corrections(file, "|"))
    assert (done.changed, done.confirmed) == (1, 1)
    assert labels_of(folder, labels=str(done.place))["cat/b.png"] == ("dog",)
    file.write_text("id,before,after\n   ,cat,cat\n")
    with pytest.raises(SourceError, match="the id is empty"):
        read_corrections(file, "|")


def test_a_file_name_that_begins_with_a_space(tmp_path: Path, photos: Path) -> None:
    draw(photos / " lead.png")
    file = tmp_path / "c.csv"
    file.write_text("id,before,after\n lead.png,,sky\np0.png,sky|sea,sea\n")
    merge(photos, *read_corrections(file, "|"))
    found = labels_of(photos)
    assert (found[" lead.png"], found["p0.png"]) == (("sky",), ("sea",))


def test_two_names_of_one_item_with_other_labels_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    for name in ("b/3.png", "b/4.png", "b/5.png"):
        draw(folder / name)
    file = folder / "labels.csv"
    file.write_text("filename,labels\nb/4.png,sky\nb/5.png,sea|sky\n")
    content = file.read_bytes()
    answers = (Correction("3.png", None, ("sky",)), Correction("b/3.png", None, ("sea",)))
    with pytest.raises(ConfigError, match=r"'b/3.png' is answered twice.*Nothing was changed"):
        merge(folder, *answers)
    assert file.read_bytes() == content
    same = (answers[0], Correction("b/3.png", None, ("sky",)))
    assert merge(folder, *same).answered == 1


def test_confirmations_are_logged_once(photos: Path) -> None:
    answers = (
        Correction("p0.png", ("sky", "sea"), ("sea", "sky"), ("sky",), "ann", "2026-11-18T10:00:00Z"),
        Correction("p1.png", None, ("sky",)),
    )
    first = merge(photos, *answers)
    assert (first.confirmed, first.repeated) == (2, 0)
    log = first.log.read_bytes()
    again = merge(photos, *answers)
    assert (again.confirmed, again.repeated) == (0, 2)
    assert again.log.read_bytes() == log
    # Another person, or another label that was looked at, is a new answer.
    more = (
        Correction("p0.png", ("sky", "sea"), ("sea", "sky"), ("sky",), "bob", "2026-11-18T11:00:00Z"),
        Correction("p1.png", ("sky",), ("sky",), ("sea",)),
    )
    assert merge(photos, *more).confirmed == 2


@pytest.mark.slow
def test_labels_of_the_demo_go_to_a_file_that_later_corrections_change(tmp_path: Path) -> None:
    cache, file = tmp_path / "cache", tmp_path / "demo-labels.csv"

    def opened_demo(labels: str | None = None) -> OpenedSource:
        return open_source(SourceOptions("demo", labels=labels), cache)

    drawn = labels_by_id(opened_demo().read(cache))
    first, second, *_ = (name for name, labels in drawn.items() if labels is None)
    done = merge_corrections([Correction(first, (), ("snow",), ("*",))], opened_demo(), cache, file)
    assert (done.is_new, done.place, done.answered) == (True, file, 1)
    answer = Correction(second, (), ("night", "snow"), ("*",))
    done = merge_corrections([answer], opened_demo(str(file)), cache, file)
    assert (done.is_new, done.place, done.answered) == (False, file, 1)
    now = labels_by_id(opened_demo(str(file)).read(cache))
    assert now == {**drawn, first: ("snow",), second: ("night", "snow")}
    assert load_checked(opened_demo(str(file)), list(now), file) == {(first, "*"), (second, "*")}
