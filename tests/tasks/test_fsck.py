"""Check of a store: its content is counted, damage is found and named."""

import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.maintenance.fsck import measure_usage, reach, verify_store
from tasks.runs import remember_run
from tasks.settings import SourceSettings
from tests.conftest import UNTRACKED, Command, start_command
from tests.store_helpers import data_path, flip, names, recipe, run_of


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.local(tmp_path / "store")


def test_links_are_followed(store):
    log = RunLog(store)
    run = run_of(store, log, 1)
    manifests = {f"{one['stage']}/{one['key']}": one for one in store.entries()}
    assert reach(run.stages.values(), manifests) == names(store)
    assert len(names(store)) == 3


def test_verify_finds_a_flipped_bit_and_names_the_runs_that_use_it(store):
    log = RunLog(store)
    first, second = run_of(store, log, 1), run_of(store, log, 2)
    assert verify_store(store, log) == []
    damaged = data_path(store, recipe(1, stage="features_part"))
    flip(damaged)
    (found,) = verify_store(store, log)
    assert found.name == f"features_part/{recipe(1, stage='features_part').key}"
    assert found.runs == (first.id,)
    assert second.id not in found.runs
    assert not damaged.exists()
    assert (store.root / "quarantine" / "features_part" / damaged.name).exists()
    assert verify_store(store, log) == []


def test_verify_says_what_each_kind_of_damage_costs(store, tmp_path):
    log = RunLog(store)
    first, second, third = (run_of(store, log, seed) for seed in (1, 2, 3))
    log.pin(first)
    for run in (first, second):
        record = store.root / "runs" / f"{run.id}.json"
        record.write_bytes(record.read_bytes().replace(b'"name": "photos"', b'"name": "photon"'))
    remember_run(store, SourceSettings(path=str(tmp_path)), third.stages)
    (note,) = (store.root / "pointers").iterdir()
    note.write_bytes(note.read_bytes().replace(b"features", b"featurez"))
    flip(data_path(store, recipe(3)))
    found = {one.name: one for one in verify_store(store, log)}
    assert set(found) == {
        f"runs/{first.id}",
        f"runs/{second.id}",
        f"pointers/{note.stem}",
        f"features/{recipe(3).key}",
    }
    artifact, pinned, record, of_source = (
        found[f"features/{recipe(3).key}"],
        found[f"runs/{first.id}"],
        found[f"runs/{second.id}"],
        found[f"pointers/{note.stem}"],
    )
    assert (artifact.runs, artifact.recomputable) == ((third.id,), True)
    assert artifact.loss == f"runs that use it: {third.id}"
    assert (pinned.runs, pinned.recomputable) == ((first.id,), False)
    assert f"the record of run {first.id} of /photos that was, or may have been, pinned" in pinned.loss
    assert f"the record of run {second.id} of /photos; `labelscape run /photos`" in record.loss
    assert of_source.loss.startswith(
        f"lost: the stages of the last run of {tmp_path}; `labelscape run {tmp_path}`"
    )
    assert [run.id for run in log.entries()] == [third.id]
    assert verify_store(store, log) == []


def test_usage_counts_by_stage_the_largest_first(store):
    run_of(store, RunLog(store), 1)
    found = measure_usage(store)
    assert {one.stage: one.artifacts for one in found} == {"ingest": 1, "features": 1, "features_part": 1}
    assert [one.bytes for one in found] == sorted((one.bytes for one in found), reverse=True)
    assert sum(one.bytes for one in found) == sum(p.stat().st_size for p in store.root.rglob("*.parquet"))


def test_nothing_is_removed_while_a_run_of_another_process_is_under_way(store):
    code = (
        "import sys; from pathlib import Path; from storage.artifacts.store import ArtifactStore\n"
        "with ArtifactStore.local(Path(sys.argv[1])).in_use():\n    print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(store.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        with store.in_use(), pytest.raises(StoreError, match="a run is using"), store.exclusive():
            pass
        process.kill()
    with store.exclusive():
        pass


def contents(store: Path) -> dict[Path, bytes]:
    """Every file of a store except its locks."""
    return {path: path.read_bytes() for ending in ("json", "parquet") for path in store.rglob(f"*.{ending}")}


@pytest.mark.usefixtures("without_engine")
class TestCommand:
    @pytest.mark.slow
    def test_list_measure_verify_and_collect_garbage(self, command: Command, picture_folder: Path) -> None:
        given = (*UNTRACKED, "--until", "affinity")
        for neighbors in (3, 4):
            command("run", picture_folder, *given, "--set", f"affinity.n_neighbors={neighbors}")
        runs = json.loads(command("store", "ls", "--runs", "--json").out)
        assert len(runs) == 2
        listed = json.loads(command("store", "ls", "--json").out)
        assert sorted(one["stage"] for one in listed if one["runs"] == 1) == ["affinity", "affinity"]
        assert "affinity" in command("store", "ls").out
        assert command("store", "du").out.splitlines()[-1].startswith("all")
        assert command("store", "verify").out == f"{len(listed)} artifacts read, all intact.\n"

        dry = json.loads(command("store", "gc", "--keep", "1", "--dry-run", "--json").out)
        assert len(dry["artifacts"]) == len(dry["runs"]) == 1
        assert dry["orphans"] == []
        left = Path(".labelscape") / "store" / "runs" / f"0123.json.{'0' * 16}.tmp"
        left.touch()
        dry = json.loads(command("store", "gc", "--keep", "1", "--dry-run", "--json").out)
        assert dry["orphans"] == [str(left.absolute())]
        assert left.exists()
        assert "would be removed, and 1 files" in command("store", "gc", "--dry-run").out
        assert len(json.loads(command("store", "ls", "--json").out)) == len(listed)
        assert command("store", "pin", dry["runs"][0]).code == 0
        assert (
            "0 artifacts (0 B) and 0 runs were removed, and 1 files"
            in command("store", "gc", "--keep", "1").out
        )
        assert command("store", "unpin", dry["runs"][0]).code == 0
        assert "1 artifacts" in command("store", "gc", "--keep", "1").out
        assert len(json.loads(command("store", "ls", "--json").out)) == len(listed) - 1

    @pytest.mark.slow
    def test_damage_is_reported_and_the_next_run_repairs_it(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        run = json.loads(command("run", picture_folder, *UNTRACKED, "--until", "affinity", "--json").out)
        (data,) = (tmp_path / ".labelscape" / "store" / "affinity").rglob("*.parquet")
        whole = data.read_bytes()
        data.write_bytes(whole[:-20])
        done = command("store", "verify")
        assert done.code == 1
        assert f"damaged  affinity/{data.stem.partition('-')[0]}: its data file has" in done.out
        assert f"runs that use it: {run['run']}" in done.out
        command("run", picture_folder, *UNTRACKED, "--until", "affinity")
        assert data.read_bytes() == whole

    @pytest.mark.slow
    def test_a_damaged_record_stops_gc_until_it_is_restored_or_given_up(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        given = ("run", picture_folder, *UNTRACKED, "--until", "ingest")
        run = json.loads(command(*given, "--json").out)["run"]
        store = tmp_path / ".labelscape" / "store"
        (note,) = (file for file in (store / "pointers").iterdir() if not file.name.startswith("experiment-"))
        gc = ("store", "gc", "--keep", "0")
        assert command("store", "pin", run).code == 0
        for file in (note, store / "runs" / f"{run}.json"):
            file.write_bytes(file.read_bytes().replace(b'"ingest"', b'"inquest"'))
        before = contents(store)
        for options in (("--dry-run",), (), ("--dry-run",)):
            assert "`labelscape store verify` first" in command(*gc, *options).err
            assert contents(store) == before
        verified = command("store", "verify")
        assert verified.code == 1
        assert "recomputes damaged artifacts" not in verified.out
        assert "no run uses it" not in verified.out
        assert "`labelscape store gc --forget-damaged` discards the damaged records" in verified.out
        for _ in range(2):
            done = command(*gc)
            assert f"lost      the record of run {run} of {picture_folder} that was" in done.out
            assert f"lost      the stages of the last run of {picture_folder}" in done.out
            assert "kept      all runs and artifacts" in done.out
            assert "0 artifacts (0 B) and 0 runs were removed.\n" in done.out
        assert json.loads(command(*gc, "--json").out)["unresolved"] == [
            f"runs/{run}",
            f"pointers/{note.stem}",
        ]

        assert json.loads(command(*given, "--json").out)["run"] == run
        made_again = json.loads(command(*gc, "--json").out)
        assert (made_again["unresolved"], len(made_again["forgotten"])) == ([], 2)
        assert made_again["runs"] == made_again["artifacts"] == []
        assert json.loads(command("store", "ls", "--runs", "--json").out)[0]["pinned"]

        flip(store / "runs" / f"{run}.json")
        flip(note)
        command("store", "verify")
        dry = json.loads(command(*gc, "--forget-damaged", "--dry-run", "--json").out)
        assert len(dry["artifacts"]) == 1
        assert len(list((store / "quarantine").rglob("*.json"))) == 2
        assert "1 artifacts" in command(*gc, "--forget-damaged").out
        assert json.loads(command("store", "ls", "--json").out) == []
        assert list((store / "quarantine").rglob("*.json")) == []

    def test_gc_reports_what_it_keeps_in_doubt(self, command: Command, tmp_path: Path) -> None:
        store = ArtifactStore.local(tmp_path / ".labelscape" / "store")
        log, gone = RunLog(store), f"sqlite:///{tmp_path}/gone/mlflow.db"
        run = run_of(store, log, 1)
        log.add(replace(run, tracked={"uri": gone, "run_id": "f" * 32}))
        store.discard("features", run.stages["features"].key)
        gc = ("store", "gc", "--keep", "0")
        said = command(*gc).out
        assert (
            f"kept      runs tracked at {gone}, which may have registered models: its file is missing" in said
        )
        assert f"`labelscape store gc --forget-tracker {gone}`" in said
        assert "kept      1 parts of features that no artifact links to: features that a kept run" in said
        assert said.endswith("0 artifacts (0 B) and 0 runs were removed.\n")
        given_up = json.loads(command(*gc, "--forget-tracker", gone, "--json").out)
        assert (given_up["runs"], given_up["unreachable"], given_up["loose_parts"]) == ([run.id], {}, [])
        assert names(store) == set()

    def test_refusals(self, command: Command, picture_folder: Path) -> None:
        missing = command("store", "ls")
        assert missing.code == 2
        assert "`labelscape run` creates it" in missing.err
        command("run", picture_folder, *UNTRACKED, "--until", "ingest")
        assert command("store", "pin", "abcd").code == 2
        assert command("store", "gc", "--keep", "-1").code == 2


@pytest.mark.slow
def test_a_run_reports_that_it_waits_for_gc(tmp_path: Path) -> None:
    """In its own process, before any stage of the run begins."""
    store = ArtifactStore.local(tmp_path / "home" / "store")
    with store.exclusive():
        run = start_command(tmp_path, "run", "iris", *UNTRACKED, "--until", "ingest")
        assert run.stderr
        reported = select.select([run.stderr], [], [], 30)[0]
        line = run.stderr.readline() if reported else "nothing was said"
        run.terminate()
    run.communicate(timeout=60)
    assert (
        line == f"{store.root} is being cleaned up (`store gc`) by process {os.getpid()}; waiting for it.\n"
    )
