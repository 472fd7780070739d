"""The artifacts of the last run of a source, for a run that starts in the middle (`run --from`)."""

from collections.abc import Mapping
from typing import Any

from flows.stale_reasons import explain
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError
from tasks.runs import chosen_places, load_last_places, load_last_run
from tasks.settings import SourceSettings
from tasks.stage import Stage

# Parts of the manifest that stages name as inputs.
_PARTS = {"items": "ingest", "labels": "ingest", "manifest": "ingest"}
# Settings that choose which external bytes a stage reads.
_CHOOSING = {"ingest": "source.labels", "affinity": "source.edges"}


class LastRunStages:
    """Artifacts of the last run that are reused although the bytes of the source may have changed.

    Parameters
    ----------
    store : ArtifactStore
    source : SourceSettings
        The source of this run; the last run is the one with the same path.
    """

    def __init__(self, store: ArtifactStore, source: SourceSettings) -> None:
        known = load_last_run(store, source)
        self._store = store
        self._refs = {label: ArtifactRef.from_json(ref) for label, ref in known.items()}
        self._places = chosen_places(source)
        self._last_places = load_last_places(store, source)

    def find(self, stage: Stage) -> ArtifactRef | None:
        """The verified artifact of the last run; None if there is none and the stage must be computed.

        Raises
        ------
        ConfigError
            The artifact was made with other settings or code than this run records, or from other inputs
            than the stages before it provide. Such results must not be mixed.
        """
        ref = self._refs.get(stage.label)
        if ref is None or not self._store.has(ref):
            return None
        known = self._store.details(ref)
        self._check(stage, ref, known)
        if self._store.find(Recipe(**known["recipe"]), verify=True) != ref:
            return None
        return ref if self._store.links_hold(known, verify=True) else None

    def _check(self, stage: Stage, ref: ArtifactRef, known: Mapping[str, Any]) -> None:
        remedy = f"use --from {stage.name}."
        before, now = Recipe(**known["recipe"]).ingredients(), stage.recipe().ingredients()
        reasons = explain(before, {**now, "inputs": before["inputs"]})
        differ = {
            role
            for role in {*before["inputs"], *now["inputs"]}
            if before["inputs"].get(role) != now["inputs"].get(role)
        }
        stored = differ & {*known["parents"], *stage.parents}
        if differ - stored:  # bytes from outside the store
            reasons += self._other_choice(stage, ref)
        if reasons:
            raise ConfigError(f"{stage.label} of the last run does not fit: {'; '.join(reasons)}; {remedy}")
        for role in sorted(stored):
            name = _PARTS.get(role, role)
            raise ConfigError(f"{stage.label} of the last run was made from another {name}; {remedy}")

    def _other_choice(self, stage: Stage, ref: ArtifactRef) -> list[str]:
        """A reason if another file or column was chosen; none if the content of the same one changed."""
        before, now = self._last_places.get(ref.key, "unknown"), self._places.get(stage.name)
        return [] if before == now else [f"parameter {_CHOOSING[stage.name]} {before} → {now}"]
