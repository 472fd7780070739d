"""Folds in processes: the same answers as here, and an end when the budget ends."""

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from flows.pipeline import walk_data
from flows.runner import open_workspace
from tasks.fold_pool import FoldAnswer, FoldJob, FoldPool, do_fold
from tasks.reporter import Reporter
from tasks.selection.budget import Budget, BudgetEnded
from tasks.stage import run_stage
from tests.conftest import local_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> FoldJob:
    config = local_config("iris", tmp_path_factory.mktemp("pool"))
    workspace = open_workspace(config, Reporter())
    data = walk_data(config, workspace, lambda stage: run_stage(stage, workspace).ref).data
    assert data.manifest
    assert data.features
    return FoldJob(
        workspace.store.root, data.manifest, data.features, data.affinity, "svm", {}, "none", 3, 1, 0
    )


def other(job: FoldJob, **changes: object) -> FoldJob:
    return FoldJob(**{**job.__dict__, **changes})  # type: ignore[arg-type]


def children() -> int:
    return len(multiprocessing.active_children())


def test_answers_come_in_order_and_are_those_of_this_process(job: FoldJob) -> None:
    jobs = [other(job, fold=fold) for fold in range(3)]
    told: list[int] = []
    with FoldPool(2, Budget(600)) as pool:
        found = pool(jobs, told.append)
        again = pool(jobs[:1], told.append)
    for answer, one in zip([*found, *again], [*jobs, jobs[0]], strict=True):
        np.testing.assert_array_equal(answer.scores, do_fold(one).scores)
    assert told[-2:] == [3, 1]
    assert children() == 0


def test_a_budget_that_ends_kills_what_is_under_way(job: FoldJob) -> None:
    endless = other(job, method="random_forest", params={"n_estimators": 10**7})
    budget = Budget(15)
    begun = time.monotonic()
    with FoldPool(2, budget) as pool:
        budget.start()
        with pytest.raises(BudgetEnded, match="the budget of 15 s ended"):
            pool([endless, endless], lambda done: None)
        assert time.monotonic() - begun < 25
        assert children() == 0
        with pytest.raises(BudgetEnded):
            pool([job], lambda done: None)


def test_an_error_of_a_fit_comes_back_and_the_pool_goes_on(job: FoldJob) -> None:
    with FoldPool(1, Budget(600)) as pool:
        with pytest.raises(InvalidInput, match="C=-1 is not legal"):
            pool([other(job, params={"C": -1})], lambda done: None)
        assert len(pool([job], lambda done: None)) == 1


def test_a_process_that_is_killed_is_an_error_of_that_candidate(
    job: FoldJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.fold_pool.do_fold", kill_itself)
    with FoldPool(1, Budget(600)) as pool, pytest.raises(InvalidInput, match="ended from outside"):
        pool([job], lambda done: None)
    assert children() == 0


def kill_itself(job: FoldJob) -> FoldAnswer:
    os.kill(os.getpid(), 9)
    raise AssertionError(Path(job.root))
