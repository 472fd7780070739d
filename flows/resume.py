"""What the last run of a source left, for a run that begins in the middle."""

from collections.abc import Mapping
from typing import Any

from flows.stale_reasons import explain
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError
from tasks.maintenance.lineage import OUTSIDE
from tasks.runs import chosen_places, load_last_places, load_last_run
from tasks.settings import SourceSettings
from tasks.stage import Stage

# Parts of the manifest that stages name as inputs.
_PARTS = {"items": "ingest", "labels": "ingest", "manifest": "ingest"}
# Settings that choose which bytes from outside a stage reads.
_CHOOSING = {"ingest": "source.labels", "affinity": "source.edges"}


class LeftStages:
    """Artifacts of earlier stages that are taken as they are; only the bytes of the source may have changed.

    Parameters
    ----------
    store : ArtifactStore
    source : SourceSettings
        Of this run; the last one with the same path is meant.
    """

    def __init__(self, store: ArtifactStore, source: SourceSettings) -> None:
        known = load_last_run(store, source)
        self._store = store
        self._refs = {label: ArtifactRef.from_json(ref) for label, ref in known.items()}
        self._places = chosen_places(source)
        self._last_places = load_last_places(store, source)

    def take(self, stage: Stage) -> ArtifactRef | None:
        """The artifact that was left, verified; None where there is none and it must be computed.

        Raises
        ------
        ConfigError
            It was made by other settings or code than this run records, or of something else than the stages
            before it left: such results must not be mixed.
        """
        ref = self._refs.get(stage.label)
        if ref is None or not self._store.has(ref):
            return None
        recipe = Recipe(**self._store.details(ref)["recipe"])
        self._check(stage, ref, recipe.ingredients())
        if self._store.find(recipe, verify=True) != ref:
            return None
        return ref if self._store.links_hold(self._store.details(ref), verify=True) else None

    def _check(self, stage: Stage, ref: ArtifactRef, left: Mapping[str, Any]) -> None:
        remedy = f"use --from {stage.name}."
        now = stage.recipe().ingredients()
        reasons = explain(left, {**now, "inputs": left["inputs"]})
        differ = {
            role
            for role in {*left["inputs"], *now["inputs"]}
            if left["inputs"].get(role) != now["inputs"].get(role)
        }
        if differ & OUTSIDE:
            reasons += self._choices(stage, ref)
        if reasons:
            raise ConfigError(f"{stage.label} does not fit as it was left: {'; '.join(reasons)}; {remedy}")
        for role in sorted(differ - OUTSIDE):
            raise ConfigError(f"{stage.label} rests on an earlier {_PARTS.get(role, role)}; {remedy}")

    def _choices(self, stage: Stage, ref: ArtifactRef) -> list[str]:
        """That another file or column was chosen; nothing where the same one has changed."""
        before, now = self._last_places.get(ref.key, "unknown"), self._places.get(stage.name)
        return [] if before == now else [f"parameter {_CHOOSING[stage.name]} {before} → {now}"]
