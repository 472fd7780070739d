"""Pointers: small mutable JSON records by name, such as the last run of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from storage.artifacts import disk
from storage.artifacts.artifact import QuarantinedBlob
from storage.artifacts.records import Records, quarantine_record
from storage.errors import StoreError, StoreUnreachable

FOLDER = "pointers"


class Pointers:
    """JSON records with checksums; the last write wins, and readers see the old or the new one completely.

    Parameters
    ----------
    records : Records
    quarantined : list of QuarantinedBlob
        Damaged pointers found here are appended. A damaged pointer counts as missing.
    """

    def __init__(self, records: Records, quarantined: list[QuarantinedBlob]) -> None:
        self._records = records
        self._quarantined = quarantined

    def write(self, name: str, payload: Mapping[str, Any]) -> None:
        """Write a pointer; its name may be any text."""
        record = quote(name, safe="")
        with self._records.hold(record):
            self._records.write(record, disk.seal({"name": name, "payload": dict(payload)}))

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the payload of a pointer, or None."""
        record = quote(name, safe="")
        return self._payload(record, self._records.read(record))

    def read_all(self, prefixes: tuple[str, ...] = ("",)) -> dict[str, dict[str, Any]]:
        """Return the payloads of all pointers whose names begin with one of `prefixes`, by name."""
        found = {
            unquote(one): self._payload(one, raw)
            for one, raw in self._records.read_all().items()
            if unquote(one).startswith(prefixes)
        }
        return {name: payload for name, payload in found.items() if payload is not None}

    def verify(self) -> Iterator[tuple[str, str]]:
        """Move damaged pointers to quarantine; return the name and reason of each."""
        for record, raw in self._records.read_all().items():
            if (problem := _find_problem(raw)) and quarantine_record(self._records, record, raw):
                yield f"{FOLDER}/{record}", problem

    def unreadable(self) -> list[str]:
        """List damaged pointers without moving them."""
        return [f"{FOLDER}/{one}" for one, raw in self._records.read_all().items() if _find_problem(raw)]

    def _payload(self, record: str, raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        if (problem := _find_problem(raw)) is None:
            return _unpack(raw)
        # On a read-only store the damaged pointer stays in place and still counts as missing.
        with suppress(StoreError, StoreUnreachable):
            if not quarantine_record(self._records, record, raw):
                return self._payload(record, self._records.read(record))
            self._quarantined.append(QuarantinedBlob(f"{FOLDER}/{record}", problem))
        return None


def _unpack(raw: bytes) -> dict[str, Any]:
    return dict(disk.unseal(raw)["payload"])


def _find_problem(raw: bytes) -> str | None:
    try:
        _unpack(raw)
    except (ValueError, KeyError, TypeError) as error:
        return f"its record is damaged: {error}"
    return None
