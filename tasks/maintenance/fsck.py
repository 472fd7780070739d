"""Looking after a store: what it holds, and whether it is whole."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.artifacts.keys import DAMAGED, ArtifactRef
from storage.artifacts.quarantine import Lost, find_lost
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import Store

# Manifests of artifacts by `stage/key`.
Manifests = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Damage:
    """What was set aside (an artifact, a record of a run, a note), and why.

    Attributes
    ----------
    name, reason : str
    runs : tuple of str
        The runs that are affected.
    loss : str
        What is lost by it and what to do, in words.
    remade : bool
        Whether running again computes it anew; else see `storage.artifacts.quarantine`.
    """

    name: str
    reason: str
    runs: tuple[str, ...]
    loss: str
    remade: bool


@dataclass(frozen=True)
class Usage:
    """How many artifacts of a stage there are, their bytes, and the seconds it took to compute them."""

    stage: str
    artifacts: int
    bytes: int
    seconds: float


def load_manifests(store: Store) -> dict[str, dict[str, Any]]:
    """Every artifact that is there."""
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
            loss = f"runs that rest on it: {', '.join(affected)}" if affected else "no run needs it"
            damages.append(Damage(name, problem, affected, loss, remade=True))
        on_done(done)
    reasons = dict([*log.verify(), *store.verify_notes()])
    lost = [one for one in find_lost(store) if f"{one.folder}/{one.name}" in reasons]
    return [*damages, *(_lost_damage(one, reasons[f"{one.folder}/{one.name}"]) for one in lost)]


def _lost_damage(one: Lost, reason: str) -> Damage:
    runs = (one.name,) if one.is_run else ()
    return Damage(f"{one.folder}/{one.name}", reason, runs, f"lost: {describe_lost(one)}", remade=False)


def describe_lost(one: Lost) -> str:
    """What a record or a note that was set aside knew, and how to have it again."""
    command = f"`labelscape run {shlex.quote(one.source)}`" if one.source else "another run of its source"
    place = one.source or "a source whose name cannot be read"
    if not one.is_run:
        return f"what the last run of {place} had; {command} notes it anew"
    pinned = " that was, or may have been, pinned" if one.pinned else ""
    return (
        f"the record of run {one.name} of {place}{pinned}; {command}, with the settings it had, writes it "
        "anew where the results are the same"
    )


def reach(roots: Iterable[ArtifactRef], manifests: Manifests, names: Iterable[str] = ()) -> set[str]:
    """Names of artifacts, given as references or by name, and of all that they link to."""
    found: set[str] = set()
    pending: Sequence[str] = [*names, *(f"{ref.stage}/{ref.key}" for ref in roots)]
    while pending:
        found.update(pending)
        links = [link for name in pending if name in manifests for link in manifests[name]["links"]]
        pending = [link for link in dict.fromkeys(links) if link not in found]
    return found
