"""Local servers: started once, recognized by process id and creation time, stopped as a group."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import psutil
import pytest

from flows import services
from flows.services import (
    Service,
    Services,
    browser_links,
    down,
    find_process,
    read_tail,
    running,
    start_process,
    stop_group,
    up,
)
from storage.errors import ServiceError
from storage.tracking.client import MethodRecord, RunRecord, Tracker, default_artifact_root, default_uri
from tasks.stages.tracking import make_tracker

pytestmark = pytest.mark.slow


def stand_in(folder: Path, port: int) -> list[str]:
    """A file server that replaces a real one; it answers if its folder contains the file."""
    return ["http.server", str(port), "--bind", services.HOST, "--directory", str(folder)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder whose servers are stand-ins that start at once."""
    for file in ("prefect/api/health", "mlflow/health"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("true")
    for name in ("prepare_database", "create_database"):
        monkeypatch.setattr(services, name, lambda *_: None)
    monkeypatch.setattr(services, "_prefect_command", lambda port: stand_in(tmp_path / "prefect", port))
    monkeypatch.setattr(services, "_mlflow_command", lambda _, port: stand_in(tmp_path / "mlflow", port))
    yield tmp_path
    down(tmp_path)


def alive(service: Service) -> bool:
    return service.process is not None


class TestUpAndDown:
    def test_up_finds_running_servers_and_down_stops_them(self, home: Path) -> None:
        assert running(home) is None
        first = up(home, 0, 0)
        assert first.fresh
        again = up(home)
        assert not again.fresh
        assert (again.prefect, again.mlflow) == (first.prefect, first.mlflow)
        assert running(home) == again
        assert down(home)
        assert not alive(first.prefect)
        assert not alive(first.mlflow)
        assert running(home) is None
        assert not down(home)

    def test_the_record_names_pids_addresses_and_time(self, home: Path) -> None:
        found = up(home, 0, 0)
        content = json.loads((home / "services.json").read_text())
        assert content["prefect"]["pid"] == found.prefect.pid
        assert content["urls"] == {"prefect": found.prefect_url, "mlflow": found.mlflow_url}
        assert content["started"] == found.started

    def test_servers_outlive_their_starter(self, home: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from flows import services\n"
            "home = Path(sys.argv[1])\n"
            "def command(name, port):\n"
            "    return ['http.server', str(port), '--bind', '127.0.0.1', '--directory', str(home / name)]\n"
            "services._prefect_command = lambda port: command('prefect', port)\n"
            "services._mlflow_command = lambda _, port: command('mlflow', port)\n"
            "services.prepare_database = services.create_database = lambda *_: None\n"
            "services.up(home, 0, 0)"
        )
        subprocess.run([sys.executable, "-c", code, str(home)], check=True)
        found = running(home)
        assert found is not None
        assert os.getsid(found.prefect.pid) == found.prefect.pid
        assert down(home)
        assert not alive(found.prefect)

    def test_two_at_once_start_one_pair(self, home: Path) -> None:
        with ThreadPoolExecutor(2) as pool:
            one, two = pool.map(lambda _: up(home, 0, 0), range(2))
        assert (one.prefect, one.mlflow) == (two.prefect, two.mlflow)
        assert {one.fresh, two.fresh} == {True, False}

    def test_half_a_pair_is_replaced(self, home: Path) -> None:
        first = up(home, 0, 0)
        stop_group(first.mlflow.process)
        assert running(home) is None
        second = up(home, 0, 0)
        assert second.fresh
        assert not alive(first.prefect)
        assert alive(second.prefect)
        assert alive(second.mlflow)

    def test_another_process_with_the_same_id_is_left_alone(self, home: Path) -> None:
        found = up(home, 0, 0)
        record = home / "services.json"
        kept = record.read_text()
        content = json.loads(kept)
        for name in ("prefect", "mlflow"):
            content[name]["created"] -= 60.0
        record.write_text(json.dumps(content))
        assert running(home) is None
        assert not down(home)
        assert alive(found.prefect)
        assert alive(found.mlflow)
        record.write_text(kept)

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"prefect": {}, "mlflow": 3}'])
    def test_a_foreign_record_means_nothing_runs(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "services.json").write_text(content)
        assert running(tmp_path) is None
        assert not down(tmp_path)


class TestFailures:
    def test_a_server_that_dies_shows_its_log_and_stops_the_other(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun: list[Service] = []
        start = services._start
        monkeypatch.setattr(services, "_start", lambda *given: begun.append(start(*given)) or begun[-1])
        monkeypatch.setattr(services, "_mlflow_command", lambda *_: ["no_such_module_at_all"])
        with pytest.raises(
            ServiceError, match=r"mlflow ended[^:]*:\n.*No module named no_such_module_at_all"
        ):
            up(home, 0, 0)
        assert not any(alive(entry) for entry in begun)
        assert running(home) is None
        assert not (home / "services.json").exists()

    def test_a_server_that_never_answers_is_reported(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (home / "mlflow" / "health").unlink()
        monkeypatch.setattr(services, "START_SECONDS", 0.5)
        with pytest.raises(ServiceError, match=r"mlflow does not answer on port \d+ after 0 s"):
            up(home, 0, 0)

    def test_a_taken_port_is_named(self, home: Path) -> None:
        with socket.socket() as other:
            other.bind((services.HOST, 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(ServiceError, match=f"port {port} for MLflow is taken"):
                up(home, 0, port)

    def test_another_port_is_used_if_the_default_is_taken(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.socket() as other:
            other.bind((services.HOST, 0))
            other.listen()
            monkeypatch.setattr(services, "PREFECT_PORT", other.getsockname()[1])
            monkeypatch.setattr(services, "MLFLOW_PORT", other.getsockname()[1])
            found = up(home)
        assert len({found.prefect.port, found.mlflow.port, services.PREFECT_PORT}) == 3

    @pytest.mark.parametrize("port", [-1, 65536])
    def test_an_invalid_port_is_refused(self, home: Path, port: int) -> None:
        with pytest.raises(ServiceError, match="is not a port"):
            up(home, port)

    def test_a_home_that_is_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("")
        with pytest.raises(ServiceError, match="home: cannot be written to"):
            up(tmp_path / "home")


class TestProcesses:
    def test_a_process_that_ignores_sigterm_is_killed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "print('on', flush=True); time.sleep(60)"
        )
        log = tmp_path / "log"
        process = start_process([sys.executable, "-c", code], tmp_path, log, os.environ)
        created = process.create_time()
        while "on" not in log.read_text():
            time.sleep(0.01)
        assert find_process(process.pid, created) is not None
        monkeypatch.setattr(services, "STOP_SECONDS", 0.2)
        stop_group(process)
        assert find_process(process.pid, created) is None

    def test_a_child_of_the_server_is_stopped_with_it(self, tmp_path: Path) -> None:
        code = (
            "import signal, subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
            "print(child.pid, flush=True)\n"
            "signal.pause()"
        )
        log = tmp_path / "log"
        process = start_process([sys.executable, "-c", code], tmp_path, log, os.environ)
        while not log.read_text().strip():
            time.sleep(0.01)
        worker = psutil.Process(int(log.read_text()))
        stop_group(process)
        gone, _ = psutil.wait_procs([worker], timeout=30)
        assert gone == [worker]

    def test_a_process_that_has_ended_is_not_found(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
        )
        assert find_process(int(done.stdout), time.time()) is None

    def test_tail_of_a_long_and_of_no_log(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_text("\n".join(f"line {i}" for i in range(100)))
        assert read_tail(tmp_path / "log", 2) == "line 98\nline 99"
        assert "No such file" in read_tail(tmp_path / "none")


def test_asking_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flows.services import running\n"
        "assert running(Path(sys.argv[1])) is None\n"
        "heavy = {'mlflow', 'prefect', 'sklearn', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Services]]:
    """The real servers, on free ports."""
    home = tmp_path_factory.mktemp("home")
    yield home, up(home, 0, 0)
    assert down(home)


class TestRealServers:
    def test_both_serve_their_pages(self, real: tuple[Path, Services]) -> None:
        home, found = real
        browser = build_opener(HTTPCookieProcessor())
        for link in browser_links(home, found):
            with browser.open(link) as answer:
                # Prefect's link leads to its page; MLflow's to a script that opens it without the token.
                assert "token" not in answer.url or b"location.replace" in answer.read()
            with browser.open(link.partition("?")[0]) as answer:
                assert b"<html" in answer.read()
        with browser.open(f"{found.prefect_ui}/ui-settings") as answer:
            assert json.load(answer)["api_url"] == found.prefect_url

    def test_runs_logged_with_and_without_the_server_share_one_database(
        self, real: tuple[Path, Services]
    ) -> None:
        home, found = real
        model = _payload()
        many = {f"p{i}": float(i) for i in range(1010)}  # more than the server takes in one request
        one = MethodRecord("m", "M", params=many, metrics=many, model=model)
        record = RunRecord("both ways", "run", methods=[one], files={"a.txt": b"a"})
        past = Tracker(default_uri(home), default_artifact_root(home))
        through = make_tracker(found.mlflow_url, home)
        done = [through.log(record), past.log(record), through.log(record)]
        for tracker in (past, through):
            assert all(tracker.exists(run.parent_id) for run in done)
            assert not tracker.exists("0" * 32)
            assert [run.parent_id for run in tracker.runs("both ways")] == [
                run.parent_id for run in reversed(done)
            ]
            assert all(len(row.metrics) == len(row.params) == 1010 for row in tracker.runs("both ways"))
            assert all(tracker.model(run.parent_id)[0][:2] == b"PK" for run in done)
        assert len(list(default_artifact_root(home).rglob("a.txt"))) == 3

    def test_another_host_name_is_refused(self, real: tuple[Path, Services]) -> None:
        connection = http.client.HTTPConnection(services.HOST, real[1].mlflow.port, timeout=10)
        connection.request("GET", "/api/2.0/mlflow/experiments/search", headers={"Host": "evil.example"})
        assert connection.getresponse().status == 403
        connection.close()


def _payload() -> bytes:
    import skops.io
    from sklearn.linear_model import LinearRegression

    return bytes(skops.io.dumps(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])))
