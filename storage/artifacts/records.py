"""Records: small JSON files by name in one folder of a store, such as `runs/` and `pointers/`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from storage.artifacts.blobs import Blobs
from storage.artifacts.keys import QUARANTINE
from storage.artifacts.manifest import record_lock

_SUFFIX = ".json"


@dataclass(frozen=True)
class Records:
    """The records of one folder.

    The processes of one machine take turns to change a record. Machines that share a store do not: the later
    of two simultaneous changes wins.

    Attributes
    ----------
    blobs : Blobs
    folder : str
    """

    blobs: Blobs
    folder: str

    @property
    def place(self) -> str:
        """Path or address of the folder, for messages."""
        return f"{self.blobs.place}/{self.folder}"

    def read_all(self) -> dict[str, bytes]:
        """Return every record by name."""
        names = [name for name in self.blobs.list_blobs(self.folder) if name.endswith(_SUFFIX)]
        found = self.blobs.read_many(names)
        return {
            name.removeprefix(f"{self.folder}/").removesuffix(_SUFFIX): found[name] for name in sorted(found)
        }

    def read(self, name: str) -> bytes | None:
        """Return a record, or None if it does not exist."""
        return self.blobs.read(self._blob(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a record; a caller that changes an existing one holds its lock."""
        self.blobs.write(self._blob(name), data)

    def remove(self, name: str) -> None:
        """Remove a record; no error if it does not exist."""
        self.blobs.delete(self._blob(name))

    def hold(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a record."""
        return self.blobs.local.hold(record_lock(self.folder, name))

    def move_to_quarantine(self, name: str) -> None:
        """Move a damaged record to quarantine; the caller holds its lock."""
        self.blobs.move(self._blob(name), f"{QUARANTINE}/{self._blob(name)}")

    @property
    def quarantined(self) -> Records:
        """The records of this folder that are in quarantine."""
        return Records(self.blobs, f"{QUARANTINE}/{self.folder}")

    def _blob(self, name: str) -> str:
        return f"{self.folder}/{name}{_SUFFIX}"


def quarantine_record(records: Records, name: str, raw: bytes) -> bool:
    """Move a record that was read as `raw` to quarantine; False if it has been replaced or removed since."""
    with records.hold(name):
        unchanged = records.read(name) == raw
        if unchanged:
            records.move_to_quarantine(name)
    return unchanged
