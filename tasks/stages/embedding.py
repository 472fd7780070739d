"""Embedding and model: fit one method on the labeled items, embed all items, store the fitted model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from embedding_core.registry import get_method, ignores_graph, inner_methods, method_modules
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.models import FORMAT, dump_model
from storage.artifacts.schemas import Embedding, ModelFile, pack_embedding, pack_model, unpack_model
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.dataset import Dataset, load_dataset, load_graph
from tasks.selection.out_of_fold import CODE as DECISIONS
from tasks.selection.out_of_fold import Tuning, learn_thresholds
from tasks.settings import AnnotationSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.ingest import part_digest
from tasks.stages.neighbors import limit_neighbors

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator


# The scale that methods with `own_scaling` apply to their features.
_OWN_SCALE = "zscore"
# Parameters that make a method build its own graph.
_OWN_GRAPH = {"graph", "n_neighbors", "sigma", "tau"}


@dataclass(frozen=True)
class Data:
    """References to the inputs of every method.

    `scale` is the scale of the features for methods, and for the graph unless its edges were given.
    """

    manifest: ArtifactRef | None
    features: ArtifactRef | None
    affinity: ArtifactRef | None
    scale: str
    edges_given: bool = False
    joined: bool = False

    def inputs(self, uses_graph: bool, store: ArtifactStore) -> dict[str, str | None]:
        """Digests of a method's inputs; the graph only if the method uses it."""
        inputs = {"labels": part_digest(self.manifest, "labels", store), "features": digest_of(self.features)}
        return {**inputs, "affinity": digest_of(self.affinity)} if uses_graph else inputs


def stage(
    name: str, params: Mapping[str, Any], annotation: AnnotationSettings, data: Data, workspace: Workspace
) -> Stage:
    """Build the stage that embeds all items by one method and stores the fitted model beside it."""
    made = Stage(
        name="embedding",
        variant=name,
        code=(*method_modules(name, params), "embedding_core.annotator"),
        params={
            "method": method_settings(name, params),
            "scale": data.scale,
            **annotation.model_dump(mode="json"),
        },
        inputs=data.inputs(takes_graph(name, params, data), workspace.store),
        produce=lambda: _embed(made, params, annotation, data, workspace),
    )
    return made


def model_stage(
    name: str,
    params: Mapping[str, Any],
    data: Data,
    workspace: Workspace,
    variant: str = "",
    tuning: Tuning | None = None,
) -> Stage:
    """Build the stage that fits a classifier without an embedding.

    `variant` replaces the method's name in the label. With `tuning` the model has tuned thresholds; otherwise
    the threshold is 0.5.
    """
    method = get_method(name)
    tuned: dict[str, Any] = {"tune_for": tuning.tune_for} if tuning else {}
    scores = {"scores": digest_of(tuning.scores)} if tuning else {}
    return Stage(
        name="model",
        variant=variant or name,
        code=(*method_modules(name, params), "embedding_core.annotator", *(DECISIONS if tuning else ())),
        params={"method": method_settings(name, params), "scale": method.input_scale(data.scale), **tuned},
        inputs={**data.inputs(takes_graph(name, params, data), workspace.store), **scores},
        produce=lambda: _pack(name, _fit(name, params, AnnotationSettings(), data, workspace, tuning)[0]),
    )


def takes_graph(name: str, params: Mapping[str, Any], data: Data) -> bool:
    """Whether a method uses the run's graph.

    It does not if its parameters make it ignore the graph or build its own, or if it scales the features
    itself and the run's graph was built on features of another scale.
    """
    method = get_method(name)
    if ignores_graph(name, params) or _OWN_GRAPH & params.keys():
        return False
    return not method.own_scaling or data.edges_given or data.joined or data.scale == _OWN_SCALE


def method_settings(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a method from the registry and the configuration, as part of the artifact key."""
    method = get_method(name)
    known = {"facts": method.facts(), "params": {**method.defaults, **params}}
    inner = {one: get_method(one).facts() for one in inner_methods(name, params)}
    return {**known, "inner": inner} if inner else known


def load_model_payload(ref: ArtifactRef, store: ArtifactStore) -> bytes | None:
    """Load a fitted model, or the one stored beside an embedding; None if it must be fitted again."""
    known = store.details(ref)["metadata"].get("model")
    try:
        model = ArtifactRef.from_json(json.loads(known)) if known else ref
        return unpack_model(store.read(model))[0].payload
    except StoreError:
        return None


def _fit(
    name: str,
    params: Mapping[str, Any],
    annotation: AnnotationSettings,
    data: Data,
    workspace: Workspace,
    tuning: Tuning | None = None,
) -> tuple["Annotator", Dataset]:
    from embedding_core.annotator import Annotator

    assert data.manifest and data.features
    dataset = load_dataset(workspace.store, data.manifest, data.features)
    used = data.affinity is not None and takes_graph(name, params, data)
    graph = load_graph(workspace.store, data.affinity) if used else None
    labeled = int((dataset.Y >= 0).all(axis=1).sum())
    annotator = Annotator(
        method=name,
        params=dict(params),
        scale=data.scale,
        n_neighbors=limit_neighbors(
            "annotation.n_neighbors", annotation.n_neighbors, labeled, workspace.reporter
        ),
        weights=annotation.weights,
        single_label=dataset.single_label,
        label_names=dataset.label_names,
        recipe=dataset.recipe,
        thresholds=learn_thresholds(tuning, dataset, workspace.store) if tuning else None,
        blocks=dataset.blocks,
    )
    fitted = annotator.fit(dataset.X, dataset.Y, graph)
    for line in fitted.scaler_.describe_choices() if dataset.blocks else ():
        workspace.reporter.say_once(f"  {line}")
    return fitted, dataset


def _embed(
    made: Stage, params: Mapping[str, Any], annotation: AnnotationSettings, data: Data, workspace: Workspace
) -> Artifact:
    annotator, dataset = _fit(made.variant, params, annotation, data, workspace)
    packed = pack_embedding(
        Embedding(
            ids=dataset.ids,
            coordinates=_place_all(annotator, dataset.X),
            eigenvalues=annotator.model_.eigenvalues_,
            method=made.variant,
        )
    )
    model = _store_model(made, annotator, workspace.store)
    known = {"model": canonical_json(model.to_json())}
    return replace(packed, metadata={**packed.metadata, **known}, links=(model,))


def _place_all(annotator: "Annotator", X: Any) -> Any:
    """Coordinates of all items: from the fit if it used all rows, otherwise from the learned map."""
    if get_method(annotator.method).sees_all_rows:
        return annotator.model_.embedding_
    return annotator.transform(X)


def _store_model(made: Stage, annotator: "Annotator", store: ArtifactStore) -> ArtifactRef:
    """Store the fitted model beside the embedding, with the same recipe."""
    recipe = replace(made.recipe(), stage="model")
    produce = lambda: _pack(made.variant, annotator)  # noqa: E731
    return store.compute(recipe, produce, force=True, parents=made.parents).ref


def _pack(name: str, annotator: "Annotator") -> Artifact:
    return pack_model([ModelFile(name, FORMAT, dump_model(annotator))])
