"""Looking after the store: damage is found and named, and only what no kept run needs goes."""

import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from storage.errors import StoreError, TrackingError
from storage.run_log import LoggedRun, RunLog
from storage.store import Store
from tasks.upkeep import (
    find_leftovers,
    find_registered,
    find_waste,
    measure_usage,
    reach,
    remove_waste,
    verify_store,
)
from tests.conftest import UNTRACKED, Command, start_command
from tests.store_helpers import artifact, data_path, files, recipe


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def run_of(store: Store, log: RunLog, seed: int, experiment: str = "photos") -> LoggedRun:
    """A run whose features link to a part of their own; both stages share one ingest."""
    ingest = store.compute(recipe(0, stage="ingest"), lambda: artifact(0)).ref
    part = store.compute(recipe(seed, stage="features_part"), lambda: artifact(seed)).ref
    linked = replace(artifact(seed + 100), links=(part,))
    features = store.compute(recipe(seed), lambda: linked).ref
    stages = {"ingest": ingest, "features": features}
    return log.add(LoggedRun("photos", experiment, "/photos", {"seed": seed}, stages))


def names(store: Store) -> set[str]:
    return {f"{one['stage']}/{one['key']}" for one in store.entries()}


def test_links_are_followed(store):
    log = RunLog(store.root)
    run = run_of(store, log, 1)
    manifests = {f"{one['stage']}/{one['key']}": one for one in store.entries()}
    assert reach(run.stages.values(), manifests) == names(store)
    assert len(names(store)) == 3


def test_only_what_no_kept_run_needs_goes(store):
    log = RunLog(store.root)
    runs = [run_of(store, log, seed) for seed in (1, 2)]
    other = run_of(store, log, 3, experiment="other")
    newest = log.entries()[0]
    kept = next(run for run in log.entries() if run.experiment == "photos")
    (old,) = (run for run in runs if run.id != kept.id)
    waste = find_waste(store, log, keep=1)
    assert [run.id for run in waste.runs] == [old.id]
    expected = {f"features/{old.stages['features'].key}"} | {
        f"features_part/{recipe(old.config['seed'], stage='features_part').key}"
    }
    assert {f"{one['stage']}/{one['key']}" for one in waste.artifacts} == expected
    before = names(store)
    freed, _ = remove_waste(store, log, waste)
    assert freed == waste.bytes > 0
    assert names(store) == before - expected
    assert {run.id for run in log.entries()} == {kept.id, other.id}
    assert newest.id in {kept.id, other.id}
    assert not files(store, "*.lock")


def test_pinned_runs_registered_models_and_the_last_run_of_a_source_stay(store):
    log = RunLog(store.root)
    pinned, registered, last = (run_of(store, log, seed) for seed in (1, 2, 3))
    log.pin(pinned)
    log.add(replace(registered, tracked={"uri": "u", "run_id": "f" * 32}))
    store.remember("run-abc", {label: ref.to_json() for label, ref in last.stages.items()})
    assert find_waste(store, log, keep=0, keep_tracked={"f" * 32}).artifacts == ()
    loose = find_waste(store, log, keep=0)
    assert {run.id for run in loose.runs} == {registered.id, last.id}
    assert {one["key"] for one in loose.artifacts} == {
        recipe(2).key,
        recipe(2, stage="features_part").key,
    }


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_nothing_goes_while_a_manifest_cannot_be_read(store):
    log = RunLog(store.root)
    run_of(store, log, 1)
    features = data_path(store, recipe(1)).with_suffix(".json")
    flip(features)
    with pytest.raises(StoreError, match=rf"features/{features.stem}.*`labelscape store verify` first"):
        find_waste(store, log, keep=5)
    verify_store(store, log)
    assert not features.exists(), "set aside"
    assert find_waste(store, log, keep=5).artifacts == (), "the portions may belong to what is missing"
    unneeded = {one["key"] for one in find_waste(store, log, keep=0).artifacts}
    assert recipe(1, stage="features_part").key in unneeded, "nobody asks for what is missing any more"


def test_nothing_goes_while_a_record_of_a_run_cannot_be_read(store):
    log = RunLog(store.root)
    run = run_of(store, log, 1)
    log.pin(run)
    flip(store.root / "runs" / f"{run.id}.json")
    with pytest.raises(StoreError, match=rf"runs/{run.id}.*`labelscape store verify` first"):
        find_waste(store, log, keep=5)


def test_nothing_goes_when_it_is_not_known_what_a_source_had_last(store):
    log = RunLog(store.root)
    run = run_of(store, log, 1)
    log.remove(run)
    store.remember("run-abc", {label: ref.to_json() for label, ref in run.stages.items()})
    flip(store.root / "pointers" / "run-abc.json")
    with pytest.raises(StoreError, match="pointers/run-abc"):
        find_waste(store, log, keep=5)


class Answering:
    """A tracker that knows of one registered run."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def is_empty(self) -> bool:
        return "gone" in self.uri

    def registered_runs(self) -> set[str]:
        if "silent" in self.uri:
            raise TrackingError("no server answers")
        return {f"{self.uri} champion"}


def test_every_tracker_is_asked_and_of_a_silent_one_all_runs_stay():
    runs = [
        LoggedRun("photos", "photos", "/photos", {}, {}, tracked={"uri": uri, "run_id": f"{uri} {which}"})
        for uri in ("here", "there", "silent", "gone")
        for which in ("champion", "other")
    ]
    found = find_registered([*runs, LoggedRun("photos", "photos", "/photos", {}, {})], Answering)
    assert found.run_ids == {"here champion", "there champion"} | {
        f"{uri} {which}" for uri in ("silent", "gone") for which in ("champion", "other")
    }
    assert set(found.silent) == {"silent", "gone"}
    assert found.silent["silent"] == "no server answers"


def test_verify_finds_a_flipped_bit_and_names_the_runs_that_rest_on_it(store):
    log = RunLog(store.root)
    first, second = run_of(store, log, 1), run_of(store, log, 2)
    assert verify_store(store, log) == []
    damaged = data_path(store, recipe(1, stage="features_part"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    (found,) = verify_store(store, log)
    assert found.name == f"features_part/{damaged.stem}"
    assert found.runs == (first.id,)
    assert second.id not in found.runs
    assert not damaged.exists()
    assert (store.root / "damaged" / "features_part" / damaged.name).exists()
    assert verify_store(store, log) == []


def test_verify_sets_a_damaged_record_of_a_run_aside(store):
    log = RunLog(store.root)
    first, second = run_of(store, log, 1), run_of(store, log, 2)
    record = store.root / "runs" / f"{first.id}.json"
    record.write_bytes(record.read_bytes().replace(b"photos", b"photon", 1))
    (found,) = verify_store(store, log)
    assert (found.name, found.runs) == (f"runs/{first.id}", (first.id,))
    assert (store.root / "damaged" / "runs" / record.name).exists()
    assert [run.id for run in log.entries()] == [second.id]
    assert verify_store(store, log) == []


def test_what_killed_processes_left_beside_the_store_goes_too(store):
    home, log = store.root.parent, RunLog(store.root)
    run = run_of(store, log, 1)
    left = [
        store.root / "runs" / f"{run.id}.json.tmp",
        store.root / "features" / "ab" / f"{'ab' * 32}.parquet",
        store.root / "locks" / f"{'cd' * 32}.lock",
        home / "cache" / "listing" / ".index-abc",
        home / "cache" / "code.json.7.tmp",
        home / "cache" / ".demo-xyz" / "a.jpg",
        home / "reports" / "0123.tmp" / "index.html",
        home / "reports" / ".0123.lock",
        home / "reports" / "reproduce" / "dle-fig2-0123.tmp" / "table.md",
        home / "reports" / "reproduce" / ".dle-fig2-0123.lock",
    ]
    kept = [
        home / "cache" / "listing" / "a.json",
        home / "reports" / "0123" / "index.html",
        home / "reports" / "reproduce" / "dle-fig2-0123" / "table.md",
    ]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = find_leftovers(store, log, home)
    assert all(path.exists() for path in left), "only listed"
    _, gone = remove_waste(store, log, find_waste(store, log, keep=5), home)
    assert sorted(gone) == sorted(found)
    assert [path for path in left if path.exists()] == []
    assert all(path.exists() for path in kept)
    assert log.find(run.id) == run


def test_usage_counts_by_stage_the_largest_first(store):
    run_of(store, RunLog(store.root), 1)
    found = measure_usage(store)
    assert {one.stage: one.artifacts for one in found} == {"ingest": 1, "features": 1, "features_part": 1}
    assert [one.bytes for one in found] == sorted((one.bytes for one in found), reverse=True)
    assert sum(one.bytes for one in found) == sum(p.stat().st_size for p in store.root.rglob("*.parquet"))


def test_nothing_is_removed_while_a_run_of_another_process_is_under_way(store):
    code = (
        "import sys; from pathlib import Path; from storage.store import Store\n"
        "with Store(Path(sys.argv[1])).in_use():\n    print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(store.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        with store.in_use(), pytest.raises(StoreError, match="a run is using"), store.alone():
            pass
        process.kill()
    with store.alone():
        pass


@pytest.mark.usefixtures("without_engine")
class TestCommand:
    def test_list_measure_verify_and_tidy_up(self, command: Command, picture_folder: Path) -> None:
        given = (*UNTRACKED, "--until", "affinity")
        for neighbors in (3, 4):
            command("run", picture_folder, *given, "--set", f"affinity.n_neighbors={neighbors}")
        runs = json.loads(command("store", "ls", "--runs", "--json").out)
        assert len(runs) == 2
        listed = json.loads(command("store", "ls", "--json").out)
        assert sorted(one["stage"] for one in listed if one["runs"] == 1) == ["affinity", "affinity"]
        assert "affinity" in command("store", "ls").out
        assert command("store", "du").out.splitlines()[-1].startswith("all")
        assert command("store", "verify").out == f"{len(listed)} artefacts read, all whole.\n"

        dry = json.loads(command("store", "gc", "--keep", "1", "--dry-run", "--json").out)
        assert len(dry["artifacts"]) == len(dry["runs"]) == 1
        assert dry["leftovers"] == []
        left = Path(".labelscape") / "store" / "runs" / "0123.json.tmp"
        left.touch()
        dry = json.loads(command("store", "gc", "--keep", "1", "--dry-run", "--json").out)
        assert dry["leftovers"] == [str(left.absolute())]
        assert left.exists()
        assert "would be removed, and 1 files" in command("store", "gc", "--dry-run").out
        assert len(json.loads(command("store", "ls", "--json").out)) == len(listed)
        assert command("store", "pin", dry["runs"][0]).code == 0
        assert (
            "0 artefacts (0 B) and 0 runs were removed, and 1 files"
            in command("store", "gc", "--keep", "1").out
        )
        assert command("store", "unpin", dry["runs"][0]).code == 0
        assert "1 artefacts" in command("store", "gc", "--keep", "1").out
        assert len(json.loads(command("store", "ls", "--json").out)) == len(listed) - 1

    def test_damage_is_reported_and_the_next_run_mends_it(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        run = json.loads(command("run", picture_folder, *UNTRACKED, "--until", "affinity", "--json").out)
        (data,) = (tmp_path / ".labelscape" / "store" / "affinity").rglob("*.parquet")
        whole = data.read_bytes()
        data.write_bytes(whole[:-20])
        done = command("store", "verify")
        assert done.code == 1
        assert f"damaged  affinity/{data.stem}: its data file has" in done.out
        assert f"runs that rest on it: {run['run']}" in done.out
        command("run", picture_folder, *UNTRACKED, "--until", "affinity")
        assert data.read_bytes() == whole

    def test_refusals(self, command: Command, picture_folder: Path) -> None:
        missing = command("store", "ls")
        assert missing.code == 2
        assert "`labelscape run` makes it" in missing.err
        command("run", picture_folder, *UNTRACKED, "--until", "ingest")
        assert command("store", "pin", "abcd").code == 2
        assert command("store", "gc", "--keep", "-1").code == 2


def test_a_run_says_that_it_waits_for_the_store_to_be_tidied_up(tmp_path: Path) -> None:
    """In a process of its own, at the first look at the store: nothing of the run has begun by then."""
    store = Store(tmp_path / "home" / "store")
    with store.alone():
        run = start_command(tmp_path, "run", "iris", *UNTRACKED, "--until", "ingest")
        assert run.stderr
        told = select.select([run.stderr], [], [], 30)[0]
        line = run.stderr.readline() if told else "nothing was said"
        run.terminate()
    run.communicate(timeout=60)
    assert line == f"{store.root} is being tidied up (`store gc`) by process {os.getpid()}; waiting for it.\n"
