"""Evaluation stage: cross-validated scores of one method, one row per fold and metric.

The out-of-fold scores of every tested item are stored beside them. Of a projection they are those of the
largest number of neighbors: one neighbor votes 0 or 1 and knows no doubt.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from typing import Any

import numpy as np

from embedding_core.registry import get_method, method_modules
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.predictions import Predictions, pack_predictions, unpack_predictions
from storage.artifacts.schemas import Score, pack_scores, unpack_scores
from storage.artifacts.store import ArtifactStore
from tasks.dataset import load_dataset
from tasks.executor import StoreHandle
from tasks.folds import FoldJob, JudgedFold, evaluate_fold, map_folds, split_rows
from tasks.report.ranking import metric_title
from tasks.settings import EvaluationSettings
from tasks.stage import Stage, Workspace
from tasks.stages.embedding import Data, method_settings, takes_graph
from tasks.stages.neighbors import limit_neighbors

# Key of the metadata of scores: how test items were sampled.
_SAMPLED = "sampled"


def stage(
    name: str, params: Mapping[str, Any], settings: EvaluationSettings, data: Data, workspace: Workspace
) -> Stage:
    """Stage that scores one method; every method is scored on the same folds."""
    method = get_method(name)
    used = {"folds", "seed", "test_items", *(["n_neighbors"] if method.role == "projection" else [])}
    made = Stage(
        name="evaluation",
        variant=name,
        code=(
            *method_modules(name, params),
            "embedding_core.evaluation",
            "embedding_core.model_selection.folds",
        ),
        params={
            "method": method_settings(name, params),
            "scale": method.input_scale(data.scale),
            **settings.model_dump(mode="json", include=used),
        },
        inputs=data.inputs(takes_graph(name, params, data), workspace.store),
        produce=lambda: _evaluate(made, params, settings, data, workspace),
    )
    return made


def load_scores(store: ArtifactStore, ref: ArtifactRef) -> list[Score]:
    """Every score of one method."""
    return unpack_scores(store.read(ref))


def load_predictions(store: ArtifactStore, ref: ArtifactRef) -> tuple[str, Predictions]:
    """The out-of-fold scores stored beside the scores of one method, and the classifier that gave them."""
    known = json.loads(store.details(ref)["metadata"]["predictions"])
    return known["classifier"], unpack_predictions(store.read(ArtifactRef.from_json(known["ref"])))


def _evaluate(
    made: Stage, params: Mapping[str, Any], settings: EvaluationSettings, data: Data, workspace: Workspace
) -> Artifact:
    from embedding_core.model_selection.folds import check_folds

    assert data.manifest and data.features
    name, store = made.variant, workspace.store
    dataset = load_dataset(store, data.manifest, data.features)
    folds = split_rows(store, data.manifest, data.features, settings.folds, settings.seed)
    check_folds(folds, dataset.Y, dataset.label_names)
    smallest = min(len(train) for train, _ in folds)
    n_neighbors = [
        limit_neighbors("evaluation.n_neighbors", asked, smallest, workspace.reporter)
        for asked in settings.n_neighbors
    ]
    jobs = [
        FoldJob(
            store=StoreHandle(store),
            manifest=data.manifest,
            features=data.features,
            affinity=data.affinity if takes_graph(name, params, data) else None,
            method=name,
            params=params,
            scale=data.scale,
            n_folds=settings.folds,
            seed=settings.seed,
            fold=fold,
            n_neighbors=tuple(dict.fromkeys(n_neighbors)),
            test_items=settings.test_items,
        )
        for fold in range(len(folds))
    ]
    found = map_folds(evaluate_fold, jobs, f"evaluation[{name}]", workspace)
    packed = pack_scores(
        [
            Score(name, one.classifier, job.fold, one.metric, one.value)
            for job, judged in zip(jobs, found, strict=True)
            for one in judged.metrics
        ]
    )
    kept = _store_predictions(made, dataset.ids, found, store)
    known = {"predictions": canonical_json({"classifier": found[0].classifier, "ref": kept.to_json()})}
    tested = max(len(test) for _, test in folds)
    if tested > settings.test_items:
        size = ceil(tested / ceil(tested / settings.test_items))  # see `sample_rows`: parts of equal size
        sampled = {"test_items": size, "of": tested, "errors": _sampling_errors(found)}
        known[_SAMPLED] = canonical_json(sampled)
    return replace(packed, metadata={**packed.metadata, **known}, links=(kept,))


def _store_predictions(
    made: Stage, ids: Sequence[str], found: Sequence[JudgedFold], store: ArtifactStore
) -> ArtifactRef:
    """Store the out-of-fold scores with the same recipe."""
    recipe = replace(made.recipe(), stage="predictions")
    tested = [ids[row] for one in found for row in one.rows.tolist()]
    folds = np.repeat(np.arange(len(found)), [len(one.rows) for one in found])
    scores = np.concatenate([one.scores for one in found])
    produce = lambda: pack_predictions(Predictions(tested, folds, scores))  # noqa: E731
    return store.compute(recipe, produce, force=True, parents=made.parents).ref


def _sampling_errors(found: Sequence[JudgedFold]) -> dict[str, float]:
    """By metric: the standard error of the mean over folds that sampling causes, the largest of a method."""
    squares: dict[tuple[str, str], list[float]] = {}
    for fold in found:
        for one in fold.metrics:
            squares.setdefault((one.classifier, one.metric), []).append(one.error**2)
    errors: dict[str, float] = {}
    for (_, metric), values in squares.items():
        errors[metric] = max(errors.get(metric, 0.0), round(sqrt(sum(values)) / len(values), 6))
    return errors


def sampling_note(store: ArtifactStore, refs: Iterable[ArtifactRef | None], metric: str) -> str:
    """What a table of scores must say if only a sample of the test items was classified; else nothing."""
    known = (store.details(ref)["metadata"].get(_SAMPLED) for ref in refs if ref)
    sampled = [json.loads(text) for text in known if text]
    if not sampled:
        return ""
    error = max(one["errors"].get(metric, 0.0) for one in sampled)
    return (
        f"each fold tests a stratified sample of {sampled[0]['test_items']:,} of its "
        f"{sampled[0]['of']:,} items; standard error of a mean {metric_title(metric)} from sampling: "
        f"{error:.4f} or less"
    )
