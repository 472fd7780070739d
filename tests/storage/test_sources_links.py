"""Links, special and unreadable files in a folder of images: skipped and listed, the rest is read."""

import os
from pathlib import Path

import pytest

from storage.artifacts import file_stats
from storage.errors import ConfigError, SourceError
from storage.sources import Collection, SourceOptions, image_folder, listing, open_source
from tests.storage.test_sources_images import CSV, EXPECTED, labels_of, put_images, read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_images(tmp_path / "pics", "a.jpg", "b.png", "c.jpg")
    (tmp_path / "pics" / "labels.csv").write_text(CSV)
    return tmp_path / "pics"


def skipped(found: Collection) -> dict[str, str]:
    return {note.file: note.message for note in found.notes if note.message.startswith("skipped: ")}


def test_special_files_are_skipped_and_listed(folder: Path) -> None:
    os.mkfifo(folder / "fifo.jpg")
    for name, target in {
        "loop.jpg": "loop.jpg",
        "ping.jpg": "pong.jpg",
        "pong.jpg": "ping.jpg",
        "gone.jpg": "nowhere",
        "zero.jpg": "/dev/zero",
        "kernel.jpg": "/proc/kmsg",
        "memory.jpg": "/proc/self/mem",
    }.items():
        (folder / name).symlink_to(target)
    found = read(folder)
    assert labels_of(found) == EXPECTED
    wanted = {
        "fifo.jpg",
        "loop.jpg",
        "ping.jpg",
        "pong.jpg",
        "gone.jpg",
        "zero.jpg",
        "kernel.jpg",
        "memory.jpg",
    }
    assert wanted <= skipped(found).keys()
    assert skipped(found)["kernel.jpg"] == "skipped: it cannot be read (not a regular file)"


@pytest.mark.parametrize("target", ["/proc", "/proc/self", "/sys", "/dev"])
def test_a_link_to_a_folder_of_the_kernel_is_skipped(folder: Path, target: str) -> None:
    (folder / "sub").symlink_to(target, target_is_directory=True)
    found = read(folder)
    assert labels_of(found) == EXPECTED
    assert skipped(found) == {
        "sub/": "skipped: the folder cannot be listed (it belongs to the operating system)"
    }
    with pytest.raises(SourceError, match="sub/: skipped: the folder cannot be listed"):
        read(folder, strict=True)


def test_folders_that_link_to_each_other_are_cut(folder: Path) -> None:
    put_images(folder, "x/1.jpg", "y/2.jpg")
    for name, target in {"x/y": "../y", "y/x": "../x", "x/self": ".", "top": ".."}.items():
        (folder / name).symlink_to(target, target_is_directory=True)
    (folder / "around").symlink_to("around", target_is_directory=True)
    (folder / "all").symlink_to("/", target_is_directory=True)
    assert read(folder).ids == ["a.jpg", "b.png", "c.jpg", "x/1.jpg", "y/2.jpg"]


def test_an_image_that_cannot_be_read_is_skipped_until_it_can(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stats, "TICK_NS", -1)
    original = listing._hash_file

    def refuse(path: Path) -> listing.Entry:
        if path.name == "b.png":
            raise PermissionError(13, "Permission denied")
        return original(path)

    cache = tmp_path / "cache"
    source = open_source(SourceOptions(path=str(folder)), cache)
    monkeypatch.setattr(listing, "_hash_file", refuse)
    first, found = source.digest(cache), source.read(cache)
    assert found.ids == ["a.jpg", "c.jpg"]
    assert skipped(found) == {"b.png": "skipped: it cannot be read (Permission denied)"}
    monkeypatch.setattr(listing, "_hash_file", original)
    image_folder._read_once.cache_clear()
    assert source.digest(cache) != first  # although the times of the file are the same
    assert source.read(cache).ids == ["a.jpg", "b.png", "c.jpg"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions_are_respected(folder: Path) -> None:
    put_images(folder, "sub/d.jpg")
    (folder / "b.png").chmod(0)
    (folder / "sub").chmod(0)
    found = read(folder)
    assert found.ids == ["a.jpg", "c.jpg"]
    assert {"b.png", "sub/"} <= skipped(found).keys()


def test_a_folder_that_cannot_be_listed_is_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_images(folder, "closed/d.jpg", "open/e.jpg")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = read(folder)
    assert found.ids == ["a.jpg", "b.png", "c.jpg", "open/e.jpg"]
    assert skipped(found) == {"closed/": "skipped: the folder cannot be listed (Permission denied)"}
    monkeypatch.setattr(os, "scandir", lambda path: refuse("closed"))
    with pytest.raises(SourceError, match="pics cannot be listed: Permission denied"):
        read(folder)


def test_a_file_of_terabytes_is_not_read(folder: Path) -> None:
    with (folder / "huge.jpg").open("wb") as file:
        file.truncate(2**40)
    found = read(folder)
    assert labels_of(found) == EXPECTED
    assert skipped(found) == {
        "huge.jpg": "skipped: it cannot be read (it has 1099511627776 bytes, the limit is 536870912)"
    }


def test_if_no_image_can_be_read_the_first_is_named(tmp_path: Path) -> None:
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics" / "a.jpg").symlink_to("/proc/kmsg")
    with pytest.raises(
        SourceError, match=r"1 images, but none can be read; the first is a\.jpg: not a regular"
    ):
        read(tmp_path / "pics")


class TestLabelFile:
    """A label file that is a link: what it names is quoted in messages, so it must be in the collection."""

    @pytest.mark.parametrize("name", ["labels.csv", "metadata.jsonl", "Labels.CSV"])
    def test_outside_the_folder_it_is_refused(self, folder: Path, tmp_path: Path, name: str) -> None:
        secret = tmp_path / "shadow"
        secret.write_text("root:SECRET:19000\n")
        (folder / "labels.csv").unlink()
        (folder / name).symlink_to(secret)
        for path in (folder, folder / name):
            with pytest.raises(SourceError, match=r"is a link to a file outside .*source\.labels") as caught:
                read(path)
            assert "SECRET" not in str(caught.value)

    def test_its_target_can_be_named(self, folder: Path, tmp_path: Path) -> None:
        (folder / "labels.csv").rename(tmp_path / "mine.csv")
        (folder / "labels.csv").symlink_to(tmp_path / "mine.csv")
        assert labels_of(read(folder, labels=str(tmp_path / "mine.csv"))) == EXPECTED
        assert read(folder, labeled=False).ids == list(EXPECTED)

    def test_inside_the_folder_it_is_followed(self, folder: Path) -> None:
        (folder / "labels.csv").rename(folder / "version2.csv")
        (folder / "labels.csv").symlink_to("version2.csv")
        assert labels_of(read(folder)) == EXPECTED


class TestGivenPath:
    """The path itself is strange, or a file beside the data."""

    @pytest.mark.parametrize("kind", ["auto", "table", "images"])
    def test_a_path_that_is_not_a_regular_file_is_refused(self, tmp_path: Path, kind: str) -> None:
        os.mkfifo(tmp_path / "x.csv")
        (tmp_path / "y.csv").symlink_to("/proc/kmsg")
        for name in ("x.csv", "y.csv"):
            with pytest.raises(SourceError, match="is neither a file nor a folder"):
                read(tmp_path / name, kind=kind)

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("loop.csv", "there is no file or folder"),
            ("n" * 300 + ".csv", "a name of 304 bytes is too long"),
            ("a\0b.csv", "contains a NUL character"),
        ],
        ids=["loop", "long", "null"],
    )
    def test_a_path_that_leads_nowhere_is_refused(self, tmp_path: Path, name: str, problem: str) -> None:
        (tmp_path / "loop.csv").symlink_to("loop.csv")
        with pytest.raises((SourceError, ConfigError), match=problem):
            open_source(SourceOptions(path=f"{tmp_path}/{name}"), tmp_path)

    def test_a_strange_file_beside_the_data_is_not_read(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "t.csv").write_text("f0,f1,class\n1,2,a\n3,4,b\n")
        (tmp_path / "data" / "u.csv").symlink_to("/proc/kmsg")
        os.mkfifo(tmp_path / "data" / "v.csv")
        assert len(read(tmp_path / "data").ids) == 2
