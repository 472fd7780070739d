"""One executor for folds, trials and image portions: same results, order, budget and errors."""

import multiprocessing
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from flows.pipeline import walk_data
from flows.runner import open_workspace
from tasks.budget import Budget, BudgetEnded
from tasks.executor import StoreHandle, make_executor, parse_executor
from tasks.folds import FoldJob, evaluate_fold, score_fold
from tasks.reporter import Reporter
from tasks.stage import run_stage
from tests.conftest import local_config, run_locally

SETTINGS = ["serial", "threads:2", pytest.param("processes:2", marks=pytest.mark.slow)]
every_executor = pytest.mark.parametrize("setting", SETTINGS)


def square(number: int) -> int:
    if number < 0:
        raise InvalidInput(f"{number} is negative")
    if number == 3:
        warnings.warn("three is odd", UserWarning, stacklevel=2)
    return number * number


def blas_threads(_: int) -> int:
    from threadpoolctl import threadpool_info

    return max(one["num_threads"] for one in threadpool_info())


def kill_itself(_: int) -> None:
    os.kill(os.getpid(), 9)


def never_end(_: int) -> None:
    threading.Event().wait()


def children() -> int:
    return len(multiprocessing.active_children())


@pytest.mark.parametrize(
    ("setting", "found"),
    [("serial", ("serial", 1)), ("threads:1", ("threads", 1)), ("processes:16", ("processes", 16))],
)
def test_settings(setting: str, found: tuple[str, int]) -> None:
    assert parse_executor(setting) == found


@pytest.mark.parametrize("setting", ["", "thread:2", "threads", "threads:0", "processes:-1", "tcp://host:1"])
def test_an_unknown_setting_names_the_allowed_ones(setting: str) -> None:
    with pytest.raises(ValueError, match="use auto, serial, threads:N or processes:N"):
        make_executor(setting)


def test_auto_has_one_worker_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.executor.count_cores", lambda: 7)
    assert parse_executor("auto") == ("auto", 7)


@every_executor
def test_results_come_in_the_order_of_the_jobs(setting: str) -> None:
    with make_executor(setting) as executor, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            assert list(executor.map(square, range(20))) == [number**2 for number in range(20)]
    assert children() == 0


@every_executor
def test_an_error_of_a_job_is_raised_and_the_executor_can_be_used_again(setting: str) -> None:
    with make_executor(setting) as executor:
        with pytest.raises(InvalidInput, match="-1 is negative"):
            list(executor.map(square, [1, 2, -1, 4]))
        assert list(executor.map(square, [5])) == [25]


@every_executor
def test_warnings_of_jobs_reach_the_caller(setting: str) -> None:
    with make_executor(setting) as executor, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(executor.map(square, range(5)))
    assert [str(one.message) for one in caught] == ["three is odd"]


@every_executor
def test_each_job_has_one_thread_of_linear_algebra(setting: str) -> None:
    import scipy.linalg  # noqa: F401

    with make_executor(setting) as executor:
        assert list(executor.map(blas_threads, range(3))) == [1, 1, 1]


@pytest.mark.parametrize("setting", ["serial", "threads:2"])
def test_jobs_are_consumed_a_few_ahead_of_the_results(setting: str) -> None:
    consumed: list[int] = []

    def jobs() -> object:
        for number in range(10, 200):
            consumed.append(number)
            yield number

    results = make_executor(setting).map(square, jobs())  # type: ignore[arg-type]
    for taken in range(1, 20):
        next(results)
        assert len(consumed) <= taken + 5
    results.close()  # type: ignore[attr-defined]
    assert len(consumed) < 30


@pytest.mark.parametrize("setting", ["serial", "threads:1"])
def test_a_budget_that_ends_stops_between_jobs(setting: str) -> None:
    done: list[int] = []
    budget = Budget(3, clock=lambda: float(len(done)))  # every job takes a second
    budget.start()
    with pytest.raises(BudgetEnded, match="the budget of 3 s ended"):
        list(make_executor(setting).map(done.append, range(10), budget=budget))
    assert done == [0, 1, 2]


@pytest.mark.slow
def test_a_budget_that_ends_kills_processes_that_are_working() -> None:
    budget = Budget(0.5)
    budget.start()
    with make_executor("processes:2") as executor:
        with pytest.raises(BudgetEnded):
            list(executor.map(never_end, [1, 2], budget=budget))
        assert children() == 0
        with pytest.raises(BudgetEnded):
            list(executor.map(never_end, [1], budget=budget))


@pytest.mark.slow
def test_a_worker_that_is_killed_is_a_clear_error() -> None:
    with make_executor("processes:1") as executor:
        with pytest.raises(InvalidInput, match=r"a worker process was killed.*memory.*executor=processes:1"):
            list(executor.map(kill_itself, [1]))
        assert children() == 0
        assert list(executor.map(square, [2])) == [4]


@pytest.mark.slow
def test_auto_follows_the_preference_of_the_call() -> None:
    with make_executor("auto") as executor:
        assert set(executor.map(process_of, range(3))) == {os.getpid()}
        assert os.getpid() not in set(executor.map(process_of, range(3), prefer="processes"))


def process_of(_: int) -> int:
    return os.getpid()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> FoldJob:
    config = local_config("iris", tmp_path_factory.mktemp("pool"))
    workspace = open_workspace(config, Reporter())
    data = walk_data(config, workspace, lambda stage: run_stage(stage, workspace).ref).data
    assert data.manifest
    assert data.features
    handle = StoreHandle(workspace.store)
    return FoldJob(handle, data.manifest, data.features, data.affinity, "svm", {}, "none", 3, 1, 0)


def test_a_job_is_sent_as_small_references(job: FoldJob) -> None:
    import pickle

    sent = pickle.dumps(job)
    assert len(sent) < 2000
    received = pickle.loads(sent)
    assert received.store.store.root == job.store.store.root
    assert pickle.loads(sent).store is received.store, "a worker opens the store once"


@every_executor
def test_every_executor_gives_the_same_bytes_for_folds(job: FoldJob, setting: str) -> None:
    jobs = [FoldJob(**{**job.__dict__, "fold": fold}) for fold in range(3)]  # type: ignore[arg-type]
    expected = [score_fold(one) for one in jobs]
    with make_executor(setting) as executor:
        found = list(executor.map(score_fold, jobs))
        judged = list(executor.map(evaluate_fold, jobs))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for fold, one in zip(judged, map(evaluate_fold, jobs), strict=True):
        assert fold.metrics == one.metrics
        np.testing.assert_array_equal(fold.scores, one.scores)


@pytest.mark.slow
def test_every_executor_gives_the_same_bytes_for_a_whole_run(picture_folder: Path, tmp_path: Path) -> None:
    digests = [
        {
            label: outcome.ref.digest
            for label, outcome in run_locally(
                picture_folder, tmp_path / setting, f"executor={setting}"
            ).outcomes.items()
        }
        for setting in ("serial", "threads:3", "processes:2")
    ]
    assert digests[0] == digests[1] == digests[2]
    assert any(label.startswith("evaluation") for label in digests[0])


@pytest.mark.slow
def test_the_executor_does_not_make_a_stage_stale(tmp_path: Path) -> None:
    first = run_locally("iris", tmp_path, "executor=serial")
    second = run_locally("iris", tmp_path, "executor=threads:2")
    assert first.computed
    assert second.computed == set()
