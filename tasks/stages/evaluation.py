"""Evaluation stage: cross-validated scores of one method, one row per fold and metric."""

from collections.abc import Mapping
from typing import Any

from embedding_core.registry import get_method, method_modules
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Score, pack_scores, unpack_scores
from storage.artifacts.store import ArtifactStore
from tasks.dataset import load_dataset
from tasks.executor import StoreHandle
from tasks.folds import FoldJob, evaluate_fold, map_folds, split_rows
from tasks.settings import EvaluationSettings
from tasks.stage import Stage, Workspace
from tasks.stages.embedding import Data, method_settings, takes_graph
from tasks.stages.neighbors import limit_neighbors


def stage(
    name: str, params: Mapping[str, Any], settings: EvaluationSettings, data: Data, workspace: Workspace
) -> Stage:
    """Stage that scores one method; every method is scored on the same folds."""
    method = get_method(name)
    used = {"folds", "seed", "n_neighbors"} if method.role == "projection" else {"folds", "seed"}
    return Stage(
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
        produce=lambda: _evaluate(name, params, settings, data, workspace),
    )


def load_scores(store: ArtifactStore, ref: ArtifactRef) -> list[Score]:
    """Every score of one method."""
    return unpack_scores(store.read(ref))


def _evaluate(
    name: str, params: Mapping[str, Any], settings: EvaluationSettings, data: Data, workspace: Workspace
) -> Artifact:
    from embedding_core.model_selection.folds import check_folds

    assert data.manifest and data.features
    store = workspace.store
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
        )
        for fold in range(len(folds))
    ]
    found = map_folds(evaluate_fold, jobs, f"evaluation[{name}]", workspace)
    return pack_scores(
        [
            Score(name, one.classifier, job.fold, one.metric, one.value)
            for job, scores in zip(jobs, found, strict=True)
            for one in scores
        ]
    )
