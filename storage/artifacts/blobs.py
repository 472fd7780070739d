"""Small files by name in a folder of a store, wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Protocol

from storage.artifacts import disk
from storage.artifacts.keys import DAMAGED
from storage.artifacts.locks import hold_lock, is_free, try_lock

if TYPE_CHECKING:
    from storage.artifacts.remote import Remote

_ENDING = ".json"
_HALF = f"{_ENDING}{disk.TEMPORARY}"


class Shelf(Protocol):
    """What can be done with such files; a reader sees each whole, the old one or the new one."""

    @property
    def place(self) -> str:
        """Where they lie, for messages."""

    def read_all(self) -> dict[str, bytes]:
        """Every file by name."""

    def read(self, name: str) -> bytes | None:
        """One file, None when there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Give a file new content; who read it first holds it."""

    def remove(self, name: str) -> None:
        """Remove a file that may be gone."""

    def set_aside(self, name: str) -> None:
        """Put a file that cannot be trusted under `damaged/`; the caller holds it."""

    def aside(self) -> Shelf:
        """The shelf of what was set aside."""

    def sweep(self) -> Sequence[PurePath]:
        """Remove what killed processes left half-written; gives what was removed."""

    def leftovers(self) -> Sequence[PurePath]:
        """What `sweep` would remove."""

    def hold(self, name: str) -> AbstractContextManager[None]:
        """Keep others from changing a file, where that can be done."""


@dataclass(frozen=True)
class FolderShelf:
    """Files in a folder of this machine; changes of one file take turns.

    Attributes
    ----------
    root : Path
        The folder of the store.
    folder : str
        The folder in it.
    """

    root: Path
    folder: str

    @property
    def place(self) -> str:
        return str(self.root / self.folder)

    def read_all(self) -> dict[str, bytes]:
        files = sorted((self.root / self.folder).glob(f"*{_ENDING}"))
        found = {file.stem: disk.read_if_there(file) for file in files}
        return {name: data for name, data in found.items() if data is not None}

    def read(self, name: str) -> bytes | None:
        return disk.read_if_there(self._file(name))

    def write(self, name: str, data: bytes) -> None:
        with disk.store_errors(self._file(name)):
            disk.replace_durably(self._file(name), data)

    def remove(self, name: str) -> None:
        with disk.store_errors(self._file(name)):
            self._file(name).unlink(missing_ok=True)

    def set_aside(self, name: str) -> None:
        aside = self.root / DAMAGED / self.folder
        with disk.store_errors(aside):
            disk.make_folder(aside)
            self._file(name).replace(aside / self._file(name).name)

    def aside(self) -> Shelf:
        return FolderShelf(self.root, f"{DAMAGED}/{self.folder}")

    def sweep(self) -> Sequence[PurePath]:
        removed = []
        for path in sorted((self.root / self.folder).glob(f"*{_HALF}")):
            with try_lock(self._lock(path.name.removesuffix(_HALF))) as mine, disk.store_errors(path):
                if mine:
                    path.unlink(missing_ok=True)
                    removed.append(path)
        return removed

    def leftovers(self) -> Sequence[PurePath]:
        found = sorted((self.root / self.folder).glob(f"*{_HALF}"))
        return [path for path in found if is_free(self._lock(path.name.removesuffix(_HALF)))]

    def hold(self, name: str) -> AbstractContextManager[None]:
        return hold_lock(self._lock(name))

    def _lock(self, name: str) -> Path:
        return self.root / "locks" / f"{self.folder.removesuffix('s')}-{name}.lock"

    def _file(self, name: str) -> Path:
        return self.root / self.folder / f"{name}{_ENDING}"


@dataclass(frozen=True)
class RemoteShelf:
    """Objects of a shared store. Nobody can be kept out: of two changes at once the later stays."""

    remote: Remote
    folder: str

    @property
    def place(self) -> str:
        return f"{self.remote.uri}/{self.folder}"

    def read_all(self) -> dict[str, bytes]:
        names = [name for name in self.remote.listing(self.folder) if name.endswith(_ENDING)]
        found = self.remote.read_many(names)
        return {
            name.removeprefix(f"{self.folder}/").removesuffix(_ENDING): found[name] for name in sorted(found)
        }

    def read(self, name: str) -> bytes | None:
        return self.remote.read(self._object(name))

    def write(self, name: str, data: bytes) -> None:
        self.remote.write(self._object(name), data)

    def remove(self, name: str) -> None:
        self.remote.remove(self._object(name))

    def set_aside(self, name: str) -> None:
        self.remote.copy(self._object(name), f"{DAMAGED}/{self._object(name)}")
        self.remote.remove(self._object(name))

    def aside(self) -> Shelf:
        return RemoteShelf(self.remote, f"{DAMAGED}/{self.folder}")

    def sweep(self) -> Sequence[PurePath]:
        return []  # what is put appears whole or not at all

    def leftovers(self) -> Sequence[PurePath]:
        return []

    def hold(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def _object(self, name: str) -> str:
        return f"{self.folder}/{name}{_ENDING}"


def put_aside(shelf: Shelf, name: str, raw: bytes) -> bool:
    """Set a file aside that was read as `raw`; False where somebody has replaced or removed it since."""
    with shelf.hold(name):
        unchanged = shelf.read(name) == raw
        if unchanged:
            shelf.set_aside(name)
    return unchanged
