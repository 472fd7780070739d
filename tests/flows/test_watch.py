"""Watching a source: bursts are gathered, the home folder is left out, an absent source is waited for."""

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.cli import main
from flows.config import RunConfig
from flows.deployment_options import make_triggers
from flows.schedule import default_name
from flows.watch import announce_change, check_settle, count_changes, file_stats, watch_files, watched_places
from storage.errors import ConfigError, ServiceError
from tests.conftest import local_config


class Clock:
    """Replaces waiting by the next step of a story; ends the watch after the last one."""

    def __init__(self, *steps: "object") -> None:
        self.steps = list(steps)

    def __call__(self, seconds: float) -> None:
        if not self.steps:
            raise KeyboardInterrupt
        step = self.steps.pop(0)
        if callable(step):
            step()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"a")
    return folder


def watch(config: RunConfig, *steps: object) -> list[int]:
    """The numbers of changed files that were reported."""
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        watch_files(config, found.append, 5.0, sleep=Clock(*steps))
    return found


def test_a_burst_is_reported_once(photos: Path, tmp_path: Path) -> None:
    config = local_config(photos, tmp_path / "home")

    def add(name: str) -> object:
        return lambda: (photos / name).write_bytes(name.encode())

    assert watch(config, None, None) == []
    assert watch(config, add("b.jpg"), add("c.jpg"), add("d.jpg"), None, None) == [3]
    assert watch(config, add("e.jpg"), None, None, (photos / "a.jpg").unlink, None, None) == [1, 1]


def test_a_source_that_vanishes_is_waited_for(photos: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    steps = [lambda: shutil.move(photos, away), None, lambda: shutil.move(away, photos), None, None]
    assert watch(local_config(photos, tmp_path / "home"), *steps) == []


def test_a_source_that_vanishes_without_its_label_file_is_waited_for(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("id,label\n")
    away = tmp_path / "away"
    config = local_config(photos, tmp_path / "home", f"source.labels={tmp_path / 'names.csv'}")
    steps = [lambda: shutil.move(photos, away), None, None, lambda: shutil.move(away, photos), None, None]
    assert watch(config, *steps) == []


def test_the_home_folder_inside_the_source_does_not_count(photos: Path) -> None:
    home = photos / "home"
    home.mkdir()
    assert watch(local_config(photos, home), lambda: (home / "x").write_bytes(b""), None) == []


def test_the_home_folder_inside_a_relative_source_does_not_count(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = photos / "home"
    home.mkdir()
    monkeypatch.chdir(photos)
    assert watch(local_config(".", Path("home")), lambda: (home / "x").write_bytes(b""), None) == []


def test_a_change_during_the_first_refresh_is_noticed(photos: Path, tmp_path: Path) -> None:
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        watch_files(
            local_config(photos, tmp_path / "home"),
            found.append,
            5.0,
            sleep=Clock(None, None),
            first=lambda: (photos / "b.jpg").write_bytes(b"b"),
        )
    assert found == [1]


def test_a_change_that_could_not_be_announced_is_announced_again(photos: Path, tmp_path: Path) -> None:
    found: list[int] = []

    def announce(count: int) -> bool:
        found.append(count)
        return len(found) > 1

    steps = [lambda: (photos / "b.jpg").write_bytes(b"b"), *[None] * 6]
    with pytest.raises(KeyboardInterrupt):
        watch_files(local_config(photos, tmp_path / "home"), announce, 5.0, sleep=Clock(*steps))
    assert found == [1, 1]


def test_files_beside_a_table_belong_to_it(tmp_path: Path) -> None:
    for name in ("music.arff", "music.xml", "labels.csv", "other.csv"):
        (tmp_path / name).touch()
    found = watched_places(local_config(tmp_path / "music.arff", tmp_path / "home"))
    assert {one.name for one in found} == {"music.arff", "music.xml", "labels.csv"}


def test_a_file_that_is_added_beside_a_table_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"x")
    add = [lambda name=name: (tmp_path / name).write_bytes(b"a,b") for name in ("labels.csv", "x.csv")]
    config = local_config(tmp_path / "x.npy", tmp_path / "home")
    assert watch(config, add[0], None, None, add[1], None, None) == [1, 1]


def test_what_is_beside_a_folder_does_not_replace_it(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "photos.zip").write_bytes(b"x")
    steps = [lambda: shutil.move(photos, tmp_path / "away"), None, None]
    assert watch(local_config(photos, tmp_path / "home"), *steps) == []


def test_changes_are_counted() -> None:
    before = {"a": (1, 1, 1), "b": (1, 1, 1), "c": (1, 1, 1)}
    assert count_changes(before, {"a": (1, 1, 1), "b": (2, 1, 1), "d": (1, 1, 1)}) == 3
    assert file_stats([Path("/no/such/place")], Path("/home")) == {}


@pytest.fixture
def notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a broken table whose failures are written to the file `notices` by a program."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    (tmp_path / "table.csv").write_text('id,f0,class\n1,2,"a')
    script = tmp_path / "hook.py"
    script.write_text(f"import sys; open({str(tmp_path / 'notices')!r}, 'a').write(sys.stdin.read() + '\\n')")
    notify = f"notify.command={sys.executable} {script}"
    return [str(tmp_path / "table.csv"), "--home", str(tmp_path / "home"), "--set", notify]


def events(tmp_path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (tmp_path / "notices").read_text().splitlines()]


@pytest.mark.parametrize("vanished", [False, True])
def test_a_failed_refresh_is_reported(vanished: bool, notices: list[str], tmp_path: Path) -> None:
    if vanished:
        (tmp_path / "table.csv").unlink()
    assert main(["refresh", *notices]) == 2
    assert events(tmp_path) == ["labelscape.failure"]


def test_a_failed_refresh_does_not_end_the_watch(
    notices: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def twice(
        config: RunConfig,
        changed: Callable[[int], None],
        settle: float,
        once: bool,
        first: Callable[[], object],
    ) -> None:
        first()
        changed(1)
        changed(2)

    monkeypatch.setattr("flows.watch.watch_files", twice)
    assert main(["watch", *notices]) == 0
    assert events(tmp_path) == ["labelscape.failure"] * 3
    said = capsys.readouterr()
    assert "changed    2 files" in said.out
    assert said.err.count("watching goes on") == 3


def test_an_event_without_a_server_is_tried_again_and_reported_once(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[object] = [ServiceError("no answer"), ServiceError("no answer"), "labelscape.changed"]

    def announce(*_: object) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    def three_times(config: RunConfig, changed: Callable[[int], bool], *_: object, **__: object) -> None:
        assert [changed(2) for _ in range(3)] == [False, False, True]

    monkeypatch.setattr("flows.watch.announce_change", announce)
    monkeypatch.setattr("flows.watch.watch_files", three_times)
    assert main(["watch", str(photos), "--home", str(tmp_path / "home"), "--event"]) == 0
    said = capsys.readouterr()
    assert said.out.count("changed    2 files") == 1
    assert said.out.count("event      labelscape.changed") == 1
    assert said.err.count("no answer") == 1
    assert "is sent as soon as the server answers" in said.err


def test_the_event_is_that_of_the_served_deployment(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    config = local_config(".", tmp_path / "home")
    assert default_name(config) == "photos"
    sent: list[str] = []
    monkeypatch.setattr("flows.watch.connected", lambda home: contextlib.nullcontext())
    monkeypatch.setattr("prefect.events.emit_event", lambda event, resource, payload: sent.append(resource))
    announce_change(config, 1)
    announce_change(config, 1, "nightly")
    expected = [make_triggers("flow", name, True)[0].match.root for name in ("photos", "nightly")]
    assert sent == expected


def test_a_name_needs_an_event(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(photos), "--name", "nightly"]) == 2
    assert "needs --event" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e9, float("nan")])
def test_a_time_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="--settle"):
        check_settle(seconds)


def test_a_built_in_set_is_not_watched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="built in and never changes"):
        watched_places(local_config("iris", tmp_path))
