"""Run one function over many jobs: in this process, in threads, in worker processes, or on a cluster.

Every stage that does the same work for many things (folds, trials, image portions) calls `Executor.map`. The
setting `executor` chooses the implementation. Every implementation gives the same bytes, because jobs share
no state and each one uses a single thread of linear algebra.

A job is a small reference, such as a path or a fold number. A worker process loads the arrays itself. The
executor for clusters is in `tasks.cluster`.
"""

import multiprocessing
import os
import re
import signal
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from embedding_core.errors import InvalidInput
from embedding_core.threads import count_cores
from tasks.budget import Budget
from tasks.store_handle import StoreHandle as StoreHandle

Job = TypeVar("Job")
Result = TypeVar("Result")
Prefer = Literal["threads", "processes"]

THREAD_NAME = "labelscape-job"
"""Prefix of the names of threads that run jobs."""
_SETTING = re.compile(r"auto|serial|(threads|processes):([1-9]\d{0,3})")
_CLUSTER = re.compile(r"(dask|tls)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([1-9]\d{0,4})")
_LAST_PORT = 65535
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Windows of small jobs: enough to keep the workers busy, few enough to bound the memory of results.
_AHEAD = 2


class WorkerKilled(InvalidInput):
    """A worker process was killed; the same command can succeed when more memory is free."""


class Executor(ABC):
    """Runs a function over jobs; leaving the context stops what it started.

    A new implementation overrides `map` and `close`, and gets a value of the setting in `make_executor`.

    Attributes
    ----------
    shares_store : bool
        Whether workers reach the store of the run. They then write whole portions of a result themselves.
    """

    shares_store: ClassVar[bool] = False

    @abstractmethod
    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Result]:
        """Yield the results in the order of the jobs.

        Parameters
        ----------
        function : callable
            A module-level function, or a `functools.partial` of one: it may be sent to another process.
        jobs : iterable
            Consumed a few jobs ahead of the results, so that memory does not grow with their number.
        budget : Budget, optional
            When it ends, worker processes are killed at once; other executors stop between two jobs.
        prefer : {"threads", "processes"}
            What `auto` chooses. Threads start at once and suit jobs that release Python's lock; processes
            suit long fits and can be stopped at any time.

        Raises
        ------
        BudgetEnded
            The budget ended before the last job.
        WorkerKilled
            A worker process died.
        """

    def close(self) -> None:  # noqa: B027  nothing to stop unless workers outlive `map`
        """Stop workers; a later `map` starts them again."""

    def __enter__(self) -> Self:
        """Start nothing: workers start with the first job."""
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def make_executor(setting: str, home: Path | None = None) -> Executor:
    """Executor for a setting: `auto`, `serial`, `threads:N`, `processes:N` or the address of a scheduler.

    `home` has the certificates of its own local cluster.

    >>> type(make_executor("threads:2")).__name__
    'ThreadExecutor'
    """
    kind, workers = parse_executor(setting)
    if kind == "cluster":
        from tasks.cluster import ClusterExecutor

        return ClusterExecutor(setting, home)
    if kind == "threads":
        return ThreadExecutor(workers)
    if kind == "processes":
        return ProcessExecutor(workers)
    return AutoExecutor(workers) if kind == "auto" else SerialExecutor()


def parse_executor(setting: str) -> tuple[str, int]:
    """Kind and number of workers of a setting; `auto` has one worker per core, a cluster says later.

    >>> parse_executor("processes:4"), parse_executor("serial"), parse_executor("dask://node1:8786")
    (('processes', 4), ('serial', 1), ('cluster', 0))
    """
    cluster = _CLUSTER.fullmatch(setting)
    if cluster and int(cluster[2]) <= _LAST_PORT:
        return "cluster", 0
    found = _SETTING.fullmatch(setting)
    if found is None:
        raise ValueError(
            f"{setting!r} is not an executor; use auto, serial, threads:N or processes:N with N from 1, or "
            "the scheduler of a Dask cluster: dask://host:port, or tls://host:port"
        )
    kind, workers = found.groups()
    if kind:
        return kind, int(workers)
    return setting, count_cores() if setting == "auto" else 1


class SerialExecutor(Executor):
    """Runs jobs one after another in this thread."""

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Result]:
        """Yield the results in order."""
        with _one_blas_thread():
            for job in jobs:
                yield _run_within(budget, function, job)


class ThreadExecutor(Executor):
    """Runs jobs in threads of this process.

    Parameters
    ----------
    workers : int
        Number of threads.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Result]:
        """Yield the results in order."""
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix=THREAD_NAME)
        run = partial(_run_within, budget, function)
        wait = True
        try:
            with _one_blas_thread():
                yield from _in_order(partial(pool.submit, run), jobs, _AHEAD * self.workers, Future.result)
        except Exception:
            raise
        except BaseException:
            wait = False  # an interrupt must not wait for a long fit
            raise
        finally:
            pool.shutdown(wait=wait, cancel_futures=True)


class ProcessExecutor(Executor):
    """Runs jobs in worker processes, which are kept for the next call.

    Parameters
    ----------
    workers : int
        Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._others: set[int | None] = set()

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Result]:
        """Yield the results in order; warnings of the workers are raised again here."""
        submit = partial(self._submit, function)
        try:
            for result, texts in _in_order(submit, jobs, _AHEAD * self.workers, partial(_await, budget)):
                for text in texts:
                    warnings.warn(text, UserWarning, stacklevel=2)
                yield result
        except BrokenProcessPool:
            self.close()
            raise WorkerKilled(
                "a worker process was killed, which usually means that memory ran out; run fewer jobs at "
                "once with --set executor=processes:1"
            ) from None
        except BaseException:
            self.close()
            raise

    def _submit(self, function: Callable[[Job], Result], job: Job) -> "Future[tuple[Result, list[str]]]":
        with _signals_blocked():
            return self._started().submit(_run_in_worker, function, job)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._others = {child.pid for child in multiprocessing.active_children()}
            # Spawned, not forked: this process has threads, of Prefect and of linear algebra.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_begin_worker)
        return self._pool

    def close(self) -> None:
        """Kill the workers at once."""
        if self._pool is None:
            return
        for child in multiprocessing.active_children():
            if child.pid not in self._others:
                child.kill()
        # The pool's own thread joins the processes. Joining them here as well would race with it.
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None


class AutoExecutor(Executor):
    """Runs jobs in threads or in processes, as each call prefers.

    Parameters
    ----------
    workers : int
        Number of threads, and of processes.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadExecutor(workers)
        self._processes = ProcessExecutor(workers)

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Result]:
        """Yield the results in order."""
        chosen = self._processes if prefer == "processes" else self._threads
        return chosen.map(function, jobs, budget=budget)

    def close(self) -> None:
        """Kill the worker processes."""
        self._processes.close()


def _in_order(
    submit: Callable[[Job], "Future[Result]"],
    jobs: Iterable[Job],
    ahead: int,
    result: Callable[["Future[Result]"], Result],
) -> Iterator[Result]:
    """Results in the order of the jobs, with at most `ahead` jobs submitted before the awaited one."""
    pending: deque[Future[Result]] = deque()
    for job in jobs:
        pending.append(submit(job))
        if len(pending) > ahead:
            yield result(pending.popleft())
    while pending:
        yield result(pending.popleft())


def _run_within(budget: Budget | None, function: Callable[[Job], Result], job: Job) -> Result:
    """Run one job unless the budget has ended."""
    if budget is not None and not budget.left:
        raise budget.over()
    return function(job)


def _await(budget: Budget | None, future: "Future[Result]") -> Result:
    """Wait for a result until the budget ends."""
    if budget is None:
        return future.result()
    try:
        return future.result(timeout=budget.left)
    except TimeoutError:
        if future.done():  # the job itself raised it, or it ended in this instant
            return future.result()
        raise budget.over() from None


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit linear algebra to one thread: jobs fill the cores, and sums are added in one order.

    The limit reaches libraries that are loaded already, so callers import what their jobs need first.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM while a process starts; it inherits the mask, so no import is interrupted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Prepare a worker: one thread, signals are left to the parent, and it exits when the parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in ONE_THREAD:
        os.environ[name] = "1"


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_worker(function: Callable[[Any], Result], job: Any) -> tuple[Result, list[str]]:
    """Result of one job with the texts of its warnings, which would otherwise be lost."""
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always", UserWarning)
        result = function(job)
    return result, list(dict.fromkeys(str(one.message) for one in caught))
