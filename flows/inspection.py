"""What a run would do and why, told before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flows.config import RunConfig
from flows.pipeline import open_workspace, walk
from storage.errors import StoreError, TrackingError
from storage.keys import ArtifactRef
from storage.schemas import Manifest, unpack_manifest
from storage.sources import Collection
from tasks import ingest
from tasks.changes import compare_items
from tasks.features import count_missing
from tasks.reporter import Reporter
from tasks.runs import load_last_run
from tasks.stage import Stage, Workspace

_SHOWN = 3


@dataclass(frozen=True)
class StageStatus:
    """One stage: `fresh`, `stale` (something it depends on changed) or `missing` (never computed)."""

    label: str
    state: str
    reasons: list[str] = field(default_factory=list)
    seconds: float | None = None


class Inspector:
    """Looks stages up without computing any, and explains those that are not there."""

    def __init__(self, config: RunConfig, workspace: Workspace) -> None:
        self.found: list[StageStatus] = []
        self._workspace = workspace
        self._last = load_last_run(workspace.store, config.source)
        self._trouble: list[str] = []

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """The stage's artefact where it is fresh; else None, and why."""
        ref = self._workspace.store.find(stage.recipe()) if stage.ready else None
        before = self._details(stage.label)
        seconds = before.get("seconds") if before else None
        if ref is not None and self._holds(stage, ref, before):
            self.found.append(StageStatus(stage.label, "fresh", seconds=seconds))
            return ref
        state = "stale" if before else "missing"
        self.found.append(StageStatus(stage.label, state, self._reasons(stage, before), seconds))
        return None

    def _holds(self, stage: Stage, ref: ArtifactRef, before: dict[str, Any] | None) -> bool:
        """Whether a found artefact is whole; a tracker that does not answer makes its record stale."""
        store = self._workspace.store
        known = before if before and before["key"] == ref.key else store.details(ref)
        try:
            return store.links_hold(known) and stage.holds(ref)
        except TrackingError as error:
            self._trouble = [str(error)]
            return False

    def _details(self, label: str) -> dict[str, Any] | None:
        """What the last run's artefact of a stage was made of."""
        known = self._last.get(label)
        try:
            return self._workspace.store.details(ArtifactRef.from_json(known)) if known else None
        except StoreError:
            return None

    def _reasons(self, stage: Stage, before: dict[str, Any] | None) -> list[str]:
        if before is None:
            return []
        if not stage.ready:
            waits = [name for name, digest in stage.inputs.items() if digest is None]
            return [f"depends on {', '.join(waits)}"]
        changes = explain(before["recipe"], stage.recipe().ingredients())
        return changes or self._trouble or ["its artefact is gone or damaged"]


def inspect_stages(config: RunConfig) -> list[StageStatus]:
    """Every stage in the order of a run; nothing is computed."""
    workspace = open_workspace(config, Reporter())
    inspector = Inspector(config, workspace)
    walk(config, workspace, inspector, tags={})
    return [_detail(one, config, workspace) for one in inspector.found]


def _detail(one: StageStatus, config: RunConfig, workspace: Workspace) -> StageStatus:
    """Name the items behind a stale ingest, and how many of them features would extract."""
    if one.state != "stale" or one.label not in ("ingest", "features"):
        return one
    collection = ingest.open_collection(config.source, workspace).read(workspace.cache_dir)
    if one.label == "ingest":
        changes = _changes(config, collection, workspace)
        return replace(one, reasons=[f"data: {changes}", *one.reasons[1:]]) if changes else one
    missing = count_missing(config.features, config.source, collection, workspace.store)
    if missing is None:
        return one
    return replace(one, reasons=[f"{missing} of {len(collection.ids)} items to extract", *one.reasons])


def _changes(config: RunConfig, collection: Collection, workspace: Workspace) -> str:
    """What happened to the items since the last run, in words."""
    last = load_last_run(workspace.store, config.source)["ingest"]
    try:
        known = unpack_manifest(workspace.store.read(ArtifactRef.from_json(last)))
    except StoreError:
        return ""
    changes = compare_items((known.ids, known.digests), (collection.ids, collection.digests)).describe()
    relabelled = count_relabelled(known, collection)
    return ", ".join(text for text in (changes, f"{relabelled} relabelled" if relabelled else "") if text)


def count_relabelled(before: Manifest, now: Collection) -> int:
    """How many items of both readings carry other labels than before."""
    old, new = _label_sets(before), _label_sets(now)
    return sum(name in old and old[name] != labels for name, labels in new.items())


def _label_sets(items: Manifest | Collection) -> dict[str, frozenset[str] | None]:
    """Labels by item; None where it is unlabelled."""
    names = np.array(items.label_names)
    return {
        name: None if (row < 0).all() else frozenset(names[row > 0])
        for name, row in zip(items.ids, items.labels, strict=True)
    }


def explain(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two recipes, in words."""
    reasons = [f"parameter {change}" for change in _differences(before["params"], now["params"])]
    code = sorted(
        module
        for module in {*before["code"], *now["code"]}
        if before["code"].get(module) != now["code"].get(module)
    )
    if code:
        shown = ", ".join(f"{module.replace('.', '/')}.py" for module in code[:_SHOWN])
        more = f" and {len(code) - _SHOWN} more modules" if len(code) > _SHOWN else ""
        reasons.append(f"code of {shown}{more} changed")
    inputs = [name for name in now["inputs"] if before["inputs"].get(name) != now["inputs"][name]]
    if inputs:
        reasons.append(f"data: {', '.join(inputs)} changed")
    if before["schema"] != now["schema"]:
        reasons.append(f"storage format {before['schema']} → {now['schema']}")
    return reasons


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        keys = dict.fromkeys([*before, *now])
        return [
            text
            for key in keys
            for text in _differences(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
        ]
    return [] if before == now else [f"{name} {before} → {now}"]
