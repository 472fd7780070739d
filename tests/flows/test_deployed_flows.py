"""The flows of deployments on a real Prefect server: their states, artifacts and notices."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.config import RunConfig
from storage.errors import SourceError
from tests.conftest import local_config
from tests.flows.test_prefect_engine import on_server
from tests.flows.test_refresh import SETTINGS, right, write_table

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    write_table(file, right(50))
    return file


@pytest.fixture
def config(table: Path, tmp_path: Path) -> RunConfig:
    hook = tmp_path / "hook.py"
    hook.write_text(f"import sys; open({str(tmp_path / 'notices')!r}, 'a').write(sys.stdin.read() + '\\n')")
    notify = f"notify.command='{sys.executable} {hook}'"
    settings = (*SETTINGS, notify, "tracking.enabled=true", "schedule.refresh=auto,annotate")
    return local_config(table, tmp_path / "home", *settings)


def notices(config: RunConfig) -> list[dict[str, Any]]:
    file = Path(config.home or "").parent / "notices"
    return [json.loads(line) for line in file.read_text().splitlines()]


def artifacts(state: Any) -> set[str]:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return {one.key for one in client.read_artifacts(artifact_filter=chosen)}


def test_a_refresh_ends_as_completed_cached_or_failed(config: RunConfig, table: Path) -> None:
    from flows.deployed_flows import annotate, refresh

    first = refresh(config, return_state=True)
    assert first.name == "Completed"
    assert "becomes champion" in first.message
    assert artifacts(first) == {"table-csv-refresh", "table-csv-moves"}
    assert [one["about"] for one in notices(config)] == ["champion"]

    second = refresh(config, return_state=True)
    assert (second.name, second.message) == ("Cached", "table: unchanged since the last refresh")
    assert artifacts(second) == set()
    assert on_server(second)[1] == {}, "no task runs"

    state = annotate(config, return_state=True)
    assert state.message.startswith("10 items annotated: ")

    table.rename(table.with_name("away.csv"))
    failed = refresh(config, return_state=True)
    assert failed.is_failed()
    with pytest.raises(SourceError):
        failed.result()
    assert [one["about"] for one in notices(config)] == ["champion", "failure"]
    assert "there is no file or folder" in notices(config)[1]["text"]
    table.with_name("away.csv").rename(table)
    assert refresh(config, return_state=True).name == "Cached"


def test_a_new_champion_of_auto_is_reported_once(config: RunConfig) -> None:
    from flows.deployed_flows import auto

    auto(config)
    auto(config)
    (notice,) = notices(config)
    assert (notice["about"], notice["collection"]) == ("champion", "table.csv")
    assert "becomes champion, version 1" in notice["text"]


def test_changes_of_the_data_are_an_artifact(config: RunConfig, table: Path) -> None:
    from flows.prefect_engine import train

    first = train(config, return_state=True)
    assert {"table-csv-results", "table-csv-scores"} <= artifacts(first)
    assert "table-csv-changes" not in artifacts(first)
    write_table(table, right(52))
    assert "table-csv-changes" in artifacts(train(config, return_state=True))
