"""`labelscape inspect`: what was recognized, and the setting to add."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from tests.conftest import Command, write_pictures
from tests.flows.test_own_tables import make_archive, make_blocks, make_iris, passengers


def test_a_table(command: Command, tmp_path: Path) -> None:
    make_iris(tmp_path)
    done = command("inspect", "iris.csv")
    assert done.code == 0
    assert "items      150: 150 labeled, 0 unlabeled" in done.out
    assert "features   4: sepal length (cm)" in done.out
    assert "labels     3, one per item, column 'target'" in done.out
    assert "(no name)" in done.out
    assert "look" in done.out
    assert "run        labelscape run iris.csv" in done.out


def test_what_is_missing_is_named_with_its_setting(command: Command, tmp_path: Path) -> None:
    passengers().to_csv(tmp_path / "t.csv", index=False)
    done = command("inspect", "t.csv")
    assert done.code == 2
    assert "items      60: 0 labeled, 60 unlabeled" in done.out
    assert "--set source.labels=" in done.out
    done = command("inspect", "t.csv", "--set", "source.labels=Survived")
    assert done.code == 2
    assert "features.fill=median" in done.out
    assert "60 labeled" in done.out, "what can be read is shown"
    settings = ("--set", "source.labels=Survived", "--set", "features.fill=median")
    done = command("inspect", "t.csv", *settings)
    assert done.code == 0
    assert "6 missing values" in done.out
    assert "labelscape run t.csv --set source.labels=Survived --set features.fill=median" in done.out


def test_a_table_of_texts(command: Command, tmp_path: Path) -> None:
    texts = [f"text number {k} about {['sun', 'rain'][k % 2]}" for k in range(12)]
    table = pd.DataFrame({"post": range(12), "text": texts, "mood": ["good", "bad"] * 6})
    table["part"] = ["train"] * 8 + ["test"] * 4
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command("inspect", "t.csv", "--set", "source.labels=mood", "--set", "source.split=part")
    assert done.code == 0
    assert "ids        row numbers" in done.out
    assert "text       12 items: column 'text'" in done.out
    assert "--set source.features=COLUMNS uses it instead: post" in done.out
    assert "split      train 8, test 4; scores do not use it: run cross-validates" in done.out
    found = json.loads(command("inspect", "t.csv", "--set", "source.labels=mood", "--json").out)
    assert {one["name"]: one["use"] for one in found["columns"]} == {
        "post": "not used",
        "text": "text",
        "mood": "label",
        "part": "not used",
    }


def test_consecutive_numbers_look_like_an_id(command: Command, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"Customer No": np.arange(1001, 1021)[::-1], "x": np.arange(20.0) ** 2, "y": ["a", "b"] * 10}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command("inspect", "t.csv")
    assert "'Customer No' is used as a feature but looks like an id" in done.out
    assert "--set source.id='Customer No'" in done.out
    done = command("inspect", "t.csv", "--set", "source.id=Customer No")
    assert "looks like an id" not in done.out
    assert "features   1: x" in done.out


def test_json_has_everything(command: Command, tmp_path: Path) -> None:
    make_blocks(tmp_path)
    found = json.loads(command("inspect", "blocks.feather", "--json").out)
    assert [(part["name"], part["features"]) for part in found["parts"]] == [("clip", 6), ("dino", 3)]
    assert found["labels"]["photo"] == 30
    assert list(found["labels"].values()) == sorted(found["labels"].values(), reverse=True)
    assert not found["single_label"]
    assert found["problem"] == ""


def test_rare_labels_are_marked(command: Command, tmp_path: Path) -> None:
    kinds = ["often"] * 20 + ["seldom"] * 3 + ["twice"] * 2
    pd.DataFrame({"x": np.arange(25.0), "y": kinds}).to_csv(tmp_path / "t.csv", index=False)
    done = command("inspect", "t.csv")
    assert "2 of 3 labels have fewer than 5 items" in done.out
    assert json.loads(command("inspect", "t.csv", "--json").out)["rare_labels"] == ["seldom", "twice"]


def test_images(command: Command, tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", 12)
    done = command("inspect", "pictures")
    assert done.code == 0
    assert "images     12 items: 12 .png; " in done.out
    assert "file names" in done.out
    (tmp_path / "pictures" / "p03.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9))
    (tmp_path / "pictures" / "p04.png").write_bytes(b"no picture")
    assert command("inspect", "pictures").code == 0, "damaged images are reported by the features stage"


def test_nothing_is_stored_and_the_source_is_unchanged(command: Command, tmp_path: Path) -> None:
    path = make_archive(tmp_path)
    before = path.read_bytes()
    assert command("inspect", path, "--home", tmp_path / "home").code == 0
    stored = [one for one in (tmp_path / "home").rglob("*") if one.is_file() and "cache" not in one.parts]
    assert not [one for one in stored if one.suffix in (".parquet", ".db", ".html")]
    assert path.read_bytes() == before


def test_passwords_are_not_repeated(command: Command, tmp_path: Path) -> None:
    make_iris(tmp_path)
    done = command("inspect", "iris.csv", "--set", "tracking.uri=http://me:hunter2@host:5000")
    assert "hunter2" not in done.out + done.err
    assert "labelscape run iris.csv --set tracking.uri=http://host:5000" in done.out


def test_a_source_that_does_not_exist(command: Command) -> None:
    done = command("inspect", "gone.csv")
    assert done.code == 2
    assert "there is no file or folder" in done.err


def test_links_are_shown_and_a_column_of_links_is_pointed_out(command: Command, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"id": [f"p{k}" for k in range(8)], "text": ["sun rain"] * 8, "class": ["a", "b"] * 4}
    )
    table["links"] = ["p1|p2", "p0", "p2", "", "p5|gone", "", "", ""]
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command("inspect", "t.csv")
    assert done.code == 0
    assert "--set source.edges=" in done.out and "'links' may list links" in " ".join(done.out.split())
    done = command("inspect", "t.csv", "--set", "source.edges=t.csv")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "links 4, 5 of 8 items have links" in text
    assert "1 link of an item to itself is left out" in text
    assert "frequent: gone" in text and "may list links" not in text
    (tmp_path / "e.csv").write_text("source,target\nx1,x2\n")
    done = command("inspect", "t.csv", "--set", "source.edges=e.csv")
    assert done.code == 2
    assert "ids that are not in the collection" in " ".join(done.out.split())
