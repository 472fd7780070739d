"""Damaged run records and pointers in quarantine. They cannot be recomputed.

The artifacts that they referred to are unknown, so they stay until an intact record of the same name replaces
them or the user discards them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.artifacts import pointers, run_log

if TYPE_CHECKING:
    from storage.artifacts.store import ArtifactStore

# In run records and pointers alike. Other "source" keys hold objects, not strings.
_SOURCE = re.compile(rb'"source": ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class QuarantinedRecord:
    """A run record or pointer in quarantine.

    Attributes
    ----------
    folder, name : str
        Where it was.
    raw : bytes
        Its damaged content.
    replaced : bool
        Whether an intact record has taken its place.
    """

    folder: str
    name: str
    raw: bytes
    replaced: bool

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_run(self) -> bool:
        """Whether it is the record of a run."""
        return self.folder == run_log.FOLDER

    @property
    def pinned(self) -> bool:
        """Whether it is, or may be, the record of a pinned run."""
        return self.is_run and run_log.may_be_pinned(self.raw)

    @property
    def source(self) -> str | None:
        """The source that it names, if that can still be read."""
        found = _SOURCE.search(self.raw)
        try:
            return str(json.loads(found[1])) if found else None
        except ValueError:
            return None


def find_quarantined(store: ArtifactStore) -> list[QuarantinedRecord]:
    """List the run records and pointers in quarantine."""
    found = []
    for folder in (run_log.FOLDER, pointers.FOLDER):
        records = store.records(folder)
        for name, raw in records.quarantined.read_all().items():
            found.append(QuarantinedRecord(folder, name, raw, records.read(name) is not None))
    return found


def delete_quarantined(store: ArtifactStore, given_up: Iterable[QuarantinedRecord]) -> None:
    """Delete records from quarantine, unless another one of the same name has arrived there since."""
    for one in given_up:
        records = store.records(one.folder)
        with records.hold(one.name):  # `quarantine_record` holds it too
            if records.quarantined.read(one.name) == one.raw:
                records.quarantined.remove(one.name)
