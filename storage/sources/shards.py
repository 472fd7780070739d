"""WebDataset shards: plain tar files with an image and its labels (`.cls` or `.json`) under one key.

Stages read files, so the images of a shard are written once per content below the cache folder of the home,
as key frames of clips are. A tar file that is not compressed cannot contain more than its own size.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from storage.artifacts.regular_files import is_regular_file, open_regular
from storage.errors import SourceChanged, SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.quoting import count_of, quote, shorten
from storage.sources.base import LONGEST_PATH, check_texts
from storage.sources.label_files import split_labels
from storage.sources.media import IMAGES, suffix_of
from storage.sources.unpacked import unpack_once

SHARD = ".tar"
_VERSION = 1
_INDEX = "shard.json"
# Keys of a JSON member that may have the labels, the best first.
_LABEL_KEYS = ("label", "labels", "cls", "class", "category", "categories", "tags")
_LABEL_BYTES = 1_000_000
_COPY_BYTES = 1 << 20
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)


@dataclass
class ShardItem:
    """One key of a shard.

    Attributes
    ----------
    key : str
        Path of its members up to the first dot of the file name.
    file, digest : str
        The image in the cache folder and the digest of its content; "" if there is none.
    labels : list of str or None
        None if the item is unlabeled.
    listed : bool
        Whether the labels are a list, so that several are possible.
    """

    key: str
    file: str = ""
    digest: str = ""
    labels: list[str] | None = None
    listed: bool = False


@dataclass
class ShardContent:
    """The items of one shard that have an image, and what was skipped."""

    folder: Path
    items: list[ShardItem] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_shard(path: Path, digest: str, labels: str | None, cache_dir: Path) -> ShardContent:
    """The images and labels of a shard, unpacked unless the cache folder has them.

    Parameters
    ----------
    path : Path
    digest : str
        Content digest of the file.
    labels : str or None
        The key of JSON members with the labels, if it has another name than usual.
    cache_dir : Path
    """
    wanted = hashlib.blake2b((labels or "").encode(), digest_size=8).hexdigest()
    folder = cache_dir / "shards" / f"{digest}-{wanted}"
    return unpack_once(folder, _recall, lambda fresh: _write_all(path, digest, labels, fresh), path.name)


def _recall(folder: Path) -> ShardContent | None:
    """What the cache folder has of a shard; None if it is missing or incomplete."""
    try:
        stored = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        if stored["version"] != _VERSION:
            return None
        items = [ShardItem(**one) for one in stored["items"]]
        if not all((folder / one.file).is_file() for one in items):
            return None
        return ShardContent(folder, items, list(stored["problems"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_all(path: Path, digest: str, labels: str | None, folder: Path) -> None:
    """Write the images, then the index."""
    made = _unpack(path, digest, labels, folder)
    index = {"version": _VERSION, "items": [vars(one) for one in made.items], "problems": made.problems}
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")


def _unpack(path: Path, digest: str, labels: str | None, folder: Path) -> ShardContent:
    found = ShardContent(folder)
    items: dict[str, ShardItem] = {}
    try:
        with open_regular(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for member in _members(archive, path):
                _add(member, archive, items, labels, found, path)
            file.seek(0)
            if _digest_stream(file) != digest:
                raise SourceChanged(f"{path} changed while it was being read", "run again")
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise SourceError(
            f"{path} is not a complete tar file ({shorten(str(error))}). Copy or write it again; compressed "
            "archives are not read."
        ) from error
    alone = len(items) - len(found.items)
    if alone:
        many = "keys have no image and are skipped"
        found.problems.append(count_of(alone, "key has no image and is skipped", many))
    return found


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """The members, one after the other, as far as the file is large enough for them."""
    size, count = path.stat().st_size, 0
    while (member := archive.next()) is not None:
        # The archive would keep every member that it has seen.
        archive.members = []  # type: ignore[attr-defined]
        count += 1
        check_memory(count * ITEM_BYTES, f"{path}: a shard of {count:,} members", size)
        if member.type in _REGULAR and member.offset_data + member.size > size:
            raise tarfile.ReadError(f"the member {quote(member.name)} is cut off")
        yield member


def _add(
    member: tarfile.TarInfo,
    archive: tarfile.TarFile,
    items: dict[str, ShardItem],
    labels: str | None,
    found: ShardContent,
    path: Path,
) -> None:
    """Add what a member says about its key."""
    where = f"{path}, member {quote(member.name)}"
    if member.isdir() or PurePosixPath(member.name).name.startswith("."):
        return
    if member.type not in _REGULAR:
        found.problems.append(f"{quote(member.name)} is not a regular file and is skipped")
        return
    check_texts([member.name], f"{path}: the name of a member", LONGEST_PATH, controls=True)
    key, suffix = _split_name(member.name)
    stream = archive.extractfile(member)
    assert stream is not None
    if suffix in IMAGES.suffixes:
        if member.size > IMAGES.max_bytes or items.get(key, ShardItem(key)).file:
            found.problems.append(f"{quote(member.name)} is too large or a second image and is skipped")
            return
        item = items.setdefault(key, ShardItem(key))
        item.file = f"{len(found.items):08}{suffix}"
        item.digest = _write(stream, found.folder / item.file)
        found.items.append(item)
    elif suffix in (".cls", ".json"):
        if member.size > _LABEL_BYTES:
            raise SourceError(f"{where} has {member.size:,} bytes; labels have at most {_LABEL_BYTES:,}.")
        value = _label_value(stream.read(), suffix, labels, where)
        item = items.setdefault(key, ShardItem(key))
        if value is not None and (item.labels is None or suffix == ".cls"):
            item.listed = isinstance(value, list)
            item.labels = list(split_labels(value if item.listed else [value], "", where))


def _split_name(name: str) -> tuple[str, str]:
    """The key, and the rest of the file name from its first dot in lower case.

    >>> _split_name("./a/1.JPG"), _split_name("1.seg.png")
    (('a/1', '.jpg'), ('1', '.seg.png'))
    """
    folder, _, file = name.removeprefix("./").rpartition("/")
    stem, dot, rest = file.partition(".")
    return f"{folder}/{stem}" if folder else stem, f"{dot}{rest}".lower()


def _label_value(data: bytes, suffix: str, labels: str | None, where: str) -> Any:
    """The label in a `.cls` member, or under the key of a `.json` member; None if there is none."""
    try:
        text = data.decode("utf-8-sig")
        if suffix == ".cls":
            return text.strip() or None
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{where} has no readable label ({shorten(str(error))}). Write it again."
        ) from error
    if not isinstance(record, dict):
        return record
    names = _LABEL_KEYS if labels is None else (labels,)
    return next((record[name] for name in names if name in record), None)


def _write(stream: IO[bytes], target: Path) -> str:
    """Copy a member into the cache folder; return the digest of its content."""
    with target.open("xb") as file:
        shutil.copyfileobj(stream, file, _COPY_BYTES)
    with target.open("rb") as file:
        return _digest_stream(file)


def _digest_stream(file: IO[bytes]) -> str:
    state = hashlib.blake2b(digest_size=16)
    while block := file.read(_COPY_BYTES):
        state.update(block)
    return state.hexdigest()


def shards_in(path: Path) -> list[Path]:
    """The shard, or the shards directly in a folder, by name."""
    if not path.is_dir():
        return [path] if suffix_of(path.name) == SHARD and path.is_file() else []
    return sorted(one for one in path.iterdir() if suffix_of(one.name) == SHARD and is_regular_file(one))
