"""The run log of a store: the configuration of each run and the artifact of each of its stages.

The id of a run depends on its results. A run that finds everything unchanged is the same run, not a new one,
so a schedule does not fill the history with identical runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from storage.artifacts import disk
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.records import quarantine_record
from storage.errors import StoreError

if TYPE_CHECKING:
    from storage.artifacts.store import ArtifactStore

# The command that made a run.
Kind = Literal["run", "auto", "reproduce", "annotate", "review"]

FOLDER = "runs"
_ID_LENGTH = 12
_ID = re.compile(f"[0-9a-f]{{{_ID_LENGTH}}}")
# Minimum length of an abbreviated id.
MIN_PREFIX = 4
# Raised by reading a damaged record.
_UNREADABLE = (ValueError, KeyError, TypeError, StoreError)
_UNPINNED = b'"pinned": false'
# The stage that records a run in the tracker; its artifact is not a result.
TRACKING = "tracking"


@dataclass(frozen=True)
class LoggedRun:
    """One run.

    Attributes
    ----------
    name, experiment, source : str
        Its name, its experiment, and the path or name of its source.
    config : mapping
        Its configuration, with which it can be repeated.
    stages : mapping of str to ArtifactRef
        The artifact of each stage by the stage's label.
    seconds : float
        Duration of the latest repetition.
    tracked : mapping or None
        Where it was tracked: `uri`, `run_id`.
    problem : str or None
        Why it is not tracked.
    created, repeated : str
        Time of the first and of the latest repetition, in ISO 8601.
    pinned : bool
        Whether garbage collection keeps it regardless of its age.
    changes : mapping or None
        Changes to the items since the previous run, see `tasks.changes`.
    damaged : tuple of mappings
        Artifacts that it found damaged and recomputed: `artifact`, `reason`.
    unrecorded : str or None
        Why Prefect has no record of it.
    until : str or None
        The last stage it was asked to run, None for all.
    kind : str
        The command that made it.
    flow_run : str or None
        Id of its flow run in Prefect.
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
    kind: Kind = "run"
    flow_run: str | None = None

    @property
    def id(self) -> str:
        """Digest of the kind, the configuration and the results; tracking does not change it."""
        results = {label: ref.digest for label, ref in self.stages.items() if ref.stage != TRACKING}
        text = canonical_json({"kind": self.kind, "config": self.config, "stages": results})
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "stages": {label: ref.to_json() for label, ref in self.stages.items()}}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> LoggedRun:
        """Build a run from the output of `to_json`; unknown fields are ignored."""
        own = {item.name: known[item.name] for item in fields(cls) if item.name in known}
        stages = {label: ArtifactRef.from_json(ref) for label, ref in known["stages"].items()}
        return cls(**{**own, "stages": stages, "damaged": tuple(known.get("damaged", ()))})


class RunLog:
    """The runs of a store, one JSON record each.

    Parameters
    ----------
    store : ArtifactStore
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._records = store.records(FOLDER)

    def add(self, run: LoggedRun) -> LoggedRun:
        """Record a run; a repeated run keeps its first date, its pin and its recorded events.

        If the earlier record is damaged, only the pin can be kept, see `may_be_pinned`.
        """
        with self._records.hold(run.id):
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
                    flow_run=run.flow_run or known.flow_run,
                )
            self._write(kept)
        return kept

    def update(self, run: LoggedRun) -> None:
        """Replace the record of a run, except its dates and its pin."""
        with self._records.hold(run.id):
            known = self._read(run.id) or run
            kept = replace(run, created=known.created, repeated=known.repeated, pinned=known.pinned)
            self._write(kept)

    def pin(self, run: LoggedRun, pinned: bool = True) -> None:
        """Pin or unpin a run; garbage collection keeps a pinned run regardless of its age."""
        with self._records.hold(run.id):
            self._write(replace(self._read(run.id) or run, pinned=pinned))

    def remove(self, run: LoggedRun) -> None:
        """Remove the record of a run; its artifacts stay."""
        with self._records.hold(run.id):
            self._records.remove(run.id)

    def verify(self) -> Iterator[tuple[str, str]]:
        """Move damaged records to quarantine; return the name and reason of each."""
        for name, raw in self._read_all().items():
            try:
                LoggedRun.from_json(disk.unseal(raw))
            except _UNREADABLE as error:
                if quarantine_record(self._records, name, raw):
                    yield f"{FOLDER}/{name}", f"its record is damaged: {error}"

    def unreadable(self) -> list[str]:
        """List damaged records without moving them."""
        return [f"{FOLDER}/{name}" for name, raw in self._read_all().items() if _parse(raw) is None]

    def entries(self) -> list[LoggedRun]:
        """Return all runs with an intact record, newest first."""
        found = [run for raw in self._read_all().values() if (run := _parse(raw))]
        return sorted(found, key=lambda run: (run.repeated, run.id), reverse=True)

    def find(self, name: str) -> LoggedRun:
        """Return the run with this (abbreviated) id or tracker id; StoreError if there is none."""
        runs = self.entries()
        near = [run for run in runs if any(known.startswith(name) for known in _ids(run))]
        if len(name) < MIN_PREFIX or not near:
            known = ", ".join(run.id for run in runs[:5]) or "none yet"
            raise StoreError(
                f"no run {name!r} in {self._records.place}; give at least its first {MIN_PREFIX} characters. "
                f"Newest runs: {known}."
            )
        if len(near) > 1:
            raise StoreError(
                f"{name!r} matches the runs {', '.join(run.id for run in near)}; give more characters."
            )
        return near[0]

    def _read_all(self) -> dict[str, bytes]:
        """Return the records by id; other files in the folder are not ours and are left alone."""
        return {name: raw for name, raw in self._records.read_all().items() if _ID.fullmatch(name)}

    def _read(self, run_id: str) -> LoggedRun | None:
        return _parse(self._records.read(run_id))

    def _was_pinned(self, run_id: str) -> bool:
        damaged = self._records.read(run_id) or self._records.quarantined.read(run_id)
        return damaged is not None and may_be_pinned(damaged)

    def _write(self, run: LoggedRun) -> None:
        self._records.write(run.id, disk.seal(run.to_json()))


def may_be_pinned(raw: bytes) -> bool:
    """Return whether a damaged record may be that of a pinned run; True if that is unknown."""
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
