"""The artifact store within one process: store, find, verify, reject."""

import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from storage.artifacts import disk, file_stats
from storage.artifacts.blobs import LocalBlobs
from storage.artifacts.locks import hold_lock, try_lock
from storage.artifacts.store import Artifact, ArtifactStore
from storage.errors import ArtifactDamaged, ArtifactGone, StoreError
from tests.store_helpers import artifact, data_path, files, manifest_path, recipe, table


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.local(tmp_path / "store")


def never() -> Artifact:
    raise AssertionError("computed again")


def age(path: Path, seconds: float = 60) -> None:
    """Make a file look old, so that the store trusts its times."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_computed_once_then_found(store: ArtifactStore) -> None:
    assert store.find(recipe()) is None
    first = store.compute(recipe(), artifact)
    again = store.compute(recipe(), never)
    assert (first.cached, again.cached) == (False, True)
    assert first.ref == again.ref == store.find(recipe()) == store.ref("features", recipe().key)
    assert (first.ref.kind, first.ref.rows, first.ref.stage) == ("sample", 50, "features")


def test_stored_rows_are_read_back(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), artifact).ref
    found = store.read(ref)
    assert found.equals(table())
    assert found.schema.metadata == {b"kind": b"sample", b"note": "naïve".encode(), b"n": b"50"}
    batches = list(store.iter_batches(ref, rows=20))
    assert [batch.num_rows for batch in batches] == [20, 20, 10]
    assert pa.Table.from_batches(batches).replace_schema_metadata(None).equals(table())
    assert batches[0].schema.metadata[b"kind"] == b"sample"


def test_the_manifest_records_how_it_was_computed(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), artifact).ref
    details = store.details(ref)
    assert details["recipe"] == recipe().ingredients()
    assert details["bytes"] == data_path(store, recipe()).stat().st_size
    assert details["seconds"] > 0
    assert {"python", "numpy", "pyarrow"} <= set(details["versions"])
    assert list(store.entries()) == [details]


def test_nothing_but_the_two_files_remains(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), artifact).ref
    place = f"features/{ref.key[:2]}/{ref.key}"
    assert files(store) == [f"{place}-{ref.digest}.parquet", f"{place}.json"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names open files through /proc")
def test_every_rename_comes_after_its_file_and_before_its_folder_is_on_the_disk(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.compute(recipe(1), artifact)  # makes the folders above
    steps: list[tuple[str, str]] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def name(path: Path) -> str:
        return re.sub(r"\.[0-9a-f]{16}\.tmp$", ".tmp", path.name)

    def fsync(descriptor: int) -> None:
        steps.append(("sync", name(Path(f"/proc/self/fd/{descriptor}").readlink())))
        real_fsync(descriptor)

    def replace(source: Path, target: Path) -> None:
        steps.append(("rename", Path(target).name))
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    ref = store.compute(recipe(), artifact).ref
    data, manifest, folder = f"{ref.key}-{ref.digest}.parquet", f"{ref.key}.json", ref.key[:2]
    assert [step for step in steps if step != ("sync", "features")] == [
        ("sync", f"{ref.key}.parquet.tmp"),
        ("rename", data),
        ("sync", folder),
        ("sync", f"{manifest}.tmp"),
        ("rename", manifest),
        ("sync", folder),
    ]


def test_finding_needs_no_pyarrow(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), artifact).ref
    code = f"""
import sys
from pathlib import Path
from storage.artifacts.keys import Recipe
from storage.artifacts.store import ArtifactStore
made = Recipe(**{recipe().ingredients()!r})
assert ArtifactStore.local(Path({str(store.root)!r})).find(made, verify=True).digest == {ref.digest!r}
heavy = {{"pyarrow", "numpy", "sklearn", "prefect", "mlflow"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_force_computes_again_and_equal_results_keep_the_reference(store: ArtifactStore) -> None:
    first = store.compute(recipe(), artifact)
    again = store.compute(recipe(), artifact, force=True)
    assert not again.cached
    assert again.ref == first.ref
    other = store.compute(recipe(), lambda: artifact(1), force=True)
    assert other.ref.digest != first.ref.digest
    assert store.read(other.ref).equals(table(1))
    with pytest.raises(StoreError, match="computed again"):
        store.read(first.ref)
    assert store.quarantined == []


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), OSError(28, "No space left")])
@pytest.mark.parametrize("force", [False, True])
def test_a_failing_computation_stores_nothing_and_passes_its_error_on(
    store: ArtifactStore, error: BaseException, force: bool
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from table().to_batches()
        raise error

    if force:
        store.compute(recipe(), artifact)
    before = files(store)
    with pytest.raises(type(error)) as raised:
        store.compute(recipe(), lambda: Artifact("sample", batches(), {}, table().schema), force=force)
    assert raised.value is error
    assert files(store) == before
    assert store.compute(recipe(), artifact).cached is force


def test_a_batch_with_other_columns_is_refused(store: ArtifactStore) -> None:
    foreign = Artifact("sample", iter(table(width=3).to_batches()), {}, table().schema)
    with pytest.raises(StoreError, match="expected"):
        store.compute(recipe(), lambda: foreign)
    assert files(store) == []


def test_two_threads_compute_once_and_the_second_reports_its_wait(store: ArtifactStore) -> None:
    inside, reported = threading.Event(), threading.Event()
    messages: list[str] = []
    outcomes = []

    def slowly() -> Artifact:
        inside.set()
        assert reported.wait(30)
        return artifact()

    def on_wait(message: str) -> None:
        messages.append(message)
        reported.set()

    first = threading.Thread(target=lambda: outcomes.append(store.compute(recipe(), slowly)))
    first.start()
    assert inside.wait(30)
    outcomes.append(store.compute(recipe(), never, on_wait=on_wait))
    first.join()
    assert sorted(outcome.cached for outcome in outcomes) == [False, True]
    assert messages == [f"features is being computed by process {os.getpid()}; waiting for it."]
    assert files(store, "*.lock") == []


def test_after_waiting_the_lock_is_held_on_the_current_file(tmp_path: Path) -> None:
    """The first holder removes the lock file on release, so the waiting one must not lock a removed file."""
    lock = tmp_path / "locks" / "a.lock"
    waits, holds, leave = threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        with hold_lock(lock, on_wait=lambda holder: waits.set()):
            holds.set()
            assert leave.wait(30)

    thread = threading.Thread(target=second)
    with hold_lock(lock):
        thread.start()
        assert waits.wait(30)
    assert holds.wait(30)
    with try_lock(lock) as mine:
        assert not mine
    leave.set()
    thread.join()
    assert not lock.exists()


def test_a_reference_to_nothing_says_so(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), artifact).ref
    manifest_path(store, recipe()).unlink()
    for call in (store.read, store.details, lambda ref: next(store.iter_batches(ref))):
        with pytest.raises(StoreError, match="not in the store"):
            call(ref)
    with pytest.raises(StoreError, match="not in the store"):
        store.ref("features", "0" * 64)
    with pytest.raises(StoreError, match="not a key"):
        store.ref("features", "../../secret")


def test_a_manifest_under_another_name_is_not_used(store: ArtifactStore) -> None:
    store.compute(recipe(0), artifact)
    store.compute(recipe(1), artifact)
    first, second = (manifest_path(store, recipe(seed)) for seed in (0, 1))
    second.write_bytes(first.read_bytes())
    assert store.find(recipe(1)) is None
    assert not store.compute(recipe(1), artifact).cached
    assert "manifest is that of" in store.quarantined[0].reason


def test_find_changes_nothing_and_a_verified_find_quarantines(store: ArtifactStore) -> None:
    store.compute(recipe(), artifact)
    path = data_path(store, recipe())
    path.write_bytes(path.read_bytes()[:-1])
    before = files(store)
    assert store.find(recipe()) is None
    assert files(store) == before
    assert store.find(recipe(), verify=True) is None
    assert files(store) == [f"quarantine/features/{name}" for name in (path.name, f"{recipe().key}.json")]
    assert "bytes, not" in store.quarantined[0].reason


def test_an_old_file_is_hashed_once_per_process_until_it_changes(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.compute(recipe(), artifact)
    path = data_path(store, recipe())
    hashed = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *args: hashed.append(1) or real(*args))
    for _ in range(3):
        assert store.find(recipe(), verify=True)
    assert len(hashed) == 3  # just written: its time proves nothing yet
    monkeypatch.setattr(file_stats, "TICK_NS", -1)
    age(path)
    for _ in range(3):
        assert store.find(recipe(), verify=True)
    assert len(hashed) == 4
    data, seen = bytearray(path.read_bytes()), path.stat()
    data[100] ^= 1
    while path.stat().st_ctime_ns == seen.st_ctime_ns:
        path.write_bytes(data)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # same size, same mtime: only ctime differs
    assert store.find(recipe(), verify=True) is None


def test_damage_found_while_reading_on_a_store_that_was_repaired_meanwhile(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = store.compute(recipe(), artifact).ref
    path = data_path(store, recipe())
    path.write_bytes(path.read_bytes()[:100] + b"X" + path.read_bytes()[101:])
    real = ArtifactStore._quarantine

    def repaired_first(self: ArtifactStore, *args: object) -> bool:
        other = ArtifactStore.local(store.root)
        monkeypatch.setattr(ArtifactStore, "_quarantine", real)
        assert not other.compute(recipe(), artifact).cached
        return real(self, *args)

    monkeypatch.setattr(ArtifactStore, "_quarantine", repaired_first)
    with pytest.raises(ArtifactGone, match="replaced while"):
        store.read(ref)
    assert store.read(ref).equals(table())


def test_another_process_quarantines_it_while_it_is_verified(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.compute(recipe(), artifact)

    real = LocalBlobs.stat

    def stat_then_lose(blobs: LocalBlobs, name: str) -> object:
        found = real(blobs, name)
        blobs.move(name, f"quarantine/{name}")
        return found

    monkeypatch.setattr(LocalBlobs, "stat", stat_then_lose)
    assert store.find(recipe(), verify=True) is None
    assert not store.compute(recipe(), artifact).cached


def test_an_artifact_removed_by_another_process_is_a_transient_error(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), artifact).ref
    ArtifactStore.local(store.root).discard(ref.stage, ref.key)
    for lost in (store.read, store.details, lambda ref: store.ref(ref.stage, ref.key)):
        with pytest.raises(ArtifactDamaged, match="not in the store"):
            lost(ref)
    store.compute(recipe(), lambda: artifact(1))
    with pytest.raises(ArtifactDamaged, match="was computed again"):
        store.read(ref)


def test_pointers_are_kept_replaced_and_absent(store: ArtifactStore) -> None:
    assert store.read_pointer("run") is None
    store.write_pointer("run", {"id": 1})
    store.write_pointer("run", {"id": 2, "refs": [{"a": None}]})
    store.write_pointer("my experiment/../é", {"id": 3})
    assert store.read_pointer("run") == {"id": 2, "refs": [{"a": None}]}
    assert store.read_pointer("my experiment/../é") == {"id": 3}
    assert len(files(store)) == 2
    assert list(store.entries()) == []


def test_a_damaged_pointer_counts_as_missing_and_is_quarantined(store: ArtifactStore) -> None:
    store.write_pointer("run", {"id": 1})
    (store.root / "pointers" / "run.json").write_bytes(b"{")
    assert store.read_pointer("run") is None
    assert files(store) == ["quarantine/pointers/run.json"]
    assert store.quarantined[0].name == "pointers/run"


def test_orphans_are_removed_unless_they_are_in_use(store: ArtifactStore) -> None:
    store.compute(recipe(0), artifact)
    store.compute(recipe(1), artifact)
    store.write_pointer("run", {"id": 1})
    kept = [path for path in files(store) if recipe(1).key not in path]
    manifest_path(store, recipe(1)).unlink()
    temporary = manifest_path(store, recipe(2)).with_suffix(".parquet")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    disk.temporary_path(temporary).write_bytes(b"half")
    (store.root / "pointers" / f"run.json.{'0' * 16}.tmp").write_bytes(b"half")
    (store.root / "locks" / "dead.lock").write_bytes(b"1")
    with hold_lock(store.root / "locks" / f"{recipe(2).key}.lock"):
        assert len(store.remove_orphans()) == 3
        assert disk.temporary_path(temporary).exists()
    assert [path.name for path in store.remove_orphans()] == [f"{recipe(2).key}.parquet.tmp"]
    assert files(store) == kept
    assert store.remove_orphans() == []
