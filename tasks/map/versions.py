"""A map that never moves: places of items that stay as they are while items arrive.

A version of the map is an embedding of an earlier run that was chosen on purpose. Its items keep their
places, byte for byte. New items, and items whose content changed, are placed by the model of that embedding;
from then on they keep their places too. A pointer in the store lists the versions of a source.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.registry import get_method
from storage.artifacts.artifact import Artifact
from storage.artifacts.columns import read_metadata
from storage.artifacts.keys import ArtifactRef, Recipe, canonical_json
from storage.artifacts.models import load_model
from storage.artifacts.schemas import (
    SCHEMA_VERSION,
    Embedding,
    pack_embedding,
    unpack_embedding,
    unpack_manifest,
)
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError
from tasks.dataset import Dataset
from tasks.map.movement import Movement, measure_movement
from tasks.report.ranking import rank_entries
from tasks.reporter import Reporter
from tasks.runs import MAP_PREFIX, load_last_run, source_id, source_place
from tasks.settings import SourceSettings
from tasks.stages.embedding import load_model_payload
from tasks.stages.evaluation import load_scores

_DIGESTS = "digests"


@dataclass(frozen=True)
class MapVersion:
    """One version of the map of a source.

    Attributes
    ----------
    number : int
    method : str
    base, places : ArtifactRef
        The embedding that was chosen, and the latest places of all items that were ever on this map.
    made : str
        Time in ISO 8601.
    movement : Movement or None
        How far items moved from the version before.
    """

    number: int
    method: str
    base: ArtifactRef
    places: ArtifactRef
    made: str
    movement: Movement | None = None

    @property
    def title(self) -> str:
        """Name of its view."""
        return f"Map version {self.number} ({get_method(self.method).title})"

    def to_json(self) -> dict[str, Any]:
        """As plain data, without references."""
        moved = asdict(self.movement) if self.movement else None
        return {"number": self.number, "method": self.method, "made": self.made, "movement": moved}


def load_versions(store: ArtifactStore, source: SourceSettings) -> list[MapVersion]:
    """The versions of the map of a source, oldest first."""
    known = store.read_pointer(_pointer(source)) or {}
    refs = {name: ArtifactRef.from_json(ref) for name, ref in known.get("stages", {}).items()}
    return [
        MapVersion(
            one["number"],
            one["method"],
            refs[f"base {one['number']}"],
            refs[f"places {one['number']}"],
            one["made"],
            Movement(**one["movement"]) if one["movement"] else None,
        )
        for one in known.get("versions", [])
    ]


def make_version(
    store: ArtifactStore, source: SourceSettings, method: str | None = None, sort_by: str = "macro_f1"
) -> MapVersion:
    """Make the newest embedding of a source the next version of its map, and state how far items move.

    Without `method` it is that of the best method by `sort_by`.
    """
    refs = {name: ArtifactRef.from_json(ref) for name, ref in load_last_run(store, source).items()}
    chosen = _choose(refs, method, sort_by, store)
    base, manifest = refs[f"embedding[{chosen}]"], refs["ingest"]
    places = _store_places(store, unpack_embedding(store.read(base)), _digests(store, manifest), base)
    versions = load_versions(store, source)
    moved = None
    if versions:
        before, after = (unpack_embedding(store.read(ref)) for ref in (versions[-1].places, places))
        moved = measure_movement(before.ids, before.coordinates, after.ids, after.coordinates)
    made = MapVersion(
        versions[-1].number + 1 if versions else 1,
        chosen,
        base,
        places,
        datetime.now(UTC).isoformat(timespec="seconds"),
        moved,
    )
    _write(store, source, [*versions, made])
    return made


def place_items(
    version: MapVersion, dataset: Dataset, manifest: ArtifactRef, store: ArtifactStore, reporter: Reporter
) -> Artifact:
    """Places of all items: known ones as they are, the others by the model of the version."""
    known = unpack_embedding(store.read(version.places))
    earlier = dict(zip(known.ids, _stored_digests(store, version.places), strict=True))
    present = _digests(store, manifest)
    fixed = np.isfinite(known.coordinates).all(axis=1)
    keeps = [
        row
        for row, name in enumerate(known.ids)
        if fixed[row] and present.get(name, earlier[name]) == earlier[name]
    ]
    placed = {known.ids[row] for row in keeps}
    new = [row for row, name in enumerate(dataset.ids) if name not in placed]
    coordinates = np.concatenate(
        [known.coordinates[keeps], _place_new(version, dataset, new, store, reporter)]
    )
    ids = [known.ids[row] for row in keeps] + [dataset.ids[row] for row in new]
    digests = {name: present.get(name) or earlier[name] for name in ids}
    return _pack_places(Embedding(ids, coordinates, known.eigenvalues, version.method), digests, version.base)


def remember_places(store: ArtifactStore, source: SourceSettings, ref: ArtifactRef) -> None:
    """Make places the latest of the newest version, unless those known have more items."""
    versions = load_versions(store, source)
    if versions and ref.rows >= versions[-1].places.rows and ref != versions[-1].places:
        _write(store, source, [*versions[:-1], replace(versions[-1], places=ref)])


def _choose(refs: Mapping[str, ArtifactRef], method: str | None, sort_by: str, store: ArtifactStore) -> str:
    found = [name[len("embedding[") : -1] for name in refs if name.startswith("embedding[")]
    usable = [name for name in found if get_method(name).inductive]
    if not usable:
        raise ConfigError(
            "the last run of this source has no embedding that can place new items; start with "
            "`labelscape run` and a projection, for instance --methods multilabel_dle."
        )
    if method is None:
        scores = [ref for name, ref in refs.items() if name.startswith("evaluation[")]
        ranked = rank_entries([row for ref in scores for row in load_scores(store, ref)], sort_by)
        return next((one.method for one in ranked if one.method in usable), usable[0])
    if method not in usable:
        raise ConfigError(
            f"the last run has no embedding by {method!r} that can place new items; "
            f"choose from {', '.join(usable)}."
        )
    return method


def _place_new(
    version: MapVersion, dataset: Dataset, rows: list[int], store: ArtifactStore, reporter: Reporter
) -> NDArray[np.float64]:
    """Places of new items by the model; NaN if their features are of another kind."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    dimensions = unpack_embedding(store.read(version.base)).coordinates.shape[1]
    if not rows:
        return np.empty((0, dimensions))
    payload = load_model_payload(version.base, store)
    model = load_model(payload, SKOPS_TRUSTED_TYPES) if payload else None
    if model is None or dict(model.recipe or {}) != dataset.recipe:
        why = "its model is gone" if model is None else "it was made from other features"
        reporter.warn(
            f"{len(rows)} items are not on map version {version.number}: {why}; "
            "make a new version with `labelscape map --new`."
        )
        return np.full((len(rows), dimensions), np.nan)
    found: NDArray[np.float64] = model.transform(dataset.X[rows])
    return found


def _digests(store: ArtifactStore, manifest: ArtifactRef) -> dict[str, str]:
    items = unpack_manifest(store.read(manifest))
    return dict(zip(items.ids, items.digests, strict=True))


def _stored_digests(store: ArtifactStore, places: ArtifactRef) -> list[str]:
    return [str(one) for one in json.loads(read_metadata(store.read(places))[_DIGESTS])]


def _pack_places(places: Embedding, digests: Mapping[str, str], base: ArtifactRef) -> Artifact:
    packed = pack_embedding(places)
    known = {_DIGESTS: canonical_json([digests[name] for name in places.ids])}
    return replace(packed, metadata={**packed.metadata, **known}, links=(base,))


def _store_places(
    store: ArtifactStore, embedding: Embedding, digests: Mapping[str, str], base: ArtifactRef
) -> ArtifactRef:
    """Store the places of a new version: those of its embedding."""
    contents = canonical_json([digests[name] for name in embedding.ids])
    recipe = Recipe("map", "places", {}, {"contents": contents}, {"base": base.digest}, SCHEMA_VERSION)
    return store.compute(recipe, lambda: _pack_places(embedding, digests, base), parents={"base": base}).ref


def _write(store: ArtifactStore, source: SourceSettings, versions: list[MapVersion]) -> None:
    refs = {f"base {one.number}": one.base.to_json() for one in versions}
    refs |= {f"places {one.number}": one.places.to_json() for one in versions}
    listed = [one.to_json() for one in versions]
    pointer = {"source": source_place(source), "stages": refs, "versions": listed}
    store.write_pointer(_pointer(source), pointer)


def _pointer(source: SourceSettings) -> str:
    return f"{MAP_PREFIX}{source_id(source)}"
