"""Blobs at an fsspec address, shared by any number of machines, with a local copy of what is read.

Data are prepared in the local folder, verified there and uploaded, and the manifest is written last. A reader
therefore sees the old artifact, the new one or none, never a part of one. There are no locks between
machines: two that compute the same recipe at once both upload the same result. An artifact that is read is
downloaded once and verified by its digest; other artifacts are not downloaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PurePosixPath

from storage.artifacts import disk, leases
from storage.artifacts.blobs import MISMATCH, BlobStat, DamagedBlob, Depth, LocalBlobs
from storage.artifacts.manifest import find_size_problem, lock_name
from storage.artifacts.remote import Remote

GRACE = timedelta(hours=1)


class FsspecBlobs:
    """Blobs at an address.

    Parameters
    ----------
    remote : Remote
    copies : LocalBlobs
        Folder for local copies and locks; it may be deleted at any time.
    grace : timedelta
        See `Blobs`.
    """

    def __init__(self, remote: Remote, copies: LocalBlobs, grace: timedelta = GRACE) -> None:
        self.remote = remote
        self.grace = grace
        self._copies = copies
        self._lease: leases.Lease | None = None

    @property
    def place(self) -> str:
        return self.remote.uri

    @property
    def local(self) -> LocalBlobs:
        return self._copies

    def check_access(self) -> None:
        """Raise if the address or the credentials cannot be used."""
        self.remote.list_objects(leases.FOLDER)

    def locate(self, name: str) -> PurePosixPath:
        return PurePosixPath(name)

    def read(self, name: str) -> bytes | None:
        return self.remote.read(name)

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        return self.remote.read_many(names)

    def write(self, name: str, data: bytes) -> None:
        self.remote.write(name, data)

    def publish(self, file: Path, name: str) -> Path:
        """Upload a file; it stays where it is, as the local copy."""
        self.remote.upload(file, name)
        return file

    def fetch(self, name: str, digest: str) -> Path:
        """Return the local copy, downloading and verifying it first if there is none."""
        if self._copies.stat(name) is None:
            with self._copies.hold(lock_name(name)):
                if self._copies.stat(name) is None:
                    self._download(name, digest)
        return self._copies.locate(name)

    def _download(self, name: str, digest: str) -> None:
        draft = self._copies.draft(name)
        with disk.store_errors(draft):
            disk.create_file(draft).close()
        try:
            # Retry once: a transfer error is not corruption.
            if not (self._arrives(name, digest, draft) or self._arrives(name, digest, draft)):
                raise DamagedBlob(MISMATCH)
            self._copies.publish(draft, name)
        except BaseException:
            disk.remove_quietly(draft)
            raise

    def _arrives(self, name: str, digest: str, file: Path) -> bool:
        if not self.remote.download(name, file):
            return False
        with disk.store_errors(file):
            disk.sync_file(file)
            with file.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest() == digest

    def drop_copy(self, name: str) -> bool:
        self._copies.delete(name)
        return True

    def stat(self, name: str) -> BlobStat | None:
        return self.remote.stat(name)

    def list_blobs(self, folder: str = "") -> dict[str, BlobStat]:
        return self.remote.list_objects(folder)

    def move(self, name: str, target: str) -> None:
        self.remote.copy(name, target)
        self.remote.remove(name)

    def delete(self, *names: str) -> None:
        """Delete objects; StoreError if the lease of a garbage collection may have expired."""
        if self._lease:
            self._lease.check()
        self.remote.remove(*names)

    def find_problem(self, name: str, size: int, digest: str, depth: Depth) -> str | None:
        """Check the object; unless its content is to be read, a local copy of the right size suffices."""
        if depth != "content" and (copy := self._copies.stat(name)) and copy.size == size:
            return None
        found = self.remote.stat(name)
        problem = find_size_problem(size, found.size if found else None)
        if problem is None and depth == "content" and self.remote.digest(name) != digest:
            return MISMATCH
        return problem

    def list_litter(self) -> list[str]:
        return self._lease.expired() if self._lease else []

    @contextmanager
    def in_use(self, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        """Block garbage collection on every machine."""
        with self._copies.in_use(on_wait), leases.in_use(self.remote, on_wait):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Block runs on every machine; StoreError while one is active."""
        with self._copies.exclusive(), leases.exclusive(self.remote) as lease:
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None
