"""The runs that a store has seen: with which configuration, and which artifact each stage had.

A run is named by what it gave: one that finds everything unchanged is the same run once more, not another
one, so that a schedule does not crowd out the history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from storage.artifacts import disk
from storage.artifacts.blobs import FolderShelf, Shelf, put_aside
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.errors import StoreError

if TYPE_CHECKING:
    from storage.artifacts.store import Store

FOLDER = "runs"
_ID_LENGTH = 12
# Letters of a name that suffice, where nothing else begins so.
LEAST_PREFIX = 4
# What reading a damaged record raises.
_UNREADABLE = (ValueError, KeyError, TypeError, StoreError)
_UNPINNED = b'"pinned": false'
# The stage whose artifact is the record of a run in the tracker, and no result.
TRACKING = "tracking"


@dataclass(frozen=True)
class LoggedRun:
    """One run.

    Attributes
    ----------
    name, experiment, source : str
        What it was called, the experiment it belongs to, the place its items came from.
    config : mapping
        Its configuration, with which it can be repeated.
    stages : mapping of str to ArtifactRef
        The artifact of each stage by the stage's label.
    seconds : float
        What it took, the last time.
    tracked : mapping or None
        Where it was tracked: `uri`, `run_id`.
    problem : str or None
        Why it was not tracked.
    created, repeated : str
        When it was first and last seen, in ISO 8601.
    pinned : bool
        Kept whatever its age.
    changes : mapping or None
        What happened to the items since the run before it, see `tasks.changes`.
    damaged : tuple of mappings
        Artifacts that it found damaged and computed anew: `artifact`, `reason`.
    unrecorded : str or None
        Why Prefect does not know of it.
    until : str or None
        The last stage that it was to reach, None for all.
    """

    name: str
    experiment: str
    source: str
    config: Mapping[str, Any]
    stages: Mapping[str, ArtifactRef]
    seconds: float = 0.0
    tracked: Mapping[str, str] | None = None
    problem: str | None = None
    created: str = ""
    repeated: str = ""
    pinned: bool = False
    changes: Mapping[str, Any] | None = None
    damaged: tuple[Mapping[str, str], ...] = ()
    unrecorded: str | None = None
    until: str | None = None

    @property
    def id(self) -> str:
        """Digest of the configuration and the results; where it was tracked does not count."""
        results = {label: ref.digest for label, ref in self.stages.items() if ref.stage != TRACKING}
        text = canonical_json({"config": self.config, "stages": results})
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "stages": {label: ref.to_json() for label, ref in self.stages.items()}}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> LoggedRun:
        """From `to_json`, of a later version too: what is not known here is left out."""
        own = {item.name: known[item.name] for item in fields(cls) if item.name in known}
        stages = {label: ArtifactRef.from_json(ref) for label, ref in known["stages"].items()}
        return cls(**{**own, "stages": stages, "damaged": tuple(known.get("damaged", ()))})


class RunLog:
    """The runs of a store, one sealed JSON file each.

    Parameters
    ----------
    place : Path or Shelf
        The folder of a local store, or a shelf of any store, see `of`.
    """

    def __init__(self, place: Path | Shelf) -> None:
        self._shelf = FolderShelf(place, FOLDER) if isinstance(place, Path) else place

    @classmethod
    def of(cls, store: Store) -> RunLog:
        """The runs of a store, wherever it lies."""
        return cls(store.shelf(FOLDER))

    def add(self, run: LoggedRun) -> LoggedRun:
        """Keep a run; one that was seen before keeps its first date, its pin and what happened in it.

        Of one whose record was damaged the pin alone can be kept, see `may_be_pinned`.
        """
        with self._shelf.hold(run.id):
            known = self._read(run.id)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            kept = replace(run, created=known.created if known else now, repeated=now)
            if known is None:
                kept = replace(kept, pinned=run.pinned or self._was_pinned(run.id))
            else:
                kept = replace(
                    kept,
                    pinned=known.pinned,
                    tracked=run.tracked or known.tracked,
                    changes=run.changes or known.changes,
                    damaged=(*known.damaged, *run.damaged),
                    unrecorded=run.unrecorded or known.unrecorded,
                )
            self._write(kept)
        return kept

    def update(self, run: LoggedRun) -> None:
        """Replace what is known of a run; its dates and its pin stay as they are."""
        with self._shelf.hold(run.id):
            known = self._read(run.id) or run
            kept = replace(run, created=known.created, repeated=known.repeated, pinned=known.pinned)
            self._write(kept)

    def pin(self, run: LoggedRun, pinned: bool = True) -> None:
        """Keep a run whatever its age, or no longer."""
        with self._shelf.hold(run.id):
            self._write(replace(self._read(run.id) or run, pinned=pinned))

    def remove(self, run: LoggedRun) -> None:
        """Forget a run; its artifacts stay."""
        with self._shelf.hold(run.id):
            self._shelf.remove(run.id)

    def sweep(self) -> Sequence[PurePath]:
        """Remove what killed processes left half-written; gives what was removed."""
        return self._shelf.sweep()

    def leftovers(self) -> Sequence[PurePath]:
        """What `sweep` would remove."""
        return self._shelf.leftovers()

    def verify(self) -> Iterator[tuple[str, str]]:
        """Records that are damaged, and why; each is set aside."""
        for name, raw in self._shelf.read_all().items():
            try:
                LoggedRun.from_json(disk.unseal(raw))
            except _UNREADABLE as error:
                if put_aside(self._shelf, name, raw):
                    yield f"{FOLDER}/{name}", f"its record cannot be trusted: {error}"

    def unreadable(self) -> list[str]:
        """Names of records that are damaged."""
        return [f"{FOLDER}/{name}" for name, raw in self._shelf.read_all().items() if _parse(raw) is None]

    def entries(self) -> list[LoggedRun]:
        """Every run that can be read, newest first."""
        found = [run for raw in self._shelf.read_all().values() if (run := _parse(raw))]
        return sorted(found, key=lambda run: (run.repeated, run.id), reverse=True)

    def find(self, name: str) -> LoggedRun:
        """The run of an id or its tracker's id, or of the beginning of one; StoreError when there is none."""
        runs = self.entries()
        near = [run for run in runs if any(known.startswith(name) for known in _ids(run))]
        if len(name) < LEAST_PREFIX or not near:
            known = ", ".join(run.id for run in runs[:5]) or "none yet"
            raise StoreError(
                f"no run {name!r} in {self._shelf.place}; give {LEAST_PREFIX} or more of its first letters. "
                f"Newest runs: {known}."
            )
        if len(near) > 1:
            raise StoreError(
                f"{name!r} may be one of the runs {', '.join(run.id for run in near)}; give more of it."
            )
        return near[0]

    def _read(self, run_id: str) -> LoggedRun | None:
        return _parse(self._shelf.read(run_id))

    def _was_pinned(self, run_id: str) -> bool:
        damaged = self._shelf.read(run_id) or self._shelf.aside().read(run_id)
        return damaged is not None and may_be_pinned(damaged)

    def _write(self, run: LoggedRun) -> None:
        self._shelf.write(run.id, disk.seal(run.to_json()))


def may_be_pinned(raw: bytes) -> bool:
    """Whether a damaged record may be that of a pinned run; when in doubt it is."""
    return _UNPINNED not in raw


def _parse(raw: bytes | None) -> LoggedRun | None:
    try:
        return LoggedRun.from_json(disk.unseal(raw)) if raw else None
    except _UNREADABLE:
        return None


def _ids(run: LoggedRun) -> Iterator[str]:
    yield run.id
    if run.tracked:
        yield run.tracked["run_id"]
