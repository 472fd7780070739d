"""A local Prefect server and the MLflow server, on the loopback address only."""

import contextlib
import fcntl
import http.client
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from flows import processes
from storage.errors import ServiceDown, ServiceError
from storage.tracking.engine import default_artifact_root, default_uri

HOST = "127.0.0.1"
PREFECT_PORT, MLFLOW_PORT = 4200, 5000
START_SECONDS = 180.0
# Settings of the caller's that point a server at another one.
_FOREIGN = (
    "PREFECT_API_URL",
    "PREFECT_PROFILE",
    "PREFECT_API_DATABASE_CONNECTION_URL",
    "PREFECT_SERVER_DATABASE_CONNECTION_URL",
    "MLFLOW_TRACKING_URI",
    "MLFLOW_BACKEND_STORE_URI",
)
NO_SERVER = "Start one with `labelscape up`, or set PREFECT_API_URL to a server that runs."


@dataclass(frozen=True)
class Service:
    """One running server; `identity` tells its process from a later one with the same id."""

    name: str
    pid: int
    identity: str
    port: int
    log: str


@dataclass(frozen=True)
class Services:
    """Both servers; `fresh` says whether the call at hand started them."""

    prefect: Service
    mlflow: Service
    started: str
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


def up(home: Path, prefect_port: int | None = None, mlflow_port: int | None = None) -> Services:
    """Start both servers, or find them running.

    Parameters
    ----------
    home : Path
        Folder of the databases, artifacts and logs.
    prefect_port, mlflow_port : int, optional
        Ports to bind; default: 4200 and 5000, or any free one where those are taken. 0: any.

    Raises
    ------
    ServiceError
        A port is taken, or a server does not answer in time; the message ends with its log.
    """
    home = home.resolve()
    with _lock(home):
        found = running(home)
        if found is not None:
            return found
        _stop_all(_read(home))
        ports = _choose_ports(prefect_port, mlflow_port)
        started: list[Service] = []
        try:
            started.append(_start("prefect", home, ports[0]))
            started.append(_start("mlflow", home, ports[1]))
            _wait(started)
        except BaseException:
            _stop_all(started)
            raise
        now = datetime.now(UTC).isoformat(timespec="seconds")
        services = Services(started[0], started[1], now, fresh=True)
        _write(home, services)
        return services


def down(home: Path) -> bool:
    """Stop what `up` started; say whether anything was running."""
    home = home.resolve()
    if not _record(home).exists():
        return False
    with _lock(home):
        stopped = _stop_all(_read(home))
        _record(home).unlink(missing_ok=True)
    return stopped


def running(home: Path) -> Services | None:
    """The servers of a home folder if both processes live; cheap, asks no server."""
    found = _read(home.resolve())
    if len(found) != 2 or any(processes.identity(entry.pid) != entry.identity for entry in found):
        return None
    started = str(json.loads(_record(home.resolve()).read_text(encoding="utf-8"))["started"])
    return Services(found[0], found[1], started)


def check_answers(api: str) -> None:
    """Refuse the address of a Prefect server that is not there, at once and in one line."""
    if not api.startswith(("http://", "https://")):
        raise ServiceError(f"PREFECT_API_URL={api!r} is no http address. {NO_SERVER}")
    try:
        urllib.request.urlopen(f"{api.rstrip('/')}/health", timeout=5).close()  # noqa: S310 (checked above)
    except urllib.error.HTTPError as error:
        error.close()  # it answers, if only to say that it wants a login
    except OSError as error:
        raise ServiceDown(f"no Prefect server answers at {api} ({error}). {NO_SERVER}") from None


def _start(name: str, home: Path, port: int) -> Service:
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    log = home / "logs" / f"{name}.log"
    command = [
        sys.executable,
        "-m",
        *(_prefect_command(port) if name == "prefect" else _mlflow_command(home, port)),
    ]
    pid = processes.start(command, folder, log, _environment(home, port))
    found = processes.identity(pid)
    if found is None:
        raise ServiceError(f"{name} ended at once; its log {log} says:\n{processes.tail(log)}")
    return Service(name, pid, found, port, str(log))


def _prefect_command(port: int) -> list[str]:
    return ["prefect", "server", "start", "--host", HOST, "--port", str(port), "--analytics-off"]


def _mlflow_command(home: Path, port: int) -> list[str]:
    # Artifacts are not proxied: runs logged through the server and past it lie in the same folder.
    return [
        *("mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", default_uri(home), "--no-serve-artifacts"),
        *("--default-artifact-root", default_artifact_root(home).as_uri()),
        *("--allowed-hosts", f"{HOST}:{port},localhost:{port}"),
    ]


def _environment(home: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return kept | {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_API_URL": f"http://{HOST}:{port}/api",
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "ui"),
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DO_NOT_TRACK": "1",
    }


def _choose_ports(prefect_port: int | None, mlflow_port: int | None) -> tuple[int, int]:
    first = _choose_port("Prefect", prefect_port, PREFECT_PORT, ())
    return first, _choose_port("MLflow", mlflow_port, MLFLOW_PORT, (first,))


def _choose_port(title: str, wanted: int | None, usual: int, taken: tuple[int, ...]) -> int:
    port = usual if wanted is None else wanted
    if not 0 <= port <= 65535:
        raise ServiceError(f"port {port} for {title} is no port; give 1 to 65535, or 0 for any free one.")
    if port not in taken and (free := _bind(port)) is not None:
        return free
    if wanted is not None:
        raise ServiceError(f"port {wanted} for {title} is taken; give another, or 0 for any free one.")
    free = _bind(0)
    if free is None:
        raise ServiceError(f"no port is free for {title} on {HOST}.")
    return free


def _bind(port: int) -> int | None:
    """The port if it can be bound (0: one that can), else None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _wait(started: list[Service]) -> None:
    """Return when every server answers; raise when one dies or time is up."""
    paths = {"prefect": "/api/health", "mlflow": "/health"}
    deadline = time.monotonic() + START_SECONDS
    waiting = list(started)
    while waiting:
        waiting = [entry for entry in waiting if not _answers(entry.port, paths[entry.name])]
        for entry in waiting:
            _check_starting(entry, late=time.monotonic() > deadline)
        time.sleep(0.1 if waiting else 0)


def _check_starting(entry: Service, late: bool) -> None:
    alive = processes.identity(entry.pid) == entry.identity
    if alive and not late:
        return
    what = (
        f"does not answer on port {entry.port} after {START_SECONDS:.0f} s"
        if alive
        else "ended while starting"
    )
    raise ServiceError(f"{entry.name} {what}; its log {entry.log} says:\n{processes.tail(Path(entry.log))}")


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
    stopped = [processes.stop(entry.pid, entry.identity) for entry in reversed(services)]
    return any(stopped)


def _record(home: Path) -> Path:
    return home / "services.json"


def _read(home: Path) -> list[Service]:
    """What was started last; nothing where the record is missing or was not written by `up`."""
    try:
        content = json.loads(_record(home).read_text(encoding="utf-8"))
        return [Service(**content["prefect"]), Service(**content["mlflow"])]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _write(home: Path, services: Services) -> None:
    content: Mapping[str, object] = {
        "started": services.started,
        "prefect": asdict(services.prefect),
        "mlflow": asdict(services.mlflow),
        "urls": {"prefect": services.prefect_url, "mlflow": services.mlflow_url},
    }
    draft = _record(home).with_suffix(".part")
    draft.write_text(json.dumps(content, indent=2), encoding="utf-8")
    draft.replace(_record(home))


@contextlib.contextmanager
def _lock(home: Path) -> Iterator[None]:
    """One `up` or `down` at a time; a process that dies frees it."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle = (home / "services.lock").open("w")
    except OSError as error:
        raise ServiceError(
            f"{home}: cannot be written to ({error.strerror}); choose another with --home."
        ) from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
