"""Content digests of files, cached between runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from storage.artifacts.disk import write_atomically
from storage.artifacts.file_stats import is_settled
from storage.artifacts.regular_files import is_exhausted, open_regular
from storage.errors import SourceError
from storage.sources.base import combine_digests
from storage.sources.image_files import FolderStamp

_VERSION = 2

# size, mtime_ns, ctime_ns, inode, when it was hashed, digest
Entry = tuple[int, int, int, int, int, str]


def digest_files(paths: Sequence[Path], index_file: Path) -> list[str]:
    """Content digests (blake2b, 16 bytes, hex) of files.

    Parameters
    ----------
    paths : sequence of Path
    index_file : Path
        Digests of the last call. A file with the same size, times and inode is not read again, unless it was
        modified less than two seconds before it was hashed. Afterwards the index lists the files of this
        call only. A damaged index is rebuilt.

    Returns
    -------
    list of str
        In the order of `paths`.

    Raises
    ------
    SourceError
        A file cannot be read or is not a regular file.
    """
    digests, problems = digest_readable(paths, index_file)
    for position, reason in problems.items():
        raise SourceError(f"{paths[position]} cannot be read: {reason}. Check the file and its permissions.")
    return digests


def digest_readable(
    paths: Sequence[Path], index_file: Path, max_bytes: int | None = None
) -> tuple[list[str], dict[int, str]]:
    """Content digests of the files that can be read, see `digest_files`.

    Parameters
    ----------
    paths : sequence of Path
    index_file : Path
    max_bytes : int, optional
        Larger files are not read.

    Returns
    -------
    digests : list of str
        In the order of `paths`; "" for a file that cannot be read.
    problems : dict of int to str
        Why not, by position.
    """
    known = _read_index(index_file)
    keys = [str(path.absolute()) for path in paths]
    index = {
        key: entry
        for key, path in zip(keys, paths, strict=True)
        if (entry := _known_entry(path, known.get(key)))
    }
    changed = {key: path for key, path in zip(keys, paths, strict=True) if key not in index}
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        hashed = pool.map(_hash_or_reason, changed.values(), repeat(max_bytes))
        found = dict(zip(changed, hashed, strict=True))
    index.update({key: entry for key, entry in found.items() if not isinstance(entry, str)})
    reasons = {key: entry for key, entry in found.items() if isinstance(entry, str)}
    if index != known:
        # The index only saves time: if it cannot be written, the digests are still correct.
        with contextlib.suppress(OSError):
            _write_index(index_file, index)
    problems = {k: reasons[key] for k, key in enumerate(keys) if key in reasons} if reasons else {}
    return [index[key][-1] if key in index else "" for key in keys], problems


def recall_digest(memo: Path, stamp: FolderStamp) -> str | None:
    """The cached digest of a folder in this state; None if there is none."""
    try:
        stored = json.loads(memo.read_text(encoding="utf-8"))
        known = stored["version"] == _VERSION and stored["stamp"] == stamp.text
        return str(stored["digest"]) if known else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remember_digest(memo: Path, stamp: FolderStamp, digest: str, begun: int) -> None:
    """Cache the digest of a folder, unless a file was modified just before it was read."""
    if is_settled(begun, stamp.newest):
        with contextlib.suppress(OSError):
            content = json.dumps({"version": _VERSION, "stamp": stamp.text, "digest": digest})
            write_atomically(memo, content.encode("utf-8", "surrogateescape"))


def forget_digests(cache_dir: Path) -> None:
    """Delete every cached digest, so that all files are read again."""
    shutil.rmtree(cache_dir / "listing", ignore_errors=True)


def index_path(cache_dir: Path, root: Path) -> Path:
    """Path of the index of a source."""
    return cache_dir / "listing" / f"{combine_digests([str(root.absolute())])}.json"


def _known_entry(path: Path, known: Entry | None) -> Entry | None:
    """The cached entry if the file is still the same."""
    if known is None:
        return None
    *state, hashed, _ = known
    try:
        status = path.stat()
    except OSError:
        return None
    _, mtime, ctime, _ = now = _state(status)
    return known if list(now) == state and is_settled(hashed, mtime, ctime) else None


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    # Without the device number, which differs between mounts of the same disk. Two files with equal size,
    # times and inode are copies of a whole disk and have the same bytes.
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _hash_or_reason(path: Path, max_bytes: int | None) -> Entry | str:
    """The entry of a file, or the reason why it cannot be read."""
    try:
        if max_bytes is not None and (size := path.stat().st_size) > max_bytes:
            return f"it has {size} bytes, the limit is {max_bytes}"
        return _hash_file(path)
    except OSError as error:
        if is_exhausted(error):
            raise
        return error.strerror or str(error)


def _hash_file(path: Path) -> Entry:
    with open_regular(path) as file:
        # Read the times before the bytes: a change during reading then shows at the next call.
        status = os.fstat(file.fileno())
        hashed = time.time_ns()
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return (*_state(status), hashed, digest)


def _read_index(index_file: Path) -> dict[str, Entry]:
    try:
        stored = json.loads(index_file.read_text(encoding="utf-8", errors="surrogateescape"))
        if stored["version"] != _VERSION:
            return {}
        return {key: _entry(value) for key, value in stored["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _entry(value: list[int | str]) -> Entry:
    size, mtime, ctime, inode, hashed, digest = value
    if not isinstance(digest, str) or len(digest) != 32:
        raise ValueError("not a digest")
    return (int(size), int(mtime), int(ctime), int(inode), int(hashed), digest)


def _write_index(index_file: Path, index: dict[str, Entry]) -> None:
    content = json.dumps({"version": _VERSION, "files": index})
    write_atomically(index_file, content.encode("utf-8", "surrogateescape"))
