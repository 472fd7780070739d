"""A shared store: uploads are complete or absent, reads are verified, artifacts in use stay."""

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from storage.artifacts import leases
from storage.artifacts.artifact import Artifact
from storage.artifacts.blobs import BlobStat
from storage.artifacts.remote import Remote
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import ArtifactDamaged, StoreError, StoreUnreachable
from tasks.maintenance.fsck import measure_usage, verify_store
from tasks.maintenance.gc import find_garbage, remove_garbage
from tests.store_helpers import artifact, data_path, files, recipe

NO_GRACE = timedelta(0)
Open = Callable[..., ArtifactStore]


def never() -> None:
    raise AssertionError("computed what is in the store")


@pytest.fixture(params=["file", "memory"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/shared"
        return
    import fsspec

    place = f"memory://{uuid.uuid4().hex}"
    yield place
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm(place, recursive=True)


@pytest.fixture
def machine(uri: str, tmp_path: Path) -> Open:
    """Open the store as another machine would, with its own folder for local copies."""

    def open_as(name: str, grace: timedelta = NO_GRACE) -> ArtifactStore:
        return ArtifactStore.shared(tmp_path / name, Remote(uri), grace)

    return open_as


@pytest.fixture
def remote(uri: str) -> Remote:
    return Remote(uri)


def objects(remote: Remote, ending: str = "") -> list[str]:
    return sorted(name for name in remote.list_objects() if name.endswith(ending) and "leases" not in name)


def content(remote: Remote, name: str) -> bytes:
    found = remote.read(name)
    assert found is not None
    return found


def flip(remote: Remote, name: str) -> None:
    data = bytearray(content(remote, name))
    data[len(data) // 2] ^= 1
    remote.write(name, bytes(data))


def test_what_one_machine_computes_another_reads(machine: Open, remote: Remote) -> None:
    made = machine("a").compute(recipe(), artifact)
    assert not made.cached
    other = machine("b")
    assert other.compute(recipe(), never) == replace(made, cached=True, seconds=pytest.approx(0, abs=5))
    assert other.read(made.ref).equals(machine("a").read(made.ref), check_metadata=True)
    assert sum(batch.num_rows for batch in other.iter_batches(made.ref, rows=7)) == 50
    assert other.details(made.ref) == machine("a").details(made.ref)
    assert other.ref("features", made.ref.key) == made.ref
    (data,) = objects(remote, ".parquet")
    assert hashlib.sha256(content(remote, data)).hexdigest() == made.ref.digest
    assert not objects(remote, ".tmp")


def test_only_what_is_read_is_fetched(machine: Open) -> None:
    refs = [machine("a").compute(recipe(seed), lambda seed=seed: artifact(seed)).ref for seed in range(3)]
    other = machine("b")
    assert all(other.find(recipe(seed), verify=True) for seed in range(3))
    assert all(other.has(ref) and other.details(ref) for ref in refs)
    assert files(other, "*.parquet") == []
    other.read(refs[1])
    assert files(other, "*.parquet") == [data_path(other, recipe(1)).relative_to(other.root).as_posix()]


def test_reading_a_local_copy_sends_no_request(machine: Open, remote: Remote) -> None:
    store = machine("a")
    ref = store.compute(recipe(), artifact).ref
    remote.remove(*objects(remote))
    assert store.read(ref).num_rows == 50


class Broken(Exception):
    """The connection was cut."""


@pytest.mark.parametrize("step", ["upload", "write"])
def test_a_failed_upload_is_invisible_and_is_repeated_next_time(
    machine: Open, remote: Remote, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = machine("a")
    with monkeypatch.context() as patched:
        patched.setattr(Remote, step, lambda *_: (_ for _ in ()).throw(Broken))
        with pytest.raises(Broken):
            store.compute(recipe(), artifact)
    assert objects(remote, ".json") == []
    assert machine("b").find(recipe(), verify=True) is None
    assert store.compute(recipe(), never).cached
    assert machine("b").compute(recipe(), never).cached


def test_an_artifact_is_uploaded_with_all_that_it_links_to(machine: Open, remote: Remote) -> None:
    store, made = machine("a"), []

    def put_together() -> Artifact:
        made.append("list")
        part = store.compute(recipe(1, stage="features_part"), lambda: made.append("part") or artifact(1)).ref
        return replace(artifact(), links=(part,))

    store.compute(recipe(), put_together)
    remote.remove(*objects(remote))  # as if the connection had been cut before anything arrived
    store.compute(recipe(), put_together)
    assert made == ["list", "part", "list"]
    assert len(objects(remote, ".parquet")) == 2


def test_an_exception_during_an_upload_leaves_no_object(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(source: str, target: str, **_: object) -> None:
        with remote._files.open(target, "wb") as stream:
            stream.write(b"half")
        raise OSError("no route")

    monkeypatch.setattr(remote._files, "put_file", half, raising=False)
    (tmp_path / "whole").write_bytes(b"whole")
    with pytest.raises(StoreUnreachable, match="no route"):
        remote.upload(tmp_path / "whole", "features/aa/it")
    assert remote.read("features/aa/it") is None
    assert [name.partition(".")[0] for name in remote.list_objects()] == ["features/aa/it"]


@pytest.mark.parametrize("ending", [".parquet", ".json"])
@pytest.mark.parametrize("how", ["flip", "truncate", "empty", "remove"])
def test_damage_is_found_quarantined_and_recomputed(
    machine: Open, remote: Remote, ending: str, how: str
) -> None:
    whole = machine("a").compute(recipe(), artifact).ref
    (name,) = objects(remote, ending)
    before = content(remote, name)
    changes = {
        "flip": lambda: flip(remote, name),
        "truncate": lambda: remote.write(name, before[:-9]),
        "empty": lambda: remote.write(name, b""),
        "remove": lambda: remote.remove(name),
    }
    changes[how]()
    store = machine("b")
    found = store.find(recipe(), verify=True)
    if found is not None:
        with pytest.raises(ArtifactDamaged, match="do not match"):
            store.read(found)
    assert store.find(recipe()) is None
    gone = ending == ".json" and how == "remove"
    assert len(store.quarantined) == (0 if gone else 1)
    kept = [one for one in objects(remote) if one.startswith("quarantine/features/")]
    assert bool(kept) == (not gone)
    again = store.compute(recipe(), artifact)
    assert not again.cached
    assert again.ref == whole
    assert machine("c").read(whole).num_rows == 50


def test_an_intact_local_copy_repairs_the_address(machine: Open, remote: Remote) -> None:
    store = machine("a")
    ref = store.compute(recipe(), artifact).ref
    (name,) = objects(remote, ".parquet")
    flip(remote, name)
    assert [problem for _, problem in machine("b").verify() if problem] == [
        "its data do not match the digest in its manifest"
    ]
    assert store.compute(recipe(), never).cached
    assert machine("c").read(ref).num_rows == 50


def test_a_damaged_local_copy_is_downloaded_again(machine: Open) -> None:
    store = machine("a")
    ref = store.compute(recipe(), artifact).ref
    copy = data_path(store, recipe())
    whole = copy.read_bytes()
    copy.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    assert machine("a").read(ref).num_rows == 50
    assert copy.read_bytes() == whole
    copy.write_bytes(whole[:-1])
    assert machine("a").read(ref).num_rows == 50


def test_a_different_result_replaces_the_old_one_at_once(machine: Open, remote: Remote) -> None:
    first = machine("a").compute(recipe(), artifact).ref
    late = machine("late")
    assert late.find(recipe()) == first
    second = machine("b").compute(recipe(), lambda: artifact(9), force=True).ref
    assert second.digest != first.digest
    assert machine("c").find(recipe()) == second
    # A reader of the old artifact can still finish; the next gc removes data that no manifest names.
    assert late.read(first).num_rows == 50
    with pytest.raises(StoreError, match="computed again"):
        machine("d").read(first)
    with machine("e").exclusive():
        pass
    store = machine("f")
    with store.exclusive():
        removed = store.remove_orphans()
    assert [path.name for path in removed] == [f"{first.key}-{first.digest}.parquet"]
    assert machine("g").read(second).num_rows == 50


def test_two_machines_at_once_compute_both_and_agree(machine: Open) -> None:
    meet = threading.Barrier(2)
    found = {}

    def produce() -> object:
        meet.wait(30)  # both are computing at this moment
        return artifact()

    def work(name: str) -> None:
        found[name] = machine(name).compute(recipe(), produce)  # type: ignore[arg-type]

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found["a"].ref == found["b"].ref
    assert machine("c").read(found["a"].ref).num_rows == 50
    assert [problem for _, problem in machine("c").verify()] == [None]


def test_foreign_objects_are_left_alone(machine: Open, remote: Remote) -> None:
    store = machine("a")
    store.compute(recipe(), artifact)
    foreign = ["notes.json", "photos/aa/cat.json", "photos/aa/cat.parquet", "photos/cat.tmp"]
    for name in foreign:
        remote.write(name, b"{}")
    assert len(list(store.entries())) == 1
    with store.exclusive():
        assert store.remove_orphans() == []
    assert set(foreign) <= set(objects(remote))


class TestPointers:
    def test_a_pointer_of_this_machine_comes_before_the_shared_one(self, machine: Open) -> None:
        machine("a").write_pointer("run-1", {"from": "a"})
        assert machine("b").read_pointer("run-1") == {"from": "a"}
        machine("b").write_pointer("run-1", {"from": "b"})
        assert machine("a").read_pointer("run-1") == {"from": "a"}
        assert machine("c").read_pointer("run-1") == {"from": "b"}
        assert machine("a").read_pointers() == {"run-1": {"from": "b"}}
        assert machine("a").read_pointer("run-2") is None

    def test_a_damaged_pointer_counts_as_missing(self, machine: Open, remote: Remote) -> None:
        machine("a").write_pointer("run/1", {"from": "a"})
        (name,) = objects(remote)
        flip(remote, name)
        assert machine("b").read_pointer("run/1") is None
        assert machine("b").read_pointers() == {}


class TestMaintenance:
    def test_list_measure_verify_and_remove(self, machine: Open, remote: Remote) -> None:
        store = machine("a")
        log = RunLog(store)
        runs = []
        for seed in (1, 2):
            part = store.compute(recipe(seed, stage="features_part"), lambda seed=seed: artifact(seed)).ref
            linked = replace(artifact(seed + 100), links=(part,))
            ref = store.compute(recipe(seed), lambda linked=linked: linked).ref
            runs.append(log.add(LoggedRun("p", "p", "/p", {"seed": seed}, {"features": ref})))
        other = machine("b")
        assert {usage.stage: usage.artifacts for usage in measure_usage(other)} == {
            "features": 2,
            "features_part": 2,
        }
        assert verify_store(other, RunLog(other)) == []
        assert [run.id for run in RunLog(other).entries()] == [run.id for run in reversed(runs)]
        with other.exclusive():
            waste = find_garbage(other, RunLog(other), keep=1)
            assert [run.id for run in waste.runs] == [runs[0].id]
            freed, leftovers = remove_garbage(other, RunLog(other), waste)
        assert (freed, list(leftovers)) == (waste.bytes, [])
        assert {one["recipe"]["params"]["seed"] for one in machine("c").entries()} == {2}
        assert len(objects(remote, ".parquet")) == 2
        assert [run.id for run in log.entries()] == [runs[1].id]

    def test_new_artifacts_are_kept_with_all_that_they_link_to(self, machine: Open) -> None:
        store = machine("a", grace=timedelta(hours=1))
        store.compute(recipe(), artifact)
        with store.exclusive():
            assert find_garbage(store, RunLog(store), keep=0).artifacts == ()
        late = machine("a")
        with late.exclusive():
            assert len(find_garbage(late, RunLog(late), keep=0).artifacts) == 1

    def test_orphans_and_stale_local_copies_are_removed(self, machine: Open, remote: Remote) -> None:
        store = machine("a")
        ref = store.compute(recipe(), artifact).ref
        name = f"features/{ref.key[:2]}/{ref.key}-{'0' * 64}.parquet"
        remote.write(name, b"no manifest names me")
        remote.write(f"{name}.{'f' * 32}.tmp", b"half")
        guarded = machine("a", grace=timedelta(hours=1))
        with guarded.exclusive():
            assert guarded.remove_orphans() == []
        machine("b").discard("features", ref.key)
        with store.exclusive():
            removed = store.remove_orphans()
        assert {path.as_posix() for path in removed if not path.is_absolute()} == {
            name,
            f"{name}.{'f' * 32}.tmp",
        }
        assert {path.name for path in removed if path.is_absolute()} == {
            f"{ref.key}.json",
            f"{ref.key}-{ref.digest}.parquet",
        }
        assert objects(remote) == []
        assert files(store, "*.parquet") == []

    def test_verify_names_the_runs_that_use_a_damaged_artifact(self, machine: Open, remote: Remote) -> None:
        store = machine("a")
        ref = store.compute(recipe(), artifact).ref
        run = RunLog(store).add(LoggedRun("p", "p", "/p", {}, {"features": ref}))
        (name,) = objects(remote, ".parquet")
        flip(remote, name)
        (damage,) = verify_store(machine("b"), RunLog(machine("b")))
        assert (damage.name, damage.runs) == (f"features/{ref.key}", (run.id,))


class TestLeases:
    def test_nothing_is_removed_while_another_machine_runs(self, machine: Open) -> None:
        refused = pytest.raises(StoreError, match=r"2 run\(s\) are using")
        with machine("a").in_use(), machine("b").in_use(), refused, machine("c").exclusive():
            raise AssertionError("let in")
        with machine("c").exclusive():
            pass

    def test_a_killed_run_blocks_gc_until_its_lease_expires(
        self, machine: Open, remote: Remote, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leases.Lease(remote, "run").renew()  # and its holder is killed
        (killed,) = remote.list_objects(leases.FOLDER)
        with pytest.raises(StoreError, match="expires after 10 minutes"), machine("a").exclusive():
            raise AssertionError("let in")
        list_objects = Remote.list_objects

        def list_later(self: Remote, folder: str = "") -> dict[str, BlobStat]:
            found = list_objects(self, folder)
            if killed in found:
                found[killed] = replace(found[killed], modified=found[killed].modified - leases.LIFETIME)
            return found

        monkeypatch.setattr(Remote, "list_objects", list_later)
        store = machine("a")
        with store.exclusive():
            assert [path.parts[0] for path in store.remove_orphans()] == ["leases"]
        assert remote.list_objects(leases.FOLDER) == {}

    @pytest.mark.slow
    def test_a_run_waits_for_gc_and_then_gives_up(
        self, machine: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "_POLL_SECONDS", 0.01)
        began = threading.Event()

        def run() -> None:
            with machine("b").in_use():
                began.set()

        with machine("a").exclusive():
            thread = threading.Thread(target=run)
            thread.start()
            assert not began.wait(0.2)
        assert began.wait(10)
        thread.join()
        monkeypatch.setattr(leases, "WAIT_SECONDS", 0.05)
        with (
            machine("a").exclusive(),
            pytest.raises(StoreError, match="being cleaned up"),
            machine("b").in_use(),
        ):
            raise AssertionError("let in")

    def test_of_two_that_begin_at_the_same_moment_one_gives_way(
        self, machine: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both have written their leases before either looks: the run continues, gc gives up."""
        meet = threading.Barrier(2)
        ages = leases.Lease._ages

        def look_together(lease: leases.Lease) -> object:
            with suppress(threading.BrokenBarrierError):
                meet.wait(5)
            return ages(lease)

        monkeypatch.setattr(leases.Lease, "_ages", look_together)
        monkeypatch.setattr(leases, "_POLL_SECONDS", 0.01)
        seen = []

        def tidy() -> None:
            try:
                with machine("a").exclusive():
                    seen.append("removing")
            except StoreError:
                seen.append("gave way")
            finally:
                meet.abort()

        thread = threading.Thread(target=tidy)
        thread.start()
        with machine("b").in_use():
            thread.join(20)
            assert seen == ["gave way"]

    def test_a_lease_is_renewed_during_long_work(
        self, remote: Remote, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "RENEW_SECONDS", 0.01)
        renewals, write = threading.Semaphore(0), Remote.write

        def count(self: Remote, name: str, data: bytes) -> None:
            write(self, name, data)
            renewals.release()

        monkeypatch.setattr(Remote, "write", count)
        with leases.in_use(remote):
            assert renewals.acquire(timeout=30), "written"
            assert renewals.acquire(timeout=30), "renewed"
            assert renewals.acquire(timeout=30), "renewed again"
        assert remote.list_objects(leases.FOLDER) == {}

    def test_nothing_is_removed_after_the_computer_was_suspended(
        self, machine: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = machine("a")
        ref = store.compute(recipe(), artifact).ref
        now = time.time()
        with store.exclusive():
            monkeypatch.setattr(leases.time, "time", lambda: now + 3600)
            with pytest.raises(StoreError, match="lost the lease"):
                store.discard(ref.stage, ref.key)
        assert machine("b").has(ref)


def test_a_store_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    place = tmp_path / "closed"
    place.mkdir(mode=0o500)
    store = ArtifactStore.shared(tmp_path / "a", Remote(f"file://{place}/store"))
    with pytest.raises(StoreUnreachable, match="denies access"):
        store.compute(recipe(), artifact)
