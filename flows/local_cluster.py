"""A Dask cluster on this machine, to try the executor: `labelscape up --workers N`.

A program that reaches a scheduler can run code in its workers. The scheduler therefore listens on the
loopback address only and accepts only clients with the certificate in the home folder, see
`storage.cluster_record`.
"""

import os
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from flows.services import START_SECONDS, check_starting, choose_port, start_process, stop_group
from storage.artifacts.disk import create_file, make_folder
from storage.artifacts.locks import hold_lock
from storage.cluster_record import (
    FOLDER,
    ClusterRecord,
    certificate_path,
    read_cluster,
    record_path,
    write_cluster,
)
from storage.errors import ServiceError
from storage.permissions import private_umask
from storage.servers import HOST, Service
from tasks.cluster import connect

MAX_WORKERS = 256
SCHEDULER_PORT, DASHBOARD_PORT = 8786, 8787
# Between two attempts, processes that have ended are noticed.
_TRY_SECONDS = 5.0


def check_count(count: int | None) -> None:
    """Refuse a number of workers that cannot be started, before any server is."""
    if count is not None and not 1 <= count <= MAX_WORKERS:
        raise ServiceError(f"--workers {count}: give a number from 1 to {MAX_WORKERS}.")


@private_umask()
def start_cluster(home: Path, count: int) -> ClusterRecord:
    """Start a scheduler and some workers, unless they are running already.

    Raises
    ------
    ServiceError
        A package is missing, another number of workers is running, or a process does not start.
    """
    if find_spec("distributed") is None or find_spec("cryptography") is None:
        raise ServiceError('--workers needs the package distributed; pip install "labelscape[dask]".')
    home = home.resolve()
    make_folder(home / FOLDER)
    with hold_lock(home / "cluster.lock"):
        found = read_cluster(home)
        if found and found.is_running:
            if found.count != count:
                raise ServiceError(
                    f"a cluster with {found.count} workers is running; stop it with `labelscape down` first."
                )
            return found
        _stop(found.services if found else [])
        _create_certificate(home)
        return _start(home, count)


def stop_cluster(home: Path) -> bool:
    """Stop the cluster of a home folder; return whether it was running."""
    home = home.resolve()
    if not record_path(home).exists():
        return False
    with hold_lock(home / "cluster.lock"):
        found = read_cluster(home)
        stopped = _stop(found.services if found else [])
        shutil.rmtree(home / FOLDER, ignore_errors=True)
    return stopped


def _start(home: Path, count: int) -> ClusterRecord:
    port = choose_port("the scheduler", None, SCHEDULER_PORT, ())
    dashboard = choose_port("the dashboard", None, DASHBOARD_PORT, (port,))
    address = f"tls://{HOST}:{port}"
    started: list[Service] = []
    try:
        page = f"{HOST}:{dashboard}"
        started.append(_launch(home, "scheduler", port, "--port", str(port), "--dashboard-address", page))
        page = f"{HOST}:0"  # without it, the worker has a page on all addresses
        options = ("--nworkers", str(count), "--nthreads", "1", "--dashboard-address", page)
        started.append(_launch(home, "worker", 0, address, *options, "--local-directory", "."))
        _wait(home, address, count, started)
    except BaseException:
        _stop(started)
        raise
    record = ClusterRecord(started[0], started[1], count, dashboard)
    write_cluster(home, record)
    return record


def _launch(home: Path, name: str, port: int, *options: str) -> Service:
    file = str(certificate_path(home))
    guarded = [
        "--host",
        HOST,
        "--protocol",
        "tls",
        "--tls-ca-file",
        file,
        "--tls-cert",
        file,
        "--tls-key",
        file,
    ]
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *options, *guarded]
    log = home / "logs" / f"dask-{name}.log"
    process = start_process(command, home / FOLDER, log, _environment())
    return Service(f"dask-{name}", process.pid, process.create_time(), port, str(log))


def _environment() -> dict[str, str]:
    """The variables of this process; those of Dask could open the scheduler to others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    return kept | {"PYTHONSAFEPATH": "1"}


def _create_certificate(home: Path) -> None:
    """Write a new key with its certificate; both ends of every connection have to present it."""
    from distributed.security import Security

    made = Security.temporary()
    with create_file(certificate_path(home)) as file:
        file.write(f"{made.tls_client_key}\n{made.tls_client_cert}".encode())


def _wait(home: Path, address: str, count: int, started: list[Service]) -> None:
    """Wait until all workers are connected; raise if a process ends or the time is up."""
    deadline = time.monotonic() + START_SECONDS
    while not _has_workers(home, address, count):
        for service in started:
            check_starting(service, late=time.monotonic() > deadline)


def _has_workers(home: Path, address: str, count: int) -> bool:
    try:
        with connect(address, certificate_path(home), _TRY_SECONDS) as client:
            client.wait_for_workers(count, timeout=_TRY_SECONDS)
    except (OSError, TimeoutError):
        return False
    return True


def _stop(services: list[Service]) -> bool:
    running = [process for one in reversed(services) if (process := one.process)]
    for process in running:
        stop_group(process)
    return bool(running)
