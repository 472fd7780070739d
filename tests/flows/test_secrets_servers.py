"""Secrets with real servers: runs, `sync`, `compare` and deployments connect with them and leave no trace."""

import base64
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from urllib.parse import unquote

import psutil
import pytest

from flows import services
from storage.credentials import FILE
from storage.servers import read_token
from tests.conftest import Command
from tests.flows.test_outages import QUICK, REPOSITORY, environment, free_port, nobody, server
from tests.relay import relaying
from tests.secrets_search import PASSWORDS, as_toml, find_leaks, login_address, read_everything

pytestmark = pytest.mark.slow

# A login of each server that only works if every character of it arrives.
KIND = "slash"
LOGIN = f"me:{PASSWORDS[KIND]}"
PREFECT_LOGIN = "admin:Zqxj50left@Zqxj50right"
ENVIRONMENT = {
    "MLFLOW_TRACKING_PASSWORD": "Zqxj60mlflow",
    "AWS_SECRET_ACCESS_KEY": "Zqxj61aws",
    "PREFECT_API_KEY": "Zqxj62prefect",
}


@dataclass
class Planted:
    """Runs commands in a folder and collects what they print."""

    folder: Path
    surroundings: dict[str, str]
    printed: list[tuple[str, str]] = field(default_factory=list)
    given: list[Path] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self, *arguments: str, place: str = "work", **more: str) -> "subprocess.Popen[str]":
        (self.folder / place).mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *arguments],
            cwd=self.folder / place,
            env=environment(self.home, **ENVIRONMENT, **self.surroundings) | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __call__(self, *arguments: str, code: int | None = 0, **more: str) -> str:
        """Run a command to its end; return what it printed on standard output."""
        run = self.start(*arguments, **more)
        out, err = run.communicate(timeout=300)
        self.note(shlex.join(arguments), out, err)
        assert code is None or run.returncode == code, out + err
        return out

    def note(self, command: str, *texts: str) -> None:
        self.printed += [(f"printed by {command[:60]}", text) for text in texts]

    def write(self, name: str, text: str) -> str:
        file = self.folder / "work" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self.given.append(file)
        return name

    def check(self) -> None:
        """Search everything printed and written."""
        kept = self.home / FILE
        if kept.exists():
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert find_leaks(self.printed) == []
        assert find_leaks(read_everything(self.folder, [*self.given, kept])) == []


def guard(login: str) -> "Guard":
    return Guard("Basic " + base64.b64encode(unquote(login).encode()).decode())


@dataclass
class Guard:
    """Refuses requests without the right login."""

    expected: str
    served: int = 0

    def __call__(self, headers: Message) -> int | None:
        right = headers["Authorization"] == self.expected
        self.served += right
        return None if right else 401


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A real MLflow server: its folder and its address."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    with server("mlflow", folder, port):
        yield folder, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A real Prefect server that needs a login: its folder, and its address without the login."""
    folder, port = tmp_path_factory.mktemp("prefect"), free_port()
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    surroundings = {"PREFECT_SERVER_API_AUTH_STRING": PREFECT_LOGIN, "PREFECT_HOME": str(folder / "prefect")}
    with (folder / "log.txt").open("wb") as log:
        process = psutil.Popen(
            command, stdout=log, stderr=log, env=os.environ | surroundings, start_new_session=True
        )
    try:
        services._wait([services.Service("prefect", process.pid, process.create_time(), port, str(log.name))])
        yield folder, f"127.0.0.1:{port}/api"
    finally:
        services.stop_group(process)


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(
        tmp_path, {"PREFECT_API_URL": f"http://me:Zqxj70prefect@{nobody()[7:]}/api?token=Zqxj70token"}
    )


def test_a_tracker_that_needs_a_login(planted: Planted, mlflow: tuple[Path, str]) -> None:
    check_login = guard(LOGIN)
    with relaying(mlflow[1], check_login, read_token(mlflow[0])) as relay:
        place = relay.removeprefix("http://")
        config = planted.write(
            "my.toml", as_toml(tracking={"uri": f"http://{LOGIN}@{place}"}, source={"path": "wine"})
        )
        done = json.loads(planted("run", config, "--json", *QUICK))
        assert done["tracking"]["problem"] is None
        assert done["tracking"]["uri"] == relay
        text = planted("run", config, *QUICK)
        assert f"at {relay}" in text
        # In a folder without that file, the login is found in the home.
        assert "wine" in planted("compare", "--uri", relay, place="elsewhere")
        planted("run", "--as", done["run"], "--set", "tracking.enabled=true", code=2)
        planted("run", "--as", done["run"], place="elsewhere")
        planted("store", "gc", "--dry-run", "--keep", "0", place="elsewhere")
        planted("lineage", place="elsewhere")
        planted("store", "ls", "--runs", "--json")
        planted("compare", "--json", "--uri", f"http://{LOGIN}@{place}", "--all")
        planted("annotate", "wine", "--uri", f"http://{LOGIN}@{place}", place="annotated", code=None)
        assert check_login.served > 10
        (planted.home / FILE).unlink()
        refused = planted.start("compare", "--uri", relay, place="elsewhere", MLFLOW_TRACKING_PASSWORD="")
        out, err = refused.communicate(timeout=120)
        planted.note("compare without a login", out, err)
        assert refused.returncode == 2, err
        assert "MLFLOW_TRACKING_USERNAME" in err
    planted.check()
    assert find_leaks(read_everything(mlflow[0])) == []


@pytest.mark.parametrize("kind", ["at", "quotes"])
def test_a_run_is_tracked_later_with_the_login_it_was_given(
    planted: Planted, mlflow: tuple[Path, str], kind: str
) -> None:
    login = f"me:{PASSWORDS[kind]}"
    check_login = guard(login)
    down = True
    refuse = lambda headers: 503 if down else check_login(headers)  # noqa: E731
    with relaying(mlflow[1], refuse, read_token(mlflow[0])) as relay:
        address = f"tracking.uri=http://{login}@{relay.removeprefix('http://')}"
        given = ("--set", address, "--set", f"tracking.experiment={kind}", "--methods", "pca")
        done = json.loads(planted("run", "iris", "--json", *QUICK, *given))
        assert done["tracking"]["problem"]
        planted("sync", place="elsewhere", code=2)
        down = False
        later = json.loads(planted("sync", "--json", place="elsewhere", code=None))
        assert [one["problem"] for one in later["runs"]] == [None]
        assert later["runs"][0]["uri"] == relay
    planted.check()


def test_an_interrupted_run_resumes_with_the_printed_command(
    planted: Planted, mlflow: tuple[Path, str]
) -> None:
    check_login = guard(LOGIN)
    with relaying(mlflow[1], check_login, read_token(mlflow[0])) as relay:
        address = f"tracking.uri=http://{LOGIN}@{relay.removeprefix('http://')}"
        given = ("run", "wine", "--set", address, "--set", "tracking.experiment=resumed", *QUICK)
        run = planted.start(*given)
        assert run.stderr
        lines = []
        for line in run.stderr:
            lines.append(line)
            if line.strip().startswith("affinity"):
                run.send_signal(signal.SIGINT)
                break
        out, err = run.communicate(timeout=120)
        planted.note("an interrupted run", out, err, *lines)
        line = next(line for line in err.splitlines() if line.startswith("resume with:"))
        words = shlex.split(line.removeprefix("resume with:"))
        assert f"tracking.uri={relay}" in words
        planted(*words[1:])
        assert check_login.served > 5
    planted.check()


FAILING = [
    *(login_address(kind, "127.0.0.1:9") for kind in PASSWORDS),
    login_address("plain", "tracker.invalid:5000", "https"),
    login_address("plain", "127.0.0.1:9/mlflow", "mysql+pymysql"),
    "https://Zqxj80token@127.0.0.1:9",
    "sqlite:////proc/no/such?Zqxj82odd",
]
UNUSUAL = [
    login_address("slash", "127.0.0.1:9/mlflow", "postgresql"),
    login_address("plain", "127.0.0.1:nine"),
    "sqlite:///odd.db?password=Zqxj81password",
    "nosuch://me:Zqxj83password@place",
]


@pytest.mark.parametrize("address", [*FAILING, *UNUSUAL])
def test_trackers_that_fail_are_named_without_their_secrets(
    command: Command, tmp_path: Path, address: str
) -> None:
    for words in (("compare",), ("annotate", "iris"), ("sync",)):
        done = command(*words, "--uri", address, "--verbose")
        assert find_leaks([("stdout", done.out), ("stderr", done.err)]) == []
    assert find_leaks(read_everything(tmp_path)) == []


@pytest.mark.parametrize("address", UNUSUAL)
def test_runs_with_an_unusual_tracker_leave_no_secret(planted: Planted, address: str) -> None:
    file = planted.write("my.toml", as_toml(tracking={"uri": address}, source={"path": "iris"}))
    planted("run", file, "--methods", "pca", *QUICK, "--verbose", code=None)
    planted.check()


def test_prefect_with_a_login(planted: Planted, prefect: tuple[Path, str], mlflow: tuple[Path, str]) -> None:
    folder, place = prefect
    encoded = PREFECT_LOGIN.replace("@", "%40")
    planted.surroundings["PREFECT_API_URL"] = f"http://{encoded}@{place}"
    check_login = guard(LOGIN)
    with relaying(mlflow[1], check_login, read_token(mlflow[0])) as relay:
        address = f"http://{LOGIN}@{relay.removeprefix('http://')}"
        tables = {"tracking": {"uri": address, "experiment": "deployed"}, "source": {"path": "iris"}}
        config = planted.write("my.toml", as_toml(**tables))
        done = json.loads(planted("run", config, "--json", *QUICK))
        assert done["prefect"]["problem"] is None
        assert done["tracking"]["problem"] is None
        told = planted("deploy", config, "--pool", "shelf", *QUICK, "--set", "embedding.method=pca")
        assert f"PREFECT_API_URL=http://{place}" in told
        # The worker has no configuration file: the flow finds the login of the tracker in the home.
        before = check_login.served
        api = {"PREFECT_API_URL": f"http://{place}", "PREFECT_API_AUTH_STRING": PREFECT_LOGIN}
        for words in (
            ("deployment", "run", "labelscape-train/iris"),
            ("worker", "start", "--pool", "shelf", "--run-once"),
        ):
            run = subprocess.run(
                [sys.executable, "-m", "prefect", *words],
                cwd=planted.folder,
                env=environment(planted.folder / "unused") | api,
                capture_output=True,
                text=True,
                timeout=300,
            )
            planted.note(shlex.join(words), run.stdout, run.stderr)
            assert run.returncode == 0, run.stderr
        assert check_login.served > before, planted.printed[-2:]
        # A library's error with the address in its text reaches the flow.
        code = (
            "import sys; from flows.config import load_config; import flows.prefect_engine as engine\n"
            "address, home = sys.argv[1:]\n"
            "def fail(*_, **__): raise RuntimeError(f'no answer from {address}/x') from OSError(address)\n"
            "engine.run_stage = fail\n"
            "settings = {'home': home, 'source': {'path': 'iris'}}\n"
            "engine.train(load_config(None, [f'tracking.uri={address}'], **settings))"
        )
        failed = subprocess.run(
            [sys.executable, "-c", code, address, str(planted.home)],
            cwd=planted.folder,
            env=environment(planted.home) | api | {"PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert failed.returncode == 1
        assert "WithoutSecrets" in failed.stderr
        planted.note("a failing flow", failed.stdout, failed.stderr)
    planted.check()
    assert find_leaks(read_everything(folder)) == []
    assert find_leaks(read_everything(mlflow[0])) == []


def test_servers_of_up_write_no_secret(planted: Planted) -> None:
    try:
        planted("up", "--prefect-port", "0", "--mlflow-port", "0")
        planted("run", "iris", "--until", "features", *QUICK)
    finally:
        planted("down")
    assert services.running(planted.home) is None
    planted.check()
    assert os.path.exists(planted.home / "logs")
