"""Damaged files, orphans and locks: found, counted and removed; locks in use stay."""

import fcntl
import json
import os
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from storage.artifacts import leases, locks
from storage.artifacts.fsspec_blobs import FsspecBlobs
from storage.artifacts.locks import hold_lock, try_lock
from storage.artifacts.records import Records
from storage.artifacts.remote import Remote
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.maintenance.fsck import measure_usage, verify_store
from tests.conftest import Command
from tests.store_helpers import artifact, data_path, files, manifest_path, recipe


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.local(tmp_path / "store")


def another(store: ArtifactStore) -> ArtifactStore:
    """The same store, as another process or machine opens it."""
    if store.is_shared:
        return ArtifactStore.shared(store.root.with_name("other"), remote_of(store))
    return ArtifactStore.local(store.root)


def spoil_data(store: ArtifactStore) -> None:
    """Flip a bit of the data of `recipe()`, in the folder or at the address."""
    if not store.is_shared:
        flip(data_path(store, recipe()))
        return
    remote = remote_of(store)
    (name,) = (name for name in remote.list_objects() if name.endswith(".parquet"))
    remote.write(name, flipped(remote.read(name) or b""))


def remote_of(store: ArtifactStore) -> Remote:
    assert isinstance(store._blobs, FsspecBlobs)
    return store._blobs.remote


def flip(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes()))


def flipped(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


class TestDamaged:
    def test_the_quarantine_is_counted_and_then_emptied(self, any_store: ArtifactStore) -> None:
        size = any_store.details(any_store.compute(recipe(), artifact).ref)["bytes"]
        assert any_store.quarantine_sizes() == {}
        spoil_data(any_store)
        assert [problem is None for _, problem in any_store.verify()] == [False]
        found = any_store.quarantine_sizes()
        assert {name.split("/")[0] for name in found} == {"quarantine"}
        assert sorted(Path(name).suffix for name in found) == [".json", ".parquet"]
        assert size in found.values()
        (usage,) = measure_usage(any_store)
        assert (usage.stage, usage.artifacts, usage.bytes) == ("quarantine", 1, sum(found.values()))
        assert sum("quarantine" in path.parts for path in any_store.orphans()) == 2
        any_store.compute(recipe(), artifact)
        removed = any_store.remove_orphans()
        assert sum("quarantine" in path.parts for path in removed) == 2
        assert any_store.quarantine_sizes() == {}
        assert any_store.find(recipe(), verify=True) is not None

    def test_they_stay_while_their_artifact_is_being_computed(self, store: ArtifactStore) -> None:
        store.compute(recipe(), artifact)
        flip(data_path(store, recipe()))
        assert store.find(recipe(), verify=True) is None
        with hold_lock(store.root / "locks" / f"{recipe().key}.lock"):
            assert store.orphans() == store.remove_orphans() == []
        assert len(store.orphans()) == len(store.remove_orphans()) == 2
        assert files(store) == []


def repair_before_it_is_held(
    records: Records, name: str, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a process that replaces a damaged record after it was read."""
    hold = type(records).hold

    def repaired_first(held: Records, asked: str) -> AbstractContextManager[None]:
        records.write(name, good)
        return hold(held, asked)

    monkeypatch.setattr(type(records), "hold", repaired_first)


class TestVerify:
    def test_a_damaged_pointer_is_found_and_quarantined(self, any_store: ArtifactStore) -> None:
        any_store.write_pointer("run-a", {"id": 1})
        any_store.write_pointer("run-b", {"id": 2})
        records = any_store.records("pointers")
        records.write("run-a", records.read("run-a")[:-9])  # type: ignore[index]
        (damage,) = verify_store(any_store, RunLog(any_store))
        assert damage.name == "pointers/run-a"
        assert "is damaged" in damage.reason
        assert list(any_store.quarantine_sizes()) == ["quarantine/pointers/run-a.json"]
        assert list(any_store.read_pointers()) == ["run-b"]
        assert verify_store(any_store, RunLog(any_store)) == []

    def test_a_damaged_pointer_that_cannot_be_moved_counts_as_missing(
        self, any_store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records = any_store.records("pointers")
        records.write("run", b"{")

        def refuse(self: object, name: str) -> None:
            raise StoreError("No permission")

        monkeypatch.setattr(type(records), "move_to_quarantine", refuse)
        assert any_store.read_pointer("run") is None
        assert any_store.quarantined == [], "it is where it was"
        with pytest.raises(StoreError, match="No permission"):
            verify_store(any_store, RunLog(any_store))

    def test_a_good_pointer_that_replaced_a_damaged_one_counts(
        self, any_store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records = any_store.records("pointers")
        any_store.write_pointer("run", {"id": 2})
        good = records.read("run") or b""
        records.write("run", b"{")
        if any_store.is_shared:
            ArtifactStore.local(any_store.root).records("pointers").remove("run")
        repair_before_it_is_held(records, "run", good, monkeypatch)
        assert any_store.read_pointer("run") == {"id": 2}
        assert (any_store.quarantined, any_store.quarantine_sizes()) == ([], {})
        records.write("run", b"{")
        assert verify_store(any_store, RunLog(any_store)) == []

    def test_a_good_run_record_that_replaced_a_damaged_one_stays(
        self, any_store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records, log = any_store.records("runs"), RunLog(any_store)
        run = log.add(LoggedRun("photos", "photos", "/photos", {}, {}))
        good = records.read(run.id) or b""
        records.write(run.id, b"{")
        repair_before_it_is_held(records, run.id, good, monkeypatch)
        assert verify_store(any_store, log) == []
        assert log.entries() == [run]

    def test_artifacts_whose_manifest_is_damaged_count(self, command: Command, tmp_path: Path) -> None:
        store = ArtifactStore.local(tmp_path / ".labelscape" / "store")
        for seed in range(3):
            store.compute(recipe(seed), artifact)
        flip(manifest_path(store, recipe(1)))
        done = command("store", "verify", "--json")
        assert done.code == 1
        said = json.loads(done.out)
        assert said["artifacts"] == 3
        assert [one["name"] for one in said["damaged"]] == [f"features/{recipe(1).key}"]
        assert "quarantine" in command("store", "du").out


class TestLocks:
    def test_a_run_reports_that_it_waits_for_gc(
        self, any_store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "_POLL_SECONDS", 0.01)
        reported: list[str] = []
        waits, began = threading.Event(), threading.Event()

        def tell(line: str) -> None:
            reported.append(line)
            waits.set()

        def run() -> None:
            with another(any_store).in_use(tell):
                began.set()

        thread = threading.Thread(target=run)
        with any_store.exclusive():
            thread.start()
            assert waits.wait(30)
            assert not began.is_set()
        thread.join(30)
        assert began.is_set()
        (line,) = reported
        assert line.startswith(f"{any_store.place} is being cleaned up (`store gc`)")
        assert line.endswith("; waiting for it.")
        with any_store.in_use(tell):
            assert len(reported) == 1

    def test_the_lock_of_another_process_is_not_removed(
        self, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process may take the lock name while orphans are being removed."""
        lock = store.root / "locks" / "dead.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
        real = locks._release
        taken: list[int] = []

        def release_late(path: Path, descriptor: int) -> None:
            monkeypatch.undo()
            other = os.open(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                taken.append(other)
            except BlockingIOError:
                os.close(other)
            real(path, descriptor)

        monkeypatch.setattr(locks, "_release", release_late)
        assert store.remove_orphans() == [lock]
        for other in taken:
            assert locks._names_same_file(other, lock)
            os.close(other)
        assert not lock.exists()

    @pytest.mark.parametrize("name", ["a.b", "plain", "v1.2/é"])
    def test_a_pointer_that_is_being_written_stays(self, store: ArtifactStore, name: str) -> None:
        store.write_pointer(name, {"id": 1})
        (note,) = (store.root / "pointers").glob("*.json")
        half = note.with_name(f"{note.name}.{'0' * 16}.tmp")
        half.write_bytes(b"half")
        with store.records("pointers").hold(note.stem):
            assert store.orphans() == store.remove_orphans() == []
        assert store.remove_orphans() == [half]
        with try_lock(store.root / "locks" / "any.lock") as mine:
            assert mine
        assert files(store) == [f"pointers/{note.name}"]
