"""Files that are whole or absent: durable writes, sealed JSON, errors that say what to do."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from storage.errors import StoreError

TEMPORARY = ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_FOLDER = {errno.EEXIST, errno.ENOTDIR}


@contextmanager
def store_errors(path: Path, chosen_by: str = "--home or LABELSCAPE_HOME") -> Iterator[None]:
    """Turn an operating system's error about `path` into one that says what to do.

    `chosen_by` is how a user names another folder.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(_explain(error, path, chosen_by)) from error


def _explain(error: OSError, path: Path, chosen_by: str) -> str:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return (
            f"No room to write {path} ({reason}). Earlier artifacts are intact and nothing half-written was "
            f"kept; free some space, or choose another folder with {chosen_by}, and run again."
        )
    if error.errno in _FORBIDDEN:
        return (
            f"No permission for {path} ({reason}); make it readable and writable, or choose another folder "
            f"with {chosen_by}."
        )
    if error.errno in _NO_FOLDER:
        file = next((place for place in (path, *path.parents) if place.is_file()), path)
        return (
            f"{file} is a file where a folder is needed ({reason}); move it away, or choose another folder "
            f"with {chosen_by}."
        )
    return f"The store cannot use {path} ({reason}); check that its folder is a local, healthy disk."


def temporary_path(path: Path) -> Path:
    """Where `path` is prepared: a fixed name beside it, since only the holder of its lock writes it.

    What a killed process leaves there is overwritten by the next one, and nothing piles up.
    """
    return path.with_name(path.name + TEMPORARY)


def make_folder(path: Path) -> None:
    """Create a folder and its parents so that they survive a power cut."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, data: bytes) -> None:
    """Give a file new content at once, creating its folder; the caller holds its lock."""
    make_folder(path.parent)
    temporary = temporary_path(path)
    try:
        write_synced(temporary, data)
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        remove_quietly(temporary)
        raise


def remove_quietly(*paths: Path) -> None:
    """Tidy up after a failure, whose own error is the one to show."""
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_if_there(path: Path) -> bytes | None:
    """The content of a file, or None when there is none."""
    with store_errors(path):
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


_BLANK = "0" * 64


def seal(content: Mapping[str, Any]) -> bytes:
    """JSON that people can read, with the checksum of its own bytes in it."""
    blank = json.dumps({**content, "checksum": _BLANK}, sort_keys=True, indent=1, allow_nan=False) + "\n"
    return _with_checksum(blank.encode(), _BLANK, hashlib.sha256(blank.encode()).hexdigest())


def unseal(data: bytes) -> dict[str, Any]:
    """The content of a sealed JSON; ValueError when one bit of it is not as it was written."""
    content = json.loads(data)
    checksum = content.pop("checksum", None) if isinstance(content, dict) else None
    if not isinstance(checksum, str):
        raise ValueError("no checksum in it")
    # Over the bytes, not the content read: this covers the layout as well and costs no second writing.
    if hashlib.sha256(_with_checksum(data, checksum, _BLANK)).hexdigest() != checksum:
        raise ValueError("its checksum does not match")
    return content


def _with_checksum(data: bytes, old: str, new: str) -> bytes:
    # A line break and one space stand before names of the outermost object only.
    return data.replace(f'\n "checksum": "{old}"'.encode(), f'\n "checksum": "{new}"'.encode())
