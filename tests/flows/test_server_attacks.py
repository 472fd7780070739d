"""Attacks on the real servers by web pages and by programs without the token; our own ways still work."""

import http.client
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from flows.services import Services, browser_links, down, read_tail, up
from storage.servers import read_token, token_path
from tests.conftest import REPOSITORY
from tests.flows.test_schedule import deployment_named, runs_of, stop, wait_for
from tests.relay import relaying

pytestmark = pytest.mark.slow

EVIL = "http://evil.example"
ENDED = ("COMPLETED", "FAILED", "CRASHED")
QUICK = ("--set", "evaluation.folds=2", "--set", "tracking.enabled=false")


@dataclass(frozen=True)
class Target:
    """A home, its running servers and their token."""

    home: Path
    services: Services
    token: str

    @property
    def api(self) -> str:
        return self.services.prefect_url

    @property
    def links(self) -> tuple[str, str]:
        """What a browser opens for Prefect and for MLflow."""
        return browser_links(self.home, self.services)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home = tmp_path_factory.mktemp("attacked") / "home"
    services = up(home, 0, 0)
    yield Target(home, services, read_token(home) or "")
    assert down(home)


def send(
    url: str, method: str = "GET", body: Any = None, host: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """Send a request, with any Host, and return status, text and headers of the answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    sent = {"Host": host or parts.netloc} | {name.replace("_", "-"): text for name, text in headers.items()}
    data = None if body is None else json.dumps(body)
    try:
        connection.request(method, f"{parts.path or '/'}?{parts.query}".rstrip("?"), data, sent)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        return answer.status, text, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def cookie(link: str) -> str:
    """The cookie that a browser gets from a link of `labelscape up`."""
    status, _, headers = send(link)
    assert status in (200, 303)
    return headers["set-cookie"].partition(";")[0]


def attackers(target: Target, server: int) -> dict[str, dict[str, str]]:
    """How attackers ask: pages in the user's browser, and programs of other users."""
    link = target.links[server]
    known = {"Cookie": cookie(link), **target.bearer}
    return {
        "a program without a token": {},
        "a program with a wrong token": {"Authorization": f"Bearer {'0' * 32}"},
        "another page": {"Origin": EVIL},
        "another page in a logged-in browser": {"Origin": EVIL, **known},
        "a page in a sandbox": {"Origin": "null", **known},
        "a page of another local server": {"Origin": "http://127.0.0.1:1", **known},
        "an image of another page": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "image", **known},
        "a page whose name was rebound": {"host": "evil.example", "Origin": EVIL, **known},
        "a rebound name without an origin": {"host": f"evil.example:{urlsplit(link).port}", **known},
    }


def assert_refused(url: str, method: str, body: Any, attacker: Mapping[str, str]) -> None:
    for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        status, text, headers = send(url, method, body, Content_Type=kind, **attacker)
        assert status in (401, 403), (url, attacker, text)
        assert not [name for name in headers if name.startswith("access-control-allow")]
        assert "set-cookie" not in headers


def labelscape(home: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a user does, who has set nothing but the home."""
    done = start(home, *arguments, **more)
    out, err = done.communicate(timeout=300)
    return subprocess.CompletedProcess(arguments, done.returncode, out, err)


def surroundings(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    return kept | {"LABELSCAPE_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}


def start(home: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *arguments],
        cwd=home.parent,
        env=surroundings(home) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def client(target: Target) -> Iterator[Any]:
    """Prefect's own client, with the token."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    login = {PREFECT_API_URL: target.api, PREFECT_API_AUTH_STRING: target.token}
    with temporary_settings(login), get_client(sync_client=True) as found:
        yield found


class TestPrefect:
    def test_no_attacker_registers_a_deployment(self, target: Target, client: Any) -> None:
        flow = {"name": "attack"}
        deployment = {
            "name": "attack",
            "flow_id": "00000000-0000-0000-0000-000000000000",
            "pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "touch pwned"}}],
        }
        for attacker in attackers(target, 0).values():
            assert_refused(f"{target.api}/flows/", "POST", flow, attacker)
            assert_refused(f"{target.api}/deployments/", "POST", deployment, attacker)
        assert not [one for one in client.read_flows() if one.name == "attack"]
        # The same request of a client that knows the token succeeds, so the attack was a real one.
        known = {**target.bearer, "Prefect_Csrf_Client": "c"}
        csrf = json.loads(send(f"{target.api}/csrf-token?client=c", **known)[1])["token"]
        known |= {"Prefect_Csrf_Token": csrf, "Content_Type": "application/json"}
        assert send(f"{target.api}/flows/", "POST", flow, **known)[0] == 201

    def test_a_preflight_is_refused(self, target: Target) -> None:
        for attacker in attackers(target, 0).values():
            asked = {
                "Access_Control_Request_Method": "POST",
                "Access_Control_Request_Headers": "content-type",
            }
            assert_refused(f"{target.api}/deployments/", "OPTIONS", None, attacker | asked)

    @pytest.mark.parametrize(
        "path", ["/", "/runs", "/ui-settings", "/api/version", "/api/admin/settings", "/docs"]
    )
    def test_nothing_can_be_read(self, target: Target, path: str) -> None:
        for attacker in attackers(target, 0).values():
            assert_refused(target.services.prefect_ui + path, "GET", None, attacker)

    def test_a_login_without_a_csrf_token_changes_nothing(self, target: Target) -> None:
        known = {"Cookie": cookie(target.links[0]), "Origin": target.services.prefect_ui}
        for login in (known, target.bearer):
            status, text, _ = send(
                f"{target.api}/flows/",
                "POST",
                {"name": "x"},
                Content_Type="application/json",
                **login,
            )
            assert (status, text) == (403, '{"detail":"Missing CSRF token."}')

    @pytest.mark.parametrize(
        "path", ["events/in", "events/out", "logs/out", "task_runs/subscriptions/scheduled"]
    )
    def test_websockets_need_the_token(self, target: Target, path: str) -> None:
        from websockets.exceptions import ConnectionClosed, InvalidStatus
        from websockets.sync.client import connect
        from websockets.typing import Origin, Subprotocol

        url = f"{target.api}/{path}".replace("http", "ws", 1)
        ours = [Subprotocol("prefect")]
        login = target.bearer
        for refused in (
            {"subprotocols": None},
            {"subprotocols": ours, "origin": Origin(EVIL), "additional_headers": login},
            {"subprotocols": ours, "origin": Origin("http://127.0.0.1:1"), "additional_headers": login},
        ):
            with pytest.raises(InvalidStatus, match="403"), connect(url, **refused):  # type: ignore[arg-type]
                pass
        for first in ({"type": "auth", "token": "0" * 32}, {"type": "auth"}, {"type": "subscribe"}, {}):
            with connect(url, subprotocols=ours) as socket:
                socket.send(json.dumps(first))
                with pytest.raises(ConnectionClosed, match="1008"):
                    socket.recv(timeout=30)
        with connect(url, subprotocols=ours) as socket:
            socket.send(json.dumps({"type": "auth", "token": target.token}))
            assert json.loads(socket.recv(timeout=30)) == {"type": "auth_success"}


class TestMlflow:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/"),
            ("GET", "/version"),
            ("GET", "/static-files/index.html"),
            ("GET", "/get-artifact?path=x&run_uuid=0"),
            ("GET", "/api/2.0/mlflow/experiments/search?max_results=5"),
            ("POST", "/api/2.0/mlflow/experiments/create"),
            ("POST", "/ajax-api/2.0/mlflow/experiments/create"),
            ("PUT", "/api/2.0/mlflow-artifacts/artifacts/x"),
            ("POST", "/graphql"),
            ("POST", "/ajax-api/3.0/mlflow/assistant/message"),
            ("OPTIONS", "/ajax-api/2.0/mlflow/experiments/create"),
        ],
    )
    def test_no_attacker_gets_through(self, target: Target, method: str, path: str) -> None:
        for attacker in attackers(target, 1).values():
            assert_refused(target.services.mlflow_url + path, method, {"name": "attack"}, attacker)

    def test_the_token_and_the_cookie_open(self, target: Target) -> None:
        page = {"Cookie": cookie(target.links[1]), "Origin": target.services.mlflow_url}
        for number, login in enumerate([page, target.bearer]):
            answer = send(
                f"{target.services.mlflow_url}/ajax-api/2.0/mlflow/experiments/create",
                "POST",
                {"name": f"mine {number}"},
                Content_Type="application/json",
                **login,
            )
            assert answer[0] == 200, answer[1]


class TestSecret:
    def test_it_is_in_its_file_only(self, target: Target) -> None:
        cookie(target.links[0])
        assert token_path(target.home).stat().st_mode & 0o777 == 0o600
        for entry in (target.services.prefect, target.services.mlflow):
            assert entry.process is not None
            for process in (entry.process, *entry.process.children(recursive=True)):
                assert target.token not in " ".join(process.cmdline())
            assert target.token not in read_tail(Path(entry.log), 10_000)
        found = [
            path
            for path in target.home.rglob("*")
            if path.is_file() and target.token.encode() in path.read_bytes()
        ]
        assert found == [token_path(target.home)]

    def test_up_prints_the_links_again(self, target: Target) -> None:
        done = labelscape(target.home, "up")
        assert done.returncode == 0, done.stderr
        for link in target.links:
            assert link in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80


class TestOurWays:
    """Commands of the user, who has set nothing but the home."""

    def test_a_run_is_recorded_by_both_servers(self, target: Target, client: Any) -> None:
        from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

        uri = ("--set", f"tracking.uri={target.services.mlflow_url}")
        done = labelscape(target.home, "run", "wine", "--json", *QUICK[:2], *uri)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert summary["prefect"] == {"problem": None}
        assert summary["tracking"]["problem"] is None
        (run,) = client.read_flow_runs()
        assert run.state.type.value == "COMPLETED"
        # Prefect's clients report tasks through a websocket.
        chosen = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
        wait_for(lambda: client.read_task_runs(flow_run_filter=chosen), "task run")
        compared = labelscape(target.home, "compare", "wine", "--uri", target.services.mlflow_url)
        assert "MLDA" in compared.stdout, compared.stderr

    def test_a_worker_runs_what_was_deployed_and_writes_nowhere_else(
        self, target: Target, client: Any, tmp_path: Path
    ) -> None:
        done = labelscape(target.home, "deploy", "wine", *QUICK, "--name", "worked", "--pool", "guarded")
        assert done.returncode == 0, done.stderr
        command = shlex.split(done.stdout.partition("run it with a worker:")[2])
        assert command[:2] == ["labelscape", "worker"]
        deployment = deployment_named(client, "labelscape-train/worked")
        for home in (target.home, tmp_path / "chosen"):
            run = ask_for_run(client, deployment, home)
            worked = labelscape(target.home, *command[1:], "--run-once")
            assert worked.returncode == 0, worked.stderr
            assert_bound(client.read_flow_run(run.id).state, home, target.home)

    def test_serve_runs_what_was_served_and_writes_nowhere_else(
        self, target: Target, client: Any, tmp_path: Path
    ) -> None:
        serving = start(target.home, "serve", "wine", *QUICK, "--name", "served")

        def serves() -> bool:
            return serving.poll() is None

        try:
            deployment = wait_for(
                lambda: deployment_named(client, "labelscape-train/served"), "deployment", alive=serves
            )
            for number, home in enumerate([target.home, tmp_path / "chosen"], start=1):
                run = ask_for_run(client, deployment, home)
                wait_for(lambda count=number: len(runs_of(client, deployment, *ENDED)) == count, "end", 240)
                assert_bound(client.read_flow_run(run.id).state, home, target.home)
        finally:
            stop(serving)  # type: ignore[arg-type]
            serving.communicate()


def ask_for_run(client: Any, deployment: Any, home: Path) -> Any:
    """Request a run in a home of our choice, as a page of Prefect can."""
    config = deployment.parameters["config"] | {"home": str(home)}
    parameters = {"config": config, "until": "ingest"}
    return client.create_flow_run_from_deployment(deployment.id, parameters=parameters)


def assert_bound(state: Any, home: Path, deployed: Path) -> None:
    """A run in the deployed home succeeds; one in another home fails before it writes."""
    if home == deployed:
        assert state.type.value == "COMPLETED", state.message
        return
    assert state.type.value == "FAILED"
    assert "asks for another home than the deployment" in state.message
    assert not home.exists()


class TestTemporaryServer:
    def test_the_server_of_a_run_needs_a_login_too(self, tmp_path: Path) -> None:
        run = start(tmp_path / "home", "run", "wine", *QUICK)
        try:
            url = wait_for(lambda: temporary_server(run.pid), "server", alive=lambda: run.poll() is None)
            for attacker in ({}, {"Authorization": "Bearer x"}, {"Origin": EVIL}, {"host": "evil.example"}):
                assert_refused(f"{url}/flows/", "POST", {"name": "attack"}, attacker)
                assert send(f"{url}/version", **attacker)[0] in (401, 403)
            assert send(f"{url}/health", host="evil.example")[0] == 403
            status, _, headers = send(
                f"{url}/flows/", "OPTIONS", Origin=EVIL, Access_Control_Request_Method="POST"
            )
            assert status == 403
            assert "access-control-allow-origin" not in headers
        finally:
            out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
        assert "NOT IN PREFECT" not in out

    def test_it_ends_with_a_run_that_is_killed(self, tmp_path: Path) -> None:
        run = start(tmp_path / "home", "run", "wine", *QUICK)
        wait_for(lambda: temporary_server(run.pid), "server", alive=lambda: run.poll() is None)
        children = psutil.Process(run.pid).children(recursive=True)
        run.kill()
        run.communicate(timeout=60)  # until the last process has closed its output
        assert not psutil.wait_procs(children, timeout=60)[1]

    def test_two_runs_of_one_process_share_it(self, tmp_path: Path) -> None:
        code = (
            "import sys; from flows.cli import main\n"
            "for source in ('wine', 'iris'):\n"
            "    assert main(['run', source, *sys.argv[1:]]) == 0"
        )
        command = [sys.executable, "-c", code, *QUICK, "--until", "ingest"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=surroundings(tmp_path / "home"),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "NOT IN PREFECT" not in done.stdout
        assert done.stdout.count("1 computed") == 2


def temporary_server(pid: int) -> str | None:
    """Address of the API of the server that a run has started for itself, when it answers."""
    try:
        commands = [" ".join(one.cmdline()) for one in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return None
    for command in commands:
        if port := re.search(r"flows\.temporary_server (\d+)", command):
            url = f"http://127.0.0.1:{port[1]}/api"
            try:
                return url if send(f"{url}/health")[0] == 200 else None
            except OSError:
                return None
    return None


@contextmanager
def server_with_login() -> Iterator[str]:
    """A server of somebody else that demands a login that we do not have; it must not get ours."""
    given: list[str | None] = []

    def refuse(headers: Message) -> int:
        given.append(headers["Authorization"])
        return 401

    with relaying("", refuse) as url:
        yield url
    assert given
    assert not any(given)


class TestServersOfOthers:
    """A server that demands a login gets a clear message, and not our token."""

    def test_prefect(self, tmp_path: Path) -> None:
        with server_with_login() as url:
            for command in (("deploy", "wine"), ("serve", "wine"), ("worker",)):
                done = labelscape(tmp_path / "home", *command, PREFECT_API_URL=f"{url}/api")
                assert done.returncode == 2
                assert f"the Prefect server at {url}/api demands a login" in done.stderr
                assert "PREFECT_API_AUTH_STRING" in done.stderr
                assert "Traceback" not in done.stderr
            run = ("run", "wine", *QUICK, "--until", "ingest")
            done = labelscape(tmp_path / "home", *run, PREFECT_API_URL=f"{url}/api")
            assert done.returncode == 0
            assert "demands a login" in done.stderr
            assert "Continuing without Prefect" in done.stderr

    def test_prefect_of_another_home(self, target: Target, tmp_path: Path) -> None:
        run = ("run", "wine", *QUICK, "--until", "ingest", "--json")
        api = {"PREFECT_API_URL": target.api}
        refused = json.loads(labelscape(tmp_path / "home", *run, **api).stdout)
        assert "demands a login" in refused["prefect"]["problem"]
        known = json.loads(
            labelscape(tmp_path / "home", *run, **api, PREFECT_API_AUTH_STRING=target.token).stdout
        )
        assert known["prefect"] == {"problem": None}
        ours = json.loads(labelscape(target.home, *run, **api).stdout)
        assert ours["prefect"] == {"problem": None}

    def test_mlflow(self, tmp_path: Path) -> None:
        with server_with_login() as url:
            done = labelscape(tmp_path / "home", "compare", "wine", "--uri", url)
            assert done.returncode == 2
            assert f"tracking server {url} demands a login" in done.stderr
            assert "MLFLOW_TRACKING_TOKEN" in done.stderr
            assert "Traceback" not in done.stderr
