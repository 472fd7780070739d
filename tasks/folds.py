"""One fold as a job: fit on its training rows and classify its test rows.

The evaluation of `run` and the candidates of `auto` both score methods this way.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from tasks.budget import Budget
from tasks.dataset import Dataset, load_dataset, load_graph
from tasks.executor import (
    AutoExecutor,
    Executor,
    Prefer,
    ProcessExecutor,
    SerialExecutor,
    StoreHandle,
    ThreadExecutor,
)
from tasks.settings import AffinitySettings
from tasks.stage import Workspace
from tasks.stages.graph import build_graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from embedding_core.evaluation import FoldScore

Result = TypeVar("Result")
# Folds on more bytes of features than this run one after the other, unless `executor` names processes.
_MOST_SHARED = 500_000_000


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
    closed : bool
        Whether the fit may see the features of the test rows, see `embedding_core.evaluation.predict_fold`.
    graph : AffinitySettings, optional
        How the graph was built from features. If the fit must not see the test rows it is built again
        without them. None for given edges: those of the test rows are left out.
    test_items : int, optional
        The most test rows that are classified; of more, a stratified sample.
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
    closed: bool = True
    graph: AffinitySettings | None = None
    test_items: int | None = None

    @property
    def title(self) -> str:
        """The fold in words, for messages."""
        return f"{self.method}, fold {self.fold + 1} of {self.n_folds}"


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """Every metric on the m tested rows of a fold, and the scores (m, K) of these rows by one classifier."""

    metrics: "list[FoldScore]"
    classifier: str
    rows: NDArray[np.intp]
    scores: NDArray[np.float64]


def evaluate_fold(job: FoldJob) -> JudgedFold:
    """Every metric on the fold's test rows; of several numbers of neighbors, the scores of the largest."""
    from embedding_core import evaluation

    given = _arguments(job)
    tested = evaluation.sample_rows(given["Y"], given["test"], job.test_items, job.seed)
    found = evaluation.predict_fold(**{**given, "test": tested})
    share = len(tested) / len(given["test"])
    metrics = evaluation.measure_predictions(given["Y"][tested], found, share)
    kept = found[int(np.argmax(job.n_neighbors)) if len(found) > 1 else 0]
    return JudgedFold(metrics, kept.classifier, tested, kept.scores)


def score_fold(job: FoldJob) -> NDArray[np.float64]:
    """Scores (m, K) of the fold's test rows by a classifier."""
    from embedding_core import evaluation

    given = _arguments(job)
    links = _test_links(job, given["test"])
    (found,) = evaluation.predict_fold(**given, closed=job.closed, links=links)
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
    with (
        _choose_executor(jobs[0], workspace.executor, prefer) as executor,
        workspace.reporter.progress(title, len(jobs)) as advance,
    ):
        for result in executor.map(function, jobs, budget=budget, prefer=prefer):
            results.append(result)
            advance(len(results))
    return results


def _choose_executor(job: FoldJob, usual: Executor, prefer: Prefer) -> AbstractContextManager[Executor]:
    """The executor of the run; one fold at a time for large features, each fold holds copies of its rows.

    Only a worker process can be stopped within a fold, which the budget of `auto` needs.
    """
    if _data_bytes(job) <= _MOST_SHARED or not isinstance(usual, AutoExecutor | ThreadExecutor):
        return nullcontext(usual)
    return ProcessExecutor(1) if prefer == "processes" else SerialExecutor()


def _data_bytes(job: FoldJob) -> int:
    X = load_dataset(job.store.store, job.manifest, job.features).X
    return int(X.nbytes) if isinstance(X, np.ndarray) else 0


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
        "affinity": _fold_graph(job, dataset, test) if job.affinity else None,
        "scale": job.scale,
        "n_neighbors": job.n_neighbors,
        "single_label": dataset.single_label,
        "blocks": dataset.blocks,
    }


def _fold_graph(job: FoldJob, dataset: Dataset, test: NDArray[np.intp]) -> Any:
    """The graph of the rows that the fit sees."""
    from embedding_core.evaluation import open_rows

    assert job.affinity
    if job.closed:
        return _graph(job.store.store, job.affinity)
    rows = open_rows(len(dataset.Y), test)
    if job.graph is None:
        return _graph(job.store.store, job.affinity)[rows][:, rows]
    return build_graph(job.graph, job.scale, dataset.recipe, dataset.X[rows]).W


def _test_links(job: FoldJob, test: NDArray[np.intp]) -> Any:
    """Given links from the test rows to those that the fit sees: new items arrive with their links."""
    from embedding_core.evaluation import open_rows

    if job.closed or job.graph is not None or job.affinity is None:
        return None
    graph = _graph(job.store.store, job.affinity)
    return graph[test][:, open_rows(graph.shape[0], test)]


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
