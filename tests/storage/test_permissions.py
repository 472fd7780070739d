"""The home folder is for its owner only, whatever the umask; files for users follow it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.artifacts.disk import create_file, make_folder, write_atomically
from storage.artifacts.locks import hold_lock
from storage.artifacts.remote import Remote
from storage.artifacts.store import ArtifactStore
from storage.permissions import opened_to, private_umask, users_umask
from tests.store_helpers import artifact, recipe


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture(params=[0o000, 0o022, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_store_is_private(tmp_path: Path) -> None:
    store = ArtifactStore.local(tmp_path / "home" / "store")
    store.compute(recipe(1), artifact)
    store.write_pointer("run-1", {"a": 1})
    with store.in_use():
        found = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
        assert {mode(path) for path in found if path.is_dir()} == {0o700}
        assert {mode(path) for path in found if path.is_file()} == {0o600}
        assert len(found) > 8


@pytest.mark.usefixtures("umask")
def test_a_file_that_was_open_to_others_becomes_private(tmp_path: Path) -> None:
    for number, write in enumerate((write_atomically, lambda path, data: create_file(path).close())):
        path = tmp_path / str(number)
        path.write_bytes(b"old")
        path.chmod(0o666)
        write(path, b"new")
        assert mode(path) == 0o600


def test_libraries_and_child_processes_write_private_files(tmp_path: Path, umask: int) -> None:
    with private_umask():
        (tmp_path / "mlflow.db").write_bytes(b"")
        assert users_umask() == umask
        with private_umask():
            assert users_umask() == umask
        assert users_umask() == umask
        subprocess.run(["touch", str(tmp_path / "child")], check=True)
    assert users_umask() == umask
    (tmp_path / "after").write_bytes(b"")
    assert mode(tmp_path / "mlflow.db") == mode(tmp_path / "child") == 0o600
    assert mode(tmp_path / "after") == 0o666 & ~umask


def test_a_shared_folder_is_for_everybody_whom_the_umask_admits(tmp_path: Path, umask: int) -> None:
    tmp_path.chmod(0o2777)
    with private_umask():
        remote = Remote(f"file://{tmp_path}/team/store")
        remote.write("runs/a.json", b"1")
        remote.copy("runs/a.json", "quarantine/runs/a.json")
    assert mode(tmp_path / "team" / "store" / "quarantine" / "runs" / "a.json") == 0o666 & ~umask
    assert mode(tmp_path / "team" / "store" / "quarantine" / "runs") == 0o2777 & ~umask
    assert mode(tmp_path / "team" / "store" / "runs" / "a.json") == 0o666 & ~umask
    assert mode(tmp_path / "team" / "store" / "runs") == 0o2777 & ~umask
    assert mode(tmp_path / "team") == 0o2777 & ~umask


@pytest.mark.parametrize(
    ("found", "who"),
    [(0o700, None), (0o750, "group"), (0o711, "every user"), (0o755, "every user"), (0o770, "group")],
)
def test_who_may_enter_a_home_folder(tmp_path: Path, found: int, who: str | None) -> None:
    home = tmp_path / "home"
    assert opened_to(home) is None
    home.mkdir()
    home.chmod(found)
    said = opened_to(home)
    assert said is None if who is None else who in (said or "")


def test_folders_that_exist_keep_their_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "a" / "b")
    with hold_lock(tmp_path / "a" / "b" / "x.lock"):
        assert mode(tmp_path / "a" / "b" / "x.lock") == 0o600
    assert (mode(tmp_path), mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o755, 0o700, 0o700)
