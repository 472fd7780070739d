"""Folds in this process, in place of those that `auto` starts: quick, and patches reach them."""

from collections.abc import Sequence
from typing import Self

from tasks.fold_pool import FoldAnswer, FoldJob, do_fold
from tasks.reporter import Advance
from tasks.selection.budget import Budget


class InlineFolds:
    """Does folds one after the other, and remembers which."""

    def __init__(self, workers: int, budget: Budget) -> None:
        self.budget = budget
        self.done: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""

    def __call__(self, jobs: Sequence[FoldJob], advance: Advance) -> list[FoldAnswer]:
        answers = []
        for number, job in enumerate(jobs, start=1):
            if not self.budget.left:
                raise self.budget.over()
            answers.append(do_fold(job))
            self.done.append((job.method, job.fold))
            advance(number)
        return answers
