"""The flow on a real Prefect server: what the server shows, and how failures end."""

from pathlib import Path
from typing import Any

import pytest

from flows.runner import open_workspace
from storage.artifacts.store import Artifact
from storage.errors import ConfigError, StageError
from tasks.budget import BudgetEnded
from tasks.dataset import load_features
from tasks.reporter import Reporter
from tasks.stage import Stage
from tasks.stages.evaluation import load_scores
from tests.conftest import TrainingRun, local_config, write_pictures
from tests.flows.test_schedule import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("flow") / "pictures", 30)


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the first run below fills; the second finds everything fresh."""
    return tmp_path_factory.mktemp("home")


def run_flow(*arguments: Any, **options: Any) -> Any:
    """Run the flow; importing it takes seconds, which every test run would pay at collection."""
    from flows.prefect_engine import train

    return train(*arguments, **options)


def on_server(state: Any) -> tuple[Any, dict[str, Any]]:
    """The flow run on the server, and its task runs by name."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    run_id = state.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        chosen = FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
        return client.read_flow_run(run_id), {
            task.name: task for task in client.read_task_runs(flow_run_filter=chosen)
        }


def wait_for_tasks(state: Any, count: int) -> dict[str, Any]:
    """Task runs on the server, once their last events have arrived; these follow the run."""

    def finished() -> dict[str, Any] | None:
        tasks = on_server(state)[1]
        final = all(task.state and task.state.is_final() for task in tasks.values())
        return tasks if final and len(tasks) >= count else None

    return wait_for(finished, f"{count} finished task runs", seconds=60)


@pytest.mark.parametrize(("names", "cached"), [({"Completed"}, False), ({"Cached"}, True)])
def test_task_runs_have_the_names_of_stages_and_show_what_was_cached(
    pictures: Path, shared_home: Path, names: set[str], cached: bool
) -> None:
    state = run_flow(local_config(pictures, shared_home), return_state=True)
    result: TrainingRun = state.result()
    tasks = wait_for_tasks(state, len(result.stages))
    assert set(tasks) == {record.label for record in result.stages}
    assert {"ingest", "features", "embedding[mlda]", "evaluation[svm]", "report"} <= set(tasks)
    assert {task.state.name for task in tasks.values()} == names
    assert {record.cached for record in result.stages} == {cached}
    run = on_server(state)[0]
    assert run.state.type.value == "COMPLETED"
    assert run.parameters["config"]["source"]["path"] == str(pictures)


def test_a_failing_stage_fails_the_run_with_its_reason(pictures: Path, tmp_path: Path) -> None:
    config = local_config(pictures, tmp_path, "embedding.n_components=7")
    state = run_flow(config, return_state=True)
    with pytest.raises(StageError, match=r"embedding\[mlda\]: n_components=7 exceeds K-1=2"):
        state.result()
    tasks = wait_for_tasks(state, 5)
    assert tasks["embedding[mlda]"].state.type.value == "FAILED"
    assert tasks["features"].state.type.value == "COMPLETED"
    run = on_server(state)[0]
    assert run.state.type.value == "FAILED"
    assert "n_components=7 exceeds K-1=2 for MLDA" in run.state.message
    again = run_flow(local_config(pictures, tmp_path), until="features")
    assert all(record.cached for record in again.stages)


def test_a_stage_that_the_budget_stops_has_not_failed(tmp_path: Path) -> None:
    from prefect import flow

    from flows.prefect_engine import PrefectStages

    def out_of_time() -> Artifact:
        raise BudgetEnded("the budget of 1 s ended")

    workspace = open_workspace(local_config("iris", tmp_path), Reporter())

    @flow(persist_result=False)
    def choose() -> None:
        stages = PrefectStages()
        with pytest.raises(BudgetEnded):
            stages(Stage("trial", (), {}, {}, out_of_time, "svm"), workspace, False)
        assert stages.failure is None

    state = choose(return_state=True)
    assert state.is_completed()
    stopped = wait_for_tasks(state, 1)["trial[svm]"].state
    assert (stopped.name, stopped.message) == ("Stopped", "the budget of 1 s ended")


def test_bad_parameters_of_the_flow_are_refused(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such stage"):
        run_flow(local_config(pictures, tmp_path), refresh=["everything"])
    with pytest.raises(Exception, match="sourcs"):
        run_flow({"sourcs": {}})


def test_a_damaged_artifact_is_quarantined_and_recomputed_within_the_run(
    pictures: Path, tmp_path: Path
) -> None:
    config = local_config(pictures, tmp_path)
    first = run_flow(config, until="features")
    (part,) = (tmp_path / "store" / "features_part").rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    result = run_flow(config)
    assert [one.name.partition("/")[0] for one in result.damaged] == ["features_part"]
    assert {record.label: record.cached for record in result.stages}["features"] is False
    assert result.products.features == first.products.features
    from storage.artifacts.store import ArtifactStore

    store = ArtifactStore.local(tmp_path / "store")
    assert len(load_features(store, result.products.features).ids) == 30
    assert any((tmp_path / "store" / "quarantine").rglob("*.parquet"))
    assert {"mlda", "svm"} <= set(result.products.scores)


def test_a_tracker_that_refuses_loses_no_result(pictures: Path, tmp_path: Path) -> None:
    config = local_config(
        pictures,
        tmp_path,
        "tracking.enabled=true",
        "tracking.uri=http://127.0.0.1:9",
        "embedding.method=mlda",
    )
    state = run_flow(config, return_state=True)
    result: TrainingRun = state.result()
    assert result.untracked is not None
    assert "no tracking server answers at http://127.0.0.1:9" in result.untracked
    assert result.products.tracked is None
    assert result.report is not None
    assert result.report.is_file()
    from storage.artifacts.store import ArtifactStore

    assert load_scores(ArtifactStore.local(tmp_path / "store"), result.products.scores["mlda"])
    tasks = wait_for_tasks(state, len(result.stages) + 1)
    assert tasks["tracking"].state.type.value == "FAILED"
    assert on_server(state)[0].state.type.value == "COMPLETED"


def test_a_full_disk_is_reported_by_the_stage_that_met_it(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage.artifacts import disk
    from storage.errors import StoreError

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    run_flow(local_config(pictures, tmp_path), until="ingest")
    monkeypatch.setattr(disk, "write_atomically", refuse)
    with pytest.raises(StoreError, match=r"No room to write .*features_part"):
        run_flow(local_config(pictures, tmp_path))
    assert not list(tmp_path.rglob("*.tmp"))
