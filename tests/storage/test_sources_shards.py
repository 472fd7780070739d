"""WebDataset shards: tar files with images and labels under one key."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source

Members = dict[str, bytes | tarfile.TarInfo]


def png(k: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (k, 0, 0)).save(file, "PNG")
    return file.getvalue()


def write_shard(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def read(path: Path, **options: Any) -> Collection:
    cache = path.parent / "cache"
    source = open_source(SourceOptions(path=str(path), **options), cache)
    assert source.kind == "webdataset"
    source.digest(cache)
    found = source.read(cache)
    again = source.read(cache)
    assert (again.ids, again.digests) == (found.ids, found.digests)
    return found


GOOD: Members = {"a/1.png": png(1), "a/1.cls": b"3\n", "a/2.cls": b"5", "a/2.PNG": png(2), "a/3.png": png(3)}


def test_classes_in_cls_members(tmp_path: Path) -> None:
    """Members of a key come in any order; an image without a label is unlabeled."""
    found = read(write_shard(tmp_path / "train-000.tar", GOOD))
    assert (found.ids, found.label_names, found.single_label) == (["a/1", "a/2", "a/3"], ["3", "5"], True)
    np.testing.assert_array_equal(found.labels, [[1, 0], [0, 1], [-1, -1]])
    assert found.split == ["train"] * 3
    assert [path.read_bytes() for path in found.paths or [] if path] == [png(1), png(2), png(3)]
    assert len(set(found.digests)) == 3


@pytest.mark.parametrize("key", ["label", "labels", "mood"])
def test_labels_in_json_members(tmp_path: Path, key: str) -> None:
    labels = [["sky", "sea"], ["sea"], []]
    members: Members = {}
    for k, given in enumerate(labels):
        members |= {f"{k}.png": png(k), f"{k}.json": json.dumps({"w": 4, key: given}).encode()}
    path = write_shard(tmp_path / "x.tar", members)
    found = read(path, labels="mood" if key == "mood" else None)
    np.testing.assert_array_equal(found.labels, [[1, 1], [1, 0], [0, 0]])
    assert not found.single_label
    digests = [
        open_source(SourceOptions(path=str(path), labels=name), tmp_path).digest(tmp_path)
        for name in ("mood", None)
    ]
    assert digests[0] != digests[1]


def test_a_folder_of_shards(tmp_path: Path) -> None:
    """Keys that several shards use are below the names of their shards."""
    folder = tmp_path / "set"
    folder.mkdir()
    write_shard(folder / "train-0.tar", {"1.png": png(1), "1.cls": b"x", "2.png": png(2), "2.cls": b"y"})
    write_shard(folder / "test-0.tar", {"1.png": png(3), "1.cls": b"y"})
    found = read(folder)
    assert found.ids == ["test-0/1", "train-0/1", "train-0/2"]
    assert found.split == ["test", "train", "train"]
    np.testing.assert_array_equal(found.labels, [[0, 1], [1, 0], [0, 1]])


def test_what_is_not_a_regular_file_is_skipped_and_listed(tmp_path: Path) -> None:
    strange: Members = {
        "link": special("9.png", tarfile.SYMTYPE, "/etc/passwd"),
        "hard": special("8.png", tarfile.LNKTYPE, "a/1.png"),
        "fifo": special("7.png", tarfile.FIFOTYPE),
        "device": special("6.png", tarfile.CHRTYPE),
        "folder": special("b", tarfile.DIRTYPE),
        "../../up.png": png(7),
        "/root.png": png(8),
        "5.cls": b"3",
        "a/1.jpg": png(9),
        "4.txt": b"a caption",
        "4.seg.png": png(4),
    }
    path = write_shard(tmp_path / "x.tar", {**GOOD, **strange})
    found = read(path)
    assert found.ids == ["a/1", "a/2", "a/3", "../../up", "root"], "names of members name no files"
    for one in found.paths or []:
        assert one is not None
        assert one.parent.parent == tmp_path / "cache" / "shards"
    said = [note.message for note in found.notes]
    assert sum("is not a regular file" in text for text in said) == 4
    assert "1 key has no image and is skipped" in said
    assert any("'a/1.jpg' is too large or a second image" in text for text in said)
    with pytest.raises(SourceError, match="strict"):
        read(path, strict=True)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"1.txt": b"x"}, "contains no image under a key"),
        ({"1.png": png(1), "1.json": b"{"}, r"member '1\.json' has no readable label"),
        ({"1.png": png(1), "1.cls": b"\xff\xfe"}, r"member '1\.cls' has no readable label"),
        ({"1.png": png(1), "1.json": b'{"label": {"a": 1}}'}, "the labels are nested"),
        ({"1.png": png(1), "1.cls": b"\x1b[2J"}, r"the label .* contains the character"),
        ({"1.png": png(1), "1.json": b" " * 1_000_001}, "labels have at most 1,000,000"),
        ({"1.png": png(1), "2.png": png(2)}, "none of the 2 items carries a label"),
    ],
)
def test_bad_shards_are_refused(tmp_path: Path, members: Members, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(write_shard(tmp_path / "x.tar", members))


def test_a_shard_that_is_cut_off(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "x.tar", {**GOOD, "9.png": bytes(50_000)})
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(SourceError, match="not a complete tar file"):
        read(path)
    path.write_bytes(b"no archive at all" * 100)
    with pytest.raises(SourceError, match="not a complete tar file"):
        read(path)


def test_an_incomplete_cache_is_written_again(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "x.tar", GOOD)
    first = [one for one in read(path).paths or [] if one]
    first[1].unlink()
    assert [one.read_bytes() for one in read(path).paths or [] if one] == [png(1), png(2), png(3)]
    write_shard(path, {**GOOD, "a/1.png": png(9)})
    assert next(one.read_bytes() for one in read(path).paths or [] if one) == png(9)


def test_archives_beside_a_data_set_do_not_hide_it(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "data.csv").write_text("width,class\n1,a\n2,b\n")
    write_shard(folder / "backup.tar", GOOD)
    assert open_source(SourceOptions(path=str(folder)), tmp_path).kind == "table"
