"""The command line as a person and a script meet it: answers, refusals, and nothing half-done."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from embedding_core.metrics import METRICS
from embedding_core.registry import METHODS
from storage.errors import TrackingError
from storage.tracking import ModelInfo, TrackedRun
from tasks.embedding import load_model_payload
from tests.conftest import REPOSITORY, Command, run_locally, write_pictures
from tests.test_images import encode, with_orientation

HEAVY = {"prefect", "mlflow", "sklearn", "numpy", "scipy", "pyarrow", "pydantic", "matplotlib", "numba"}
METRIC_NAMES = {metric.name for metric in METRICS}
UNTRACKED = ("--set", "tracking.enabled=false")


def leftovers(folder: Path) -> list[Path]:
    """What a command that was refused must not leave behind."""
    return [*folder.rglob("*.tmp"), *folder.rglob("*.part"), *folder.rglob("crash-*")]


def add_row(folder: Path, name: str, labels: str) -> None:
    with (folder / "labels.csv").open("a", encoding="utf-8") as file:
        file.write(f"{name},{labels}\n")


def relabel(folder: Path, labels: Callable[[int], str]) -> None:
    """Give every picture of a folder new labels by its number."""
    names = sorted(path.name for path in folder.glob("*.png"))
    lines = [f"{name},{labels(number)}" for number, name in enumerate(names)]
    (folder / "labels.csv").write_text("\n".join(["filename,labels", *lines]) + "\n", encoding="utf-8")


class TestWithoutWork:
    @pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], []])
    def test_help_imports_nothing_heavy(self, arguments: list[str]) -> None:
        code = (
            "import sys\nfrom flows.cli import main\n"
            f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert not end.code\n"
            f"print(sorted(set(sys.modules) & {HEAVY!r}), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        assert "labelscape" in done.stdout
        assert done.stderr.strip() == "[]"

    @pytest.mark.parametrize("arguments", [["rnu"], ["run", "--frobnicate"], ["stage"], ["annotate"]])
    def test_a_wrong_command_ends_with_2(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        from flows.cli import main

        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        assert "usage: labelscape" in capsys.readouterr().err

    def test_methods(self, command: Command) -> None:
        shown = command("methods")
        assert shown.code == 0
        assert all(f"\n{name} " in shown.out for name in METHODS)
        listed = json.loads(command("methods", "--json").out)
        assert [entry["name"] for entry in listed] == list(METHODS)
        assert {"title", "paper", "reach", "labels", "cost", "equations"} <= set(listed[0])

    def test_a_command_that_fails_inside_leaves_its_traceback_in_a_file(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flows.commands.listing.methods", lambda options: 1 / 0)
        done = command("methods", "--home", tmp_path / "home")
        assert done.code == 1
        assert done.err.startswith("labelscape: unexpected ZeroDivisionError: division by zero")
        (crash,) = (tmp_path / "home" / "logs").iterdir()
        assert str(crash) in done.err
        assert "Traceback" in crash.read_text(encoding="utf-8")
        assert "Traceback" not in done.err
        assert "Traceback" in command("methods", "--home", tmp_path / "home", "--verbose").err

    def test_an_interrupt_says_how_to_go_on(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(options: object) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr("flows.commands.run.run", interrupt)
        done = command("run", "my pictures", "--set", "name=a b")
        assert done.code == 130
        assert "resume with: labelscape run 'my pictures' --set 'name=a b'" in done.err


class TestConfig:
    @pytest.mark.parametrize(
        "overrides",
        [
            [],
            ["embedding.method=dle", "embedding.params.dle.n_components=2", "embedding.params.svm.C=0.5"],
            ["source.drop_labels=['a', 'b|\"c']", "affinity.sigma=2", "features.grid=[4, 2]", "workers=3"],
            ["name=été \u007f \\", "tracking.enabled=false", "tracking.uri=sqlite:////a.db"],
        ],
    )
    def test_what_is_shown_can_be_loaded_again(
        self, command: Command, tmp_path: Path, overrides: list[str]
    ) -> None:
        given = [part for override in overrides for part in ("--set", override)]
        shown = command("config", "--show", *given)
        assert shown.code == 0
        file = tmp_path / "elsewhere" / "c.toml"
        file.parent.mkdir()
        file.write_text(shown.out, encoding="utf-8")
        assert tomllib.loads(shown.out)["evaluation"]["folds"] == 5
        assert command("config", file).out == shown.out
        assert command("config", file, "--json").out == command("config", *given, "--json").out

    def test_a_shown_source_is_found_from_another_folder(
        self, command: Command, tmp_path: Path, picture_folder: Path
    ) -> None:
        shown = tomllib.loads(command("config", "pictures").out)
        assert shown["source"]["path"] == str(picture_folder)

    @pytest.mark.parametrize(
        ("override", "place", "value"),
        [
            ("affinity.n_neighbors=7", "affinity.n_neighbors", 7),
            ("affinity.weights=heat", "affinity.weights", "heat"),
            ('affinity.weights="heat"', "affinity.weights", "heat"),
            ("tracking.enabled=false", "tracking.enabled", False),
            ("evaluation.n_neighbors=[1, 3]", "evaluation.n_neighbors", [1, 3]),
            ("embedding.method=dle", "embedding.methods", ["dle"]),
            ("embedding.methods=dle, mlda", "embedding.methods", ["dle", "mlda"]),
            ("embedding.params.mlda={n_components = 2}", "embedding.params.mlda.n_components", 2),
            (" name = x=y ", "name", "x=y"),
        ],
    )
    def test_set(self, command: Command, override: str, place: str, value: object) -> None:
        found: Any = json.loads(command("config", "--set", override, "--json").out)
        for key in place.split("."):
            found = found[key]
        assert found == value

    def test_methods_win_over_the_file_and_home_over_the_environment(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LABELSCAPE_HOME", "/nowhere")
        (tmp_path / "labelscape.toml").write_text('name = "mine"\n[embedding]\nmethods = ["mlda"]\n')
        found = json.loads(command("config", "--json", "--methods", "dle,svm", "--home", "h").out)
        assert found["embedding"]["methods"] == ["dle", "svm"]
        assert (found["name"], found["home"]) == ("mine", "h")


@dataclass(frozen=True)
class Bad:
    """A source or a command that is refused, and what the refusal has to say."""

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
    Bad("missing folder", ("no file or folder", "pictures", "Expected is"), shutil.rmtree),
    Bad("empty folder", ("pictures is empty", "Expected is"), without_pictures),
    Bad(
        "duplicate names",
        ("labels.csv, line 18", "'p00.png' is listed again", "line 2", "Keep one line"),
        lambda folder: add_row(folder, "p00.png", "purple"),
    ),
    Bad("none readable", ("none of the items readable", "p00.png", "not an image"), unreadable_everywhere),
    Bad(
        "unreadable, strict",
        ("p01.png", "truncated", "source.strict=false"),
        lambda folder: (folder / "p01.png").write_bytes((folder / "p01.png").read_bytes()[:300]),
        set_to("source.strict=true"),
    ),
    Bad(
        "labels without file, strict",
        ("labels.csv, line 18", "gone.png", "turn strict off"),
        lambda folder: add_row(folder, "gone.png", "red"),
        set_to("source.strict=true"),
    ),
    Bad("K = 1", ("labels.csv", "one label only, 'red'"), lambda folder: relabel(folder, lambda _: "red")),
    Bad("no labels", ("none of the 16 items", "Label some"), lambda folder: relabel(folder, lambda _: "")),
    Bad(
        "one label left among readable items",
        ("carry 1 different label(s) of 2", "mend unreadable ones"),
        lambda folder: (
            relabel(folder, lambda number: "rare" if number == 3 else "red"),
            (folder / "p03.png").write_bytes(b"no picture"),
        ),
    ),
    Bad(
        "fewer labelled items than folds",
        ("evaluation[mlda]: 5 folds of 4 labelled rows", "choose from 2 to 4 folds"),
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
    Bad("no method", ("method '' is not known",), arguments=("--methods", "")),
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
    Bad("value for a table", ("source: is a table of settings", "(got 3)"), arguments=set_to("source=3")),
    Bad(
        "table for a value", ("workers.x", "workers is a value"), arguments=set_to("workers=1", "workers.x=1")
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
        ("affinity.graph is 'given'", "set source.edges"),
        arguments=set_to("affinity.graph=given"),
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
            ("[features]\ngird = [2, 2]\n", ("c.toml does not fit", "features.gird", "did you mean grid?")),
            ('source = "pictures"\n', ("source: is a table of settings, [source]",)),
            ("[features]\ngrid = [0, 2]\n", ("features.grid", "between 1 and 64")),
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

    def test_only_what_may_go_on_says_how(self, command: Command, picture_folder: Path) -> None:
        (picture_folder / "labels.csv").write_text("filename,labels\np00.png,red\n")
        mend = command("run", picture_folder, *UNTRACKED)
        assert f"resume with: labelscape run {picture_folder}" in mend.err
        wrong = command("run", picture_folder, *UNTRACKED, "--methods", "mdla")
        assert "resume" not in wrong.err


def put_odd_pictures(folder: Path) -> None:
    """One picture of every kind that cameras, scanners and accidents leave."""
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
            "no_image.jpg": "not an image in a format read here",
            "truncated.jpg": "the JPEG data is truncated; copy the file again",
        }
        again = command("run", picture_folder, *UNTRACKED, "--until", "features")
        assert "skipped    3 unreadable, as empty.png: the file is empty (0 bytes)" in again.out

    def test_oddities_of_the_labels_are_counted_and_listed(
        self, command: Command, picture_folder: Path
    ) -> None:
        put = "\n".join(["gone.png,red", "p00.png,red|rare", "p00.png,rare|red"])
        (picture_folder / "labels.csv").write_text(f"filename,labels\np01.png,blue\n{put}\n")
        (picture_folder / "film.mp4").write_bytes(b"x")
        found = self.run(command, picture_folder, "--until", "ingest")
        notes = {(note["file"], note["row"]): note["message"] for note in found["notes"]}
        assert notes["labels.csv", 3] == "labels for 'gone.png', which is not there"
        assert notes["labels.csv", 5] == "'p00.png' is listed again, as in line 4"
        assert "counts as unlabelled" in notes["p02.png", None]
        assert ".mp4 is not among the images" in notes["film.mp4", None]
        assert any("'rare' has one item" in note["message"] for note in found["notes"])
        shown = command("run", picture_folder, *UNTRACKED, "--until", "ingest").out
        assert f"noted      {len(found['notes'])} in the source, as film.mp4: left out" in shown

    def test_a_label_nobody_has_is_left_out_and_said(self, command: Command, tmp_path: Path) -> None:
        rows = [f"{i % 7},{i % 3},{i % 2},{(i + 1) % 2},0" for i in range(30)]
        (tmp_path / "t.csv").write_text("\n".join(["f0,f1,label:a,label:b,label:none", *rows]) + "\n")
        found = self.run(command, tmp_path / "t.csv", "--until", "correlation")
        assert [note["message"] for note in found["notes"]] == ["label 'none' is left out: nobody has it"]

    def test_a_class_with_one_member_is_scored(self, command: Command, picture_folder: Path) -> None:
        text = (picture_folder / "labels.csv").read_text()
        (picture_folder / "labels.csv").write_text(text.replace("p00.png,", "p00.png,rare|"))
        found = self.run(command, picture_folder, "--until", "evaluation")
        assert found["methods"]["mlda"]["metrics"]["micro_f1"]["mean"] > 0.5

    def test_a_tiny_collection_asks_as_many_neighbours_as_there_are(
        self, command: Command, tmp_path: Path
    ) -> None:
        folder = write_pictures(tmp_path / "tiny", 8)
        done = command("run", folder, *UNTRACKED, "--until", "evaluation")
        assert done.code == 0
        for setting, number in (("affinity", 7), ("annotation", 7), ("evaluation", 5)):
            said = f"{setting}.n_neighbors is 10, the collection gives {number} at most: {number} are used."
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
        assert [note["message"] for note in found["notes"]] == ["labels for 'p00.png', which is not there"]

    def test_baselines_may_be_named_as_methods(self, command: Command, picture_folder: Path) -> None:
        found = self.run(command, picture_folder, "--methods", "svm", "--until", "evaluation")
        assert list(found["methods"]) == ["svm", "1nn", "1nn_zscore"]
        assert not any(stage["stage"].startswith("embedding") for stage in found["stages"])


@pytest.mark.usefixtures("without_engine")
class TestStages:
    def labels(self, done: dict[str, Any], state: str) -> set[str]:
        return {stage["stage"] for stage in done["stages"] if stage["state"] == state}

    def give(self, command: Command, *arguments: object) -> dict[str, Any]:
        done = command(*arguments, *UNTRACKED, "--json")
        assert done.code == 0, done.err
        record: dict[str, Any] = json.loads(done.out)
        return record

    def test_until_refresh_and_status(self, command: Command, picture_folder: Path) -> None:
        first = self.give(command, "run", picture_folder, "--until", "correlation")
        assert self.labels(first, "computed") == {"ingest", "features", "affinity", "correlation"}
        assert first["report"] is None
        assert first["methods"] == {}
        again = self.give(command, "run", picture_folder, "--until", "correlation", "--refresh", "affinity")
        assert self.labels(again, "computed") == {"affinity"}
        assert all(stage["seconds"] >= 0 for stage in again["stages"])
        listed = json.loads(command("status", picture_folder, *UNTRACKED, "--json").out)
        states = {one["label"]: one["state"] for one in listed}
        assert states["features"] == "fresh"
        assert states["embedding[mlda]"] == "missing"
        shown = command("status", picture_folder, *UNTRACKED, "--set", "affinity.n_neighbors=4")
        assert "affinity                     stale: parameter n_neighbors 10 → 4" in shown.out
        assert "of 12 stages would run" in shown.out

    def test_a_forced_stage_reads_every_image_again(
        self, command: Command, picture_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.give(command, "run", picture_folder, "--until", "features")
        from embedding_core.features import extraction

        seen: list[str] = []
        extract = extraction.extract_file
        monkeypatch.setattr(
            extraction, "extract_file", lambda path, moments: seen.append(path.name) or extract(path, moments)
        )
        self.give(command, "run", picture_folder, "--until", "features")
        assert seen == []
        forced = self.give(command, "run", picture_folder, "--until", "features", "--refresh", "features")
        assert len(seen) == 40
        assert self.labels(forced, "computed") == {"features"}

    def test_stage_names_are_checked_once(self, command: Command, picture_folder: Path) -> None:
        done = command("stage", "feature", picture_folder, "--force")
        assert done.code == 2
        assert "labelscape: feature: no such stage. Did you mean features?" in done.err


class FakeTracker:
    """A tracker with one model, in place of MLflow."""

    uri = "sqlite:////fake.db"

    def __init__(self, payload: bytes | None) -> None:
        self.payload = payload

    def latest(self) -> TrackedRun | None:
        return TrackedRun("p" * 32, {}, "1", self.uri) if self.payload else None

    def model(self, run: str, method: str | None) -> tuple[bytes, ModelInfo]:
        if run != "p" * 32:
            raise TrackingError(f"no run {run!r} at {self.uri}")
        assert self.payload
        return self.payload, ModelInfo("c" * 32, run, "run", "pictures", "mlda", "MLDA", {}, {})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A model of images and one of a table, as a run keeps them."""
    place = tmp_path_factory.mktemp("models")
    found = {}
    for name, source in (("images", write_pictures(place / "pictures", 40)), ("table", "iris")):
        run = run_locally(source, place / name, "embedding.method=mlda", "evaluation.baselines=[]")
        ref = run.products.embeddings["mlda"]
        assert ref
        found[name] = load_model_payload(ref, run.workspace.store) or b""
    return found


class TestAnnotate:
    @pytest.fixture
    def use(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes | None], None]:
        def use(payload: bytes | None) -> None:
            monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda uri: FakeTracker(payload))

        return use

    def test_images(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["images"])
        folder = write_pictures(tmp_path / "new", 6)
        (folder / "bad.jpg").write_bytes(b"no picture")
        done = command("annotate", folder)
        assert done.code == 0
        assert "6 items annotated by MLDA of run pppppppp (pictures)" in done.out
        assert "1 skipped:\n  bad.jpg: not an image" in done.out
        table = pq.read_table("annotations.parquet")
        assert table.column_names == ["id", "labels", "score:blue", "score:green", "score:red"]
        assert table.schema.metadata[b"method"] == b"mlda"
        rows = list(csv.DictReader(io.StringIO(Path("annotations.csv").read_text(encoding="utf-8"))))
        assert [row["id"] for row in rows] == table["id"].to_pylist() == [f"p{i:02d}.png" for i in range(6)]
        scores = np.array(
            [[float(row[f"score:{name}"]) for name in ("blue", "green", "red")] for row in rows]
        )
        assert ((scores >= 0) & (scores <= 1)).all()
        named = [set(row["labels"].split("|")) - {""} for row in rows]
        expected = [
            {n for n, s in zip(("blue", "green", "red"), row, strict=True) if s > 0.5} for row in scores
        ]
        assert named == expected

    def test_json_lists_what_was_skipped(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["images"])
        folder = write_pictures(tmp_path / "new", 3)
        (folder / "bad.jpg").write_bytes(b"")
        found = json.loads(command("annotate", folder, "--json", "--out", tmp_path / "x.y").out)
        assert found["items"] == 3
        assert found["skipped"] == [{"file": "bad.jpg", "reason": "the file is empty (0 bytes)"}]
        assert found["files"] == [str(tmp_path / "x.y.parquet"), str(tmp_path / "x.y.csv")]
        assert all(Path(file).is_file() for file in found["files"])

    def test_a_table(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["table"])
        (tmp_path / "t.csv").write_text("f0,f1,f2,f3\n5.1,3.5,1.4,0.2\n6.3,2.5,5.0,1.9\n")
        found = json.loads(command("annotate", tmp_path / "t.csv", "--json").out)
        assert found["labels"] == {"setosa": 1, "versicolor": 0, "virginica": 1}

    @pytest.mark.parametrize(
        ("model", "given", "says"),
        [
            ("images", "gone", "gone: no such folder or file"),
            ("images", "empty", "empty holds no images; give the folder"),
            ("images", "broken", "none of 1 images is readable; the first is a.png"),
            ("images", "t.csv", "t.csv is a file, but the model was trained on images"),
            ("table", "new", "trained on given features, not on images; annotate a table"),
            ("table", "t.csv", "has 2 feature columns; the model was trained on 4"),
            (None, "new", "no run has been tracked at sqlite:////fake.db yet"),
        ],
    )
    def test_refusals(
        self,
        command: Command,
        tmp_path: Path,
        models: dict[str, bytes],
        use: Callable[..., None],
        model: str | None,
        given: str,
        says: str,
    ) -> None:
        use(models[model] if model else None)
        write_pictures(tmp_path / "new", 2)
        for name in ("empty", "broken"):
            (tmp_path / name).mkdir()
        (tmp_path / "broken" / "a.png").write_bytes(b"no picture")
        (tmp_path / "t.csv").write_text("f0,f1\n1,2\n")
        done = command("annotate", given)
        assert done.code == 2
        assert says in done.err
        assert "Traceback" not in done.err
        assert not list(tmp_path.glob("annotations*"))

    def test_another_recipe_is_refused(
        self,
        command: Command,
        tmp_path: Path,
        models: dict[str, bytes],
        use: Callable[..., None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        use(models["images"])
        write_pictures(tmp_path / "new", 2)
        monkeypatch.setattr("tasks.annotation.feature_code", lambda: "f" * 32)
        done = command("annotate", "new")
        assert done.code == 2
        assert "another version of the extraction" in done.err
        assert "Train again" in done.err

    def test_a_folder_that_is_not_there_to_write_in(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["images"])
        done = command("annotate", write_pictures(tmp_path / "new", 2), "--out", "no/such/place")
        assert done.code == 2
        assert "no/such/place.parquet" in done.err

    def test_before_the_first_run(self, command: Command, picture_folder: Path) -> None:
        for verb in (("annotate", picture_folder), ("compare",)):
            done = command(*verb, "--home", "home")
            assert done.code == 2
            assert "no run has been tracked at sqlite:///" in done.err
            assert "labelscape run" in done.err
        assert not Path("home/mlflow.db").exists()


def test_compare_refuses_an_unknown_metric_before_it_looks(command: Command) -> None:
    done = command("compare", "--sort-by", "acc")
    assert done.code == 2
    assert "--sort-by acc: no such metric; choose from macro_precision" in done.err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home and one collection for all tests below: the first run fills them."""
    folder = tmp_path_factory.mktemp("whole")
    write_pictures(folder / "pictures", 40)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
class TestWholeRuns:
    """With Prefect and MLflow; the tests of this class build on one another."""

    def test_a_first_run_prints_its_results(self, command: Command, place: Path) -> None:
        done = command("run", place / "pictures", "--home", place / "home")
        assert done.code == 0
        for text in (
            "MLDA, 1NN",
            "Multi-label DLE, 10NN",
            "Scaled SVM (baseline)",
            "±",
            "13 computed, 0 fresh",
        ):
            assert text in done.out
        assert f"report     {place / 'home' / 'reports'}" in done.out
        assert "tracked    run " in done.out
        assert not leftovers(place)

    def test_a_second_run_is_all_fresh_and_a_script_can_read_it(self, command: Command, place: Path) -> None:
        done = command("run", place / "pictures", "--home", place / "home", "--json")
        found = json.loads(done.out)
        assert {stage["state"] for stage in found["stages"]} == {"fresh"}
        assert len(found["stages"]) == 13
        assert all(stage["seconds"] < 1 and stage["digest"] and stage["key"] for stage in found["stages"])
        assert set(found["methods"]) == {"mlda", "multilabel_dle", "1nn", "1nn_zscore", "svm"}
        for method in found["methods"].values():
            assert len(method["run_id"]) == 32
            for metrics in (method["metrics"], *method["classifiers"].values()):
                assert set(metrics) == METRIC_NAMES
                assert all(
                    isinstance(one[part], float) for one in metrics.values() for part in ("mean", "std")
                )
        assert set(found["methods"]["mlda"]["classifiers"]) == {"1nn", "10nn"}
        assert len(found["tracking"]["run_id"]) == 32
        assert found["tracking"]["problem"] is None
        assert Path(found["report"]).is_file()

    def test_status_then_a_forced_stage(self, command: Command, place: Path) -> None:
        given = (place / "pictures", "--home", place / "home")
        assert command("status", *given).out.endswith("Nothing would run.\n")
        forced = json.loads(command("stage", "evaluation", *given, "--force", "--json").out)
        computed = {stage["stage"] for stage in forced["stages"] if stage["state"] == "computed"}
        assert len(computed) == 5
        assert all(name.startswith("evaluation[") for name in computed)

    def test_compare(self, command: Command, place: Path) -> None:
        shown = command("compare", "--home", place / "home", "--sort-by", "hamming_loss")
        assert "best Hamming loss first" in shown.out
        assert shown.out.count("±") == 5 * 6 + 1
        listed = json.loads(
            command(
                "compare", "pictures", "--home", place / "home", "--sort-by", "hamming_loss", "--json"
            ).out
        )
        losses = [run["metrics"]["hamming_loss"] for run in listed]
        assert losses == sorted(losses)
        assert {run["method"] for run in listed} == {"mlda", "multilabel_dle", "1nn", "1nn_zscore", "svm"}
        assert all(set(run["metrics_std"]) >= METRIC_NAMES for run in listed)
        unknown = command("compare", "pictrues", "--home", place / "home")
        assert unknown.code == 2
        assert f"no experiment 'pictrues' at sqlite:///{place}" in unknown.err
        assert "did you mean 'pictures'?" in unknown.err

    def test_annotate(self, command: Command, place: Path, tmp_path: Path) -> None:
        new = write_pictures(tmp_path / "new", 5)
        home = ("--home", place / "home")
        done = json.loads(command("annotate", new, *home, "--method", "multilabel_dle", "--json").out)
        assert (done["method"], done["items"]) == ("multilabel_dle", 5)
        baseline = command("annotate", new, *home, "--method", "svm")
        assert baseline.code == 2
        assert "it holds models of: mlda, multilabel_dle" in baseline.err
        unknown = command("annotate", new, *home, "--run", "abc")
        assert unknown.code == 2
        assert "no run 'abc'" in unknown.err

    def test_a_tracker_that_does_not_answer_loses_no_result(self, command: Command, place: Path) -> None:
        given = (place / "pictures", "--home", place / "home", "--set", "tracking.uri=http://127.0.0.1:9")
        done = command("run", *given)
        assert done.code == 0
        assert "MLDA, 1NN" in done.out
        assert "NOT TRACKED: no tracking server answers at http://127.0.0.1:9" in done.out
        problem = json.loads(command("run", *given, "--json").out)["tracking"]["problem"]
        assert "labelscape up" in problem

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["no/such/folder"], "there is no file or folder"),
            (["iris", "--set", "embedding.n_components=7"], "embedding[mlda]: n_components=7 exceeds K-1=2"),
        ],
    )
    def test_a_process_of_its_own_says_one_thing(
        self, tmp_path: Path, arguments: list[str], says: str
    ) -> None:
        done = self.process(tmp_path, "run", *arguments)
        out, err = done.communicate(timeout=120)
        assert done.returncode == 2
        assert out == ""
        news = [line for line in err.splitlines() if "computed in" not in line and "resume" not in line]
        assert len(news) == 1
        assert says in news[0]

    def test_an_interrupt_keeps_what_is_done(self, tmp_path: Path) -> None:
        run = self.process(tmp_path, "run", "digits", *UNTRACKED)
        assert run.stderr
        for line in run.stderr:
            if line.startswith("  features"):
                break
        run.send_signal(signal.SIGINT)
        err = run.communicate(timeout=120)[1]
        assert run.returncode == 130
        assert "interrupted; finished stages are kept.\nresume with: labelscape run digits" in err
        assert "Traceback" not in err
        assert not leftovers(tmp_path)
        status = self.process(tmp_path, "status", "digits", *UNTRACKED)
        assert "features                     fresh" in status.communicate(timeout=60)[0]

    def process(self, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *arguments, "--home", str(folder / "home")],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
