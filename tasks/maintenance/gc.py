"""Garbage collection: find and remove the runs and artifacts that are no longer needed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from storage.artifacts.disk import TEMPORARY, remove_tree, store_errors
from storage.artifacts.pointers import FOLDER as POINTERS
from storage.artifacts.quarantine import QuarantinedRecord, delete_quarantined, find_quarantined
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.maintenance.fsck import Manifests, reach
from tasks.runs import KEEPING, load_last_runs
from tasks.stages.chunks import PART_STAGE


@dataclass(frozen=True)
class Garbage:
    """What can be removed, and what is kept although no known run uses it.

    Attributes
    ----------
    runs : tuple of LoggedRun
        Runs that are older than those to keep.
    artifacts : tuple of mappings
        Manifests of artifacts that no kept run uses.
    records : tuple of QuarantinedRecord
        Quarantined records that have been replaced or discarded.
    unresolved : tuple of QuarantinedRecord
        The other quarantined records. It is unknown which artifacts they used, so while there is one, no run
        and no artifact is removed.
    parts : tuple of str
        Parts of features that no artifact links to. They are kept because features that a kept run uses are
        missing.
    """

    runs: tuple[LoggedRun, ...] = ()
    artifacts: tuple[Mapping[str, Any], ...] = ()
    records: tuple[QuarantinedRecord, ...] = ()
    unresolved: tuple[QuarantinedRecord, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of the artifacts."""
        return sum(int(one["bytes"]) for one in self.artifacts)


def find_garbage(
    store: ArtifactStore,
    log: RunLog,
    keep: int,
    is_kept: Callable[[LoggedRun], bool] = lambda run: False,
    forget_damaged: bool = False,
) -> Garbage:
    """Find what is used neither by the newest `keep` runs of each experiment nor by pinned or kept runs.

    Nothing is changed.

    Parameters
    ----------
    store, log
    keep : int
        Number of runs to keep per experiment.
    is_kept : callable
        Selects further runs to keep, such as those of registered models.
    forget_damaged : bool
        Whether quarantined run records and pointers are discarded.

    Raises
    ------
    StoreError
        If a record cannot be read, so that the artifacts it uses are unknown.
    """
    manifests = _read_manifests(store, log)
    quarantined = find_quarantined(store)
    records = tuple(one for one in quarantined if one.replaced or forget_damaged)
    unresolved = tuple(one for one in quarantined if one not in records and _uses_artifacts(str(one)))
    if unresolved:
        return Garbage(records=records, unresolved=unresolved)
    runs = log.entries()
    kept = _select_kept(runs, keep, is_kept)
    roots = [ref for run in kept.values() for ref in run.stages.values()]
    needed = reach([*roots, *load_last_runs(store)], manifests, store.recent())
    parts = _find_loose_parts(manifests, needed)
    needed.update(parts)
    return Garbage(
        runs=tuple(run for run in runs if run.id not in kept),
        artifacts=tuple(one for name, one in manifests.items() if name not in needed),
        records=records,
        parts=parts,
    )


def _read_manifests(store: ArtifactStore, log: RunLog) -> dict[str, Mapping[str, Any]]:
    """Return all manifests; StoreError if a manifest, a run record or a pointer cannot be read."""
    checks = dict(store.checks())
    damaged = [name for name, check in checks.items() if check.problem]
    damaged += filter(_uses_artifacts, [*log.unreadable(), *store.unreadable_pointers()])
    if damaged:
        raise StoreError(
            f"{len(damaged)} records of {store.place} cannot be read (the first is {damaged[0]}), so the "
            "artifacts they use are unknown; run `labelscape store verify` first."
        )
    return {name: check.content for name, check in checks.items() if check.content}


def _uses_artifacts(name: str) -> bool:
    """Return whether artifacts may be kept because of a record; of the pointers, those in `KEEPING`."""
    folder, _, record = name.partition("/")
    return folder != POINTERS or record.startswith(KEEPING)


def _select_kept(
    runs: Iterable[LoggedRun], keep: int, is_kept: Callable[[LoggedRun], bool]
) -> dict[str, LoggedRun]:
    """Return the runs to keep by id; `runs` are sorted, the newest first."""
    kept: dict[str, LoggedRun] = {}
    seen: dict[str, int] = {}
    for run in runs:
        seen[run.experiment] = seen.get(run.experiment, 0) + 1
        if run.pinned or seen[run.experiment] <= keep or is_kept(run):
            kept[run.id] = run
    return kept


def _find_loose_parts(manifests: Manifests, needed: set[str]) -> tuple[str, ...]:
    """Return the parts that no features link to if needed features are missing: a run can reuse them."""
    if not any(name.startswith("features/") for name in needed - manifests.keys()):
        return ()
    linked = {link for one in manifests.values() for link in one["links"]}
    parts = {name for name, one in manifests.items() if one["stage"] == PART_STAGE}
    return tuple(sorted(parts - linked - needed))


def remove_garbage(
    store: ArtifactStore, log: RunLog, garbage: Garbage, home: Path | None = None
) -> tuple[int, Sequence[PurePath]]:
    """Remove garbage and orphans; return the bytes freed and the orphans.

    With `home`, the orphans beside the store are removed too.
    """
    delete_quarantined(store, garbage.records)
    for run in garbage.runs:
        log.remove(run)
    freed = sum(int(one["bytes"]) for one in garbage.artifacts if store.discard(one["stage"], one["key"]))
    return freed, [*store.remove_orphans(), *(remove_home_orphans(home) if home else [])]


def find_orphans(store: ArtifactStore, home: Path) -> Sequence[PurePath]:
    """List what killed processes left in the store and beside it."""
    return [*store.orphans(), *_list_home_orphans(home)]


def _list_home_orphans(home: Path) -> list[Path]:
    patterns = ["cache/.demo-*", "services.json.*.tmp"]
    patterns += [f"{folder}/*{TEMPORARY}" for folder in ("cache", "cache/listing")]
    for folder in ("reports", "reports/*"):
        patterns += [f"{folder}/.*.lock", f"{folder}/*{TEMPORARY}"]
    return [path for pattern in patterns for path in sorted(home.glob(pattern))]


def remove_home_orphans(home: Path) -> list[Path]:
    """Remove partial listings, caches and reports; no run may be active.

    A simultaneous `status` recreates what it loses.
    """
    found = _list_home_orphans(home)
    for path in found:
        with store_errors(path):
            remove_tree(path)
    return found
