"""Objects at an fsspec address (`s3://`, `gs://`, `file://`, …): each exists completely or not at all.

An object store publishes an object once it is complete, provided that its length is announced first. Files
are therefore uploaded as a whole; S3 would publish the part of a stream that was written before an exception.
On other file systems a file is uploaded under a temporary name and renamed.

Credentials come from the environment of each kind of store (for S3 the AWS variables, profiles and roles),
never from the address, and appear in no message.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from storage.artifacts.blobs import BlobStat
from storage.artifacts.disk import TEMPORARY
from storage.credentials import hide_secrets
from storage.errors import ConfigError, StoreUnreachable
from storage.permissions import make_users_folder, users_file_mode
from storage.urls import redact, split_address

T = TypeVar("T")

_PACKAGES = {
    "s3": "labelscape[s3]",
    "s3a": "labelscape[s3]",
    "gs": "labelscape[gcs]",
    "gcs": "labelscape[gcs]",
}
_S3 = {"s3", "s3a"}
_FOLDERS = {"file", "local"}
# Report an unreachable server after seconds, and one that hangs after minutes.
_S3_OPTIONS = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 1}}}
_S3_ATTEMPTS = 3
_PARALLEL_READS = 16
_CHUNK_BYTES = 8 * 2**20
_TIMES = ("LastModified", "updated", "mtime", "modified", "created")


class Remote:
    """The objects below one address, by name.

    Parameters
    ----------
    uri : str
        For instance `s3://bucket/folder`.

    Raises
    ------
    ConfigError
        If the address cannot be used or a package is missing; no server is contacted.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._protocol = _check(self.uri)
        self._files, self._root = _connect(self.uri, self._protocol)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object, or None if it does not exist."""
        # One stream: reading in several streams would first request the size.
        options = {"max_concurrency": 1} if self._protocol in _S3 else {}
        return self._unless_missing(lambda path: bytes(self._files.cat_file(path, **options)), name)

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the content of those small objects that exist, read in parallel."""
        asked = list(names)
        with ThreadPoolExecutor(_PARALLEL_READS) as threads:
            found = zip(asked, threads.map(self.read, asked), strict=True)
        return {name: content for name, content in found if content is not None}

    def write(self, name: str, data: bytes) -> None:
        """Write a small object, replacing the old one."""
        self._put(name, lambda path: self._files.pipe_file(path, data))

    def upload(self, file: Path, name: str) -> None:
        """Upload a file."""
        self._put(name, lambda path: self._files.put_file(str(file), path))

    def download(self, name: str, file: Path) -> bool:
        """Download an object to a file; False if it does not exist."""
        return (
            self._unless_missing(lambda path: self._files.get_file(path, str(file)) or True, name) is not None
        )

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 of an object, read in chunks, or None if it does not exist."""

        def hash_all(path: str) -> str:
            found = hashlib.sha256()
            with self._files.open(path, "rb", block_size=_CHUNK_BYTES) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    found.update(chunk)
            return found.hexdigest()

        return self._unless_missing(hash_all, name)

    def stat(self, name: str) -> BlobStat | None:
        """Return size and time of an object, or None if it does not exist."""
        return self._unless_missing(lambda path: _stat(self._files.info(path)), name)

    def list_objects(self, folder: str = "") -> dict[str, BlobStat]:
        """Return all objects, or those in a folder, by name."""

        def find(path: str) -> dict[str, BlobStat]:
            found = self._files.find(path, detail=True)
            return {
                path.removeprefix(f"{self._root}/"): _stat(info)
                for path, info in found.items()
                # An empty folder that is being filled may be listed as an object.
                if path.startswith(f"{self._root}/") and info["type"] == "file"
            }

        return self._unless_missing(find, folder) or {}

    def copy(self, name: str, target: str) -> None:
        """Copy an object; no error if it does not exist."""
        self._unless_missing(
            lambda path: self._create(self._path(target), lambda new: self._files.cp_file(path, new)), name
        )

    def remove(self, *names: str) -> None:
        """Remove objects in this order; no error if one does not exist."""
        for name in names:
            self._unless_missing(lambda path: self._files.rm_file(path), name)

    def _put(self, name: str, put: Callable[[str], Any]) -> None:
        path = self._path(name)
        if self._protocol in _PACKAGES:
            self._call(lambda: put(path))
            return
        temporary = f"{path}.{uuid.uuid4().hex}{TEMPORARY}"

        def put_and_move() -> None:
            self._create(temporary, put)
            self._files.mv(temporary, path)

        self._call(put_and_move)

    def _create(self, path: str, put: Callable[[str], Any]) -> None:
        """Create an object; in a shared folder it is for everybody whom the umask of the user admits."""
        if self._protocol not in _FOLDERS:
            put(path)
            return
        make_users_folder(Path(path).parent)
        put(path)
        Path(path).chmod(users_file_mode())

    def _unless_missing(self, request: Callable[[str], T], name: str) -> T | None:
        """Make a request about an object; None if the object does not exist."""

        def call_or_none() -> T | None:
            try:
                return request(self._path(name))
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return None

        return self._call(call_or_none)

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:  # each kind of store has its own error classes
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreUnreachable:
        place = redact(self.uri)
        text = hide_secrets(" ".join(str(error).split()))[:300] or type(error).__name__
        if isinstance(error, FileNotFoundError):
            what = (
                f"the store {place} does not exist ({text}). Create the bucket or folder, or correct "
                "store.uri"
            )
        elif isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            what = (
                f"the store {place} denies access ({text}). Use credentials that may read, write and list "
                "there, set up as that store expects (S3: AWS_ACCESS_KEY_ID or a profile)"
            )
        else:
            what = (
                f"the store {place} cannot be used ({type(error).__name__}: {text}). Check the address "
                "(store.uri) and that its server answers"
            )
        return StoreUnreachable(f"{what}; stored artifacts are intact, and finished stages are kept.")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")


def _check(uri: str) -> str:
    """Return the protocol of an address; the error message does not repeat a password in it."""
    found = split_address(uri)
    parts = urlsplit(found.public)
    if not parts.scheme or "://" not in uri or not (parts.netloc or parts.path):
        raise ConfigError(
            f"store.uri {found.public!r} is not the address of a store; expected for instance "
            "s3://bucket/folder, gs://bucket/folder or file:///shared/folder."
        )
    if found.login or found.tail:
        what = "a user name or a password" if found.login else "a query (after ?) or a fragment (after #)"
        raise ConfigError(
            f"store.uri {found.public!r} contains {what}; leave it out and set up credentials "
            "as that store expects (S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)."
        )
    return parts.scheme


def _connect(uri: str, protocol: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    # Other processes write too, so listings must not be cached.
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if protocol in _S3:
        options |= _S3_OPTIONS
    if protocol in _FOLDERS:
        options = {"auto_mkdir": True}
    try:
        files, root = url_to_fs(uri, **options)
    except ImportError as error:
        package = _PACKAGES.get(protocol)
        remedy = f'pip install "{package}"' if package else "install it"
        raise ConfigError(
            f"{protocol}:// needs a package that is not installed ({error}); {remedy}."
        ) from None
    except ValueError as error:
        raise ConfigError(f"store.uri {redact(uri)!r}: {hide_secrets(str(error))}.") from None
    if protocol in _S3:
        files.retries = _S3_ATTEMPTS
    return files, str(root).rstrip("/")


def _code(error: BaseException) -> str | None:
    """Return the error code of an S3 server."""
    response = getattr(error.__cause__, "response", None) or {}
    code: str | None = response.get("Error", {}).get("Code")
    return code


def _stat(info: dict[str, Any]) -> BlobStat:
    time = next(info[name] for name in _TIMES if info.get(name) is not None)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    elif not isinstance(time, datetime):
        time = datetime.fromtimestamp(time, UTC)
    return BlobStat(int(info["size"]), time)
