"""Check a store: list what it contains, and verify that all of it is intact."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.artifacts.keys import QUARANTINE, ArtifactRef
from storage.artifacts.quarantine import QuarantinedRecord, find_quarantined
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from tasks.runs import ANNOTATE_PREFIX

# Manifests of artifacts by `stage/key`.
Manifests = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Damage:
    """A damaged artifact, run record or pointer that was moved to quarantine, and why.

    Attributes
    ----------
    name, reason : str
    runs : tuple of str
        The affected runs.
    loss : str
        What is lost and what to do, in words.
    recomputable : bool
        Whether running again recomputes it; if not, see `storage.artifacts.quarantine`.
    """

    name: str
    reason: str
    runs: tuple[str, ...]
    loss: str
    recomputable: bool


@dataclass(frozen=True)
class Usage:
    """Number of artifacts of a stage, their bytes, and the seconds it took to compute them."""

    stage: str
    artifacts: int
    bytes: int
    seconds: float


def load_manifests(store: ArtifactStore) -> dict[str, dict[str, Any]]:
    """Return the manifests of all intact artifacts by `stage/key`."""
    return {f"{one['stage']}/{one['key']}": one for one in store.entries()}


def measure_usage(store: ArtifactStore) -> list[Usage]:
    """Return the usage by stage, the largest first; the quarantine counts as a stage."""
    stages: dict[str, list[Mapping[str, Any]]] = {}
    for one in store.entries():
        stages.setdefault(one["stage"], []).append(one)
    found = [
        Usage(stage, len(held), sum(one["bytes"] for one in held), sum(one["seconds"] for one in held))
        for stage, held in stages.items()
    ]
    if sizes := store.quarantine_sizes():
        # Each artifact or record has one JSON file; its data may be missing.
        count = sum(name.endswith(".json") for name in sizes)
        found.append(Usage(QUARANTINE, count, sum(sizes.values()), 0.0))
    return sorted(found, key=lambda usage: (-usage.bytes, usage.stage))


def verify_store(
    store: ArtifactStore, log: RunLog, on_done: Callable[[int], None] = lambda done: None
) -> list[Damage]:
    """Read and hash all artifacts, run records and pointers; damaged ones are moved to quarantine."""
    manifests = load_manifests(store)
    needed = {run.id: reach(run.stages.values(), manifests) for run in log.entries()}
    damages = []
    for done, (name, problem) in enumerate(store.verify(), start=1):
        if problem:
            affected = tuple(run for run, names in needed.items() if name in names)
            loss = f"runs that use it: {', '.join(affected)}" if affected else "no run uses it"
            damages.append(Damage(name, problem, affected, loss, recomputable=True))
        on_done(done)
    reasons = dict([*log.verify(), *store.verify_pointers()])
    lost = [one for one in find_quarantined(store) if str(one) in reasons]
    return [*damages, *(_record_damage(one, reasons[str(one)]) for one in lost)]


def _record_damage(one: QuarantinedRecord, reason: str) -> Damage:
    runs = (one.name,) if one.is_run else ()
    return Damage(str(one), reason, runs, f"lost: {describe_record(one)}", recomputable=False)


def describe_record(one: QuarantinedRecord) -> str:
    """Say what a quarantined record or pointer contained and how to restore it."""
    annotated = one.name.startswith(ANNOTATE_PREFIX) or b'"kind": "annotate"' in one.raw
    verb, what = ("annotate", "annotation") if annotated else ("run", "run")
    command = (
        f"`labelscape {verb} {shlex.quote(one.source)}`" if one.source else f"another {what} of its source"
    )
    place = one.source or "a source whose name cannot be read"
    if not one.is_run:
        return f"the stages of the last {what} of {place}; {command} records them again"
    pinned = " that was, or may have been, pinned" if one.pinned else ""
    return (
        f"the record of run {one.name} of {place}{pinned}; {command} with the same settings restores it if "
        "the results are the same"
    )


def reach(roots: Iterable[ArtifactRef], manifests: Manifests, names: Iterable[str] = ()) -> set[str]:
    """Return the names of artifacts, given as references or by name, and of everything they link to."""
    found: set[str] = set()
    pending: Sequence[str] = [*names, *(f"{ref.stage}/{ref.key}" for ref in roots)]
    while pending:
        found.update(pending)
        links = [link for name in pending if name in manifests for link in manifests[name]["links"]]
        pending = [link for link in dict.fromkeys(links) if link not in found]
    return found
