"""Blobs: named byte strings in a folder of this machine or at a shared address.

`Blobs` is all that the artifact store needs of the place where it keeps its files. `LocalBlobs` is a folder;
`storage.artifacts.fsspec_blobs.FsspecBlobs` is an fsspec address with a folder for local copies. Names are
relative paths with `/`. A blob exists completely or not at all: writes are atomic.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Literal, Protocol

from storage.artifacts import disk
from storage.artifacts.file_stats import is_settled
from storage.artifacts.locks import OnWait, describe_wait, hold_lock, is_free, share_lock, try_lock
from storage.artifacts.manifest import find_size_problem, lock_name
from storage.artifacts.regular_files import is_absent, is_regular, open_regular
from storage.errors import StoreError

MISMATCH = "its data do not match the digest in its manifest"
_LOCKS = "locks"
_IN_USE = "in-use"

Depth = Literal["size", "checksum", "content"]
"""How thoroughly data are checked.

"size" compares the size. "checksum" also hashes the content, unless this was done before and the file has not
changed since; a shared store verifies when it downloads instead. "content" always reads and hashes all bytes.
"""


class DamagedBlob(Exception):
    """The bytes of a blob are not those that were written; the text is the reason."""


@dataclass(frozen=True, slots=True)
class BlobStat:
    """Size of a blob and the time of its last change, by the clock of the place that keeps it."""

    size: int
    modified: datetime


class Blobs(Protocol):
    """A place that keeps blobs.

    Attributes
    ----------
    grace : timedelta
        Blobs changed more recently than this are never removed as unused: they may belong to work that is
        not recorded yet.
    """

    grace: timedelta

    @property
    def place(self) -> str:
        """Path or address, for messages."""

    @property
    def local(self) -> LocalBlobs:
        """The local folder where data are prepared, locked and read; for a local store, the store itself."""

    def check_access(self) -> None:
        """Raise if the place cannot be used."""

    def locate(self, name: str) -> PurePath:
        """Return the path of a blob, for messages."""

    def read(self, name: str) -> bytes | None:
        """Return a small blob, or None if it does not exist."""

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the given small blobs that exist."""

    def write(self, name: str, data: bytes) -> None:
        """Write a small blob, replacing the old one."""

    def publish(self, file: Path, name: str) -> Path:
        """Make a file prepared in `local` available as a blob; return where the file is now."""

    def fetch(self, name: str, digest: str) -> Path:
        """Return a local file with the content of a blob.

        Raises
        ------
        DamagedBlob
            If the blob is missing or its content does not have this SHA-256.
        """

    def drop_copy(self, name: str) -> bool:
        """Remove the local copy of a blob, if it is not the only copy; return whether it was removed."""

    def stat(self, name: str) -> BlobStat | None:
        """Return size and time of a blob, or None if it does not exist."""

    def list_blobs(self, folder: str = "") -> dict[str, BlobStat]:
        """Return all blobs, or those below a folder, by name."""

    def move(self, name: str, target: str) -> None:
        """Rename a blob; no error if it does not exist."""

    def delete(self, *names: str) -> None:
        """Delete blobs in this order; no error if one does not exist."""

    def find_problem(self, name: str, size: int, digest: str, depth: Depth) -> str | None:
        """Say what is wrong with a data blob, or return None."""

    def list_litter(self) -> list[str]:
        """List what killed processes left besides blobs: free lock files, expired leases."""

    def in_use(self, on_wait: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Shared lock for a run: garbage collection must not delete what the run uses."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Exclusive lock for garbage collection; StoreError while a run holds `in_use`."""


class ChecksumCache:
    """Remembers which files of this process were hashed, for as long as they do not change."""

    def __init__(self) -> None:
        self._states: dict[Path, tuple[object, ...]] = {}

    def is_intact(self, path: Path, digest: str, use_cache: bool = True) -> bool:
        """Return whether a file has this SHA-256; FileNotFoundError if it does not exist."""
        with open_regular(path) as file:
            begun, status = time.time_ns(), os.fstat(file.fileno())
            state = (digest, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if use_cache and self._states.get(path) == state:
                return True
            intact = hashlib.file_digest(file, "sha256").hexdigest() == digest
        if intact and is_settled(begun, status.st_mtime_ns, status.st_ctime_ns):
            self._states[path] = state
        return intact


class LocalBlobs:
    """Blobs in a folder, shared by the processes and threads of one machine.

    Parameters
    ----------
    root : Path
        The folder; it is created on the first write.
    """

    grace = timedelta(0)

    def __init__(self, root: Path) -> None:
        self.root = Path(root).absolute()
        self._checksums = ChecksumCache()

    @property
    def place(self) -> str:
        return str(self.root)

    @property
    def local(self) -> LocalBlobs:
        return self

    def check_access(self) -> None:
        """Do nothing: a folder that cannot be used is reported by the first write."""

    def locate(self, name: str) -> Path:
        """Return the file of a blob."""
        return self.root / name

    def draft(self, name: str) -> Path:
        """Return the path where a blob is prepared; the caller holds its lock."""
        path = disk.temporary_path(self.locate(name))
        with disk.store_errors(path):
            disk.make_folder(path.parent)
        return path

    def read(self, name: str) -> bytes | None:
        return disk.read_if_there(self.locate(name))

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        found = {name: self.read(name) for name in names}
        return {name: data for name, data in found.items() if data is not None}

    def write(self, name: str, data: bytes) -> None:
        with disk.store_errors(self.locate(name)):
            disk.write_atomically(self.locate(name), data)

    def publish(self, file: Path, name: str) -> Path:
        path = self.locate(name)
        with disk.store_errors(path):
            disk.rename_durably(file, path)
        return path

    def fetch(self, name: str, digest: str) -> Path:
        """Return the file itself; the reader verifies its content."""
        return self.locate(name)

    def drop_copy(self, name: str) -> bool:
        """Return False: the file is the only copy."""
        return False

    def stat(self, name: str) -> BlobStat | None:
        with disk.store_errors(self.locate(name)):
            return _stat(self.locate(name))

    def list_blobs(self, folder: str = "") -> dict[str, BlobStat]:
        found: dict[str, BlobStat] = {}
        with disk.store_errors(self.root):
            for top, _, files in os.walk(self.root / folder, onerror=_raise_unless_missing):
                for path in (Path(top, file) for file in files):
                    if status := _stat(path):
                        found[path.relative_to(self.root).as_posix()] = status
        return dict(sorted(found.items()))

    def move(self, name: str, target: str) -> None:
        source, path = self.locate(name), self.locate(target)
        with disk.store_errors(path):
            disk.make_folder(path.parent)
            if source.exists():
                disk.rename_durably(source, path)
                disk.sync_folder(source.parent)

    def delete(self, *names: str) -> None:
        for path in map(self.locate, names):
            with disk.store_errors(path):
                if path.exists():
                    path.unlink(missing_ok=True)
                    disk.sync_folder(path.parent)  # the order survives a power failure

    def find_problem(self, name: str, size: int, digest: str, depth: Depth) -> str | None:
        found = self.stat(name)
        problem = find_size_problem(size, found.size if found else None)
        if problem or depth == "size":
            return problem
        path = self.locate(name)
        with disk.store_errors(path):
            try:
                intact = self._checksums.is_intact(path, digest, use_cache=depth == "checksum")
            except FileNotFoundError:  # another process has just moved it to quarantine
                return find_size_problem(size, None)
        return None if intact else MISMATCH

    def list_litter(self) -> list[str]:
        return [name for name in self.list_blobs(_LOCKS) if self.is_idle(name)]

    @contextmanager
    def in_use(self, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        cleaned = f"{self.root} is being cleaned up (`store gc`)"
        with share_lock(self._lock(_IN_USE), describe_wait(cleaned, on_wait)):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self.try_hold(_IN_USE) as acquired:
            if not acquired:
                raise StoreError(f"a run is using {self.root}; try again when it has ended.")
            yield

    def hold(self, lock: str, on_wait: OnWait = None) -> AbstractContextManager[None]:
        """Hold a named lock, waiting for it if necessary."""
        return hold_lock(self._lock(lock), on_wait)

    def try_hold(self, lock: str) -> AbstractContextManager[bool]:
        """Try to hold a named lock without waiting; yield whether it was acquired."""
        return try_lock(self._lock(lock))

    def is_idle(self, name: str) -> bool:
        """Return whether no process holds the lock that guards a blob."""
        return is_free(self._lock(lock_name(name)))

    def _lock(self, lock: str) -> Path:
        return self.root / _LOCKS / f"{lock}.lock"


def _stat(path: Path) -> BlobStat | None:
    """Return size and time of a file; None if there is no regular file of this name."""
    try:
        status = path.stat()
    except OSError as error:
        if is_absent(error):
            return None
        raise
    if not is_regular(status):
        return None
    return BlobStat(status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
