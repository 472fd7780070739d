"""Find a run by its id; a run whose record is damaged is reported as damaged, not as missing."""

from collections.abc import Sequence

from storage.artifacts.keys import QUARANTINE
from storage.artifacts.quarantine import QuarantinedRecord, find_quarantined
from storage.artifacts.run_log import MIN_PREFIX, LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.maintenance.fsck import describe_record


def find_run(store: ArtifactStore, name: str) -> LoggedRun:
    """Return the run with this (abbreviated) id or tracker id; StoreError if there is none."""
    try:
        return RunLog(store).find(name)
    except StoreError:
        near = [one for one in quarantine_runs(store) if one.name.startswith(name)]
        if len(name) >= MIN_PREFIX and near:
            raise StoreError(describe_damaged(near, store)) from None
        raise


def quarantine_runs(store: ArtifactStore) -> list[QuarantinedRecord]:
    """Move damaged run records to quarantine; return those there that no intact record has replaced."""
    for _ in RunLog(store).verify():
        pass
    return [one for one in find_quarantined(store) if one.is_run and not one.replaced]


def describe_damaged(damaged: Sequence[QuarantinedRecord], store: ArtifactStore) -> str:
    """Say which records are damaged, where they are now, and how to restore the first."""
    first = damaged[0]
    more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
    return (
        f"damaged: {store.place}/{first}.json{more}, now in {store.place}/{QUARANTINE}. It is "
        f"{describe_record(first)}."
    )
