"""What a run would compute and why (`labelscape status`).

The plan is the same as that of a run, with a stage runner that only looks artifacts up. Nothing is stored and
no stage is computed, with one exception: the source is read as ingest reads it (listing, digests, labels),
because that is the only way to know whether the items changed.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from flows.config import RunConfig
from flows.pipeline import walk
from flows.runner import open_workspace
from flows.stale_reasons import explain, input_words
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError, TrackingError
from storage.sources import Collection
from tasks.changes import compare_readings
from tasks.reporter import Reporter
from tasks.runs import load_last_run
from tasks.stage import Stage, Workspace
from tasks.stages import ingest
from tasks.stages.feature_blocks import find_block, plan_blocks
from tasks.stages.features import TABLE, feature_code, find_part
from tasks.stages.known_rows import load_known_rows
from tasks.stages.missing_parts import find_lacking

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
        How long it took the last time.
    would_run : str
        "yes", "no", or "perhaps": only if a stage before it gives another result.
    """

    label: str
    state: str
    reasons: list[str] = field(default_factory=list)
    seconds: float | None = None
    would_run: str = "yes"


class StorePreview:
    """The store as it would be after ingest: it also knows the manifest that a run would add.

    Stages ask the store for facts of the manifest. With a preview, `status` can look past an ingest that is
    stale: stages that depend only on parts of the manifest that stay the same are still fresh.
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._added: dict[ArtifactRef, dict[str, Any]] = {}

    def add(self, ref: ArtifactRef, details: dict[str, Any]) -> None:
        """Pretend that the store holds an artifact with these details."""
        self._added[ref] = details

    def details(self, ref: ArtifactRef) -> dict[str, Any]:
        """The manifest record of an artifact."""
        return self._added.get(ref) or self._store.details(ref)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Inspector:
    """Looks stages up without computing any, and explains those that are not in the store."""

    def __init__(self, config: RunConfig, workspace: Workspace) -> None:
        self.found: list[StageStatus] = []
        self._store = workspace.store
        self._preview = StorePreview(workspace.store)
        self.workspace = replace(workspace, store=cast(ArtifactStore, self._preview))
        self._last = load_last_run(workspace.store, config.source)
        self._tracker_problem: list[str] = []

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """The artifact of a fresh stage; else None, with the reason in `found`."""
        ref = self._store.find(stage.recipe()) if stage.ready else None
        before = self._details(stage.label)
        seconds = before.get("seconds") if before else None
        if ref is not None and self._holds(stage, ref, before):
            self.found.append(StageStatus(stage.label, "fresh", seconds=seconds, would_run="no"))
            return ref
        self.found.append(self._explain(stage, before, seconds))
        return self._preview_manifest(stage) if stage.name == "ingest" and before else None

    def _holds(self, stage: Stage, ref: ArtifactRef, before: dict[str, Any] | None) -> bool:
        """Whether a found artifact is complete; a tracker that does not answer makes its record stale."""
        known = before if before and before["key"] == ref.key else self._store.details(ref)
        try:
            return self._store.links_hold(known) and stage.holds(ref)
        except TrackingError as error:
            self._tracker_problem = [str(error)]
            return False

    def _details(self, label: str) -> dict[str, Any] | None:
        """The manifest record of a stage's artifact in the last run."""
        known = self._last.get(label)
        try:
            return self._store.details(ArtifactRef.from_json(known)) if known else None
        except StoreError:
            return None

    def _explain(self, stage: Stage, before: dict[str, Any] | None, seconds: float | None) -> StageStatus:
        """Why a stage is not fresh, and whether that is certain."""
        if before is None:
            return StageStatus(stage.label, "missing")
        waits = [name for name, digest in stage.inputs.items() if digest is None]
        reasons = explain(before["recipe"], stage.recipe().ingredients(), waits)
        would_run = "perhaps" if waits and not reasons else "yes"
        if waits:
            more = f" and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
            words = [input_words(before["recipe"], name) for name in waits[:_SHOWN]]
            reasons.append(f"depends on {', '.join(words)}{more}")
        reasons = reasons or self._tracker_problem or ["its artifact is gone or damaged"]
        return StageStatus(stage.label, "stale", reasons, seconds, would_run)

    def _preview_manifest(self, stage: Stage) -> ArtifactRef:
        """Read the source as ingest would, and add the manifest to the preview without storing it."""
        from storage.artifacts.tables import write_table

        artifact = stage.produce()
        with TemporaryDirectory() as folder:
            written = write_table(Path(folder) / "manifest", artifact)
        ref = ArtifactRef(stage.name, stage.recipe().key, written.digest, artifact.kind, written.rows)
        self._preview.add(ref, {"metadata": dict(artifact.metadata)})
        return ref


def inspect_stages(config: RunConfig) -> list[StageStatus]:
    """The status of every stage in the order of a run; reads the source, computes and stores nothing else."""
    workspace = open_workspace(config, Reporter())
    inspector = Inspector(config, workspace)
    walk(config, inspector.workspace, inspector)
    return [_detail(one, config, workspace) for one in inspector.found]


def _detail(one: StageStatus, config: RunConfig, workspace: Workspace) -> StageStatus:
    """Name the changed items of a stale ingest, and the number of items that features would extract."""
    if one.state != "stale" or one.label.partition("[")[0] not in ("ingest", "features"):
        return one
    source = ingest.open_collection(config.source, workspace, config.features.fills)
    collection = source.read(workspace.cache_dir)
    if one.label == "ingest":
        changes = _changes(config, collection, workspace)
        kept = [reason for reason in one.reasons if not reason.startswith("data: ")]
        return replace(one, reasons=[f"data: {changes}", *kept]) if changes else one
    block = find_block(plan_blocks(config.features, source, find_lacking(collection)), one.label)
    if block is None or block.recipe["extractor"] == TABLE:  # joining blocks or a table extracts nothing
        return one
    code = feature_code(block.recipe, source)
    known = load_known_rows(workspace.store, config.source, block.recipe, code, block.name)
    if not known.positions:
        return one
    digests = collection.part(find_part(block.recipe, source.parts)).digests
    missing = sum(digest not in known.positions for digest in digests)
    total = len(collection.ids)
    counted = f"{missing} of {total} items to extract"
    return replace(one, reasons=[counted, *one.reasons], seconds=known.seconds * missing / total)


def _changes(config: RunConfig, collection: Collection, workspace: Workspace) -> str:
    """How the items changed since the last run, in words."""
    last = load_last_run(workspace.store, config.source)["ingest"]
    try:
        known = unpack_manifest(workspace.store.read(ArtifactRef.from_json(last)))
    except StoreError:
        return ""
    return compare_readings(known, collection).describe()
