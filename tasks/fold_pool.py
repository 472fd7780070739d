"""Folds in processes of their own: they fill the cores, and a budget that ends stops them at once.

A thread cannot be stopped, and one fit of a dear method may take longer than the whole budget.
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from tasks.dataset import Dataset, load_dataset, load_graph
from tasks.reporter import Advance
from tasks.selection.budget import Budget

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class FoldJob:
    """One fit: small enough to be sent to another process, which loads the arrays itself."""

    root: Path
    manifest: ArtifactRef
    features: ArtifactRef
    affinity: ArtifactRef | None
    method: str
    params: Mapping[str, Any]
    scale: str
    n_folds: int
    seed: int
    fold: int


@dataclass(frozen=True, eq=False)
class FoldAnswer:
    """Scores of the fold's test rows, in their order, and what the fit warned of."""

    scores: NDArray[np.float64]
    warnings: tuple[str, ...]


class FoldRunner(Protocol):
    """Whatever can do folds."""

    def __call__(self, jobs: Sequence[FoldJob], advance: Advance) -> list[FoldAnswer]:
        """Answers in the order of the jobs; BudgetEnded where there was no time for all."""


def do_fold(job: FoldJob) -> FoldAnswer:
    """Fit on the fold's training rows and score its test rows."""
    from embedding_core.evaluation import predict_fold

    dataset = _dataset(job.root, job.manifest, job.features)
    train, test = _folds(job.root, job.manifest, job.features, job.n_folds, job.seed)[job.fold]
    graph = _graph(job.root, job.affinity) if job.affinity else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        (found,) = predict_fold(
            job.method,
            job.params,
            dataset.X,
            dataset.Y,
            train,
            test,
            affinity=graph,
            scale=job.scale,
            single_label=dataset.single_label,
        )
    return FoldAnswer(found.scores, tuple(dict.fromkeys(str(one.message) for one in caught)))


class FoldPool:
    """Processes that do folds until the budget ends; leaving the context ends them.

    Parameters
    ----------
    workers : int
        How many at once.
    budget : Budget
    """

    def __init__(self, workers: int, budget: Budget) -> None:
        self._workers = workers
        self._budget = budget
        self._pool: ProcessPoolExecutor | None = None
        self._others: set[int | None] = set()

    def __enter__(self) -> Self:
        """Nothing is started before there is work."""
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def __call__(self, jobs: Sequence[FoldJob], advance: Advance) -> list[FoldAnswer]:
        """Do the jobs; what one of them raises is raised, BudgetEnded where time ran out."""
        if not self._budget.left:
            raise self._budget.over()
        with _interrupts_held():
            futures = [self._started().submit(do_fold, job) for job in jobs]
        try:
            self._await(futures, advance)
            return [future.result() for future in futures]
        except BrokenProcessPool:
            self._stop()
            raise InvalidInput(
                "a process that fitted it was ended from outside, as happens where memory runs out; "
                "set workers=1 so that fewer fits run at once"
            ) from None
        except BaseException:
            self._stop()
            raise

    def _await(self, futures: Sequence[Future[FoldAnswer]], advance: Advance) -> None:
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=self._budget.left, return_when=FIRST_COMPLETED)
            if not done:
                raise self._budget.over()
            for future in done:
                future.result()
            advance(len(futures) - len(pending))

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._others = {child.pid for child in multiprocessing.active_children()}
            # Spawned, not forked: this process has threads, of Prefect and of linear algebra.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, mp_context=context, initializer=_begin_worker)
        return self._pool

    def _stop(self) -> None:
        """End the processes, whatever they are at."""
        if self._pool is None:
            return
        for child in multiprocessing.active_children():
            if child.pid not in self._others:
                child.kill()
        # The pool's own thread buries them: were they joined here too, the one that comes second would
        # take a child for alive until the first has written down its end.
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while processes start: they inherit that, and would else break off amid an import."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """One thread a process; Ctrl-C is the parent's to handle; where the parent is gone, so is the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=1)
def _store(root: Path) -> ArtifactStore:
    return ArtifactStore.local(root)


def _dataset(root: Path, manifest: ArtifactRef, features: ArtifactRef) -> Dataset:
    return load_dataset(_store(root), manifest, features)


@lru_cache(maxsize=1)
def _graph(root: Path, affinity: ArtifactRef) -> "csr_array":
    return load_graph(_store(root), affinity)


@lru_cache(maxsize=1)
def _folds(
    root: Path, manifest: ArtifactRef, features: ArtifactRef, n_folds: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    from embedding_core.model_selection.folds import stratified_folds

    return stratified_folds(_dataset(root, manifest, features).Y, n_folds, seed)
