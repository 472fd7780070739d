"""The blob interface: a local folder and an address keep the same promises."""

import hashlib
from pathlib import Path

import pytest

from storage.artifacts import disk
from storage.artifacts.blobs import MISMATCH, Blobs, DamagedBlob, LocalBlobs
from storage.artifacts.fsspec_blobs import FsspecBlobs
from storage.artifacts.remote import Remote
from storage.errors import StoreError

DATA = b"some bytes"
DIGEST = hashlib.sha256(DATA).hexdigest()
NAME = f"features/aa/{'a' * 64}-{DIGEST}.parquet"


@pytest.fixture(params=["local", "shared"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    if request.param == "local":
        return LocalBlobs(tmp_path / "store")
    return FsspecBlobs(Remote(f"file://{tmp_path}/shared"), LocalBlobs(tmp_path / "copies"))


def publish(blobs: Blobs, data: bytes = DATA) -> None:
    draft = blobs.local.draft(NAME)
    draft.write_bytes(data)
    blobs.publish(draft, NAME)
    disk.remove_quietly(draft)


def test_write_read_replace_and_delete(blobs: Blobs) -> None:
    assert blobs.read("runs/a.json") is None
    blobs.write("runs/a.json", b"1")
    blobs.write("runs/a.json", b"22")
    assert blobs.read("runs/a.json") == b"22"
    assert blobs.read_many(["runs/a.json", "runs/b.json"]) == {"runs/a.json": b"22"}
    blobs.delete("runs/a.json", "runs/b.json")
    assert blobs.list_blobs() == {}


def test_list_one_folder(blobs: Blobs) -> None:
    for name in ("runs/a.json", "pointers/a.json"):
        blobs.write(name, b"1")
    assert sorted(blobs.list_blobs()) == ["pointers/a.json", "runs/a.json"]
    assert {name: one.size for name, one in blobs.list_blobs("runs").items()} == {"runs/a.json": 1}
    assert blobs.list_blobs("nowhere") == {}


def test_move_and_the_move_of_nothing(blobs: Blobs) -> None:
    blobs.write("runs/a.json", b"1")
    blobs.move("runs/a.json", "quarantine/runs/a.json")
    blobs.move("runs/b.json", "quarantine/runs/b.json")
    assert list(blobs.list_blobs()) == ["quarantine/runs/a.json"]


def test_published_data_is_fetched_as_a_local_file(blobs: Blobs) -> None:
    publish(blobs)
    found = blobs.stat(NAME)
    assert found is not None
    assert found.size == len(DATA)
    assert blobs.fetch(NAME, DIGEST).read_bytes() == DATA
    assert all(
        blobs.find_problem(NAME, len(DATA), DIGEST, depth) is None
        for depth in ("size", "checksum", "content")
    )


def test_problems_of_data_are_named(blobs: Blobs) -> None:
    assert blobs.find_problem(NAME, 1, DIGEST, "size") == "its data file is missing"
    publish(blobs, DATA[::-1])
    assert blobs.find_problem(NAME, 1, DIGEST, "size") == f"its data file has {len(DATA)} bytes, not 1"
    assert blobs.find_problem(NAME, len(DATA), DIGEST, "content") == MISMATCH


def test_a_download_that_does_not_match_is_not_kept(tmp_path: Path) -> None:
    blobs = FsspecBlobs(Remote(f"file://{tmp_path}/shared"), LocalBlobs(tmp_path / "copies"))
    publish(blobs, DATA[::-1])
    with pytest.raises(DamagedBlob, match="do not match"):
        blobs.fetch(NAME, DIGEST)
    assert blobs.local.list_blobs() == {}


def test_an_atomic_write_follows_no_link_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if somebody guesses the random name of the temporary file."""
    monkeypatch.setattr(disk.secrets, "token_hex", lambda size: "0" * 2 * size)
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / f"file.{'0' * 16}.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        disk.write_atomically(tmp_path / "file", b"new")
    assert victim.read_bytes() == b"mine"
    assert not (tmp_path / "file").exists()


def test_a_failed_atomic_write_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), disk.replace_atomically(path) as temporary:
        temporary.write_bytes(b"half")
        raise ZeroDivisionError
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"old")]


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(StoreError, match="No permission"):
        LocalBlobs(tmp_path).list_blobs()
