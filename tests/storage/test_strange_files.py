"""Links, FIFOs, sockets, devices and foreign files: never followed, never waited for, never in the way."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.artifacts import disk
from storage.artifacts.disk import read_if_there, remove_tree, seal
from storage.artifacts.locks import hold_lock, is_free, share_lock, try_lock
from storage.artifacts.manifest import check_manifest
from storage.artifacts.regular_files import NotRegular, open_regular
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.maintenance.fsck import measure_usage, verify_store
from tasks.maintenance.gc import find_garbage, find_orphans
from tests.store_helpers import artifact, data_path, manifest_path, recipe, run_of

KEY = "a" * 64


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


STRANGE = {
    "fifo": make_fifo,
    "socket": make_socket,
    "device": link_to("/dev/zero"),
    "kernel log": link_to("/proc/kmsg"),
    "kernel file": link_to("/proc/self/mem"),
    "folder": Path.mkdir,
    "loop": link_to_itself,
    "dangling": link_to("nowhere"),
}


@pytest.fixture(params=STRANGE)
def plant(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    return STRANGE[request.param]


def test_only_regular_files_are_opened(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    plant(tmp_path / "x")
    with pytest.raises(OSError):
        open_regular(tmp_path / "x")
    assert read_if_there(tmp_path / "x") is None
    (tmp_path / "plain").write_bytes(b"1")
    (tmp_path / "link").symlink_to("plain")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"1"


def test_what_is_not_regular_has_a_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(NotRegular, match="not a regular file"):
        open_regular(tmp_path / "x")


def put(store: ArtifactStore, names: list[str], plant: Callable[[Path], object]) -> list[Path]:
    places = [store.root / name for name in names]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        plant(place)
    return places


class TestStore:
    """Something strange lies in the folder of a store."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ArtifactStore:
        store = ArtifactStore.local(tmp_path / "store")
        run_of(store, RunLog(store), 1)
        return store

    def check_all(self, store: ArtifactStore, tmp_path: Path) -> None:
        """`store ls`, `du`, `verify` and `gc` find what is there, and nothing to complain about."""
        log = RunLog(store)
        assert len(list(store.entries())) == 3
        assert len(log.entries()) == 1
        assert sum(one.artifacts for one in measure_usage(store)) == 3
        assert verify_store(store, log) == []
        with store.exclusive():
            found = find_garbage(store, log, keep=5)
            assert (found.runs, found.artifacts, found.unresolved) == ((), (), ())
            assert find_orphans(store, tmp_path) == []

    def test_anywhere(self, store: ArtifactStore, tmp_path: Path, plant: Callable[[Path], None]) -> None:
        names = ["x.json", "features/x.json", "features/aa/x.json", f"features/aa/{KEY}.json", "runs/x.json"]
        names += [f"runs/{KEY[:12]}.json", "pointers/x.json", "locks/x.lock", "quarantine/x.json", "x/y"]
        places = put(store, names, plant)
        self.check_all(store, tmp_path)
        assert all(os.path.lexists(place) for place in places)

    def test_foreign_files_are_left_alone(self, store: ArtifactStore, tmp_path: Path) -> None:
        names = ["x.json", "features/x.json", "features/aa/x.json", f"features/bb/{KEY}.json", "runs/x.json"]
        names += [f"{folder}/aa/{KEY}.json" for folder in ("Photos", "9", "é", "my-photos", "a.b")]
        names += [f"Photos/aa/{KEY}-{KEY}.parquet", "runs/deep/x.json"]
        places = put(store, names, lambda place: place.write_text("{}"))
        self.check_all(store, tmp_path)
        assert {place.read_text() for place in places} == {"{}"}

    def test_a_stray_pointer_does_not_stop_garbage_collection(
        self, store: ArtifactStore, tmp_path: Path
    ) -> None:
        (store.root / "pointers").mkdir(exist_ok=True)
        (store.root / "pointers" / "x.json").write_text("[" * 100_000)
        found = find_garbage(store, RunLog(store), keep=0)
        assert len(found.runs) == 1
        assert (store.root / "pointers" / "x.json").exists()
        assert [one.name for one in verify_store(store, RunLog(store))] == ["pointers/x"]
        assert len(find_garbage(store, RunLog(store), keep=0).runs) == 1

    @pytest.mark.parametrize("which", [manifest_path, data_path])
    def test_in_place_of_an_artifact_it_is_computed_again(
        self, store: ArtifactStore, plant: Callable[[Path], None], which: Callable[..., Path]
    ) -> None:
        store.compute(recipe(7), lambda: artifact(7))
        place = which(store, recipe(7))
        place.unlink()
        plant(place)
        assert store.find(recipe(7)) is None
        if place.is_dir() and not place.is_symlink():  # a folder cannot be replaced by a file
            return
        assert not store.compute(recipe(7), lambda: artifact(7)).cached
        assert store.find(recipe(7), verify=True)

    def test_a_manifest_with_other_kinds_of_values_is_damaged(self, store: ArtifactStore) -> None:
        ref = store.compute(recipe(7), lambda: artifact(7)).ref
        name, known = f"{ref.stage}/{ref.key}", store.details(ref)
        assert check_manifest(name, seal(known)).content
        spoils = {"digest": "../x", "rows": "7", "links": {}, "recipe": [], "created": 7, "seconds": None}
        for field, value in spoils.items():
            found = check_manifest(name, seal({**known, field: value})).problem
            assert found == f"its manifest has another kind of value for {field}"


class TestPlantedLinks:
    """A link under a name that the program is about to write."""

    @pytest.fixture
    def victim(self, tmp_path: Path) -> Path:
        path = tmp_path / "victim"
        path.write_text("precious")
        return path

    def test_a_draft_does_not_follow_it(self, tmp_path: Path, victim: Path) -> None:
        store, made = ArtifactStore.local(tmp_path / "store"), recipe(1)
        draft = disk.temporary_path(store.root / made.stage / made.key[:2] / f"{made.key}.parquet")
        draft.parent.mkdir(parents=True)
        draft.symlink_to(victim)
        assert not store.compute(made, artifact).cached
        assert victim.read_text() == "precious"
        assert not draft.exists()

    @pytest.mark.parametrize("lock", [hold_lock, share_lock, try_lock])
    def test_a_lock_does_not_follow_it(
        self, tmp_path: Path, victim: Path, lock: Callable[..., object]
    ) -> None:
        place = tmp_path / "x.lock"
        place.symlink_to(victim)
        with pytest.raises(StoreError, match="symbolic link"), lock(place):  # type: ignore[attr-defined]
            pass
        assert victim.read_text() == "precious"
        assert not is_free(place)

    def test_a_lock_does_not_change_a_file_behind_a_hard_link(self, tmp_path: Path, victim: Path) -> None:
        place = tmp_path / "x.lock"
        place.hardlink_to(victim)
        with hold_lock(place):
            assert victim.read_text() == "precious"
        assert victim.read_text() == "precious"

    def test_a_report_does_not_follow_it(self, tmp_path: Path) -> None:
        from tasks.stages.report import lay_out

        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "index.html").write_text("precious")
        reports = tmp_path / "reports"
        reports.mkdir()
        for name in ("r.tmp", "r"):
            (reports / name).symlink_to(elsewhere, target_is_directory=True)
        page = lay_out(reports / "r", "index.html", "mark", lambda: {"index.html": b"ours"})
        assert page.read_bytes() == b"ours"
        assert not page.parent.is_symlink()
        assert os.listdir(elsewhere) == ["index.html"]
        assert (elsewhere / "index.html").read_text() == "precious"

    def test_removing_a_folder_does_not_follow_it(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "file").write_text("precious")
        (tmp_path / "link").symlink_to("kept")
        for name in ("link", "missing"):
            remove_tree(tmp_path / name)
        assert not os.path.lexists(tmp_path / "link")
        assert (tmp_path / "kept" / "file").exists()
        remove_tree(tmp_path / "kept")
        assert not (tmp_path / "kept").exists()
