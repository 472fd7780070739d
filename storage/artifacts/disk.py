"""Durable and private file writes, JSON with a checksum, and operating system errors explained to the user.

Folders and files are created for their owner only (0700, 0600). Nothing is written through a symbolic link.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from storage.artifacts.regular_files import is_absent, open_regular
from storage.errors import DiskFull, StoreError
from storage.permissions import PRIVATE_FILE, PRIVATE_FOLDER

TEMPORARY = ".tmp"
_HOME = "--home or LABELSCAPE_HOME"
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EROFS, errno.EACCES, errno.EPERM}
_NOT_A_FOLDER = {errno.EEXIST, errno.ENOTDIR}
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def store_errors(path: Path, chosen_by: str = _HOME) -> Iterator[None]:
    """Turn an OSError about `path` into a StoreError that says what to do.

    `chosen_by` names the option with which the user chooses another folder.
    """
    try:
        yield
    except OSError as error:
        kind = DiskFull if error.errno in _NO_SPACE else StoreError
        raise kind(_explain(error, path, chosen_by)) from error


def _explain(error: OSError, path: Path, chosen_by: str) -> str:
    reason = error.strerror or str(error)
    if error.errno in _NO_SPACE:
        return (
            f"No room to write {path} ({reason}). Earlier artifacts are intact and no partial file was kept; "
            f"free some space, or choose another folder with {chosen_by}, and run again."
        )
    if error.errno in _NO_PERMISSION:
        return (
            f"No permission for {path} ({reason}); make it readable and writable, or choose another folder "
            f"with {chosen_by}."
        )
    if error.errno == errno.ELOOP:
        return f"{path} is a symbolic link, which is not followed there; remove it and run again."
    if error.errno in _NOT_A_FOLDER:
        file = next((place for place in (path, *path.parents) if place.is_file()), path)
        return (
            f"{file} is a file where a folder is needed ({reason}); move it away, or choose another folder "
            f"with {chosen_by}."
        )
    if error.errno == errno.EISDIR:
        return f"{path} is a folder where a file is needed; move it away and run again."
    if chosen_by != _HOME:
        return f"{path} cannot be written ({reason}); choose another place with {chosen_by}."
    return f"The store cannot use {path} ({reason}); check that its folder is on a local, healthy disk."


def temporary_path(path: Path) -> Path:
    """Return the fixed temporary name of `path`, for a writer that holds the lock of `path`.

    The next writer overwrites what a killed process left there, so nothing accumulates.
    """
    return path.with_name(path.name + TEMPORARY)


def make_folder(path: Path) -> None:
    """Create a folder and its parents so that they survive a power failure."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the directory entries of a folder (renames, new files) to disk."""
    sync_file(path)


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_file(path: Path, buffering: int = -1) -> BinaryIO:
    """Create a private file and open it for writing; whatever had its name is removed first.

    A symbolic link planted under the name is removed, not followed.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, _NEW_FILE, PRIVATE_FILE), "wb", buffering=buffering)


def remove_tree(path: Path) -> None:
    """Remove a folder with its content, or a file or link; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def replace_atomically(path: Path, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """Yield an empty temporary file beside `path`; on success flush it and rename it to `path`.

    The temporary file has a random name and is created exclusively, so concurrent writers do not share it
    and a symbolic link planted under its name is not followed. On failure it is removed. `mode` is the mode
    of the new file, whatever the umask is.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    descriptor = os.open(temporary, _NEW_FILE, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    try:
        yield temporary
        sync_file(temporary)
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        remove_quietly(temporary)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the content of a file; readers see the old or the new content. Creates the folder."""
    make_folder(path.parent)
    with replace_atomically(path) as temporary:
        temporary.write_bytes(data)


def rename_durably(source: Path, target: Path) -> None:
    """Rename a file and flush the folder of the new name."""
    source.replace(target)
    sync_folder(target.parent)


def remove_quietly(*paths: Path) -> None:
    """Remove files after a failure; errors are suppressed because the original error is more important."""
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is no regular file of this name."""
    with store_errors(path):
        try:
            with open_regular(path) as file:
                return file.read()
        except OSError as error:
            if is_absent(error):
                return None
            raise


_BLANK = "0" * 64


def seal(content: Mapping[str, Any]) -> bytes:
    """Return readable JSON that contains the checksum of its own bytes."""
    blank = json.dumps({**content, "checksum": _BLANK}, sort_keys=True, indent=1, allow_nan=False) + "\n"
    return _with_checksum(blank.encode(), _BLANK, hashlib.sha256(blank.encode()).hexdigest())


def unseal(data: bytes) -> dict[str, Any]:
    """Return the content of sealed JSON; ValueError if any bit differs from what was written."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(content, dict) or not isinstance(checksum := content.pop("checksum", None), str):
        raise ValueError("it contains no checksum")
    # The checksum covers the bytes, not the parsed content: that includes the formatting and avoids
    # serializing the content again.
    if hashlib.sha256(_with_checksum(data, checksum, _BLANK)).hexdigest() != checksum:
        raise ValueError("its checksum does not match")
    return content


def _with_checksum(data: bytes, old: str, new: str) -> bytes:
    # A line break and a single space precede only the names of the outermost object.
    return data.replace(f'\n "checksum": "{old}"'.encode(), f'\n "checksum": "{new}"'.encode())
