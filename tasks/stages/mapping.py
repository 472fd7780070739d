"""Map: the items on interactive maps, with their labels, predictions and pictures, as one artifact.

What is shown of each item (pictures, texts, rows) has a stage of its own: it depends on the items only, so
another method or a changed label does not draw the pictures again.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from embedding_core.registry import get_method
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import pack_files, unpack_embedding
from storage.artifacts.store import ArtifactStore
from storage.sources import OpenedSource
from storage.sources.base import PartName
from tasks.dataset import load_dataset
from tasks.map.controls import GROUP, titles
from tasks.map.data import MapData, MapView, sample_rows
from tasks.map.versions import load_versions, place_items
from tasks.report.judged import JudgedItems
from tasks.settings import EvaluationSettings, MapSettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data
from tasks.stages.ingest import items_of, part_digest

PICTURES, PLACES = "pictures", "places"
"""Variants of the stage: what is shown of each item, and the places of items on the version of the map."""
_SHOWN = ("images", "text", "features")

Refs = Mapping[str, ArtifactRef | None]


def shown_part(source: OpenedSource) -> PartName | None:
    """The part of the items that the map shows: pictures before texts before rows; None for sound."""
    order = {content: number for number, content in enumerate(_SHOWN)}
    found = [part for part in source.parts if part.content in order]
    return min(found, key=lambda part: order[part.content], default=None)


def pictures_stage(
    settings: MapSettings, source: OpenedSource, manifest: ArtifactRef | None, workspace: Workspace
) -> Stage | None:
    """Build the stage that collects what is shown of each item; None if there is nothing to show."""
    part = shown_part(source)
    if part is None or not settings.pictures:
        return None
    return Stage(
        name="map",
        variant=PICTURES,
        code=("tasks.map.pictures",),
        params={"pictures": settings.pictures, "part": part.name},
        inputs={"items": part_digest(manifest, items_of(part.name), workspace.store)},
        produce=lambda: _collect(settings, source, part, workspace),
    )


def places_stage(source: SourceSettings, data: Data, workspace: Workspace) -> Stage | None:
    """Build the stage that places all items on the newest version of the map; None without one."""
    store = workspace.store
    versions = load_versions(store, source)
    if not versions:
        return None
    version = versions[-1]

    def place() -> Artifact:
        assert data.manifest and data.features
        items = load_dataset(store, data.manifest, data.features)
        return place_items(version, items, data.manifest, store, workspace.reporter)

    return Stage(
        name="map",
        variant=PLACES,
        code=("tasks.map.versions",),
        params={"version": version.number},
        inputs={"base": digest_of(version.base), "features": digest_of(data.features)},
        produce=place,
    )


class ExtraView(NamedTuple):
    """A view besides the embeddings of the run; `fixed` if items keep their places on it."""

    title: str
    remark: str
    group: str
    ref: ArtifactRef | None
    fixed: bool = False


def extra_views(source: SourceSettings, made: Refs, store: ArtifactStore) -> list[ExtraView]:
    """The views of the newest version of the map, and of the controls of SLE-ML, from the stages before."""
    found = [
        ExtraView(one.title, "Items keep their places", "", made[PLACES], fixed=True)
        for one in load_versions(store, source)[-1:]
        if PLACES in made
    ]
    controls = [
        ExtraView(title, remark, GROUP, made[variant])
        for variant, (title, remark) in titles().items()
        if variant in made
    ]
    return [*controls, *found]


def stage(
    settings: MapSettings,
    evaluation: EvaluationSettings,
    title: str,
    source: OpenedSource,
    data: Data,
    embeddings: Refs,
    models: Refs,
    scores: Refs,
    extra: Sequence[ExtraView],
    workspace: Workspace,
) -> Stage:
    """Build the stage that packs the map."""
    inputs = {"manifest": data.manifest, "features": data.features}
    inputs |= {one.title: one.ref for one in extra}
    inputs |= {f"embedding[{name}]": ref for name, ref in embeddings.items()}
    inputs |= {f"model[{name}]": ref for name, ref in models.items()}
    inputs |= {f"evaluation[{name}]": ref for name, ref in scores.items()}
    return Stage(
        name="map",
        code=("tasks.map.packing", "tasks.report.judging", "embedding_core.annotation.evidence"),
        params={"title": title, "sort_by": evaluation.sort_by, "points": settings.points},
        inputs={name: digest_of(ref) for name, ref in inputs.items()},
        produce=lambda: _pack(
            settings, evaluation, title, source, data, embeddings, models, scores, extra, workspace
        ),
    )


def _collect(settings: MapSettings, source: OpenedSource, part: PartName, workspace: Workspace) -> Artifact:
    from tasks.map.pictures import pack_pictures

    collection = source.read(workspace.cache_dir)
    rows = sample_rows(len(collection.ids), settings.pictures).tolist()
    return pack_files(pack_pictures(collection.ids, collection.part(part.name), rows, workspace))


def _pack(
    settings: MapSettings,
    evaluation: EvaluationSettings,
    title: str,
    source: OpenedSource,
    data: Data,
    embeddings: Refs,
    models: Refs,
    scores: Refs,
    extra: Sequence[ExtraView],
    workspace: Workspace,
) -> Artifact:
    from tasks.map.packing import pack_map
    from tasks.report.judging import load_judged

    assert data.manifest and data.features
    store = workspace.store
    items = load_dataset(store, data.manifest, data.features)
    judged = load_judged(items, scores, evaluation.sort_by, store, embeddings, models)
    names = [name for name, ref in embeddings.items() if ref]
    views = [
        MapView(get_method(name).title, unpack_embedding(store.read(ref)).coordinates)
        for name, ref in embeddings.items()
        if ref
    ]
    support = _find_support(names, judged)
    more = [_load_view(one, items.ids, store) for one in extra]
    fixed = [len(views) + number for number, one in enumerate(extra) if one.fixed]
    made = MapData(
        title=title,
        source=source.name,
        ids=items.ids,
        Y=items.Y,
        label_names=items.label_names,
        split=items.split,
        views=[*views, *more],
        judged=judged,
        support=support,
        first=fixed[0] if fixed else support,
    )
    return pack_files(pack_map(made, settings.points))


def _load_view(view: ExtraView, ids: list[str], store: ArtifactStore) -> MapView:
    """The places of the present items; a version of the map also knows items that are gone."""
    assert view.ref
    known = unpack_embedding(store.read(view.ref))
    row_of = {name: row for row, name in enumerate(known.ids)}
    return MapView(view.title, known.coordinates[[row_of[name] for name in ids]], view.remark, view.group)


def _find_support(names: list[str], judged: JudgedItems | None) -> int:
    """The view of the method that predicts, or the first."""
    return names.index(judged.method) if judged and judged.method in names else 0
