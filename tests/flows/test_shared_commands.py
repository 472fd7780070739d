"""The command line on a shared store: another home finds everything and can maintain the store."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.executor import SerialExecutor
from tests.conftest import UNTRACKED, Command

pytestmark = pytest.mark.usefixtures("without_engine")

SHORT = (*UNTRACKED, "--until", "affinity")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELSCAPE_STORE", f"file://{tmp_path}/shared")
    return tmp_path / "shared"


def read(command: Command, *arguments: object) -> Any:
    done = command(*arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def states(summary: Any) -> set[str]:
    return {one["state"] for one in summary["stages"]}


@pytest.mark.slow
def test_another_home_finds_everything(command: Command, picture_folder: Path, shared: Path) -> None:
    first = read(command, "run", picture_folder, *SHORT, "--home", "one")
    second = read(command, "run", picture_folder, *SHORT, "--home", "two")
    assert (states(first), states(second)) == ({"computed"}, {"fresh"})
    assert first["run"] == second["run"]
    assert not (Path("two") / "store").exists()
    found = read(command, "status", picture_folder, *UNTRACKED, "--home", "three")
    assert [one["state"] for one in found[:3]] == ["fresh"] * 3
    assert read(command, "lineage", "--home", "three")["run"]["id"] == first["run"]
    again = read(command, "run", "--as", first["run"], "--until", "affinity", "--home", "three")
    assert again["repeats"]["differ"] == []
    assert {"ingest", "features", "affinity"} == {one["stage"] for one in again["stages"]}


@pytest.mark.slow
def test_damage_is_reported_and_the_next_run_repairs_it(
    command: Command, picture_folder: Path, shared: Path
) -> None:
    run = read(command, "run", picture_folder, *SHORT, "--home", "one")
    (data,) = (shared / "affinity").rglob("*.parquet")
    whole = data.read_bytes()
    data.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    done = command("store", "verify", "--home", "two")
    assert done.code == 1
    assert f"runs that use it: {run['run']}" in done.out
    assert f"1 moved to quarantine under file://{shared}/quarantine" in done.out
    assert states(read(command, "run", picture_folder, *SHORT, "--home", "two")) == {"computed", "fresh"}
    assert data.read_bytes() == whole


@pytest.mark.slow
def test_damage_to_what_only_the_summary_reads_is_repaired_in_the_same_run(
    command: Command, picture_folder: Path, shared: Path
) -> None:
    read(command, "run", picture_folder, *SHORT, "--home", "one")
    (data,) = (shared / "ingest").rglob("*.parquet")
    whole = data.read_bytes()
    data.write_bytes(bytes(len(whole)))
    summary = read(command, "run", picture_folder, *SHORT, "--home", "two")
    assert [one["artifact"].partition("/")[0] for one in summary["damaged"]] == ["ingest"]
    assert data.read_bytes() == whole


@pytest.mark.slow
def test_gc_keeps_new_runs_and_new_artifacts(command: Command, picture_folder: Path, shared: Path) -> None:
    for neighbors in (3, 4):
        read(command, "run", picture_folder, *SHORT, "--set", f"affinity.n_neighbors={neighbors}")
    assert read(command, "store", "gc", "--keep", "1")["artifacts"] == []
    runs = read(command, "store", "ls", "--runs")
    assert len(runs) == 1  # an old run is forgotten at once, its artifacts when the hour is over
    Path("labelscape.toml").write_text("[store]\ngrace_minutes = 0\n", encoding="utf-8")
    dry = read(command, "store", "gc", "--keep", "1", "--dry-run")
    assert [name.partition("/")[0] for name in dry["artifacts"]] == ["affinity"]
    assert len(list((shared / "affinity").rglob("*.parquet"))) == 2
    assert read(command, "store", "gc", "--keep", "1")["artifacts"] == dry["artifacts"]
    assert len(list((shared / "affinity").rglob("*.parquet"))) == 1
    assert [one["id"] for one in read(command, "store", "ls", "--runs")] == [runs[0]["id"]]


def test_an_address_that_cannot_be_used_stops_a_run_before_any_work(
    command: Command, picture_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    given = ("run", picture_folder, *SHORT, "--set")
    done = command(*given, f"store.uri=file://{tmp_path}/file/store")
    assert done.code == 2
    assert f"the store file://{tmp_path}/file/store cannot be used" in done.err
    refused = command(*given, "store.uri=s3://me:hush@bucket")
    assert refused.code == 2
    assert "hush" not in refused.err.replace(" ".join(map(str, given)), "")
    assert "resume with" not in refused.err


@pytest.mark.slow
def test_another_home_continues_a_selection(
    command: Command, picture_folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.runner.make_executor", lambda setting, home=None: SerialExecutor())
    quick = (*UNTRACKED, "--set", "evaluation.folds=2", "--set", "features.extractors=color_moments")
    first = read(command, "auto", picture_folder, *quick, "--candidates", "1nn", "--home", "one")
    second = read(command, "auto", picture_folder, *quick, "--candidates", "1nn,mlls", "--home", "two")
    state = {one["stage"]: one["state"] for one in second["stages"]}
    for label in ("ingest", "features", "trial[1nn]", "candidate[1nn]"):
        assert state[label] == "fresh"
    assert state["candidate[mlls]"] == "computed"
    runs = read(command, "store", "ls", "--runs", "--home", "three")
    assert {one["id"] for one in runs} == {first["run"], second["run"]}
    again = read(command, "run", "--as", first["run"], "--home", "three")
    assert (again["run"], again["repeats"]["differ"]) == (first["run"], [])
    Path("labelscape.toml").write_text("[store]\ngrace_minutes = 0\n")
    assert read(command, "store", "gc", "--dry-run", "--home", "three")["artifacts"] == []
