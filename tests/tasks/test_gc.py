"""Garbage collection removes only what no kept run uses; what a damaged record may have used stays."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from storage.artifacts.quarantine import delete_quarantined, find_quarantined
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.maintenance.fsck import verify_store
from tasks.maintenance.gc import find_garbage, find_orphans, remove_garbage
from tasks.maintenance.registered import Registered
from tests.store_helpers import artifact, files, flip, manifest_path, names, recipe, run_of


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.local(tmp_path / "store")


def test_only_artifacts_that_no_kept_run_needs_are_removed(store):
    log = RunLog(store)
    runs = [run_of(store, log, seed) for seed in (1, 2)]
    other = run_of(store, log, 3, experiment="other")
    newest = log.entries()[0]
    kept = next(run for run in log.entries() if run.experiment == "photos")
    (old,) = (run for run in runs if run.id != kept.id)
    waste = find_garbage(store, log, keep=1)
    assert [run.id for run in waste.runs] == [old.id]
    expected = {f"features/{old.stages['features'].key}"} | {
        f"features_part/{recipe(old.config['seed'], stage='features_part').key}"
    }
    assert {f"{one['stage']}/{one['key']}" for one in waste.artifacts} == expected
    before = names(store)
    freed, _ = remove_garbage(store, log, waste)
    assert freed == waste.bytes > 0
    assert names(store) == before - expected
    assert {run.id for run in log.entries()} == {kept.id, other.id}
    assert newest.id in {kept.id, other.id}
    assert not files(store, "*.lock")


def test_pinned_runs_registered_models_and_the_last_run_of_a_source_stay(store):
    log = RunLog(store)
    pinned, registered, last = (run_of(store, log, seed) for seed in (1, 2, 3))
    log.pin(pinned)
    log.add(replace(registered, tracked={"uri": "u", "run_id": "f" * 32}))
    store.write_pointer("run-abc", {"stages": {label: ref.to_json() for label, ref in last.stages.items()}})
    assert find_garbage(store, log, 0, lambda run: run.tracked is not None).artifacts == ()
    loose = find_garbage(store, log, keep=0)
    assert {run.id for run in loose.runs} == {registered.id, last.id}
    assert {one["key"] for one in loose.artifacts} == {
        recipe(2).key,
        recipe(2, stage="features_part").key,
    }


def test_nothing_is_removed_while_a_manifest_cannot_be_read(store):
    log = RunLog(store)
    run_of(store, log, 1)
    features = manifest_path(store, recipe(1))
    flip(features)
    with pytest.raises(StoreError, match=rf"features/{features.stem}.*`labelscape store verify` first"):
        find_garbage(store, log, keep=5)
    verify_store(store, log)
    assert not features.exists(), "in quarantine"
    assert find_garbage(store, log, keep=5).artifacts == (), "the portions may belong to what is missing"
    unneeded = {one["key"] for one in find_garbage(store, log, keep=0).artifacts}
    assert recipe(1, stage="features_part").key in unneeded, "nobody asks for what is missing any more"


def test_loose_parts_are_kept_only_while_features_are_missing(store):
    """An unused graph is removed in any case, unused parts only while no features are missing."""
    log = RunLog(store)
    run = run_of(store, log, 1)
    for stage in ("features_part", "affinity"):
        store.compute(recipe(9, stage=stage), lambda: artifact(9))
    graph, loose = (f"{stage}/{recipe(9, stage=stage).key}" for stage in ("affinity", "features_part"))
    found = find_garbage(store, log, keep=5)
    assert {f"{one['stage']}/{one['key']}" for one in found.artifacts} == {graph, loose}
    assert found.parts == ()
    store.discard("ingest", run.stages["ingest"].key)
    assert find_garbage(store, log, keep=5).parts == ()
    store.discard("features", run.stages["features"].key)
    found = find_garbage(store, log, keep=5)
    assert [one["stage"] for one in found.artifacts] == ["affinity"]
    assert set(found.parts) == {loose, f"features_part/{recipe(1, stage='features_part').key}"}


def test_a_run_that_is_recorded_while_the_trackers_are_asked_stays(store):
    log = RunLog(store)
    old, repeated = run_of(store, log, 1), run_of(store, log, 2)
    asked = Registered(set(), {}, {run.id: run for run in log.entries()})
    new = run_of(store, log, 3)
    log.add(replace(repeated, tracked={"uri": "u", "run_id": "f" * 32}))
    found = find_garbage(store, log, 0, asked.keeps)
    assert [run.id for run in found.runs] == [old.id]
    kept = {ref.key for run in (new, repeated) for ref in run.stages.values()}
    assert kept.isdisjoint(one["key"] for one in found.artifacts)


PARTED = ("features", "features_part")


class TestDamagedRecords:
    """A run record or a pointer cannot be read."""

    def spoil_record(self, store: ArtifactStore, run: LoggedRun) -> str:
        records = store.records("runs")
        records.write(run.id, (records.read(run.id) or b"").replace(b"photos", b"photon", 1))
        return f"runs/{run.id}"

    def spoil_pointer(self, store: ArtifactStore, run: LoggedRun) -> str:
        RunLog(store).remove(run)
        store.write_pointer(
            "run-abc", {"stages": {label: ref.to_json() for label, ref in run.stages.items()}}
        )
        records = store.records("pointers")
        records.write("run-abc", (records.read("run-abc") or b"")[:-9])
        return "pointers/run-abc"

    @pytest.mark.parametrize("kind", ["record", "note"])
    def test_nothing_is_removed_until_the_record_is_discarded(
        self, any_store: ArtifactStore, kind: str
    ) -> None:
        log = RunLog(any_store)
        run, other = run_of(any_store, log, 1), run_of(any_store, log, 2)
        if kind == "record":
            log.pin(run)
        name = self.spoil_record(any_store, run) if kind == "record" else self.spoil_pointer(any_store, run)
        for _ in range(2):
            with pytest.raises(StoreError, match=rf"{name}.*`labelscape store verify` first"):
                find_garbage(any_store, log, keep=0)
        assert any_store.quarantine_sizes() == {}
        verify_store(any_store, log)
        before = names(any_store)
        for _ in range(2):
            found = find_garbage(any_store, log, keep=0)
            assert [f"{one.folder}/{one.name}" for one in found.unresolved] == [name]
            remove_garbage(any_store, log, found)
        assert list(any_store.quarantine_sizes()) == [f"quarantine/{name}.json"]
        assert names(any_store) == before
        assert [one.id for one in log.entries()] == [other.id]
        found = find_garbage(any_store, log, keep=0, forget_damaged=True)
        assert found.unresolved == ()
        remove_garbage(any_store, log, found)
        assert (names(any_store), any_store.quarantine_sizes()) == (set(), {})

    def test_an_intact_record_of_the_same_name_replaces_it(self, any_store: ArtifactStore) -> None:
        log = RunLog(any_store)
        run, other = run_of(any_store, log, 1), run_of(any_store, log, 2)
        self.spoil_record(any_store, run)
        self.spoil_pointer(any_store, other)
        verify_store(any_store, log)
        log.add(run)
        any_store.write_pointer(
            "run-abc", {"stages": {label: ref.to_json() for label, ref in run.stages.items()}}
        )
        found = find_garbage(any_store, log, keep=0)
        assert (len(found.unresolved), len(found.records)) == (0, 2)
        assert {one["key"] for one in found.artifacts} == {recipe(2, stage=stage).key for stage in PARTED}
        remove_garbage(any_store, log, found)
        assert any_store.quarantine_sizes() == {}

    @pytest.mark.parametrize("verified", [False, True])
    @pytest.mark.parametrize("pinned", [False, True])
    def test_a_repeated_run_keeps_its_pin(
        self, any_store: ArtifactStore, verified: bool, pinned: bool
    ) -> None:
        log = RunLog(any_store)
        run = run_of(any_store, log, 1)
        if pinned:
            log.pin(run)
        self.spoil_record(any_store, run)
        if verified:
            verify_store(any_store, log)
        assert log.add(run).pinned == log.find(run.id).pinned == pinned

    def test_a_mostly_lost_record_counts_as_pinned(self, store: ArtifactStore) -> None:
        log = RunLog(store)
        run = run_of(store, log, 1)
        store.records("runs").write(run.id, b"{")
        assert log.add(run).pinned

    @pytest.mark.parametrize("any_store", ["shared"], indirect=True)
    def test_a_damaged_local_copy_of_a_pointer_is_not_a_loss(self, any_store: ArtifactStore) -> None:
        log, copies = RunLog(any_store), any_store.root / "quarantine" / "pointers"
        any_store.write_pointer("run-abc", {"source": "/photos", "stages": {}})
        flip(any_store.root / "pointers" / "run-abc.json")
        assert any_store.read_pointer("run-abc") == {"source": "/photos", "stages": {}}
        assert len(list(copies.iterdir())) == 1
        found = find_garbage(any_store, log, keep=5)
        assert found.unresolved == ()
        remove_garbage(any_store, log, found)
        assert list(copies.iterdir()) == []

    def test_a_record_that_is_quarantined_meanwhile_stays(self, store: ArtifactStore) -> None:
        self.spoil_pointer(store, run_of(store, RunLog(store), 1))
        verify_store(store, RunLog(store))
        waits = threading.Thread(target=delete_quarantined, args=(store, find_quarantined(store)))
        with store.records("pointers").hold("run-abc"):
            waits.start()
            waits.join(0.2)
            assert list(store.quarantine_sizes()) == ["quarantine/pointers/run-abc.json"]
            store.records("pointers").quarantined.write("run-abc", b"another")
        waits.join(30)
        assert store.records("pointers").quarantined.read("run-abc") == b"another"
        delete_quarantined(store, find_quarantined(store))
        assert store.quarantine_sizes() == {}


def test_orphans_beside_the_store_are_removed_too(store):
    home, log = store.root.parent, RunLog(store)
    run = run_of(store, log, 1)
    left = [
        store.root / "runs" / f"{run.id}.json.{'0' * 16}.tmp",
        store.root / "features" / "ab" / f"{'ab' * 32}-{'0' * 64}.parquet",
        store.root / "locks" / f"{'cd' * 32}.lock",
        home / "cache" / "listing" / f"a.json.{'0' * 16}.tmp",
        home / "cache" / f"code.json.{'0' * 16}.tmp",
        home / "cache" / ".demo-xyz" / "a.jpg",
        home / "reports" / "0123.tmp" / "index.html",
        home / "reports" / ".0123.lock",
        home / "reports" / "0123" / f"run.json.{'0' * 16}.tmp",
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
    left.append(home / "reports" / "latest.tmp")
    left[-1].symlink_to("0123")
    found = find_orphans(store, home)
    assert all(path.exists() for path in left), "only listed"
    _, gone = remove_garbage(store, log, find_garbage(store, log, keep=5), home)
    assert sorted(gone) == sorted(found)
    assert [path for path in left if path.exists()] == []
    assert all(path.exists() for path in kept)
    assert log.find(run.id) == run
