"""Small mutable notes by name, such as the last run of a source, on a shelf of any store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from storage.artifacts import disk
from storage.artifacts.artifact import SetAside
from storage.artifacts.blobs import Shelf, put_aside
from storage.errors import StoreError, StoreUnreachable

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
        for file, raw in self._shelf.read_all().items():
            if (problem := _problem(raw)) and put_aside(self._shelf, file, raw):
                yield f"{FOLDER}/{file}", problem

    def unreadable(self) -> list[str]:
        """Names of notes that are damaged; they stay where they are."""
        return [f"{FOLDER}/{file}" for file, raw in self._shelf.read_all().items() if _problem(raw)]

    def _payload(self, file: str, raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        if (problem := _problem(raw)) is None:
            return _open(raw)
        # Where nothing may be written, it counts as none all the same.
        with suppress(StoreError, StoreUnreachable):
            if not put_aside(self._shelf, file, raw):
                return self._payload(file, self._shelf.read(file))
            self._set_aside.append(SetAside(f"{FOLDER}/{file}", problem))
        return None


def _open(raw: bytes) -> dict[str, Any]:
    return dict(disk.unseal(raw)["payload"])


def _problem(raw: bytes) -> str | None:
    try:
        _open(raw)
    except (ValueError, KeyError, TypeError) as error:
        return f"its note cannot be trusted: {error}"
    return None
