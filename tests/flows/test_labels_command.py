"""`labels apply` as a user runs it: what it prints, and what it does with hidden labels."""

import json
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.picture_collections import draw


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Pictures in folders of classes, one of which is rare."""
    for name in ("cat/a.png", "cat/b.png", "cat/e.png", "dog/c.png", "dog/d.png", "emu/f.png"):
        draw(tmp_path / "classes" / name)
    return tmp_path / "classes"


def test_the_next_command_keeps_the_settings_of_the_user(
    command: Command, tmp_path: Path, classes: Path
) -> None:
    (tmp_path / "c.csv").write_text("id,before,after\ncat/b.png,cat,dog\n")
    given = ("--set", "source.min_label_count=2", "--set", "source.strict=true")
    done = command("labels", "apply", "c.csv", classes, *given, "--json")
    assert done.code == 0, done.err
    made = tmp_path / "classes-labels.csv"
    expected = ["labelscape", "auto", str(classes), *given, "--set", f"source.labels={made}"]
    assert json.loads(done.out)["next"].split() == expected
    assert "emu/f.png,emu\n" in made.read_text()

    (tmp_path / "c.csv").write_text("id,before,after\ncat/a.png,cat,dog\n")
    done = command("labels", "apply", "c.csv", classes, *expected[3:], "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["next"].split() == expected


def test_the_next_command_names_the_home(command: Command, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw(tmp_path / "photos" / name)
    (tmp_path / "photos" / "labels.csv").write_text("filename,labels\na.png,sky\nb.png,sea\n")
    (tmp_path / "c.csv").write_text("id,before,after\na.png,sky,sky|sea\n")
    done = command("labels", "apply", "c.csv", "photos", "--home", tmp_path / "other home")
    assert done.code == 0, done.err
    assert f"then       labelscape auto photos --home '{tmp_path / 'other home'}'" in done.out


def test_a_label_file_that_is_not_edited_is_replaced_in_the_next_command(
    command: Command, tmp_path: Path, classes: Path
) -> None:
    names = [path.relative_to(classes).as_posix() for path in sorted(classes.rglob("*.png"))]
    lines = [json.dumps({"file_name": name, "labels": [name[:3], "pet"]}) for name in names]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "c.csv").write_text("id,before,after\ncat/b.png,cat|pet,dog|pet\n")
    given = ("--set", "source.labels=metadata.jsonl", "--set", "source.strict=true")
    done = command("labels", "apply", "c.csv", classes, *given, "--labels", "new.csv", "--json")
    assert done.code == 0, done.err
    expected = [
        "labelscape",
        "auto",
        str(classes),
        *given[2:],
        "--set",
        f"source.labels={tmp_path / 'new.csv'}",
    ]
    assert json.loads(done.out)["next"].split() == expected
