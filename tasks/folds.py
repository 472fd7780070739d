"""One fold as a job: fit on its training rows and classify its test rows.

The evaluation of `run` and the candidates of `auto` both score methods this way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from tasks.budget import Budget
from tasks.dataset import load_dataset, load_graph
from tasks.executor import Prefer, StoreHandle
from tasks.stage import Workspace

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from embedding_core.evaluation import FoldScore

Result = TypeVar("Result")


@dataclass(frozen=True)
class FoldJob:
    """One fit, by reference.

    Attributes
    ----------
    store : StoreHandle
        Where the artifacts are; all of them must be in its folder.
    manifest, features, affinity : ArtifactRef
        The data; `affinity` is None for methods that use no graph.
    method, params, scale
        The method, its parameters and the scale of its input.
    n_folds, seed, fold : int
        How rows are split, and which of the folds is held out.
    n_neighbors : sequence of int
        Values of k for kNN in the embedding of a projection; classifiers do not use them.
    """

    store: StoreHandle
    manifest: ArtifactRef
    features: ArtifactRef
    affinity: ArtifactRef | None
    method: str
    params: Mapping[str, Any]
    scale: str
    n_folds: int
    seed: int
    fold: int
    n_neighbors: Sequence[int] = (1,)


def evaluate_fold(job: FoldJob) -> "list[FoldScore]":
    """Every metric on the fold's test rows."""
    from embedding_core import evaluation

    return evaluation.evaluate_fold(**_arguments(job))


def score_fold(job: FoldJob) -> NDArray[np.float64]:
    """Scores (m, K) of the fold's test rows by a classifier."""
    from embedding_core import evaluation

    (found,) = evaluation.predict_fold(**_arguments(job))
    return found.scores


def map_folds(
    function: Callable[[FoldJob], Result],
    jobs: Sequence[FoldJob],
    title: str,
    workspace: Workspace,
    prefer: Prefer = "threads",
    budget: Budget | None = None,
) -> list[Result]:
    """Run a function over folds with a progress bar; see `tasks.executor.Executor.map`."""
    if not jobs:
        return []
    _prepare(jobs[0])
    results: list[Result] = []
    with workspace.reporter.progress(title, len(jobs)) as advance:
        for result in workspace.executor.map(function, jobs, budget=budget, prefer=prefer):
            results.append(result)
            advance(len(results))
    return results


def _prepare(job: FoldJob) -> None:
    """Load code and data once in this process.

    This limits the threads of every numerical library, fills the caches before several threads ask for the
    same data, and copies artifacts of a shared store to the folder that worker processes read.
    """
    import embedding_core.evaluation  # noqa: F401

    _arguments(job)


def _arguments(job: FoldJob) -> dict[str, Any]:
    """Arguments of the core function that fits the fold."""
    store = job.store.store
    dataset = load_dataset(store, job.manifest, job.features)
    train, test = split_rows(store, job.manifest, job.features, job.n_folds, job.seed)[job.fold]
    return {
        "method": job.method,
        "params": job.params,
        "X": dataset.X,
        "Y": dataset.Y,
        "train": train,
        "test": test,
        "affinity": _graph(store, job.affinity) if job.affinity else None,
        "scale": job.scale,
        "n_neighbors": job.n_neighbors,
        "single_label": dataset.single_label,
        "blocks": dataset.blocks,
    }


@lru_cache(maxsize=1)
def _graph(store: ArtifactStore, affinity: ArtifactRef) -> "csr_array":
    return load_graph(store, affinity)


@lru_cache(maxsize=1)
def split_rows(
    store: ArtifactStore, manifest: ArtifactRef, features: ArtifactRef, n_folds: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows of each fold."""
    from embedding_core.model_selection.folds import stratified_folds

    return stratified_folds(load_dataset(store, manifest, features).Y, n_folds, seed)
