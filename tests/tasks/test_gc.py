"""What no kept run needs goes, nothing else; what a lost record may have needed stays."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from storage.artifacts.quarantine import find_lost, forget
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import Store
from storage.errors import StoreError
from tasks.maintenance.fsck import verify_store
from tasks.maintenance.gc import find_leftovers, find_waste, remove_waste
from tasks.maintenance.registered import Registered
from tests.store_helpers import artifact, data_path, files, flip, names, recipe, run_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


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
    assert find_waste(store, log, 0, lambda run: run.tracked is not None).artifacts == ()
    loose = find_waste(store, log, keep=0)
    assert {run.id for run in loose.runs} == {registered.id, last.id}
    assert {one["key"] for one in loose.artifacts} == {
        recipe(2).key,
        recipe(2, stage="features_part").key,
    }


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


def test_loose_parts_alone_stay_for_features_that_are_missing(store):
    """A graph that nobody needs goes, whatever is missing; and so do parts while no features are missing."""
    log = RunLog(store.root)
    run = run_of(store, log, 1)
    for stage in ("features_part", "affinity"):
        store.compute(recipe(9, stage=stage), lambda: artifact(9))
    graph, loose = (f"{stage}/{recipe(9, stage=stage).key}" for stage in ("affinity", "features_part"))
    found = find_waste(store, log, keep=5)
    assert {f"{one['stage']}/{one['key']}" for one in found.artifacts} == {graph, loose}
    assert found.parts == ()
    store.discard("ingest", run.stages["ingest"].key)
    assert find_waste(store, log, keep=5).parts == ()
    store.discard("features", run.stages["features"].key)
    found = find_waste(store, log, keep=5)
    assert [one["stage"] for one in found.artifacts] == ["affinity"]
    assert set(found.parts) == {loose, f"features_part/{recipe(1, stage='features_part').key}"}


def test_a_run_that_is_recorded_while_the_trackers_are_asked_stays(store):
    log = RunLog(store.root)
    old, repeated = run_of(store, log, 1), run_of(store, log, 2)
    asked = Registered(set(), {}, {run.id: run for run in log.entries()})
    new = run_of(store, log, 3)
    log.add(replace(repeated, tracked={"uri": "u", "run_id": "f" * 32}))
    found = find_waste(store, log, 0, asked.keeps)
    assert [run.id for run in found.runs] == [old.id]
    kept = {ref.key for run in (new, repeated) for ref in run.stages.values()}
    assert kept.isdisjoint(one["key"] for one in found.artifacts)


PARTED = ("features", "features_part")


class TestLost:
    """A record of a run or a note of a source cannot be read."""

    def spoil_record(self, store: Store, run: LoggedRun) -> str:
        shelf = store.shelf("runs")
        shelf.write(run.id, (shelf.read(run.id) or b"").replace(b"photos", b"photon", 1))
        return f"runs/{run.id}"

    def spoil_note(self, store: Store, run: LoggedRun) -> str:
        RunLog.of(store).remove(run)
        store.remember("run-abc", {label: ref.to_json() for label, ref in run.stages.items()})
        shelf = store.shelf("pointers")
        shelf.write("run-abc", (shelf.read("run-abc") or b"")[:-9])
        return "pointers/run-abc"

    @pytest.mark.parametrize("kind", ["record", "note"])
    def test_nothing_goes_before_it_is_given_up(self, any_store: Store, kind: str) -> None:
        log = RunLog.of(any_store)
        run, other = run_of(any_store, log, 1), run_of(any_store, log, 2)
        if kind == "record":
            log.pin(run)
        name = self.spoil_record(any_store, run) if kind == "record" else self.spoil_note(any_store, run)
        for _ in range(2):
            with pytest.raises(StoreError, match=rf"{name}.*`labelscape store verify` first"):
                find_waste(any_store, log, keep=0)
        assert any_store.damaged() == {}
        verify_store(any_store, log)
        before = names(any_store)
        for _ in range(2):
            found = find_waste(any_store, log, keep=0)
            assert [f"{one.folder}/{one.name}" for one in found.missed] == [name]
            remove_waste(any_store, log, found)
        assert list(any_store.damaged()) == [f"damaged/{name}.json"]
        assert names(any_store) == before
        assert [one.id for one in log.entries()] == [other.id]
        found = find_waste(any_store, log, keep=0, forget_damaged=True)
        assert found.missed == ()
        remove_waste(any_store, log, found)
        assert (names(any_store), any_store.damaged()) == (set(), {})

    def test_a_good_one_in_its_place_makes_up_for_it(self, any_store: Store) -> None:
        log = RunLog.of(any_store)
        run, other = run_of(any_store, log, 1), run_of(any_store, log, 2)
        self.spoil_record(any_store, run)
        self.spoil_note(any_store, other)
        verify_store(any_store, log)
        log.add(run)
        any_store.remember("run-abc", {label: ref.to_json() for label, ref in run.stages.items()})
        found = find_waste(any_store, log, keep=0)
        assert (len(found.missed), len(found.records)) == (0, 2)
        assert {one["key"] for one in found.artifacts} == {recipe(2, stage=stage).key for stage in PARTED}
        remove_waste(any_store, log, found)
        assert any_store.damaged() == {}

    @pytest.mark.parametrize("verified", [False, True])
    @pytest.mark.parametrize("pinned", [False, True])
    def test_a_run_that_is_made_again_is_pinned_as_it_was(
        self, any_store: Store, verified: bool, pinned: bool
    ) -> None:
        log = RunLog.of(any_store)
        run = run_of(any_store, log, 1)
        if pinned:
            log.pin(run)
        self.spoil_record(any_store, run)
        if verified:
            verify_store(any_store, log)
        assert log.add(run).pinned == log.find(run.id).pinned == pinned

    def test_a_record_of_which_little_is_left_counts_as_pinned(self, store: Store) -> None:
        log = RunLog.of(store)
        run = run_of(store, log, 1)
        store.shelf("runs").write(run.id, b"{")
        assert log.add(run).pinned

    @pytest.mark.parametrize("any_store", ["shared"], indirect=True)
    def test_a_damaged_copy_of_a_note_is_no_loss(self, any_store: Store) -> None:
        log, copies = RunLog.of(any_store), any_store.root / "damaged" / "pointers"
        any_store.remember("run-abc", {"source": "/photos", "stages": {}})
        flip(any_store.root / "pointers" / "run-abc.json")
        assert any_store.last("run-abc") == {"source": "/photos", "stages": {}}
        assert len(list(copies.iterdir())) == 1
        found = find_waste(any_store, log, keep=5)
        assert found.missed == ()
        remove_waste(any_store, log, found)
        assert list(copies.iterdir()) == []

    def test_another_one_that_is_set_aside_meanwhile_stays(self, store: Store) -> None:
        self.spoil_note(store, run_of(store, RunLog.of(store), 1))
        verify_store(store, RunLog.of(store))
        waits = threading.Thread(target=forget, args=(store, find_lost(store)))
        with store.shelf("pointers").hold("run-abc"):
            waits.start()
            waits.join(0.2)
            assert list(store.damaged()) == ["damaged/pointers/run-abc.json"]
            store.shelf("pointers").aside().write("run-abc", b"another")
        waits.join(30)
        assert store.shelf("pointers").aside().read("run-abc") == b"another"
        forget(store, find_lost(store))
        assert store.damaged() == {}


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
