"""An executor for tests: it runs folds in this process and keeps which ones it ran."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tasks.budget import Budget
from tasks.executor import Prefer, SerialExecutor
from tasks.folds import FoldJob


class RecordingExecutor(SerialExecutor):
    """Runs jobs one after another; `done` holds method and fold of each fold."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []

    def map(
        self,
        function: Callable[[Any], Any],
        jobs: Iterable[Any],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Any]:
        jobs = list(jobs)
        for job, result in zip(jobs, super().map(function, jobs, budget=budget), strict=True):
            if isinstance(job, FoldJob):
                self.done.append((job.method, job.fold))
            yield result
