"""Records of runs and notes of sources that were set aside as damaged: no computation brings them back.

What they named cannot be told any more, so they stay until a good one of the same name has replaced them, or
somebody gives them up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.artifacts import pointers, run_log

if TYPE_CHECKING:
    from storage.artifacts.store import Store

# In records and notes alike; what else is called so there is no text.
_SOURCE = re.compile(rb'"source": ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Lost:
    """A record or a note that was set aside.

    Attributes
    ----------
    folder, name : str
        Where it lay.
    raw : bytes
        What is left of it.
    replaced : bool
        Whether there is another one in its place.
    """

    folder: str
    name: str
    raw: bytes
    replaced: bool

    @property
    def is_run(self) -> bool:
        """Whether it was the record of a run."""
        return self.folder == run_log.FOLDER

    @property
    def pinned(self) -> bool:
        """Whether it was, or may have been, that of a pinned run."""
        return self.is_run and run_log.may_be_pinned(self.raw)

    @property
    def source(self) -> str | None:
        """The source that it names, as far as that can be read."""
        found = _SOURCE.search(self.raw)
        try:
            return str(json.loads(found[1])) if found else None
        except ValueError:
            return None


def find_lost(store: Store) -> list[Lost]:
    """All that were set aside."""
    found = []
    for folder in (run_log.FOLDER, pointers.FOLDER):
        shelf = store.shelf(folder)
        for name, raw in shelf.aside().read_all().items():
            found.append(Lost(folder, name, raw, shelf.read(name) is not None))
    return found


def forget(store: Store, given_up: Iterable[Lost]) -> None:
    """Remove what was set aside, unless another one was since."""
    for one in given_up:
        shelf = store.shelf(one.folder)
        with shelf.hold(one.name):  # as who sets one aside does
            if shelf.aside().read(one.name) == one.raw:
                shelf.aside().remove(one.name)
