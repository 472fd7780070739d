"""What no run needs any more: finding it, and removing it."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from storage.artifacts.disk import TEMPORARY
from storage.artifacts.pointers import FOLDER as NOTES
from storage.artifacts.pointers import Notes
from storage.artifacts.quarantine import Lost, find_lost, forget
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import Store
from storage.errors import StoreError
from tasks.maintenance.fsck import Manifests, reach
from tasks.runs import load_last_runs
from tasks.stages.chunks import PART_STAGE


@dataclass(frozen=True)
class Waste:
    """What can go, and what is kept though no run that is known needs it.

    Attributes
    ----------
    runs : tuple of LoggedRun
        Older than those to keep.
    artifacts : tuple of mappings
        Manifests of those that no kept run needs.
    records : tuple of Lost
        Records and notes that were set aside, and replaced since or given up.
    missed : tuple of Lost
        Those that were not. What they need cannot be told: while there is one, no run and no artifact goes.
    parts : tuple of str
        Portions that no artifact links to. They are kept, since features that a kept run needs are missing.
    """

    runs: tuple[LoggedRun, ...] = ()
    artifacts: tuple[Mapping[str, Any], ...] = ()
    records: tuple[Lost, ...] = ()
    missed: tuple[Lost, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Room that the artifacts take."""
        return sum(int(one["bytes"]) for one in self.artifacts)


def find_waste(
    store: Store,
    log: RunLog,
    keep: int,
    is_kept: Callable[[LoggedRun], bool] = lambda run: False,
    forget_damaged: bool = False,
) -> Waste:
    """What the newest `keep` runs of each experiment, the pinned and the named ones do not need.

    Nothing is changed.

    Parameters
    ----------
    store, log
    keep : int
        Runs to keep of each experiment.
    is_kept : callable
        Names runs to keep besides, such as those of registered models.
    forget_damaged : bool
        Whether runs and notes whose records were set aside as damaged are given up.

    Raises
    ------
    StoreError
        A record cannot be read, so that what it needs cannot be told.
    """
    manifests = _readable_manifests(store, log)
    aside = find_lost(store)
    missed = tuple(one for one in aside if not (one.replaced or forget_damaged))
    records = tuple(one for one in aside if one not in missed)
    if missed:
        return Waste(records=records, missed=missed)
    runs = log.entries()
    kept = _newest(runs, keep, is_kept)
    roots = [ref for run in kept.values() for ref in run.stages.values()]
    needed = reach([*roots, *load_last_runs(store)], manifests, store.recent())
    parts = _loose_parts(manifests, needed)
    needed.update(parts)
    return Waste(
        runs=tuple(run for run in runs if run.id not in kept),
        artifacts=tuple(one for name, one in manifests.items() if name not in needed),
        records=records,
        parts=parts,
    )


def _readable_manifests(store: Store, log: RunLog) -> dict[str, Mapping[str, Any]]:
    """Every artifact that is there; StoreError where one, a record of a run or a note cannot be read."""
    looks = dict(store.looks())
    damaged = [name for name, look in looks.items() if look.problem] + log.unreadable()
    damaged += Notes(store.shelf(NOTES), []).unreadable()
    if damaged:
        raise StoreError(
            f"{len(damaged)} records of {store.place} cannot be read, as {damaged[0]}, so that what they "
            "need cannot be told; run `labelscape store verify` first."
        )
    return {name: look.content for name, look in looks.items() if look.content}


def _newest(
    runs: Iterable[LoggedRun], keep: int, is_kept: Callable[[LoggedRun], bool]
) -> dict[str, LoggedRun]:
    """Runs to keep by id, of all from the newest on."""
    kept: dict[str, LoggedRun] = {}
    seen: dict[str, int] = {}
    for run in runs:
        seen[run.experiment] = seen.get(run.experiment, 0) + 1
        if run.pinned or seen[run.experiment] <= keep or is_kept(run):
            kept[run.id] = run
    return kept


def _loose_parts(manifests: Manifests, needed: set[str]) -> tuple[str, ...]:
    """Portions without features; those of features that are missing spare most of the work of making them."""
    if not any(name.startswith("features/") for name in needed - manifests.keys()):
        return ()
    linked = {link for one in manifests.values() for link in one["links"]}
    parts = {name for name, one in manifests.items() if one["stage"] == PART_STAGE}
    return tuple(sorted(parts - linked - needed))


def remove_waste(
    store: Store, log: RunLog, waste: Waste, home: Path | None = None
) -> tuple[int, Sequence[PurePath]]:
    """Remove it; gives the bytes freed and the leftovers of killed processes that went too.

    With `home` what they left beside the store goes as well.
    """
    forget(store, waste.records)
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
