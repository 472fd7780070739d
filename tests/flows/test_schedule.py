"""Schedules: what is refused at once, and a real server that schedules runs and executes them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from flows import crash_detection, schedule
from flows.config import RunConfig, load_config
from flows.services import Services, down, up
from storage.credentials import reveal
from storage.errors import ConfigError, ServiceError
from storage.servers import read_token

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_IN = "tests.stand_in_flow.train"
Found = TypeVar("Found")


def wait_for(
    ask: Callable[[], Found | None],
    what: str,
    seconds: float = 240,
    alive: Callable[[], bool] = lambda: True,
) -> Found:
    """Poll a server for the first answer that is not None or empty; it offers no other way to wait."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and alive():
        found = ask()
        if found:
            return found
        time.sleep(0.5)
    pytest.fail(f"no {what} after {seconds} s, or the process that makes it has ended")


class TestRefusals:
    @pytest.mark.slow
    def test_no_server_says_how_to_start_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with (
            temporary_settings(restore_defaults={PREFECT_API_URL}),
            pytest.raises(ServiceError, match="labelscape up"),
        ):
            schedule.deploy({"home": str(tmp_path)}, "0 3 * * *", "pool", "nightly", entrypoint=STAND_IN)

    @pytest.mark.slow
    def test_a_server_that_does_not_answer_is_named(self, tmp_path: Path) -> None:
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with (
            temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
            pytest.raises(ServiceError, match=r"127\.0\.0\.1:9/api .*labelscape up"),
        ):
            schedule.serve({"home": str(tmp_path)}, "0 3 * * *", "nightly", entrypoint=STAND_IN)

    @pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
    def test_a_cron_that_never_fires_is_refused(self, cron: str) -> None:
        with pytest.raises(ConfigError, match="no date matches it, so it would never run"):
            schedule._schedule(cron, None)

    def test_a_cron_of_leap_years_is_accepted(self) -> None:
        assert schedule._schedule("0 0 29 2 *", None) is not None

    @pytest.mark.parametrize("name", ["a/b", "50%", "a&b", "<x>", " ", "''"])
    def test_a_name_that_prefect_refuses_is_refused_first(self, name: str) -> None:
        with pytest.raises(ConfigError, match=r"--name .* choose a name without"):
            schedule.deploy(RunConfig(), "0 3 * * *", "pool", name)
        with pytest.raises(ConfigError, match=r"--pool .* choose a name without"):
            schedule.deploy(RunConfig(), "0 3 * * *", name, "train")

    @pytest.mark.parametrize("cron", ["", "at dawn", "61 3 * * *", "* * *", "@never", "0 0 31 2 *"])
    def test_a_bad_cron_is_refused_with_an_example(self, cron: str) -> None:
        with pytest.raises(ConfigError, match=r"five fields"):
            schedule._schedule(cron, None)

    def test_a_bad_time_zone_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="Nowhere"):
            schedule._schedule("0 3 * * *", "Nowhere/Land")

    @pytest.mark.slow
    def test_an_invalid_configuration_is_refused_before_the_server(self) -> None:
        with pytest.raises(ConfigError, match=r"config\.wrokers"):
            schedule._load_flow(STAND_IN, {"config": {"wrokers": 1}})


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"source": {"path": "/data/photos"}}, "photos"),
        ({"name": "nightly", "source": {"path": "/data/photos"}}, "nightly"),
        ({"source": {"path": "s3://shelf/a&b"}}, "a-b"),
        ({}, "train"),
    ],
)
def test_deployments_are_named_after_their_configuration(config: dict[str, Any], name: str) -> None:
    assert schedule.name_deployment(config) == name


def test_places_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"home": "h", "source": {"path": "photos", "labels": None, "edges": "e.csv", "kind": "auto"}}
    config = schedule._parameters(given)["config"]
    assert config["home"] == str(tmp_path / "h")
    assert config["source"] == {
        "path": str(tmp_path / "photos"),
        "labels": None,
        "edges": str(tmp_path / "e.csv"),
        "kind": "auto",
    }
    assert schedule._parameters({"source": {"path": "demo"}})["config"]["source"] == {"path": "demo"}


def test_passwords_of_databases_stay_out_of_the_parameters(tmp_path: Path) -> None:
    given = {
        "home": str(tmp_path),
        "tracking": {"uri": "postgresql://me:first-secret@db.example/mlflow"},
        "schedule": {"database": "postgresql://me:second-secret@db.example/prefect"},
    }
    config = schedule._parameters(given)["config"]
    assert "secret" not in str(config)
    assert reveal(config["schedule"]["database"], tmp_path) == given["schedule"]["database"]
    kept = (tmp_path / "credentials.json").read_text()
    assert all(secret in kept for secret in ("first-secret", "second-secret"))


def test_a_worker_gets_the_address_of_the_shared_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELSCAPE_STORE", "s3://bucket/ours")
    assert schedule._parameters(load_config(None))["config"]["store"]["uri"] == "s3://bucket/ours"
    assert schedule._parameters({})["config"]["store"] == {"uri": "s3://bucket/ours"}
    given = {"store": {"uri": "s3://bucket/another"}}
    assert schedule._parameters(given)["config"]["store"] == given["store"]
    monkeypatch.delenv("LABELSCAPE_STORE")
    assert "store" not in schedule._parameters({})["config"]


def test_prefect_yaml_matches_deploy() -> None:
    text = (REPOSITORY / "prefect.yaml").read_text()
    content = yaml.safe_load(text)
    (nightly,) = content["deployments"]
    assert nightly["entrypoint"] == schedule.ENTRYPOINT
    assert nightly["tags"] == schedule.TAGS
    assert nightly["concurrency_limit"] == 1
    assert content["pull"] == []
    assert schedule._schedule(**nightly["schedules"][0]) is not None
    assert not re.search(r"[\s\"'](/|~|[A-Z]:\\)\w", text), "a path of one machine"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Services]]:
    """A real server on a free port, and the settings with which this process uses it."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    home = tmp_path_factory.mktemp("schedule")
    try:
        services = up(home, 0, 0)
        login = {PREFECT_API_URL: services.prefect_url, PREFECT_API_AUTH_STRING: read_token(home)}
        with temporary_settings(login):
            yield home, services
    finally:
        down(home)


@pytest.fixture
def client(server: tuple[Path, Services]) -> Iterator[Any]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as found:
        yield found


def environment(server: tuple[Path, Services]) -> dict[str, str]:
    """The environment of processes in other folders: address and login of the server, and the import path."""
    login = {"PREFECT_API_URL": server[1].prefect_url, "PREFECT_API_AUTH_STRING": read_token(server[0]) or ""}
    return os.environ | login | {"PYTHONPATH": str(REPOSITORY)}


def runs_of(client: Any, deployment: Any, *states: str) -> list[Any]:
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    chosen = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))
    found = client.read_flow_runs(deployment_filter=chosen, limit=200)
    return [run for run in found if run.state.type.value in states]


def deployment_named(client: Any, name: str) -> Any:
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def run_now(client: Any, run: Any) -> None:
    """What `Run now` does to a scheduled run."""
    from prefect.states import Scheduled

    client.set_flow_run_state(run.id, Scheduled(), force=True)


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


@pytest.mark.slow
class TestRealServer:
    def test_a_served_deployment_is_scheduled_and_runs(
        self, server: tuple[Path, Services], client: Any, tmp_path: Path
    ) -> None:
        code = (
            "import sys; from flows.schedule import serve\n"
            "config = {'home': sys.argv[1], 'executor': 'threads:2', 'source': {'path': 'demo'}}\n"
            f"serve(config, '0 3 * * *', 'served', entrypoint={STAND_IN!r})"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        serving = subprocess.Popen(command, cwd=REPOSITORY, env=environment(server))

        def serves() -> bool:
            return serving.poll() is None

        try:
            found = wait_for(lambda: deployment_named(client, "stand-in/served"), "deployment", alive=serves)
            due = wait_for(lambda: runs_of(client, found, "SCHEDULED"), "scheduled run")
            assert all(
                (run.expected_start_time.hour, run.expected_start_time.minute) == (3, 0) for run in due
            )
            run_now(client, due[0])
            (done,) = wait_for(lambda: runs_of(client, found, "COMPLETED", "FAILED", "CRASHED"), "run's end")
            assert done.state.type.value == "COMPLETED"
            assert (done.id, done.auto_scheduled) == (due[0].id, True)
            assert (tmp_path / "ran.txt").read_text() == "demo threads:2"
        finally:
            stop(serving)
        found = client.read_deployment(found.id)
        assert found.entrypoint == STAND_IN
        assert found.global_concurrency_limit.limit == 1
        assert found.paused, "no process serves the schedule any longer"

    def test_a_worker_runs_a_registered_deployment(
        self, server: tuple[Path, Services], client: Any, tmp_path: Path
    ) -> None:
        given = {"home": str(tmp_path), "executor": "threads:3"}
        for _ in range(2):  # the second registration updates the first
            text = schedule.deploy(given, "*/5 * * * *", "shelf", "registered", "Europe/Zurich", STAND_IN)
        assert "stand-in/registered" in text
        assert ", at */5 * * * * (Europe/Zurich)\n" in text
        found = deployment_named(client, "stand-in/registered")
        assert (found.entrypoint, found.pull_steps or [], found.path) == (STAND_IN, [], None)
        assert (found.work_pool_name, found.global_concurrency_limit.limit) == ("shelf", 1)
        assert [entry.schedule.timezone for entry in found.schedules] == ["Europe/Zurich"]
        due = wait_for(lambda: runs_of(client, found, "SCHEDULED"), "scheduled run")
        run_now(client, due[0])
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "shelf", "--run-once"]
        subprocess.run(command, cwd=tmp_path, env=environment(server), check=True, timeout=240)
        assert [run.id for run in runs_of(client, found, "COMPLETED")] == [due[0].id]
        assert (tmp_path / "ran.txt").read_text() == "demo threads:3"

    def test_the_server_refuses_invalid_parameters(
        self, server: tuple[Path, Services], client: Any, tmp_path: Path
    ) -> None:
        from prefect.exceptions import PrefectHTTPStatusError

        schedule.deploy({"home": str(tmp_path)}, None, "shelf", "checked", entrypoint=STAND_IN)
        found = deployment_named(client, "stand-in/checked")
        assert found.schedules == []
        for wrong in ({"exeuctor": "serial"}, {"executor": 3}, {"source": {"pth": "x"}}):
            with pytest.raises(PrefectHTTPStatusError) as refusal:
                client.create_flow_run_from_deployment(found.id, parameters={"config": wrong})
            assert refusal.value.response.status_code in (409, 422)
        assert runs_of(client, found, "SCHEDULED", "PENDING", "RUNNING") == []

    def test_another_configuration_does_not_replace_a_deployment(
        self, server: tuple[Path, Services], client: Any, tmp_path: Path
    ) -> None:
        given = {"home": str(tmp_path), "source": {"path": str(tmp_path / "photos")}}
        other = {"home": str(tmp_path), "source": {"path": "wine"}}
        text = schedule.deploy(given, None, "shelf", entrypoint=STAND_IN)
        assert "stand-in/photos" in text
        with pytest.raises(ConfigError, match=r"stand-in/photos exists .*source.path: .*photos there, wine"):
            schedule.deploy(other, None, "shelf", "photos", entrypoint=STAND_IN)
        kept = deployment_named(client, "stand-in/photos").parameters["config"]
        assert kept["source"]["path"] == str(tmp_path / "photos")
        schedule.deploy(other, None, "shelf", "photos", entrypoint=STAND_IN, replace=True)
        assert deployment_named(client, "stand-in/photos").parameters["config"]["source"]["path"] == "wine"

    def test_the_printed_commands_start_a_run(
        self, server: tuple[Path, Services], client: Any, tmp_path: Path
    ) -> None:
        given = {"home": str(server[0])}
        text = schedule.deploy(given, None, "shelf", "pasted", entrypoint=STAND_IN, on_change=True)
        lines = dict(line.split(":  ", 1) for line in text.splitlines() if ":  " in line)
        bare = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        bare |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        found = deployment_named(client, "stand-in/pasted")

        def paste(what: str) -> list[Any]:
            subprocess.run(lines[what], shell=True, cwd=tmp_path, env=bare, check=True, timeout=120)
            return runs_of(client, found, "SCHEDULED")

        assert len(paste("run it now")) == 1
        # An event that is sent before the server has loaded the trigger starts nothing: send it again.
        wait_for(lambda: len(paste("start it by an event")) > 1, "run by event")

    def test_a_pool_of_another_kind_is_refused(self, client: Any, tmp_path: Path) -> None:
        from prefect.client.schemas.actions import WorkPoolCreate

        client.create_work_pool(WorkPoolCreate(name="boxes", type="docker"))
        with pytest.raises(ServiceError, match="'boxes' has type 'docker', expected 'process'"):
            schedule.deploy({"home": str(tmp_path)}, None, "boxes", "nightly", entrypoint=STAND_IN)

    def test_the_training_flow_is_registered_and_checks_its_parameters(
        self, server: tuple[Path, Services], client: Any
    ) -> None:
        from prefect.exceptions import PrefectHTTPStatusError

        from flows.config import load_config

        home = server[0]
        schedule.deploy(load_config(None, home=str(home)), "0 3 * * *", "shelf", "nightly")
        found = deployment_named(client, "labelscape-train/nightly")
        assert found.entrypoint == schedule.ENTRYPOINT
        assert found.parameters["config"]["home"] == str(home)
        with pytest.raises(PrefectHTTPStatusError):
            client.create_flow_run_from_deployment(found.id, parameters={"config": {"embeding": {}}})

    def test_everything_that_can_run_can_be_deployed(
        self, server: tuple[Path, Services], client: Any
    ) -> None:
        config = load_config(None, ["name=each"], home=str(server[0]))
        for what, entrypoint in schedule.ENTRYPOINTS.items():
            schedule.deploy(config, None, "shelf", entrypoint=entrypoint, on_change=True)
            name = f"labelscape-{'train' if what == 'run' else what}/each"
            assert deployment_named(client, name).entrypoint == entrypoint
            assert len(client.read_automations_by_name(f"{name} on change")) == 1
        assert len(client.read_automations_by_name(crash_detection.NAME)) == 1

    def test_the_command_of_prefect_registers_the_same(
        self, server: tuple[Path, Services], client: Any, tmp_path: Path
    ) -> None:
        schedule._ensure_pool("labelscape")
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--name", "nightly"]
        file = ["--prefect-file", str(REPOSITORY / "prefect.yaml")]
        surroundings = environment(server) | {"PWD": str(tmp_path)}
        subprocess.run([*command, *file], cwd=tmp_path, env=surroundings, check=True, timeout=240)
        found = deployment_named(client, "labelscape-train/nightly")
        assert (found.entrypoint, found.pull_steps) == (schedule.ENTRYPOINT, [])
        assert (found.work_pool_name, found.global_concurrency_limit.limit) == ("labelscape", 1)
        env = {"PYTHONSAFEPATH": "1", "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        assert found.job_variables == {"working_dir": str(tmp_path), "env": env}
        wait_for(lambda: runs_of(client, found, "SCHEDULED"), "scheduled run")
