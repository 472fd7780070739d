"""Small mutable notes by name, such as the last run of a source, on a shelf of any store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from storage import disk
from storage.artifacts import SetAside
from storage.errors import StoreError, StoreUnreachable
from storage.shelves import Shelf

FOLDER = "pointers"


class Notes:
    """Sealed JSON notes; the latest wins, and readers see the old or the new one whole.

    Parameters
    ----------
    shelf : Shelf
        Where they lie.
    set_aside : list of SetAside
        Takes what is found damaged. Such a note counts as none.
    """

    def __init__(self, shelf: Shelf, set_aside: list[SetAside]) -> None:
        self._shelf = shelf
        self._set_aside = set_aside

    def remember(self, name: str, payload: Mapping[str, Any]) -> None:
        """Keep a note; any text can be its name."""
        file = quote(name, safe="")
        with self._shelf.hold(file):
            self._shelf.write(file, disk.seal({"name": name, "payload": dict(payload)}))

    def last(self, name: str) -> dict[str, Any] | None:
        """What was kept, or None."""
        file = quote(name, safe="")
        return self._payload(file, self._shelf.read(file))

    def all(self) -> dict[str, dict[str, Any]]:
        """Every note by name."""
        found = {unquote(file): self._payload(file, raw) for file, raw in self._shelf.read_all().items()}
        return {name: payload for name, payload in found.items() if payload is not None}

    def verify(self) -> Iterator[tuple[str, str]]:
        """Notes that are damaged, and why; each is set aside."""
        known = len(self._set_aside)
        self.all()
        yield from ((one.name, one.reason) for one in self._set_aside[known:])

    def _payload(self, file: str, raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        try:
            return dict(disk.unseal(raw)["payload"])
        except (ValueError, KeyError, TypeError) as error:
            # Where nothing may be written, it counts as none all the same.
            with suppress(StoreError, StoreUnreachable):
                self._move_aside(file, raw)
            self._set_aside.append(SetAside(f"{FOLDER}/{file}", f"its note cannot be trusted: {error}"))
            return None

    def _move_aside(self, file: str, raw: bytes) -> None:
        with self._shelf.hold(file):
            # Somebody else may have put a good one in its place since.
            if self._shelf.read(file) == raw:
                self._shelf.set_aside(file)
