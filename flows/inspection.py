"""What a run would do and why, told before anything runs."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flows.config import RunConfig
from flows.pipeline import open_workspace, walk
from flows.stale_reasons import explain
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.pointers import FOLDER as NOTES
from storage.artifacts.schemas import unpack_manifest
from storage.errors import StoreError, TrackingError
from storage.sources import Collection
from tasks.changes import compare_readings
from tasks.reporter import Reporter
from tasks.runs import load_last_run
from tasks.stage import Stage, Workspace
from tasks.stages import ingest
from tasks.stages.features import feature_code, feature_recipe
from tasks.stages.known_rows import load_known_rows

_SHOWN = 3


@dataclass(frozen=True)
class StageStatus:
    """One stage, and whether a run would compute it.

    Attributes
    ----------
    label : str
    state : str
        `fresh`, `stale` (something it depends on changed) or `missing` (never computed).
    reasons : list of str
    seconds : float or None
        What computing it took the last time.
    would_run : str
        "yes", "no", or "perhaps": only if what it waits for comes out differently than before.
    """

    label: str
    state: str
    reasons: list[str] = field(default_factory=list)
    seconds: float | None = None
    would_run: str = "yes"


@dataclass(frozen=True)
class Inspection:
    """Every stage in the order of a run, and the files of the store that say so."""

    stages: list[StageStatus]
    files: list[Path]


class Inspector:
    """Looks stages up without computing any, and explains those that are not there."""

    def __init__(self, config: RunConfig, workspace: Workspace) -> None:
        self.found: list[StageStatus] = []
        self.files: list[Path] = []
        self._workspace = workspace
        self._last = load_last_run(workspace.store, config.source)
        self._trouble: list[str] = []

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """The stage's artifact where it is fresh; else None, and why."""
        ref = self._workspace.store.find(stage.recipe()) if stage.ready else None
        before = self._details(stage.label)
        seconds = before.get("seconds") if before else None
        if ref is not None and self._holds(stage, ref, before):
            self.found.append(StageStatus(stage.label, "fresh", seconds=seconds, would_run="no"))
            return ref
        self.found.append(self._explain(stage, before, seconds))
        return _foresee(stage) if stage.name == "ingest" and before else None

    def _holds(self, stage: Stage, ref: ArtifactRef, before: dict[str, Any] | None) -> bool:
        """Whether a found artifact is whole; a tracker that does not answer makes its record stale."""
        store = self._workspace.store
        known = before if before and before["key"] == ref.key else store.details(ref)
        self.files += store.files(known)
        try:
            return store.links_hold(known) and stage.holds(ref)
        except TrackingError as error:
            self._trouble = [str(error)]
            return False

    def _details(self, label: str) -> dict[str, Any] | None:
        """What the last run's artifact of a stage was made of."""
        known = self._last.get(label)
        try:
            found = self._workspace.store.details(ArtifactRef.from_json(known)) if known else None
        except StoreError:
            return None
        self.files += self._workspace.store.files(found) if found else []
        return found

    def _explain(self, stage: Stage, before: dict[str, Any] | None, seconds: float | None) -> StageStatus:
        """Why a stage is not fresh, and whether that is certain."""
        if before is None:
            return StageStatus(stage.label, "missing")
        waits = [name for name, digest in stage.inputs.items() if digest is None]
        reasons = explain(before["recipe"], stage.recipe().ingredients(), waits)
        would_run = "perhaps" if waits and not reasons else "yes"
        if waits:
            more = f" and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
            reasons.append(f"depends on {', '.join(waits[:_SHOWN])}{more}")
        reasons = reasons or self._trouble or ["its artifact is gone or damaged"]
        return StageStatus(stage.label, "stale", reasons, seconds, would_run)


def _foresee(stage: Stage) -> ArtifactRef:
    """The manifest that a run would make, without storing it: what depends on its parts alone can be told."""
    from storage.artifacts.tables import write_table

    artifact = stage.produce()
    with TemporaryDirectory() as folder:
        written = write_table(Path(folder) / "manifest", artifact)
    ref = ArtifactRef(stage.name, stage.recipe().key, written.digest, artifact.kind, written.rows)
    ingest.foresee(ref, artifact.metadata)
    return ref


def inspect_stages(config: RunConfig) -> Inspection:
    """Look every stage up; nothing is computed."""
    workspace = open_workspace(config, Reporter())
    inspector = Inspector(config, workspace)
    walk(config, workspace, inspector, tags={})
    stages = [_detail(one, config, workspace) for one in inspector.found]
    return Inspection(stages, list(dict.fromkeys([*inspector.files, workspace.store.root / NOTES])))


def _detail(one: StageStatus, config: RunConfig, workspace: Workspace) -> StageStatus:
    """Name the items behind a stale ingest, and how many of them features would extract."""
    if one.state != "stale" or one.label not in ("ingest", "features"):
        return one
    source = ingest.open_collection(config.source, workspace)
    collection = source.read(workspace.cache_dir)
    if one.label == "ingest":
        changes = _changes(config, collection, workspace)
        kept = [reason for reason in one.reasons if not reason.startswith("data: ")]
        return replace(one, reasons=[f"data: {changes}", *kept]) if changes else one
    recipe = feature_recipe(config.features, source.content == "images")
    known = load_known_rows(workspace.store, config.source, recipe, feature_code(recipe, source))
    if not known.positions:
        return one
    missing = sum(digest not in known.positions for digest in collection.digests)
    total = len(collection.ids)
    counted = f"{missing} of {total} items to extract"
    return replace(one, reasons=[counted, *one.reasons], seconds=known.seconds * missing / total)


def _changes(config: RunConfig, collection: Collection, workspace: Workspace) -> str:
    """What happened to the items since the last run, in words."""
    last = load_last_run(workspace.store, config.source)["ingest"]
    try:
        known = unpack_manifest(workspace.store.read(ArtifactRef.from_json(last)))
    except StoreError:
        return ""
    return compare_readings(known, collection).describe()
