"""A tracker in PostgreSQL: a real server on a free port, real kills, several first runs at once."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.errors import TrackingError
from storage.tracking.client import RunRecord, Tracker
from tests.storage.test_tracking import free_port
from tests.tracking_driver import finish, start_logging


def programs() -> Path:
    """The folder of PostgreSQL's programs."""
    found = shutil.which("initdb") or next(
        iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)), None
    )
    if found is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return Path(found).parent


def run_as_postgres(*command: str) -> None:
    """Run a program of the server, which refuses to work for root."""
    user = ("runuser", "-u", "postgres", "--") if os.getuid() == 0 else ()
    subprocess.run([*user, *command], check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=120)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Address of a server in a temporary folder, without the name of a database."""
    pytest.importorskip("psycopg2", reason='the driver is missing (pip install "labelscape[postgres]")')
    tools, port = programs(), free_port()
    folder = Path(tempfile.mkdtemp(prefix="labelscape-postgres-"))
    data, log = str(folder / "data"), str(folder / "log")
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        run_as_postgres(str(tools / "initdb"), "-D", data, "-U", "me", "-A", "trust", "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -c unix_socket_directories='' -c fsync=off"
        control = (str(tools / "pg_ctl"), "-D", data, "-w")
        run_as_postgres(*control, "-l", log, "-o", options, "start")
        try:
            yield f"postgresql://me@127.0.0.1:{port}"
        finally:
            run_as_postgres(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def execute(uri: str, statement: str) -> list[tuple[object, ...]]:
    import psycopg2

    with contextlib.closing(psycopg2.connect(uri)) as opened:
        opened.autocommit = True
        with opened.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture
def database(server: str, request: pytest.FixtureRequest) -> str:
    """Address of a new database."""
    name = f"tracker{abs(hash(request.node.name))}"
    execute(f"{server}/postgres", f"CREATE DATABASE {name}")
    return f"{server}/{name}"


@pytest.mark.slow
def test_four_first_runs_at_once_are_all_tracked(database: str, tmp_path: Path) -> None:
    started = [start_logging(database, tmp_path) for _ in range(4)]
    runs = [finish(one)[-1] for one in started]
    assert len(set(runs)) == 4
    assert all(Tracker(database).exists(run) for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_kill_while_the_tables_are_created_loses_nothing(
    database: str, tmp_path: Path, seconds: float
) -> None:
    process = start_logging(database, tmp_path, start_new_session=True)
    busy = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"
    while not execute(database, busy) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)  # how far it gets differs; every moment must be safe
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    [run] = finish(start_logging(database, tmp_path))
    assert Tracker(database).exists(run)


@pytest.mark.slow
def test_a_database_that_does_not_exist_is_reported(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_mlflow(monkeypatch)
    with pytest.raises(TrackingError, match=r'"nowhere" does not exist.*tracking\.uri'):
        Tracker(f"{server}/nowhere").log(RunRecord("demo", "a run"))


def refuse_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("MLflow was asked, which retries for minutes")

    monkeypatch.setattr(mlflow, "MlflowClient", refuse)


@pytest.mark.slow
def test_no_server_is_reported_before_mlflow_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg2", reason='the driver is missing (pip install "labelscape[postgres]")')
    refuse_mlflow(monkeypatch)
    nobody = Tracker(f"postgresql://me:secret@127.0.0.1:{free_port()}/runs")
    for ask in (lambda: nobody.log(RunRecord("demo", "a run")), lambda: nobody.exists("a")):
        with pytest.raises(TrackingError, match="refused") as caught:
            ask()
        assert "secret" not in str(caught.value)


def test_a_missing_driver_is_found_first_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(TrackingError, match=r'psycopg2.*pip install "labelscape\[postgres\]"') as caught:
        Tracker("postgresql://me:secret@host/runs")
    assert "secret" not in str(caught.value)
