"""Bad and unusual input through the command line: refused with a remedy, or counted and listed."""

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from embedding_core.errors import InvalidInput
from storage.errors import (
    ConfigError,
    DiskFull,
    SourceChanged,
    SourceError,
    StageError,
    StoreError,
    StoreUnreachable,
)
from tests.conftest import UNTRACKED, Command, leftovers, write_pictures
from tests.embedding_core.test_images import encode, with_orientation


def add_row(folder: Path, name: str, labels: str) -> None:
    with (folder / "labels.csv").open("a", encoding="utf-8") as file:
        file.write(f"{name},{labels}\n")


def relabel(folder: Path, labels: Callable[[int], str]) -> None:
    """Give every picture of a folder new labels by its number."""
    names = sorted(path.name for path in folder.glob("*.png"))
    lines = [f"{name},{labels(number)}" for number, name in enumerate(names)]
    (folder / "labels.csv").write_text("\n".join(["filename,labels", *lines]) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Bad:
    """A source or a command that is refused, and the expected message."""

    name: str
    says: tuple[str, ...]
    spoil: Callable[[Path], object] = lambda folder: None
    arguments: tuple[str, ...] = ()


def unreadable_everywhere(folder: Path) -> None:
    for path in folder.glob("*.png"):
        path.write_bytes(b"no picture")


def without_pictures(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def set_to(*settings: str) -> tuple[str, ...]:
    return tuple(part for setting in settings for part in ("--set", setting))


BAD = [
    Bad("missing folder", ("no file or folder", "pictures", "Expected: "), shutil.rmtree),
    Bad("empty folder", ("pictures is empty", "Expected: "), without_pictures),
    Bad(
        "duplicate names",
        ("labels.csv, line 18", "'p00.png' is repeated", "line 2", "Keep one line"),
        lambda folder: add_row(folder, "p00.png", "purple"),
    ),
    Bad("none readable", ("none of 16 items is readable", "p00.png", "not an image"), unreadable_everywhere),
    Bad(
        "unreadable, strict",
        ("p01.png", "truncated", "source.strict=false"),
        lambda folder: (folder / "p01.png").write_bytes((folder / "p01.png").read_bytes()[:300]),
        set_to("source.strict=true"),
    ),
    Bad(
        "labels without file, strict",
        ("labels.csv, line 18", "gone.png", "set strict to false"),
        lambda folder: add_row(folder, "gone.png", "red"),
        set_to("source.strict=true"),
    ),
    Bad("K = 1", ("labels.csv", "one label only, 'red'"), lambda folder: relabel(folder, lambda _: "red")),
    Bad("no labels", ("none of the 16 items", "Label some"), lambda folder: relabel(folder, lambda _: "")),
    Bad(
        "one label left among readable items",
        ("have 1 different label(s) of 2", "fix unreadable ones"),
        lambda folder: (
            relabel(folder, lambda number: "rare" if number == 3 else "red"),
            (folder / "p03.png").write_bytes(b"no picture"),
        ),
    ),
    Bad(
        "fewer labeled items than folds",
        ("evaluation[mlda]: 5 folds of 4 labeled rows", "choose from 2 to 4 folds"),
        lambda folder: relabel(folder, lambda number: ("red", "blue", "red", "blue", *[""] * 12)[number]),
    ),
    Bad(
        "too many components",
        ("embedding[mlda]", "n_components=7 exceeds K-1=2", "lower it"),
        arguments=set_to("embedding.n_components=7"),
    ),
    Bad(
        "dle on several labels",
        ("embedding[dle]", "exactly one class", "choose one of mlda"),
        arguments=("--methods", "dle"),
    ),
    Bad(
        "unknown method", ("method 'mdla' is not known", "Did you mean mlda"), arguments=("--methods", "mdla")
    ),
    Bad("no method", ("--methods ''", "is empty"), arguments=("--methods", "")),
    Bad("parameter of no method", ("method 'mlad'", "mlda"), arguments=set_to("embedding.params.mlad.x=1")),
    Bad(
        "unknown parameter",
        ("no parameter 'foo'", "It takes: "),
        arguments=set_to("embedding.params.mlda.foo=1"),
    ),
    Bad("infinite parameter", ("svm.C=inf", "finite"), arguments=set_to("embedding.params.svm.C=inf")),
    Bad(
        "unknown key",
        ("affinity.n_neighbours", "did you mean n_neighbors?"),
        arguments=set_to("affinity.n_neighbours=3"),
    ),
    Bad("unknown table", ("afinity", "did you mean affinity?"), arguments=set_to("afinity.n_neighbors=3")),
    Bad(
        "key out of the blue",
        ("source.zzz: unknown key; known: path, kind",),
        arguments=set_to("source.zzz=3"),
    ),
    Bad(
        "value for a table", ("source: expected a table of settings", "(got 3)"), arguments=set_to("source=3")
    ),
    Bad(
        "table for a value",
        ("executor.x", "executor is a value"),
        arguments=set_to("executor=serial", "executor.x=1"),
    ),
    Bad("no value", ("--set 'folds'", "KEY=VALUE"), arguments=set_to("folds")),
    Bad("bad value", ("evaluation.folds", "(got 1)"), arguments=set_to("evaluation.folds=1")),
    Bad("infinite value", ("affinity.sigma", "(got inf)"), arguments=set_to("affinity.sigma=inf")),
    Bad("unknown metric", ("sort_by='acc'", "macro_f1"), arguments=set_to("evaluation.sort_by=acc")),
    Bad(
        "unknown stage to stop at",
        ("embed: no such stage", "Did you mean embedding?"),
        arguments=("--until", "embed"),
    ),
    Bad(
        "unknown stage to refresh",
        ("zzz: no such stage. The stages are ingest",),
        arguments=("--refresh", "zzz"),
    ),
    Bad("missing edges", ("gone.csv cannot be read",), arguments=set_to("source.edges=gone.csv")),
    Bad(
        "given graph without edges",
        ("affinity.graph is 'given'", "source.edges is not set"),
        arguments=set_to("affinity.graph=given"),
    ),
    Bad(
        "dense graph beyond the budget",
        ("affinity: A dense graph of 16 items", "raise affinity.memory_budget_gb"),
        arguments=set_to("affinity.graph=gaussian", "affinity.memory_budget_gb=1e-5"),
    ),
    Bad(
        "address of no tracker",
        ("tracking.uri: tracking address '/a/folder' is a folder", "sqlite:////"),
        arguments=set_to("tracking.enabled=true", "tracking.uri=/a/folder"),
    ),
    Bad(
        "label dropped that is not there",
        ("drop_labels", "'rde'", "'red'"),
        arguments=set_to('source.drop_labels=["rde"]'),
    ),
]


@pytest.mark.usefixtures("without_engine")
class TestBadInput:
    @pytest.mark.slow
    @pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
    def test_is_refused(self, command: Command, tmp_path: Path, bad: Bad) -> None:
        folder = write_pictures(tmp_path / "pictures", 16)
        bad.spoil(folder)
        done = command("run", folder, *UNTRACKED, *bad.arguments)
        assert done.code == 2
        assert done.out == ""
        assert "labelscape: " in done.err
        assert "Traceback" not in done.err
        for text in bad.says:
            assert text in done.err
        assert not leftovers(tmp_path)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("a = = 3\n", ("c.toml: is not valid TOML", "line 1")),
            (
                "[features.color_moments]\ngird = [2, 2]\n",
                ("c.toml is not valid", "features.color_moments.gird", "did you mean grid?"),
            ),
            ('source = "pictures"\n', ("source: expected a table of settings, [source]",)),
            ("[features.color_moments]\ngrid = [0, 2]\n", ("features.color_moments", "from 1 to 256")),
            (None, ("c.toml: cannot be read (No such file or directory)",)),
        ],
    )
    def test_a_bad_file_is_named(
        self, command: Command, tmp_path: Path, content: str | None, says: tuple[str, ...]
    ) -> None:
        if content is not None:
            (tmp_path / "c.toml").write_text(content)
        for verb in ("run", "status", "config"):
            done = command(verb, tmp_path / "c.toml")
            assert done.code == 2
            assert all(text in done.err for text in says)
            assert "resume" not in done.err
        assert not (tmp_path / ".labelscape").exists()

    @pytest.mark.parametrize("home", ["file", "file/below"])
    def test_a_home_that_is_a_file(self, command: Command, picture_folder: Path, home: str) -> None:
        Path("file").write_text("mine")
        done = command("run", picture_folder, "--home", home, *UNTRACKED)
        assert done.code == 2
        assert "file is a file where a folder is needed" in done.err
        assert "--home" in done.err
        assert Path("file").read_text() == "mine"

    def test_a_home_that_cannot_be_written(
        self, command: Command, picture_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make = Path.mkdir

        def refuse(path: Path, *args: Any, **kwargs: Any) -> None:
            if path.is_relative_to(tmp_path / "home"):
                raise PermissionError(13, "Permission denied", str(path))
            make(path, *args, **kwargs)

        monkeypatch.setattr(Path, "mkdir", refuse)
        done = command("run", picture_folder, "--home", "home", *UNTRACKED)
        assert done.code == 2
        assert "No permission for" in done.err
        assert "choose another folder with --home or LABELSCAPE_HOME" in done.err
        assert command("status", picture_folder, "--home", "home").code == 0

    def test_the_source_as_home_is_refused(self, command: Command, picture_folder: Path) -> None:
        done = command("run", picture_folder, "--home", picture_folder, *UNTRACKED)
        assert done.code == 2
        assert "both the source and the home folder" in done.err

    @pytest.mark.parametrize(
        ("error", "code", "resumes"),
        [
            (ZeroDivisionError("a bug"), 1, True),
            (DiskFull("no room"), 2, True),
            (StoreUnreachable("no answer"), 2, True),
            (SourceChanged("it changed"), 2, True),
            (OSError(errno.ENOSPC, "No space left on device"), 2, True),
            (StoreError("read-only"), 2, False),
            (SourceError("refused input"), 2, False),
            (ConfigError("no such method"), 2, False),
            (StageError("two labels are needed"), 2, False),
            (InvalidInput("refused by the core"), 2, False),
            (OSError(errno.ENAMETOOLONG, "File name too long", "x"), 2, False),
        ],
        ids=repr,
    )
    def test_a_command_is_offered_again_only_if_it_can_succeed(
        self,
        command: Command,
        monkeypatch: pytest.MonkeyPatch,
        picture_folder: Path,
        error: Exception,
        code: int,
        resumes: bool,
    ) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr("flows.runner.Run.execute", fail)
        done = command("run", picture_folder, *UNTRACKED)
        assert done.code == code
        assert (f"resume with: labelscape run {picture_folder}" in done.err) is resumes

    def test_refused_labels_are_not_offered_again(self, command: Command, picture_folder: Path) -> None:
        (picture_folder / "labels.csv").write_text("filename,labels\np00.png,red\n")
        done = command("run", picture_folder, *UNTRACKED)
        assert done.code == 2
        assert "resume" not in done.err

    @pytest.mark.parametrize("verb", ["run", "auto"])
    def test_a_missing_source_is_refused_before_the_run_starts(
        self, command: Command, monkeypatch: pytest.MonkeyPatch, verb: str
    ) -> None:
        monkeypatch.setattr("flows.runner.Run.execute", lambda *_: pytest.fail("the run was started"))
        done = command(verb, "pictuers", *UNTRACKED)
        assert done.code == 2
        assert "no file or folder" in done.err
        assert "resume" not in done.err


def put_odd_pictures(folder: Path) -> None:
    """One image of every kind that cameras, scanners and broken transfers produce."""
    picture = Image.open(folder / "p00.png").convert("RGB")
    wide = picture.resize((300, 200))
    grey16 = np.arange(32 * 24, dtype=np.uint16).reshape(24, 32) * 80
    odd = {
        "cmyk.jpg": encode(picture.convert("CMYK"), "JPEG"),
        "sixteen.png": encode(Image.fromarray(grey16), "PNG"),
        "palette.png": encode(picture.convert("P"), "PNG"),
        "animated.gif": encode(picture.convert("P"), "GIF", save_all=True, append_images=[wide.convert("P")]),
        "rotated.jpg": encode(wide, "JPEG", exif=with_orientation(6)),
        "pixel.png": encode(picture.resize((1, 1)), "PNG"),
        "truncated.jpg": encode(wide, "JPEG")[:2000],
        "no_image.jpg": b"%PDF-1.4",
        "empty.png": b"",
    }
    for name, data in odd.items():
        (folder / name).write_bytes(data)
        add_row(folder, name, "red")


@pytest.mark.usefixtures("without_engine")
class TestOddInput:
    def run(self, command: Command, folder: Path, *arguments: object) -> dict[str, Any]:
        done = command("run", folder, *UNTRACKED, "--json", *arguments)
        assert done.code == 0, done.err
        record: dict[str, Any] = json.loads(done.out)
        return record

    def test_unusual_images_are_read_and_broken_ones_counted_and_listed(
        self, command: Command, picture_folder: Path
    ) -> None:
        put_odd_pictures(picture_folder)
        found = self.run(command, picture_folder, "--until", "features")
        assert {entry["file"]: entry["reason"].split(" (")[0] for entry in found["skipped"]} == {
            "empty.png": "the file is empty",
            "no_image.jpg": "not an image in a supported format",
            "truncated.jpg": "the JPEG data is truncated; copy the file again",
        }
        again = command("run", picture_folder, *UNTRACKED, "--until", "features")
        assert "skipped    3 unreadable; first: empty.png: the file is empty (0 bytes)" in again.out

    def test_oddities_of_the_labels_are_counted_and_listed(
        self, command: Command, picture_folder: Path
    ) -> None:
        put = "\n".join(["gone.png,red", "p00.png,red|rare", "p00.png,rare|red"])
        (picture_folder / "labels.csv").write_text(f"filename,labels\np01.png,blue\n{put}\n")
        (picture_folder / "film.mp4").write_bytes(b"x")
        found = self.run(command, picture_folder, "--until", "ingest")
        notes = {(note["file"], note["row"]): note["message"] for note in found["notes"]}
        assert notes["labels.csv", 3] == "labels for 'gone.png', which does not exist"
        assert notes["labels.csv", 5] == "'p00.png' is repeated, as in line 4"
        assert "treated as unlabeled" in notes["p02.png", None]
        assert ".mp4 is not a supported image format" in notes["film.mp4", None]
        assert (
            "fewer than 5 items, too few for training and testing: 'blue' (1), 'rare' (1)"
            in (notes["labels", None])
        )
        shown = command("run", picture_folder, *UNTRACKED, "--until", "ingest").out
        assert f"notes      {len(found['notes'])} on the data; first: film.mp4: skipped" in shown

    def test_a_label_without_items_is_dropped_and_reported(self, command: Command, tmp_path: Path) -> None:
        rows = [f"{i % 7},{i % 3},{i % 2},{(i + 1) % 2},0" for i in range(30)]
        (tmp_path / "t.csv").write_text("\n".join(["f0,f1,label:a,label:b,label:none", *rows]) + "\n")
        found = self.run(command, tmp_path / "t.csv", "--until", "correlation")
        assert [note["message"] for note in found["notes"]] == ["label 'none' is dropped: no item has it"]

    @pytest.mark.slow
    def test_a_class_with_one_member_is_scored(self, command: Command, picture_folder: Path) -> None:
        text = (picture_folder / "labels.csv").read_text()
        (picture_folder / "labels.csv").write_text(text.replace("p00.png,", "p00.png,rare|"))
        found = self.run(command, picture_folder, "--until", "evaluation")
        assert found["methods"]["mlda"]["metrics"]["micro_f1"]["mean"] > 0.5

    @pytest.mark.slow
    def test_a_tiny_collection_uses_as_many_neighbors_as_there_are(
        self, command: Command, tmp_path: Path
    ) -> None:
        folder = write_pictures(tmp_path / "tiny", 8)
        done = command("run", folder, *UNTRACKED, "--until", "evaluation")
        assert done.code == 0
        for setting, number in (("affinity", 7), ("annotation", 7), ("evaluation", 5)):
            said = f"{setting}.n_neighbors is 10, but only {number} neighbors are available: using {number}."
            assert done.err.count(said) == 1
        assert "MLDA, 5NN" in done.out
        assert "MLDA, 10NN" not in done.out

    def test_a_path_with_spaces_and_accents(self, command: Command, picture_folder: Path) -> None:
        folder = picture_folder.rename(picture_folder.with_name("mes photos d'été ✓"))
        found = self.run(command, folder, "--until", "features")
        assert found["source"] == str(folder)
        assert found["skipped"] == []

    def test_a_home_inside_the_source_is_not_read(self, command: Command, picture_folder: Path) -> None:
        home = picture_folder / "out"
        (home / "reports" / "x").mkdir(parents=True)
        (picture_folder / "p00.png").rename(home / "reports" / "x" / "figure.png")
        found = self.run(command, picture_folder, "--home", home, "--until", "ingest")
        assert [note["message"] for note in found["notes"]] == ["labels for 'p00.png', which does not exist"]

    @pytest.mark.slow
    def test_baselines_may_be_named_as_methods(self, command: Command, picture_folder: Path) -> None:
        found = self.run(command, picture_folder, "--methods", "svm", "--until", "evaluation")
        assert list(found["methods"]) == ["svm", "1nn", "1nn_zscore"]
        assert not any(stage["stage"].startswith("embedding") for stage in found["stages"])
