"""The executor for Dask clusters, with a scheduler and workers as separate processes."""

import os
import pickle
import platform
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from storage.errors import ConfigError, SourceChanged
from storage.sources.base import Part
from tasks import cluster_worker, store_handle
from tasks.budget import Budget, BudgetEnded
from tasks.cluster import ClusterExecutor, ClusterLost
from tasks.cluster_worker import CODE, describe_installation, find_mismatch
from tasks.executor import Executor, SerialExecutor, WorkerKilled, make_executor, parse_executor
from tasks.folds import FoldJob, evaluate_fold, score_fold
from tasks.stages.portion_jobs import PortionJob, UnseenFile, compute_portion
from tasks.store_handle import StoreHandle
from tests.conftest import REPOSITORY, local_config, run_locally, write_pictures
from tests.dask_cluster import DaskCluster, dask_cluster
from tests.s3_server import free_port
from tests.tasks.test_executor import blas_threads, job, never_end, process_of, square

__all__ = ["job"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def executor(cluster: DaskCluster) -> Iterator[Executor]:
    with make_executor(cluster.setting) as made:
        yield made


def die_once(marker: Path) -> str:
    """Kill the worker the first time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), 9)
    return marker.name


def die_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), 9)
    return number


def fill_memory(_: int) -> int:
    """Take memory until the nanny of the worker ends it."""
    taken = []
    while True:
        taken.append(np.ones(2**21))


def product(seed: int) -> bytes:
    """A sum whose last bits depend on the number of threads of linear algebra."""
    rows = np.random.default_rng(seed).normal(size=(3000, 200)).astype(np.float32)
    return (rows.T @ rows).tobytes()


class TestSetting:
    @pytest.mark.parametrize("setting", ["dask://node1:8786", "tls://10.0.0.7:1", "dask://[::1]:65535"])
    def test_addresses_of_schedulers(self, setting: str) -> None:
        assert parse_executor(setting) == ("cluster", 0)
        assert isinstance(make_executor(setting), ClusterExecutor)

    @pytest.mark.parametrize(
        "setting",
        ["dask://host", "dask://host:0", "dask://host:65536", "dask://me:secret@host:1", "dask://host:1/x"],
    )
    def test_other_addresses_are_refused(self, setting: str) -> None:
        with pytest.raises(ValueError, match=r"dask://host:port, or tls://host:port"):
            parse_executor(setting)

    def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tasks.cluster.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r'pip install "labelscape\[dask\]"'):
            make_executor("dask://127.0.0.1:8786")

    def test_nothing_is_contacted_before_the_first_job(self) -> None:
        with make_executor("dask://127.0.0.1:1") as unused:
            assert list(unused.map(square, [])) == []

    @pytest.mark.slow
    def test_a_scheduler_that_does_not_answer_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tasks.cluster.CONNECT_SECONDS", 0.5)
        with (
            make_executor(f"dask://127.0.0.1:{free_port()}") as unused,
            pytest.raises(ClusterLost, match=r"no Dask scheduler answers at dask://.*up --workers 2"),
        ):
            list(unused.map(square, [1]))


class TestInstallation:
    def test_it_covers_code_and_numeric_packages(self) -> None:
        found = describe_installation()
        assert found["numpy"] == np.__version__
        assert {"scipy", "scikit-learn", "pyarrow", "numba", "pillow", "Python", CODE} <= found.keys()

    def test_an_equal_one_is_accepted_and_another_one_described(self) -> None:
        expected = describe_installation()
        assert find_mismatch(expected) is None
        other = {**expected, "numpy": "1.0", CODE: "0"}
        assert find_mismatch(other) == f"numpy is {np.__version__} instead of 1.0, {CODE} differs"

    def test_a_worker_that_differs_runs_no_job(self) -> None:
        with pytest.raises(cluster_worker.WorkerRefused, match=r"scipy is .* instead of 0"):
            cluster_worker.run_jobs({**describe_installation(), "scipy": "0"}, b"is not even unpickled")


class TestStoreOfAWorker:
    @pytest.fixture(autouse=True)
    def as_worker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(store_handle, "_copies", tmp_path / "copies")
        store_handle.open_handle.cache_clear()
        yield
        store_handle.open_handle.cache_clear()

    def test_a_shared_store_is_opened_by_its_address(self, tmp_path: Path) -> None:
        from storage.artifacts.remote import Remote
        from storage.artifacts.store import ArtifactStore

        uri = f"file://{tmp_path}/shared"
        sent = pickle.dumps(StoreHandle(ArtifactStore.shared(tmp_path / "client", Remote(uri))))
        received = pickle.loads(sent).store
        assert (received.place, received.root) == (uri, tmp_path / "copies")

    def test_a_folder_of_this_machine_is_used_as_it_is(self, tmp_path: Path) -> None:
        from storage.artifacts.store import ArtifactStore

        (tmp_path / "store").mkdir()
        sent = pickle.dumps(StoreHandle(ArtifactStore.local(tmp_path / "store")))
        assert pickle.loads(sent).store.root == tmp_path / "store"

    def test_a_folder_of_another_machine_is_refused(self, tmp_path: Path) -> None:
        from storage.artifacts.store import ArtifactStore

        (tmp_path / "store").mkdir()
        sent = pickle.dumps(StoreHandle(ArtifactStore.local(tmp_path / "store")))
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        with pytest.raises(InvalidInput, match=r"is a folder of the machine that started.*Set store\.uri"):
            pickle.loads(sent)


@pytest.mark.slow
class TestJobs:
    def test_results_come_in_the_order_of_the_jobs(self, executor: Executor) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                assert list(executor.map(square, range(200))) == [number**2 for number in range(200)]

    def test_both_workers_work_and_none_of_the_jobs_runs_here(
        self, executor: Executor, cluster: DaskCluster
    ) -> None:
        found = set(executor.map(process_of, range(40)))
        assert found <= {worker.pid for worker in cluster.workers}
        assert found

    def test_an_error_of_a_job_is_raised_and_the_executor_can_be_used_again(self, executor: Executor) -> None:
        with pytest.raises(InvalidInput, match="-1 is negative"):
            list(executor.map(square, [1, 2, -1, 4]))
        assert list(executor.map(square, [5])) == [25]

    def test_warnings_of_jobs_reach_the_caller(self, executor: Executor) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(executor.map(square, range(5)))
        assert [str(one.message) for one in caught if "odd" in str(one.message)] == ["three is odd"]

    def test_each_job_has_one_thread_of_linear_algebra_and_the_bytes_of_serial(
        self, executor: Executor
    ) -> None:
        assert list(executor.map(blas_threads, range(3))) == [1, 1, 1]
        assert list(executor.map(product, range(4))) == list(SerialExecutor().map(product, range(4)))

    def test_jobs_are_consumed_a_few_ahead_of_the_results(self, executor: Executor) -> None:
        consumed: list[int] = []

        def jobs() -> Iterator[int]:
            for number in range(10, 10_000):
                consumed.append(number)
                yield number

        results = executor.map(square, jobs())
        next(results)
        assert len(consumed) < 100
        results.close()  # type: ignore[attr-defined]

    def test_a_budget_that_ends_cancels_the_jobs(self, tmp_path: Path) -> None:
        budget = Budget(1.0)
        with dask_cluster(tmp_path / "cluster", workers=1) as own, make_executor(own.setting) as executor:
            list(executor.map(square, [1]))
            budget.start()
            with pytest.raises(BudgetEnded):
                list(executor.map(never_end, [1, 2, 3], budget=budget))
            own.wait_until_idle()

    def test_the_same_bytes_for_folds(self, executor: Executor, job: FoldJob) -> None:
        jobs = [FoldJob(**{**job.__dict__, "fold": fold}) for fold in range(3)]  # type: ignore[arg-type]
        for ours, theirs in zip(executor.map(score_fold, jobs), map(score_fold, jobs), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for ours, theirs in zip(executor.map(evaluate_fold, jobs), map(evaluate_fold, jobs), strict=True):
            assert ours.metrics == theirs.metrics
            np.testing.assert_array_equal(ours.scores, theirs.scores)


@pytest.mark.slow
class TestKills:
    def test_a_killed_worker_costs_only_its_jobs(self, tmp_path: Path) -> None:
        with dask_cluster(tmp_path / "cluster") as own, make_executor(own.setting) as executor:
            markers = [tmp_path / f"marker-{number}" for number in range(30)]
            for marker in markers:
                if marker != markers[7]:
                    marker.touch()
            assert list(executor.map(die_once, markers)) == [marker.name for marker in markers]
            assert sum(worker.poll() == -9 for worker in own.workers) == 1

    def test_a_group_that_kills_is_sent_in_halves_until_one_job_can_be_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
        with dask_cluster(tmp_path / "cluster", workers=5) as own, make_executor(own.setting) as executor:
            assert isinstance(executor, ClusterExecutor)
            found = _map_as_one_group(executor, die_at_three, list(range(5)))
            assert [next(found) for _ in range(3)] == [0, 1, 2]
            with pytest.raises(WorkerKilled, match=r"int: every worker that ran this was killed.*memory"):
                next(found)

    def test_a_worker_without_enough_memory_is_named_and_the_cluster_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
        with dask_cluster(tmp_path / "cluster", workers=0) as own:
            own.add_workers(1, "--nanny", "--memory-limit", "500MB")
            with make_executor(own.setting) as executor:
                with pytest.raises(WorkerKilled, match="usually means that memory ran out"):
                    list(executor.map(fill_memory, [1]))
                assert list(executor.map(square, [5])) == [25]

    def test_a_killed_scheduler_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tasks.cluster.CONNECT_SECONDS", 3.0)
        with dask_cluster(tmp_path / "cluster", workers=1) as own, make_executor(own.setting) as executor:
            results = executor.map(square, range(4, 10_000))
            next(results)
            own.scheduler.kill()
            with pytest.raises(ClusterLost, match=r"no longer answers. What is stored is kept"):
                list(results)

    def test_a_cluster_without_workers_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tasks.cluster.WORKER_SECONDS", 1.0)
        with (
            dask_cluster(tmp_path / "cluster", workers=0) as own,
            make_executor(own.setting) as executor,
            pytest.raises(ClusterLost, match="has no worker for 1 s; start one with `dask worker`"),
        ):
            list(executor.map(square, [1]))


def _map_as_one_group(
    executor: ClusterExecutor, function: Callable[[Any], Any], jobs: list[Any]
) -> Iterator[Any]:
    """Results of jobs that are first sent together."""
    from tasks.cluster import _Call

    call = _Call(executor, function, jobs)
    call._size = len(jobs)
    while call.send():
        for results, _ in call.receive(None):
            yield from results


@pytest.fixture(scope="module")
def other_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which one function differs."""
    folder = tmp_path_factory.mktemp("other")
    for package in ("embedding_core", "storage", "tasks", "flows", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.md")
        shutil.copytree(REPOSITORY / package, folder / package, ignore=ignored)
    with (folder / "tasks" / "budget.py").open("a") as file:
        file.write("\n\ndef added() -> None: ...\n")
    return folder


@pytest.mark.slow
class TestRefusedWorkers:
    def test_only_equal_workers_get_jobs(self, tmp_path: Path, other_code: Path) -> None:
        with dask_cluster(tmp_path / "cluster", workers=1) as own:
            own.add_workers(1, PYTHONPATH=str(other_code))
            expected = pytest.warns(UserWarning, match=f"gets no jobs: {CODE} differs")
            with make_executor(own.setting) as executor, expected:
                found = set(executor.map(process_of, range(40)))
            assert found == {own.workers[0].pid}

    def test_without_an_equal_worker_the_message_says_what_differs(
        self, tmp_path: Path, other_code: Path
    ) -> None:
        with dask_cluster(tmp_path / "cluster", workers=0) as own:
            own.add_workers(1, PYTHONPATH=str(other_code))
            with (
                make_executor(own.setting) as executor,
                pytest.warns(UserWarning, match="gets no jobs"),
                pytest.raises(ClusterLost, match=rf"every worker.*{CODE} differs.*Install the same"),
            ):
                list(executor.map(square, [1]))

    def test_one_that_joins_later_is_checked_too(self, tmp_path: Path, other_code: Path) -> None:
        with dask_cluster(tmp_path / "cluster", workers=1) as own, make_executor(own.setting) as executor:
            assert set(executor.map(process_of, range(5))) == {own.workers[0].pid}
            own.add_workers(1, PYTHONPATH=str(other_code))
            with pytest.warns(UserWarning, match=f"gets no jobs: {CODE} differs"):
                assert set(executor.map(process_of, range(200))) == {own.workers[0].pid}

    def test_one_without_labelscape_is_refused(self, tmp_path: Path) -> None:
        hidden = tmp_path / "hidden" / "tasks"
        hidden.mkdir(parents=True)
        (hidden / "__init__.py").write_text("raise ImportError('labelscape is not installed')\n")
        with dask_cluster(tmp_path / "cluster", workers=1) as own:
            own.add_workers(1, PYTHONPATH=str(hidden.parent))
            expected = pytest.warns(UserWarning, match="gets no jobs: it cannot import labelscape")
            with make_executor(own.setting) as executor, expected:
                found = set(executor.map(process_of, range(40)))
            assert found == {own.workers[0].pid}


class ElsewhereExecutor(SerialExecutor):
    """Stands in for a cluster: it stores portions itself, except those that "kill" it."""

    shares_store = True

    def __init__(self, killing: str = "", error: Exception | None = None) -> None:
        self.killing = killing
        self.error = error
        self.sent: list[str] = []

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], **_: object) -> Iterator[Any]:
        for one in jobs:
            if isinstance(one, PortionJob):
                received = pickle.loads(pickle.dumps(one))
                self.sent.append(received.ids[0])
                if self.error:
                    raise self.error
                if self.killing in received.ids:
                    raise WorkerKilled(f"{received.title}: killed")
                yield function(received)
            else:
                yield function(one)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("many") / "pictures", 500)  # 35, 404 and 61 items


@pytest.fixture(scope="module")
def serial(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return features_digest(pictures, tmp_path_factory.mktemp("serial"), SerialExecutor())


class TestPortions:
    """Portions of features that are stored by the workers."""

    @pytest.mark.slow
    def test_every_portion_is_sent_and_the_bytes_are_equal(
        self, pictures: Path, serial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        executor = ElsewhereExecutor()
        assert features_digest(pictures, tmp_path, executor) == serial
        assert len(executor.sent) == 3
        assert features_digest(pictures, tmp_path, executor, force=True) == serial
        assert len(executor.sent) == 6

    @pytest.mark.slow
    def test_a_portion_that_kills_is_computed_in_smaller_tasks(
        self, pictures: Path, serial: str, tmp_path: Path
    ) -> None:
        executor = ElsewhereExecutor(killing="p200.png")
        assert features_digest(pictures, tmp_path, executor) == serial
        assert len(executor.sent) == 3

    @pytest.mark.slow
    def test_a_file_that_a_worker_does_not_see_is_named(self, pictures: Path, tmp_path: Path) -> None:
        error = UnseenFile(pictures / "p00.png", "node7")
        with pytest.raises(Exception, match=r"the worker on node7 does not see .*p00\.png\. Put the coll"):
            features_digest(pictures, tmp_path, ElsewhereExecutor(error=error))

    @pytest.mark.slow
    def test_a_file_that_is_gone_here_too_has_been_removed(self, pictures: Path, tmp_path: Path) -> None:
        error = UnseenFile(tmp_path / "gone.png", "node7")
        with pytest.raises(SourceChanged, match=r"gone\.png was removed while it was read"):
            features_digest(pictures, tmp_path, ElsewhereExecutor(error=error))

    def test_a_worker_looks_for_its_files_first(self, tmp_path: Path) -> None:
        from storage.artifacts.store import ArtifactStore

        part = Part("images", "images", ["digest"], paths=[tmp_path / "missing.png"])
        handle = StoreHandle(ArtifactStore.local(tmp_path))
        with pytest.raises(UnseenFile) as caught:
            compute_portion(PortionJob(handle, ["missing.png"], part, {}, {}, False))
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        assert platform.node() in str(caught.value)

    def test_features_of_the_source_stay_here(self, tmp_path: Path) -> None:
        executor = ElsewhereExecutor()
        features_digest("iris", tmp_path, executor)
        assert executor.sent == []


def features_digest(source: Path | str, home: Path, executor: Executor, force: bool = False) -> str:
    """Digest of the features of a source, computed by an executor."""
    from dataclasses import replace

    from flows.pipeline import walk_data
    from flows.runner import open_workspace
    from storage.artifacts.keys import ArtifactRef
    from tasks.reporter import Reporter
    from tasks.stage import Stage, run_stage

    config = local_config(source, home)
    workspace = replace(open_workspace(config, Reporter()), executor=executor)
    found: dict[str, str] = {}

    def execute(stage: Stage) -> ArtifactRef | None:
        if stage.name not in ("ingest", "features"):
            return None
        outcome = run_stage(stage, workspace, force=force and stage.name == "features")
        found[stage.name] = outcome.ref.digest
        return outcome.ref

    walk_data(config, workspace, execute)
    return found["features"]


@pytest.mark.slow
def test_a_whole_run_has_the_bytes_of_serial(
    cluster: DaskCluster, tmp_path: Path, picture_folder: Path
) -> None:
    digests = [
        {
            label: outcome.ref.digest
            for label, outcome in run_locally(
                picture_folder, tmp_path / name, f"executor={setting}"
            ).outcomes.items()
        }
        for name, setting in (("serial", "serial"), ("dask", cluster.setting))
    ]
    assert digests[0] == digests[1]
    assert any(label.startswith("evaluation") for label in digests[0])


@pytest.mark.slow
def test_help_does_not_load_dask(tmp_path: Path) -> None:
    import subprocess

    code = "import flows.runner, sys; assert not {'distributed', 'dask'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
