"""What the last run of a source left, for a run that begins in the middle."""

from collections.abc import Mapping
from typing import Any

from flows.reasons import explain
from storage.errors import ConfigError
from storage.keys import ArtifactRef, Recipe
from storage.store import Store
from tasks.lineage import OUTSIDE
from tasks.stage import Stage

# Parts of the manifest that stages name as inputs.
_PARTS = {"items": "ingest", "labels": "ingest", "manifest": "ingest"}


class LeftStages:
    """Artefacts of earlier stages that are taken as they are; only the bytes of the source may have changed.

    Parameters
    ----------
    store : Store
    refs : mapping of str to ArtifactRef
        By the stage's label.
    """

    def __init__(self, store: Store, refs: Mapping[str, ArtifactRef]) -> None:
        self._store = store
        self._refs = refs

    def take(self, stage: Stage) -> ArtifactRef | None:
        """The artefact that was left, verified; None where there is none and it must be computed.

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
        _check(stage, recipe.ingredients())
        if self._store.find(recipe, verify=True) != ref:
            return None
        return ref if self._store.links_hold(self._store.details(ref), verify=True) else None


def _check(stage: Stage, left: Mapping[str, Any]) -> None:
    remedy = f"use --from {stage.name}."
    now = stage.recipe().ingredients()
    if reasons := explain(left, {**now, "inputs": left["inputs"]}):
        raise ConfigError(f"{stage.label} was left by another configuration: {'; '.join(reasons)}; {remedy}")
    for role in {**left["inputs"], **now["inputs"]}:
        if role not in OUTSIDE and left["inputs"].get(role) != now["inputs"].get(role):
            raise ConfigError(f"{stage.label} rests on an earlier {_PARTS.get(role, role)}; {remedy}")
