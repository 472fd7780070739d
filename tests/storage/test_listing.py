"""Cached digests of files: never stale, and fast if nothing changed."""

import errno
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from storage.artifacts import file_stats
from storage.errors import SourceError
from storage.sources import SourceOptions, listing, open_source
from storage.sources.image_files import stamp_files
from storage.sources.image_folder import ImageFolder
from storage.sources.listing import digest_files
from tests.conftest import write_pictures

OLD = 1_500_000_000_000_000_000


def blake(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files last changed long ago."""
    paths = [tmp_path / name for name in ("a", "b", "ü")]
    for path in paths:
        path.write_bytes(path.name.encode())
        os.utime(path, ns=(OLD, OLD))
    return paths


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read."""
    names: list[str] = []
    original = listing._hash_file

    def record(path: Path) -> listing.Entry:
        names.append(path.name)
        return original(path)

    monkeypatch.setattr(listing, "_hash_file", record)
    return names


def test_digests_are_those_of_the_content_in_order(files: list[Path], tmp_path: Path) -> None:
    expected = [blake(b"a"), blake(b"b"), blake("ü".encode())]
    assert digest_files(files, tmp_path / "x" / "index.json") == expected
    assert digest_files(files[::-1], tmp_path / "x" / "index.json") == expected[::-1]
    assert digest_files([], tmp_path / "x" / "index.json") == []


@pytest.mark.usefixtures("settled")
def test_unchanged_files_are_not_read_again(files: list[Path], tmp_path: Path, hashed: list[str]) -> None:
    index = tmp_path / "index.json"
    first = digest_files(files, index)
    assert sorted(hashed) == ["a", "b", "ü"]
    hashed.clear()
    written = index.stat().st_mtime_ns
    assert digest_files(files, index) == first
    assert hashed == []
    assert index.stat().st_mtime_ns == written


@pytest.mark.usefixtures("settled")
def test_only_the_changed_file_is_read_again(files: list[Path], tmp_path: Path, hashed: list[str]) -> None:
    index = tmp_path / "index.json"
    first = digest_files(files, index)
    hashed.clear()
    files[1].write_bytes(b"c")
    second = digest_files(files, index)
    assert hashed == ["b"]
    assert second == [first[0], blake(b"c"), first[2]]


def test_same_size_and_mtime_but_other_content_is_seen(files: list[Path], tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    digest_files(files, index)
    files[0].write_bytes(b"z")
    os.utime(files[0], ns=(OLD, OLD))
    assert digest_files(files, index)[0] == blake(b"z")


def make_twins(folder: Path) -> tuple[Path, Path]:
    """Two images that differ in content but not in size or times."""
    red, blue = folder / "red.bmp", folder / "blue.bmp"
    for path in (red, blue):
        Image.new("RGB", (16, 16), path.stem).save(path)
        os.utime(path, ns=(OLD, OLD))
    while red.stat().st_ctime_ns != blue.stat().st_ctime_ns:
        # Twice: Linux notes a finer time for the first change after a file was looked at.
        for path in (red, blue, red, blue):
            path.chmod(0o644)
    assert red.stat().st_size == blue.stat().st_size
    return red, blue


@pytest.mark.usefixtures("settled")
def test_a_link_that_leads_to_another_file_is_seen(tmp_path: Path) -> None:
    folder, pool, cache = write_pictures(tmp_path / "pictures", 6), tmp_path / "pool", tmp_path / "cache"
    pool.mkdir()
    red, blue = make_twins(pool)
    link = folder / "p00.png"
    link.unlink()
    link.symlink_to(red)
    source = open_source(SourceOptions(path=str(folder)), cache)
    first, before = source.digest(cache), source.read(cache).digests
    link.unlink()
    link.symlink_to(blue)
    assert source.digest(cache) != first
    after = source.read(cache).digests
    assert after[0] == blake(blue.read_bytes()) != before[0]
    assert after[1:] == before[1:]


@pytest.mark.parametrize(
    ("age_seconds", "trusted"), [(0.0, False), (1.9, False), (2.1, True), (-60.0, False)]
)
@pytest.mark.parametrize("restored", [False, True])
def test_a_digest_taken_soon_after_a_change_is_never_trusted(
    files: list[Path],
    tmp_path: Path,
    hashed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    age_seconds: float,
    trusted: bool,
    restored: bool,
) -> None:
    files[0].write_bytes(b"new")
    if restored:  # as `cp -p`, `rsync -t` and `unzip` do; the change time still shows it
        os.utime(files[0], ns=(OLD, OLD))
    changed = files[0].stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed + int(age_seconds * 1e9))
    index = tmp_path / "index.json"
    digest_files(files[:1], index)
    hashed.clear()
    digest_files(files[:1], index)
    assert hashed == ([] if trusted else ["a"])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"version": 0, "files": {}}', b'{"version": 1, "files": {"a": [1]}}'],
)
def test_a_damaged_index_is_rebuilt(files: list[Path], tmp_path: Path, content: bytes) -> None:
    index = tmp_path / "index.json"
    index.write_bytes(content)
    assert digest_files(files, index)[0] == blake(b"a")
    assert len(json.loads(index.read_text())["files"]) == 3


def test_the_index_drops_removed_files(files: list[Path], tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    digest_files(files, index)
    digest_files(files[:1], index)
    assert list(json.loads(index.read_text())["files"]) == [str(files[0])]


def test_an_unwritable_index_is_not_an_error(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    assert digest_files(files, tmp_path / "taken" / "index.json")[0] == blake(b"a")


def test_a_failed_write_leaves_the_old_index_and_no_temporary_file(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    index = folder / "index.json"
    digest_files(files[:1], index)
    before = index.read_bytes()

    def refuse(handle: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    assert len(digest_files(files, index)) == 3
    assert index.read_bytes() == before
    assert list(folder.iterdir()) == [index]


def test_a_file_that_cannot_be_read_is_named(files: list[Path], tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    digest_files(files, index)
    files[1].unlink()
    with pytest.raises(SourceError, match=r"/b cannot be read: No such file"):
        digest_files(files, index)


def test_a_file_listed_twice_is_one_file(files: list[Path], tmp_path: Path) -> None:
    digests = digest_files([files[0], files[0]], tmp_path / "index.json")
    assert digests == [blake(b"a")] * 2


def test_an_unchanged_folder_is_not_read_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: None
) -> None:
    folder = write_pictures(tmp_path / "pictures", 6)
    source, cache = open_source(SourceOptions(path=str(folder)), tmp_path / "cache"), tmp_path / "cache"
    first = source.digest(cache)
    hashed: list[Path] = []
    hash_file, digest_images = listing._hash_file, ImageFolder._digest_images
    monkeypatch.setattr(listing, "_hash_file", lambda path: hashed.append(path) or hash_file(path))
    monkeypatch.setattr(ImageFolder, "_digest_images", lambda self, cache: pytest.fail("read again"))
    assert source.digest(cache) == first
    assert hashed == []
    monkeypatch.setattr(ImageFolder, "_digest_images", digest_images)
    listing.forget_digests(cache)
    assert source.digest(cache) == first
    assert len(hashed) == 7


def test_an_inode_may_take_all_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_pictures(tmp_path / "pictures", 2)
    found = set()
    for inode in (1, 2**64 - 2, 2**64 - 1):
        monkeypatch.setattr(file_stats, "_STATE", lambda status, inode=inode: (-1, 0, 9, inode))
        found.add(stamp_files(folder).text)
    assert len(found) == 3


@pytest.mark.parametrize("change", ["content", "name", "gone", "new", "folder"])
def test_any_change_in_a_folder_changes_its_digest(tmp_path: Path, change: str) -> None:
    folder = write_pictures(tmp_path / "pictures", 6)
    source, cache = open_source(SourceOptions(path=str(folder)), tmp_path / "cache"), tmp_path / "cache"
    first = source.digest(cache)
    picture = folder / "p01.png"
    if change == "content":
        picture.write_bytes((folder / "p02.png").read_bytes())
    elif change == "name":
        picture.rename(folder / "q.png")
    elif change == "gone":
        picture.unlink()
    elif change == "new":
        (folder / "q.png").write_bytes(picture.read_bytes())
    else:
        (folder / "below").mkdir()
        picture.rename(folder / "below" / "p01.png")
    assert source.digest(cache) != first


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("function", ["storage.sources.listing.open_regular", "os.scandir"])
def test_an_exhausted_machine_makes_no_item_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    folder = write_pictures(tmp_path / "pictures", 4)
    (folder / "more").mkdir()
    (folder / "p00.png").rename(folder / "more" / "p00.png")
    source = open_source(SourceOptions(path=str(folder)), tmp_path / "cache")
    module, _, name = function.rpartition(".")
    usual = getattr(sys.modules[module], name)

    def fail(path: Path | str) -> Any:
        if "more" in str(path):
            raise OSError(number, os.strerror(number), str(path))
        return usual(path)

    monkeypatch.setattr(function, fail)
    with pytest.raises(SourceError, match=r"short of resources .*ulimit -n"):
        source.read(tmp_path / "cache")
