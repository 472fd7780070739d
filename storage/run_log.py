"""The runs that a store has seen: with which configuration, and which artefact each stage had.

A run is named by what it gave: one that finds everything unchanged is the same run once more, not another
one, so that a schedule does not crowd out the history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage import disk
from storage.errors import StoreError
from storage.keys import ArtifactRef, canonical_json
from storage.locks import hold_lock, try_lock

_ID_LENGTH = 12
_LEAST_PREFIX = 4
_TRACKING = "tracking"


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
        The artefact of each stage by the stage's label.
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
        Artefacts that it found damaged and computed anew: `artifact`, `reason`.
    unrecorded : str or None
        Why Prefect does not know of it.
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

    @property
    def id(self) -> str:
        """Digest of the configuration and the results; where it was tracked does not count."""
        results = {label: ref.digest for label, ref in self.stages.items() if label != _TRACKING}
        text = canonical_json({"config": self.config, "stages": results})
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "stages": {label: ref.to_json() for label, ref in self.stages.items()}}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> LoggedRun:
        """From `to_json`."""
        stages = {label: ArtifactRef.from_json(ref) for label, ref in known["stages"].items()}
        return cls(**{**known, "stages": stages, "damaged": tuple(known.get("damaged", ()))})


class RunLog:
    """The runs under the folder of a store, one sealed JSON file each.

    Parameters
    ----------
    root : Path
        The folder of the store.
    """

    def __init__(self, root: Path) -> None:
        self.store_root = Path(root)
        self._folder = Path(root) / "runs"
        self._locks = Path(root) / "locks"

    def add(self, run: LoggedRun) -> LoggedRun:
        """Keep a run; one that was seen before keeps its first date, its pin and what happened in it."""
        with hold_lock(self._lock(run.id)):
            known = self._read(self._file(run.id))
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            kept = replace(run, created=known.created if known else now, repeated=now)
            if known:
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
        with hold_lock(self._lock(run.id)):
            known = self._read(self._file(run.id)) or run
            kept = replace(run, created=known.created, repeated=known.repeated, pinned=known.pinned)
            self._write(kept)

    def pin(self, run: LoggedRun, pinned: bool = True) -> None:
        """Keep a run whatever its age, or no longer."""
        with hold_lock(self._lock(run.id)):
            self._write(replace(self._read(self._file(run.id)) or run, pinned=pinned))

    def remove(self, run: LoggedRun) -> None:
        """Forget a run; its artefacts stay."""
        with hold_lock(self._lock(run.id)), disk.store_errors(self._folder):
            self._file(run.id).unlink(missing_ok=True)

    def sweep(self) -> list[Path]:
        """Remove what killed processes left half-written; gives what was removed."""
        removed = []
        for path in sorted(self._folder.glob(f"*.json{disk.TEMPORARY}")):
            with try_lock(self._lock(path.name.partition(".")[0])) as mine, disk.store_errors(path):
                if mine:
                    path.unlink(missing_ok=True)
                    removed.append(path)
        return removed

    def verify(self) -> Iterator[tuple[str, str]]:
        """Records that are damaged, and why; each is set aside."""
        for file in sorted(self._folder.glob("*.json")):
            raw = disk.read_if_there(file)
            try:
                LoggedRun.from_json(disk.unseal(raw or b""))
            except (ValueError, KeyError, TypeError) as error:
                with hold_lock(self._lock(file.stem)), disk.store_errors(file):
                    aside = self._folder.parent / "damaged" / "runs"
                    disk.make_folder(aside)
                    file.replace(aside / file.name)
                yield f"runs/{file.stem}", f"its record cannot be trusted: {error}"

    def entries(self) -> list[LoggedRun]:
        """Every run that can be read, newest first."""
        found = [run for file in sorted(self._folder.glob("*.json")) if (run := self._read(file))]
        return sorted(found, key=lambda run: (run.repeated, run.id), reverse=True)

    def find(self, name: str) -> LoggedRun:
        """The run of an id or its tracker's id, or of the beginning of one; StoreError when there is none."""
        runs = self.entries()
        near = [run for run in runs if any(known.startswith(name) for known in _ids(run))]
        if len(name) < _LEAST_PREFIX or not near:
            known = ", ".join(run.id for run in runs[:5]) or "none yet"
            raise StoreError(
                f"no run {name!r} in {self._folder}; give {_LEAST_PREFIX} or more of its first letters. "
                f"Newest runs: {known}."
            )
        if len(near) > 1:
            raise StoreError(
                f"{name!r} may be one of the runs {', '.join(run.id for run in near)}; give more of it."
            )
        return near[0]

    def _read(self, file: Path) -> LoggedRun | None:
        raw = disk.read_if_there(file)
        try:
            return LoggedRun.from_json(disk.unseal(raw)) if raw else None
        except (ValueError, KeyError, TypeError):
            return None

    def _write(self, run: LoggedRun) -> None:
        file = self._file(run.id)
        with disk.store_errors(file):
            disk.replace_durably(file, disk.seal(run.to_json()))

    def _file(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.json"

    def _lock(self, run_id: str) -> Path:
        return self._locks / f"run-{run_id}.lock"


def _ids(run: LoggedRun) -> Iterator[str]:
    yield run.id
    if run.tracked:
        yield run.tracked["run_id"]
