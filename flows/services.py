"""Start and stop a local Prefect server and a local MLflow server, on the loopback address only.

Both run behind `flows.guard`, which demands the token of the home folder.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from flows.prefect_database import SERVER_VARIABLES, asynchronous, database_file, prepare_database
from flows.prefect_prune import vacuum_variables
from storage.artifacts.disk import create_file, make_folder, write_atomically
from storage.artifacts.locks import hold_lock
from storage.credentials import reveal
from storage.errors import ServiceError, StoreError
from storage.servers import (
    HOST,
    RECORD_FILE,
    Service,
    create_token,
    find_process,
    read_services,
    read_token,
    wait_for_exit,
)
from storage.sqlite.migrated import Warn
from storage.tracking.addresses import default_uri
from storage.tracking.engine import create_database
from storage.urls import redact

__all__ = ["HOST", "Service", "Services", "down", "find_process", "running", "up"]

PREFECT_PORT, MLFLOW_PORT = 4200, 5000
START_SECONDS = 180.0
STOP_SECONDS = 15.0
# Handles of started servers: subprocess warns if the handle of a running process is garbage collected.
_started: list[psutil.Popen] = []
# Settings of the caller could point a server at another database, or open it.
_FOREIGN = ("PREFECT_", "MLFLOW_", "_MLFLOW_")
# How the process of a server learns its database and its number of processes.
TRACKING_VARIABLE, WORKERS_VARIABLE = "LABELSCAPE_TRACKING_DATABASE", "LABELSCAPE_SERVER_WORKERS"
NO_SERVER = "Start one with `labelscape up`, or set PREFECT_API_URL to a running server."


@dataclass(frozen=True)
class Services:
    """Both servers; the token is not kept here but in the home.

    `fresh` is True if this call started them; `tracking` is the database of MLflow's server, without a login.
    """

    prefect: Service
    mlflow: Service
    started: str
    tracking: str
    fresh: bool = False

    @property
    def prefect_url(self) -> str:
        """Address for `PREFECT_API_URL`."""
        return f"http://{HOST}:{self.prefect.port}/api"

    @property
    def prefect_ui(self) -> str:
        """Prefect's pages, for a browser."""
        return f"http://{HOST}:{self.prefect.port}"

    @property
    def mlflow_url(self) -> str:
        """MLflow's pages, and its address for `tracking.uri`."""
        return f"http://{HOST}:{self.mlflow.port}"


@dataclass(frozen=True)
class ServerOptions:
    """What the configuration says about the servers.

    Attributes
    ----------
    database : str or None
        Address of Prefect's database; None: SQLite in the home folder.
    tracking : str or None
        Address of MLflow's database; None: SQLite in the home folder.
    keep_days : float
        Days for which Prefect keeps flow runs, logs and events.
    workers : int
        Processes of MLflow's server.
    """

    database: str | None = None
    tracking: str | None = None
    keep_days: float = 30.0
    workers: int = 1


def up(
    home: Path,
    prefect_port: int | None = None,
    mlflow_port: int | None = None,
    warn: Warn | None = None,
    options: ServerOptions | None = None,
) -> Services:
    """Start both servers, unless they are running already.

    Parameters
    ----------
    home : Path
        Folder for the databases, artifacts and logs.
    prefect_port, mlflow_port : int, optional
        Ports to bind. Default: 4200 and 5000, or any free port if those are taken. 0: any free port.
    warn : callable, optional
        Permits to set damaged databases aside, and receives what was lost and what to do.
    options : ServerOptions, optional
        Databases, retention and processes.

    Raises
    ------
    ServiceError
        If a port is taken or a server does not answer in time; the message ends with its log.
    """
    home, options = home.resolve(), options or ServerOptions()
    with _lock(home):
        found = running(home)
        if found is not None and read_token(home) is not None:  # without a token nobody could log in
            return found
        _stop_all(read_services(home))
        ports = _choose_ports(prefect_port, mlflow_port)
        started: list[Service] = []
        try:
            started.append(_start("prefect", home, ports[0], warn, options))
            if options.tracking is None:
                create_database(default_uri(home), warn)
            started.append(_start("mlflow", home, ports[1], None, options))
            _wait(started)
        except BaseException:
            _stop_all(started)
            raise
        now = datetime.now(UTC).isoformat(timespec="seconds")
        tracking = redact(options.tracking or default_uri(home))
        services = Services(started[0], started[1], now, tracking, fresh=True)
        _write(home, services)
        return services


def down(home: Path) -> bool:
    """Stop the servers that `up` started; return whether any was running."""
    home = home.resolve()
    if not _record(home).exists():
        return False
    with _lock(home):
        stopped = _stop_all(read_services(home))
        _record(home).unlink(missing_ok=True)
    return stopped


def running(home: Path) -> Services | None:
    """Return the servers of a home folder if both processes are alive; sends no request."""
    found = read_services(home.resolve())
    if len(found) != 2 or any(entry.process is None for entry in found):
        return None
    content = json.loads(_record(home.resolve()).read_text(encoding="utf-8"))
    tracking = str(content.get("tracking", default_uri(home)))
    return Services(found[0], found[1], str(content["started"]), tracking)


def browser_links(home: Path, services: Services) -> tuple[str, str]:
    """Return the addresses of Prefect's and MLflow's pages that log a browser in."""
    login = f"/?token={read_token(home.resolve()) or ''}"
    return services.prefect_ui + login, services.mlflow_url + login


def _start(
    name: str, home: Path, port: int, warn: Warn | None = None, options: ServerOptions | None = None
) -> Service:
    options = options or ServerOptions()
    folder = home / name
    make_folder(folder)
    if name == "prefect" and options.database is None:
        prepare_database(home, warn)
    create_token(home)
    log = home / "logs" / f"{name}.log"
    command = [
        sys.executable,
        "-m",
        *(_prefect_command(port) if name == "prefect" else _mlflow_command(home, port)),
    ]
    process = start_process(command, folder, log, _environment(home, port, options))
    return Service(name, process.pid, process.create_time(), port, str(log))


def _prefect_command(port: int) -> list[str]:
    return ["flows.guarded_server", "prefect", str(port)]


def _mlflow_command(home: Path, port: int) -> list[str]:
    return ["flows.guarded_server", "mlflow", str(port)]


def prefect_database_variables(home: Path, database: str | None) -> dict[str, str]:
    """Environment that names Prefect's database; its own server creates the tables of PostgreSQL."""
    if database is not None:
        return {"PREFECT_SERVER_DATABASE_CONNECTION_URL": asynchronous(reveal(database, home))}
    # Relative to the working folder of the server: a question mark in an absolute path would end it.
    url = f"sqlite+aiosqlite:///{database_file(home).name}"
    return {"PREFECT_HOME": str(home / "prefect"), "PREFECT_SERVER_DATABASE_CONNECTION_URL": url} | (
        SERVER_VARIABLES
    )


def _environment(home: Path, port: int, options: ServerOptions) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    origin = f"http://{HOST}:{port}"
    return (
        kept
        | {TRACKING_VARIABLE: reveal(options.tracking, home) if options.tracking else ""}
        | {WORKERS_VARIABLE: str(options.workers)}
        | {
            "LABELSCAPE_HOME": str(home),
            "PYTHONSAFEPATH": "1",
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_UI_API_URL": f"{origin}/api",
            "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "ui"),
            "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origin,
            "PREFECT_LOGGING_LEVEL": "WARNING",
            "MLFLOW_SERVER_ALLOWED_HOSTS": f"{HOST}:{port},localhost:{port}",
            "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": origin,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "DO_NOT_TRACK": "1",
        }
        | vacuum_variables(options.keep_days)
        | prefect_database_variables(home, options.database)
    )


def _choose_ports(prefect_port: int | None, mlflow_port: int | None) -> tuple[int, int]:
    first = choose_port("Prefect", prefect_port, PREFECT_PORT, ())
    return first, choose_port("MLflow", mlflow_port, MLFLOW_PORT, (first,))


def choose_port(title: str, wanted: int | None, usual: int, taken: tuple[int, ...]) -> int:
    """Return the wanted port, or the usual one, or any free one; ServiceError if the wanted one is taken."""
    port = usual if wanted is None else wanted
    if not 0 <= port <= 65535:
        raise ServiceError(f"port {port} for {title} is not a port; give 1 to 65535, or 0 for any free port.")
    if port not in taken and (free := _bind(port)) is not None:
        return free
    if wanted is not None:
        raise ServiceError(f"port {wanted} for {title} is taken; give another one, or 0 for any free port.")
    free = _bind(0)
    if free is None:
        raise ServiceError(f"no port is free for {title} on {HOST}.")
    return free


def _bind(port: int) -> int | None:
    """Return the port if it can be bound (0: any free port), else None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _wait(started: list[Service]) -> None:
    """Wait until every server answers; raise if one ends or the time is up."""
    paths = {"prefect": "/api/health", "mlflow": "/health"}
    deadline = time.monotonic() + START_SECONDS
    waiting = list(started)
    while waiting:
        waiting = [entry for entry in waiting if not _answers(entry.port, paths[entry.name])]
        for entry in waiting:
            check_starting(entry, late=time.monotonic() > deadline)
        time.sleep(0.1 if waiting else 0)


def check_starting(entry: Service, late: bool) -> None:
    """Raise ServiceError with the end of the log if a server has ended, or is too late."""
    alive = entry.process is not None
    if alive and not late:
        return
    what = (
        f"does not answer on port {entry.port} after {START_SECONDS:.0f} s"
        if alive
        else "ended while starting"
    )
    raise ServiceError(f"{entry.name} {what}; its log {entry.log} says:\n{read_tail(Path(entry.log))}")


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop_all(services: list[Service]) -> bool:
    running = [process for entry in reversed(services) if (process := entry.process)]
    for process in running:
        stop_group(process)
    return bool(running)


def _record(home: Path) -> Path:
    return home / RECORD_FILE


def _write(home: Path, services: Services) -> None:
    content: Mapping[str, object] = {
        "started": services.started,
        "tracking": services.tracking,
        "prefect": asdict(services.prefect),
        "mlflow": asdict(services.mlflow),
        "urls": {"prefect": services.prefect_url, "mlflow": services.mlflow_url},
    }
    write_atomically(_record(home), json.dumps(content, indent=2).encode())


@contextlib.contextmanager
def _lock(home: Path) -> Iterator[None]:
    """Allow one `up` or `down` at a time; a process that dies releases the lock."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(home / "services.lock"))
        except StoreError as error:
            raise ServiceError(
                f"{home}: cannot be written to; choose another folder with --home. {error}"
            ) from None
        yield


def start_process(
    command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]
) -> psutil.Process:
    """Start a process in its own session, so that it outlives this one; its output goes to `log`."""
    make_folder(log.parent)
    with create_file(log) as output:
        process = psutil.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _started.append(process)
    return process


def stop_group(process: psutil.Process) -> None:
    """Stop the leader of a process group and its group; kill processes that do not end in time."""
    _signal_group(process.pid, signal.SIGTERM)
    wait_for_exit(process, STOP_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)  # remaining members of the group, usually none
    wait_for_exit(process, 5.0)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def read_tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"({log}: {error.strerror})"
    return "\n".join(text.rstrip().splitlines()[-lines:])
