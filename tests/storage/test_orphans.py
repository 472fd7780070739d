"""What piles up in a store: damaged files and notes are found, counted and removed, and locks stay good."""

import fcntl
import json
import os
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from storage.artifacts import leases, locks
from storage.artifacts.blobs import Shelf
from storage.artifacts.locks import hold_lock, try_lock
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.shared_store import SharedStore
from storage.artifacts.store import Store
from storage.errors import StoreError
from tasks.maintenance.fsck import measure_usage, verify_store
from tests.conftest import Command
from tests.store_helpers import artifact, data_path, files, recipe


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def another(store: Store) -> Store:
    """The same store, as another process or machine opens it."""
    if isinstance(store, SharedStore):
        return SharedStore(store.root.with_name("other"), store._remote)
    return Store(store.root)


def spoil_data(store: Store) -> None:
    """Flip a bit of the data of `recipe()`, wherever they lie."""
    if not isinstance(store, SharedStore):
        flip(data_path(store, recipe()))
        return
    (name,) = (name for name in store._remote.listing() if name.endswith(".parquet"))
    store._remote.write(name, flipped(store._remote.read(name) or b""))


def flip(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes()))


def flipped(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


class TestDamaged:
    def test_what_was_set_aside_is_counted_and_then_removed(self, any_store: Store) -> None:
        size = any_store.details(any_store.compute(recipe(), artifact).ref)["bytes"]
        assert any_store.damaged() == {}
        spoil_data(any_store)
        assert [problem is None for _, problem in any_store.verify()] == [False]
        found = any_store.damaged()
        assert {name.split("/")[0] for name in found} == {"damaged"}
        assert sorted(Path(name).suffix for name in found) == [".json", ".parquet"]
        assert size in found.values()
        (usage,) = measure_usage(any_store)
        assert (usage.stage, usage.artifacts, usage.bytes) == ("damaged", 1, sum(found.values()))
        assert len(any_store.leftovers()) == 2
        any_store.compute(recipe(), artifact)
        removed = any_store.sweep()
        assert sum("damaged" in str(path) for path in removed) == 2
        assert any_store.damaged() == {}
        assert any_store.find(recipe(), verify=True) is not None

    def test_they_stay_while_their_artifact_is_being_computed(self, store: Store) -> None:
        store.compute(recipe(), artifact)
        flip(data_path(store, recipe()))
        assert store.find(recipe(), verify=True) is None
        with hold_lock(store.root / "locks" / f"{recipe().key}.lock"):
            assert store.leftovers() == store.sweep() == []
        assert len(store.leftovers()) == len(store.sweep()) == 2
        assert files(store) == []


def repair_before_it_is_held(shelf: Shelf, name: str, good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another process put a good file where a damaged one was read."""
    hold = type(shelf).hold

    def repaired_first(held: Shelf, asked: str) -> AbstractContextManager[None]:
        shelf.write(name, good)
        return hold(held, asked)

    monkeypatch.setattr(type(shelf), "hold", repaired_first)


class TestVerify:
    def test_a_damaged_note_is_found_and_set_aside(self, any_store: Store) -> None:
        any_store.remember("run-a", {"id": 1})
        any_store.remember("run-b", {"id": 2})
        shelf = any_store.shelf("pointers")
        shelf.write("run-a", shelf.read("run-a")[:-9])  # type: ignore[index]
        (damage,) = verify_store(any_store, RunLog.of(any_store))
        assert damage.name == "pointers/run-a"
        assert "cannot be trusted" in damage.reason
        assert list(any_store.damaged()) == ["damaged/pointers/run-a.json"]
        assert list(any_store.notes()) == ["run-b"]
        assert verify_store(any_store, RunLog.of(any_store)) == []

    def test_a_damaged_note_that_cannot_be_moved_is_none_too(
        self, any_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelf = any_store.shelf("pointers")
        shelf.write("run", b"{")

        def refuse(self: object, name: str) -> None:
            raise StoreError("No permission")

        monkeypatch.setattr(type(shelf), "set_aside", refuse)
        assert any_store.last("run") is None
        assert any_store.set_aside == [], "it is where it was"
        with pytest.raises(StoreError, match="No permission"):
            verify_store(any_store, RunLog.of(any_store))

    def test_a_good_note_that_has_taken_the_place_of_a_damaged_one_counts(
        self, any_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelf = any_store.shelf("pointers")
        any_store.remember("run", {"id": 2})
        good = shelf.read("run") or b""
        shelf.write("run", b"{")
        if isinstance(any_store, SharedStore):
            any_store._cache.shelf("pointers").remove("run")
        repair_before_it_is_held(shelf, "run", good, monkeypatch)
        assert any_store.last("run") == {"id": 2}
        assert (any_store.set_aside, any_store.damaged()) == ([], {})
        shelf.write("run", b"{")
        assert verify_store(any_store, RunLog.of(any_store)) == []

    def test_a_good_record_of_a_run_that_has_taken_the_place_of_a_damaged_one_stays(
        self, any_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelf, log = any_store.shelf("runs"), RunLog.of(any_store)
        run = log.add(LoggedRun("photos", "photos", "/photos", {}, {}))
        good = shelf.read(run.id) or b""
        shelf.write(run.id, b"{")
        repair_before_it_is_held(shelf, run.id, good, monkeypatch)
        assert verify_store(any_store, log) == []
        assert log.entries() == [run]

    def test_artifacts_whose_manifest_is_damaged_count(self, command: Command, tmp_path: Path) -> None:
        store = Store(tmp_path / ".labelscape" / "store")
        for seed in range(3):
            store.compute(recipe(seed), artifact)
        flip(data_path(store, recipe(1)).with_suffix(".json"))
        done = command("store", "verify", "--json")
        assert done.code == 1
        said = json.loads(done.out)
        assert said["artifacts"] == 3
        assert [one["name"] for one in said["damaged"]] == [f"features/{recipe(1).key}"]
        assert "damaged" in command("store", "du").out


class TestLocks:
    def test_a_run_says_why_it_waits_for_the_tidying_up(
        self, any_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "_LOOK_SECONDS", 0.01)
        told: list[str] = []
        waits, began = threading.Event(), threading.Event()

        def tell(line: str) -> None:
            told.append(line)
            waits.set()

        def run() -> None:
            with another(any_store).in_use(tell):
                began.set()

        thread = threading.Thread(target=run)
        with any_store.alone():
            thread.start()
            assert waits.wait(30)
            assert not began.is_set()
        thread.join(30)
        assert began.is_set()
        (line,) = told
        assert line.startswith(f"{any_store.place} is being tidied up (`store gc`)")
        assert line.endswith("; waiting for it.")
        with any_store.in_use(tell):
            assert len(told) == 1

    def test_the_lock_of_another_process_is_not_removed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name that sweep has taken away may be taken by another process before sweep is done with it."""
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
        assert store.sweep() == [lock]
        for other in taken:
            assert locks._names_same_file(other, lock)
            os.close(other)
        assert not lock.exists()

    @pytest.mark.parametrize("name", ["a.b", "plain", "v1.2/é"])
    def test_a_note_that_is_being_written_stays_whatever_its_name(self, store: Store, name: str) -> None:
        store.remember(name, {"id": 1})
        (note,) = (store.root / "pointers").glob("*.json")
        half = note.with_name(f"{note.name}.tmp")
        half.write_bytes(b"half")
        with store.shelf("pointers").hold(note.stem):
            assert store.leftovers() == store.sweep() == []
        assert store.sweep() == [half]
        with try_lock(store.root / "locks" / "any.lock") as mine:
            assert mine
        assert files(store) == [f"pointers/{note.name}"]
