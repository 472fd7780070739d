"""Schedules that are left alone: a real server, runner and worker, stopped and killed while they work."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from flows import schedule
from flows.config import load_config
from flows.services import Services, down, up
from storage.servers import read_token
from tests.flows.test_schedule import REPOSITORY, deployment_named, run_now, runs_of, stop, wait_for

pytestmark = pytest.mark.slow
WAITING = "tests.waiting_flow.wait"
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
# A server that is away is noticed after seconds rather than minutes. Elsewhere requests are repeated: a
# server whose database is locked for a moment answers 503.
IMPATIENT = {"PREFECT_CLIENT_MAX_RETRIES": "0"}


class Setting:
    """A home with servers, and the deployments of this module."""

    def __init__(self, home: Path, services: Services) -> None:
        self.home = home
        self.services = services

    @property
    def environment(self) -> dict[str, str]:
        login = {"PREFECT_API_URL": self.services.prefect_url}
        token = {"PREFECT_API_AUTH_STRING": read_token(self.home) or ""}
        beats = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        polls = {"PREFECT_RUNNER_POLL_FREQUENCY": "1"}
        return os.environ | login | token | beats | polls | {"PYTHONPATH": str(REPOSITORY)}

    def config(self, folder: Path, *settings: str) -> dict[str, Any]:
        hook = folder / "hook.py"
        hook.write_text(f"import sys; open({str(folder / 'notices')!r}, 'a').write(sys.stdin.read() + '\\n')")
        given = [f"notify.command='{sys.executable} {hook}'", "source.path=iris", *settings]
        return load_config(None, given, home=str(folder)).model_dump(mode="json")

    @contextmanager
    def serving(
        self, config: dict[str, Any], name: str, cron: str = "* * * * *", **variables: str
    ) -> Iterator[Any]:
        code = (
            "import json, sys; from flows.schedule import serve\n"
            f"serve(json.loads(sys.argv[1]), {cron!r}, {name!r}, entrypoint={WAITING!r}, on_change=True)"
        )
        command = [sys.executable, "-c", code, json.dumps(config)]
        log = Path(config["home"]) / "serve.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=self.environment | variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            stop(process)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    home = tmp_path_factory.mktemp("survival")
    try:
        services = up(home, 0, 0)
        login = {PREFECT_API_URL: services.prefect_url, PREFECT_API_AUTH_STRING: read_token(home)}
        with temporary_settings(login):
            yield Setting(home, services)
    finally:
        down(home)


@pytest.fixture
def client(setting: Setting) -> Iterator[Any]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as found:
        yield found


def started(folder: Path) -> list[int]:
    file = folder / "started"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def notices(folder: Path) -> list[dict[str, Any]]:
    file = folder / "notices"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def named(runs: list[Any], name: str) -> list[Any]:
    return [run for run in runs if run.state.name == name]


def test_serving_survives_a_server_that_goes_away_and_catches_up_once(
    setting: Setting, client: Any, tmp_path: Path
) -> None:
    with setting.serving(setting.config(tmp_path), "away", "0 3 * * *", **IMPATIENT) as serving:
        found = wait_for(
            lambda: deployment_named(client, "labelscape-waiting/away"),
            "deployment",
            alive=lambda: serving.poll() is None,
        )
        wait_for(lambda: runs_of(client, found, "SCHEDULED")[2:], "scheduled runs")
        due = runs_of(client, found, "SCHEDULED")
        port = setting.services.prefect.port
        log = tmp_path / "serve.log"
        down(setting.home)
        wait_for(lambda: "does not answer" in log.read_text(), "sign of the outage")
        # Prefect's own runner would end at its third failed poll.
        setting.services = up(setting.home, port, 0)
        wait_for(lambda: "answers again" in log.read_text(), "new connection")
        assert serving.poll() is None
        assert "Traceback" not in log.read_text()
        (tmp_path / "go").touch()
        for run in due:  # as if they had become due during the outage
            run_now(client, run)
        wait_for(lambda: len(runs_of(client, found, *ENDED)) >= len(due), "end of the late runs")
        ended = runs_of(client, found, *ENDED)
    assert len(started(tmp_path)) == len(named(ended, "Completed")) == 1
    assert len(named(ended, "Skipped")) == len(due) - 1


def run_without_heartbeat(config: dict[str, Any], client: Any) -> Any:
    """A run whose process ends before it sends a heartbeat; here it has no process at all."""
    from prefect.states import Running

    schedule.deploy(config, None, "survival", "silent", entrypoint=WAITING)
    run = client.create_flow_run_from_deployment(deployment_named(client, "labelscape-waiting/silent").id)
    client.set_flow_run_state(run.id, Running(), force=True)
    return run


def test_a_killed_worker_leaves_a_run_that_is_marked_and_resumed(
    setting: Setting, client: Any, tmp_path: Path
) -> None:
    config = setting.config(tmp_path)
    schedule.deploy(config, None, "survival", "killed", entrypoint=WAITING)
    found = deployment_named(client, "labelscape-waiting/killed")
    command = [sys.executable, "-m", "flows.steady_runner", "worker", "start", "--pool", "survival"]

    def start_worker(*options: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*command, *options], cwd=tmp_path, env=setting.environment, start_new_session=True
        )

    silent = run_without_heartbeat(config, client)
    first = client.create_flow_run_from_deployment(found.id)
    worker = start_worker()
    try:
        (flow,) = wait_for(
            lambda: started(tmp_path), "start of the flow", alive=lambda: worker.poll() is None
        )
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    os.kill(flow, signal.SIGKILL)
    wait_for(lambda: client.read_flow_run(first.id).state.type.value == "CRASHED", "sign of the crash")
    assert "no heartbeat for 75 s" in client.read_flow_run(first.id).state.message
    wait_for(lambda: client.read_flow_run(silent.id).state.type.value == "CRASHED", "sign of the other crash")
    (tmp_path / "go").touch()
    second = client.create_flow_run_from_deployment(found.id)
    worker = start_worker("--run-once")
    assert worker.wait(timeout=300) == 0
    assert client.read_flow_run(second.id).state.type.value == "COMPLETED"
    (notice,) = notices(tmp_path)
    assert notice["about"] == "failure"
    assert "the run before this one crashed" in notice["text"]


@pytest.mark.parametrize(("overlap", "ends"), [("wait", {"Completed"}), ("skip", {"Cancelled", "Completed"})])
def test_two_runs_at_once(
    setting: Setting, client: Any, tmp_path: Path, overlap: str, ends: set[str]
) -> None:
    config = setting.config(tmp_path, f"schedule.overlap={overlap}")
    with setting.serving(config, f"twice-{overlap}", "0 3 * * *") as serving:
        found = wait_for(
            lambda: deployment_named(client, f"labelscape-waiting/twice-{overlap}"),
            "deployment",
            alive=lambda: serving.poll() is None,
        )
        client.create_flow_run_from_deployment(found.id)
        wait_for(lambda: started(tmp_path), "start of the first run")
        second = client.create_flow_run_from_deployment(found.id)
        if overlap == "skip":
            wait_for(lambda: client.read_flow_run(second.id).state.is_final(), "refusal of the second")
        else:
            assert not client.read_flow_run(second.id).state.is_running()
        (tmp_path / "go").touch()
        wait_for(lambda: len(runs_of(client, found, *ENDED)) == 2, "end of both runs")
        ended = runs_of(client, found, *ENDED)
    assert {run.state.name for run in ended} == ends
    assert len(started(tmp_path)) == len(named(ended, "Completed"))


def test_an_event_starts_a_deployment_and_a_burst_starts_it_once_more(
    setting: Setting, client: Any, tmp_path: Path
) -> None:
    from flows.config import RunConfig
    from flows.watch import announce_change

    config = setting.config(tmp_path, "name=changing")
    with setting.serving(config, "changing", "0 3 * * *") as serving:
        found = wait_for(
            lambda: deployment_named(client, "labelscape-waiting/changing"),
            "deployment",
            alive=lambda: serving.poll() is None,
        )
        given = RunConfig.model_validate(config)
        # The trigger is registered after the deployment; an event that comes before it is lost.
        for _ in range(12):
            announce_change(given, 1)
            with suppress(pytest.fail.Exception):
                wait_for(lambda: automatic(client, found), "run by the event", seconds=20)
                break
        wait_for(lambda: started(tmp_path), "start by the event")
        known = len(automatic(client, found))
        for _ in range(4):
            announce_change(given, 1)
        wait_for(lambda: len(automatic(client, found)) >= known + 4, "runs of the burst")
        (tmp_path / "go").touch()
        wait_for(lambda: all(run.state.is_final() for run in automatic(client, found)), "their end")
        ended = automatic(client, found)
    assert len(named(ended, "Completed")) == 2
    assert len(named(ended, "Skipped")) == len(ended) - 2


def automatic(client: Any, deployment: Any) -> list[Any]:
    """Runs of a deployment that an automation created."""
    found = runs_of(client, deployment, "SCHEDULED", "PENDING", "RUNNING", *ENDED)
    return [run for run in found if not run.auto_scheduled]
