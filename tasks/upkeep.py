"""Looking after a store: what it holds, whether it is whole, and what no run needs any more."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from storage.disk import TEMPORARY
from storage.errors import StoreError, TrackingError
from storage.keys import DAMAGED, ArtifactRef
from storage.run_log import LoggedRun, RunLog
from storage.store import Store
from storage.tracking import Tracker

# Manifests of artefacts by `stage/key`.
Manifests = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Damage:
    """An artefact that was set aside, why, and the runs whose results rest on it."""

    name: str
    reason: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Usage:
    """How many artefacts of a stage there are, their bytes, and the seconds it took to compute them."""

    stage: str
    artifacts: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Waste:
    """What can go: runs that are older than those to keep, artefacts no kept run needs, leftovers."""

    runs: tuple[LoggedRun, ...]
    artifacts: tuple[Mapping[str, Any], ...]

    @property
    def bytes(self) -> int:
        """Room that the artefacts take."""
        return sum(int(one["bytes"]) for one in self.artifacts)


@dataclass(frozen=True)
class Registered:
    """Tracker's ids of runs that have, or may have, a registered model; and who did not answer, and why."""

    run_ids: set[str]
    silent: Mapping[str, str]


def load_manifests(store: Store) -> dict[str, dict[str, Any]]:
    """Every artefact that is there."""
    return {f"{one['stage']}/{one['key']}": one for one in store.entries()}


def measure_usage(store: Store) -> list[Usage]:
    """By stage, the largest first; what was set aside as damaged counts as a stage of its own."""
    stages: dict[str, list[Mapping[str, Any]]] = {}
    for one in store.entries():
        stages.setdefault(one["stage"], []).append(one)
    found = [
        Usage(stage, len(held), sum(one["bytes"] for one in held), sum(one["seconds"] for one in held))
        for stage, held in stages.items()
    ]
    if aside := store.damaged():
        # Each has a manifest, whatever became of its data.
        count = sum(name.endswith(".json") for name in aside)
        found.append(Usage(DAMAGED, count, sum(aside.values()), 0.0))
    return sorted(found, key=lambda usage: (-usage.bytes, usage.stage))


def verify_store(
    store: Store, log: RunLog, on_done: Callable[[int], None] = lambda done: None
) -> list[Damage]:
    """Read and hash everything, records and notes too; what is damaged is set aside, to be made anew."""
    manifests = load_manifests(store)
    needed = {run.id: reach(run.stages.values(), manifests) for run in log.entries()}
    damages = []
    for done, (name, problem) in enumerate(store.verify(), start=1):
        if problem:
            affected = tuple(run for run, names in needed.items() if name in names)
            damages.append(Damage(name, problem, affected))
        on_done(done)
    records = [Damage(name, problem, (name.removeprefix("runs/"),)) for name, problem in log.verify()]
    notes = [Damage(name, problem, ()) for name, problem in store.verify_notes()]
    return [*damages, *records, *notes]


def find_waste(store: Store, log: RunLog, keep: int, keep_tracked: Iterable[str] = ()) -> Waste:
    """What the newest `keep` runs of each experiment, the pinned and the named ones do not need.

    Parameters
    ----------
    store, log
    keep : int
        Runs to keep of each experiment.
    keep_tracked : iterable of str
        Tracker's ids of runs to keep besides, such as those of registered models.

    Raises
    ------
    StoreError
        A record cannot be read, so that what it needs cannot be told.
    """
    manifests, named = _readable_manifests(store, log), set(keep_tracked)
    kept: list[LoggedRun] = []
    old: list[LoggedRun] = []
    seen: dict[str, int] = {}
    for run in log.entries():
        seen[run.experiment] = seen.get(run.experiment, 0) + 1
        safe = run.pinned or (run.tracked is not None and run.tracked["run_id"] in named)
        (kept if safe or seen[run.experiment] <= keep else old).append(run)
    roots = [ref for run in kept for ref in run.stages.values()]
    needed = reach([*roots, *_last_results(store)], manifests, store.recent())
    # What is missing may have had parts, which spare most of the work of making it again.
    if not needed <= manifests.keys():
        needed |= _loose(manifests, log.entries())
    waste = tuple(one for name, one in manifests.items() if name not in needed)
    return Waste(tuple(old), waste)


def _readable_manifests(store: Store, log: RunLog) -> dict[str, Mapping[str, Any]]:
    """Every artefact that is there; StoreError where one, or a record of a run, cannot be read."""
    looks = dict(store.looks())
    damaged = [name for name, look in looks.items() if look.problem] + log.unreadable()
    if damaged:
        raise StoreError(
            f"{len(damaged)} records of {store.place} cannot be read, as {damaged[0]}, so that what they "
            "need cannot be told; run `labelscape store verify` first."
        )
    return {name: look.content for name, look in looks.items() if look.content}


def _loose(manifests: Manifests, runs: Iterable[LoggedRun]) -> set[str]:
    """Artefacts that no other one links to and no run names: parts of what is missing, perhaps."""
    linked = {link for one in manifests.values() for link in one["links"]}
    named = {f"{ref.stage}/{ref.key}" for run in runs for ref in run.stages.values()}
    return set(manifests) - linked - named


def find_registered(runs: Iterable[LoggedRun], open_tracker: Callable[[str], Tracker]) -> Registered:
    """Ask every tracker of these runs for its registered models; of one that is silent every run counts.

    Parameters
    ----------
    runs : iterable of LoggedRun
    open_tracker : callable
        Gives the tracker of an address, which was kept without its password.
    """
    by_uri: dict[str, set[str]] = {}
    for run in runs:
        if run.tracked:
            by_uri.setdefault(run.tracked["uri"], set()).add(run.tracked["run_id"])
    found: set[str] = set()
    silent: dict[str, str] = {}
    for uri, run_ids in by_uri.items():
        try:
            found |= _registered_at(open_tracker(uri)) & run_ids
        except TrackingError as error:
            silent[uri] = str(error)
            found |= run_ids
    return Registered(found, silent)


def _registered_at(tracker: Tracker) -> set[str]:
    if tracker.is_empty():  # a database of another machine, perhaps
        raise TrackingError(f"{tracker.uri} is not here.")
    return tracker.registered_runs()


def remove_waste(
    store: Store, log: RunLog, waste: Waste, home: Path | None = None
) -> tuple[int, Sequence[PurePath]]:
    """Remove it; gives the bytes freed and the leftovers of killed processes that went too.

    With `home` what they left beside the store goes as well.
    """
    for run in waste.runs:
        log.remove(run)
    freed = sum(int(one["bytes"]) for one in waste.artifacts if store.discard(one["stage"], one["key"]))
    return freed, [*store.sweep(), *log.sweep(), *(sweep_home(home) if home else [])]


def find_leftovers(store: Store, log: RunLog, home: Path) -> Sequence[PurePath]:
    """What killed processes left, in the store and beside it."""
    return [*store.leftovers(), *log.leftovers(), *_home_leftovers(home)]


def _home_leftovers(home: Path) -> list[Path]:
    patterns = ["cache/listing/.index-*", "cache/.demo-*"]
    patterns += [f"{folder}/*{TEMPORARY}" for folder in ("cache", "cache/status")]
    for folder in ("reports", "reports/reproduce"):
        patterns += [f"{folder}/.*.lock", f"{folder}/*{TEMPORARY}"]
    return [path for pattern in patterns for path in sorted(home.glob(pattern))]


def sweep_home(home: Path) -> list[Path]:
    """Remove half-written listings, notes and reports; no run may be under way.

    What a `status` at the same moment loses by that it makes again.
    """
    found = _home_leftovers(home)
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return found


def reach(roots: Iterable[ArtifactRef], manifests: Manifests, names: Iterable[str] = ()) -> set[str]:
    """Names of artefacts, given as references or by name, and of all that they link to."""
    found: set[str] = set()
    pending: Sequence[str] = [*names, *(f"{ref.stage}/{ref.key}" for ref in roots)]
    while pending:
        found.update(pending)
        links = [link for name in pending if name in manifests for link in manifests[name]["links"]]
        pending = [link for link in dict.fromkeys(links) if link not in found]
    return found


def _last_results(store: Store) -> list[ArtifactRef]:
    """What the last run of each source had, finished or not: `status` compares with it."""
    known = len(store.set_aside)
    notes = store.notes()
    if lost := store.set_aside[known:]:
        raise StoreError(
            f"{lost[0].name} was damaged and has been set aside ({lost[0].reason}), so that what its source "
            "had last is not known; run that source once more, then this."
        )
    return [
        ArtifactRef.from_json(ref)
        for name, stages in notes.items()
        if name.startswith("run-")
        for ref in stages.values()
    ]
