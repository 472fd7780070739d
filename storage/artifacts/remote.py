"""Objects at an fsspec address (`s3://`, `gs://`, `file://`, …): each is there whole, or not there at all.

Object stores show an object when all of it has arrived, provided that its length is announced first: a file
that is put, not one that is written bit by bit, of which S3 would publish the part written before an
exception. Everywhere else a file is put under another name and moved.

Credentials come from the surroundings that each kind of store has (for S3 the AWS variables, profiles and
roles), never from the address, and appear in no message.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from storage.artifacts.disk import TEMPORARY
from storage.errors import ConfigError, StoreUnreachable
from storage.tracking.engine import redact

T = TypeVar("T")

_PACKAGES = {
    "s3": "labelscape[s3]",
    "s3a": "labelscape[s3]",
    "gs": "labelscape[gcs]",
    "gcs": "labelscape[gcs]",
}
_S3 = {"s3", "s3a"}
# Silence is noticed in seconds where nobody listens and in minutes where a server hangs.
_S3_OPTIONS = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 1}}}
_S3_TRIES = 3
_SIDE_BY_SIDE = 16
_PORTION = 8 * 2**20
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_TIMES = ("LastModified", "updated", "mtime", "modified", "created")


@dataclass(frozen=True)
class Stored:
    """What a listing says of an object; `modified` by the clock of the store."""

    size: int
    modified: datetime


class Remote:
    """The objects below one address, by name.

    Parameters
    ----------
    uri : str
        For instance `s3://bucket/folder`.

    Raises
    ------
    ConfigError
        The address cannot be used, or a package is missing; nothing has been asked of a server yet.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._protocol = _check(self.uri)
        self._files, self._root = _connect(self.uri, self._protocol)

    def read(self, name: str) -> bytes | None:
        """The content of a small object, None when there is none."""
        # Its size is not asked for first, as it would be to read a large one in several streams.
        options = {"max_concurrency": 1} if self._protocol in _S3 else {}
        return self._ask_for(lambda path: bytes(self._files.cat_file(path, **options)), name)

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """The content of those small objects that are there, asked for side by side."""
        asked = list(names)
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            found = zip(asked, threads.map(self.read, asked), strict=True)
        return {name: content for name, content in found if content is not None}

    def write(self, name: str, data: bytes) -> None:
        """Give a small object new content."""
        self._place(name, lambda path: self._files.pipe_file(path, data))

    def upload(self, file: Path, name: str) -> None:
        """Put a file."""
        self._place(name, lambda path: self._files.put_file(str(file), path))

    def download(self, name: str, file: Path) -> bool:
        """Write an object to a file; False when there is none."""
        return self._ask_for(lambda path: self._files.get_file(path, str(file)) or True, name) is not None

    def digest(self, name: str) -> str | None:
        """SHA-256 of an object, read in portions; None when there is none."""

        def hash_all(path: str) -> str:
            found = hashlib.sha256()
            with self._files.open(path, "rb", block_size=_PORTION) as stream:
                while portion := stream.read(_PORTION):
                    found.update(portion)
            return found.hexdigest()

        return self._ask_for(hash_all, name)

    def look(self, name: str) -> Stored | None:
        """Size and time of an object, None when there is none."""
        return self._ask_for(lambda path: _stored(self._files.info(path)), name)

    def listing(self, folder: str = "") -> dict[str, Stored]:
        """Every object, or every one in a folder, by name."""

        def find(path: str) -> dict[str, Stored]:
            found = self._files.find(path, detail=True)
            return {
                path.removeprefix(f"{self._root}/"): _stored(info)
                for path, info in found.items()
                # An empty folder that is being filled may be listed as itself.
                if path.startswith(f"{self._root}/") and info["type"] == "file"
            }

        return self._ask_for(find, folder) or {}

    def copy(self, name: str, target: str) -> None:
        """Copy an object that may be gone."""
        self._ask_for(lambda path: self._files.cp_file(path, self._path(target)), name)

    def remove(self, *names: str) -> None:
        """Remove objects, in this order; those that are gone are no error."""
        for name in names:
            self._ask_for(lambda path: self._files.rm_file(path), name)

    def _place(self, name: str, put: Callable[[str], Any]) -> None:
        path = self._path(name)
        if self._protocol in _PACKAGES:
            self._call(lambda: put(path))
            return
        temporary = f"{path}.{uuid.uuid4().hex}{TEMPORARY}"

        def put_and_move() -> None:
            put(temporary)
            self._files.mv(temporary, path)

        self._call(put_and_move)

    def _ask_for(self, ask: Callable[[str], T], name: str) -> T | None:
        """What is asked of an object, None when there is none."""

        def ask_or_none() -> T | None:
            try:
                return ask(self._path(name))
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return None

        return self._call(ask_or_none)

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:  # each kind of store has a family of errors of its own
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreUnreachable:
        place = redact(self.uri)
        text = _PASSWORD.sub("", " ".join(str(error).split()))[:300] or type(error).__name__
        if isinstance(error, FileNotFoundError):
            what = f"the store {place} is not there ({text}). Make the bucket or folder, or correct store.uri"
        elif isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            what = (
                f"the store {place} gives no permission ({text}). Use credentials that may read, write and "
                "list there, given in the way of that store (S3: AWS_ACCESS_KEY_ID or a profile)"
            )
        else:
            what = (
                f"the store {place} cannot be used ({type(error).__name__}: {text}). Check the address "
                "(store.uri) and that its server answers"
            )
        return StoreUnreachable(f"{what}; what was stored is whole, and finished stages are kept.")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")


def _check(uri: str) -> str:
    """The protocol of an address, or an error that does not repeat a password in it."""
    parts = urlsplit(uri)
    if not parts.scheme or "://" not in uri or not (parts.netloc or parts.path):
        raise ConfigError(
            f"store.uri {redact(uri)!r} is no address of a store; expected for instance s3://bucket/folder, "
            "gs://bucket/folder or file:///shared/folder."
        )
    if "@" in parts.netloc:
        raise ConfigError(
            f"store.uri {redact(uri)!r} holds a user or a password; leave them out and give them in the way "
            "of that store (S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)."
        )
    return parts.scheme


def _connect(uri: str, protocol: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    # Other processes write as well: nothing about them may be remembered.
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if protocol in _S3:
        options |= _S3_OPTIONS
    if protocol in ("file", "local"):
        options = {"auto_mkdir": True}
    try:
        files, root = url_to_fs(uri, **options)
    except ImportError as error:
        package = _PACKAGES.get(protocol)
        remedy = f'pip install "{package}"' if package else "install it"
        raise ConfigError(f"{protocol}:// needs a package that is missing ({error}); {remedy}.") from None
    except ValueError as error:
        raise ConfigError(f"store.uri {uri!r}: {error}.") from None
    if protocol in _S3:
        files.retries = _S3_TRIES
    return files, str(root).rstrip("/")


def _code(error: BaseException) -> str | None:
    """What an S3 server called an error."""
    response = getattr(error.__cause__, "response", None) or {}
    return response.get("Error", {}).get("Code")


def _stored(info: dict[str, Any]) -> Stored:
    time = next(info[name] for name in _TIMES if info.get(name) is not None)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    elif not isinstance(time, datetime):
        time = datetime.fromtimestamp(time, UTC)
    return Stored(int(info["size"]), time)
