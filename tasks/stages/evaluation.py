"""Evaluation: one method on the same folds as all others, one row a fold and metric."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from embedding_core.registry import get_method, method_modules
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Score, pack_scores, unpack_scores
from storage.artifacts.store import Artifact, ArtifactStore
from tasks.dataset import load_dataset, load_graph
from tasks.settings import EvaluationSettings
from tasks.stage import Stage, Workspace
from tasks.stages.embedding import Data, method_settings, takes_graph
from tasks.stages.neighbors import limit_neighbors


def stage(
    name: str, params: Mapping[str, Any], settings: EvaluationSettings, data: Data, workspace: Workspace
) -> Stage:
    """Scores of one method over the folds."""
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
    from threadpoolctl import threadpool_limits

    from embedding_core.evaluation import evaluate_fold
    from embedding_core.model_selection.folds import check_folds, stratified_folds

    assert data.manifest and data.features
    dataset = load_dataset(workspace.store, data.manifest, data.features)
    graph = load_graph(workspace.store, data.affinity) if takes_graph(name, params, data) else None
    folds = stratified_folds(dataset.Y, settings.folds, settings.seed)
    check_folds(folds, dataset.Y, dataset.label_names)
    smallest = min(len(train) for train, _ in folds)
    n_neighbors = [
        limit_neighbors("evaluation.n_neighbors", asked, smallest, workspace.reporter)
        for asked in settings.n_neighbors
    ]

    def score(fold: int) -> list[Score]:
        train, test = folds[fold]
        found = evaluate_fold(
            name,
            params,
            dataset.X,
            dataset.Y,
            train,
            test,
            affinity=graph,
            scale=data.scale,
            n_neighbors=list(dict.fromkeys(n_neighbors)),
            single_label=dataset.single_label,
        )
        return [Score(name, one.classifier, fold, one.metric, one.value) for one in found]

    # One BLAS thread a fold: the folds themselves fill the cores, and sums come out in the same order.
    with threadpool_limits(1), _pool(workspace.n_threads) as pool:
        rows: list[Score] = []
        with workspace.reporter.progress(f"evaluation[{name}]", len(folds)) as advance:
            for done, part in enumerate(pool.map(score, range(len(folds))), start=1):
                rows += part
                advance(done)
    return pack_scores(rows)


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that begin nothing more once the run is interrupted."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
