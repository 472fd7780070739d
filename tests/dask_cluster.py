"""A real Dask cluster on the loopback address: a scheduler and workers, each a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tasks.cluster import connect
from tests.conftest import REPOSITORY
from tests.s3_server import free_port

# The tests themselves have one; a worker must not owe it to them.
_TWO_THREADS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}


@dataclass
class DaskCluster:
    """A scheduler and its workers; workers have no nanny, so a killed one stays away."""

    folder: Path
    port: int = field(default_factory=free_port)
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def setting(self) -> str:
        """Value of the setting `executor`."""
        return f"dask://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        """Return when it answers."""
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"
        )
        self._wait(lambda: True)

    def add_workers(self, count: int, *options: str, **variables: str) -> list["subprocess.Popen[bytes]"]:
        """Start workers and return when the scheduler knows them."""
        before = len(self.known())
        address = f"tcp://127.0.0.1:{self.port}"
        given = options or ("--no-nanny",)
        started = [
            self._start(
                "dask_worker",
                address,
                "--host",
                "127.0.0.1",
                "--nthreads",
                "1",
                "--no-dashboard",
                "--local-directory",
                str(self.folder),
                *given,
                **variables,
            )
            for _ in range(count)
        ]
        self.workers += started
        self._wait(lambda: len(self.known()) >= before + count)
        return started

    def known(self) -> dict[str, dict[str, object]]:
        """The workers that the scheduler knows, by address."""
        with connect(f"tcp://127.0.0.1:{self.port}", None, 60) as client:
            return dict(client.scheduler_info(n_workers=-1)["workers"])

    def tasks(self) -> int:
        """Number of tasks that the scheduler knows."""
        with connect(f"tcp://127.0.0.1:{self.port}", None, 60) as client:
            return int(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))

    def wait_until_idle(self) -> None:
        """Return when the scheduler has forgotten all tasks; it learns of a cancellation a moment later."""
        deadline = time.monotonic() + 60
        while self.tasks():
            assert time.monotonic() < deadline, "tasks are left"
            time.sleep(0.05)

    def log(self) -> str:
        """What all processes have printed."""
        return "".join(one.read_text(errors="replace") for one in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        """Kill everything."""
        for process in [*self.workers, self.scheduler]:
            _kill(process)

    def _start(self, module: str, *arguments: str, **variables: str) -> "subprocess.Popen[bytes]":
        self.folder.mkdir(exist_ok=True)
        log = (self.folder / f"{module}-{len(list(self.folder.glob('*.log')))}.log").open("wb")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
                cwd=self.folder,
                env={**os.environ, **_TWO_THREADS, "PYTHONPATH": str(REPOSITORY), **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, is_ready: object) -> None:
        deadline = time.monotonic() + 120
        while True:
            with suppress(OSError):
                if is_ready() and (self.known() is not None):  # type: ignore[operator]
                    return
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and those it started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
    process.kill()
    process.wait()


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[DaskCluster]:
    """A running cluster."""
    cluster = DaskCluster(folder)
    cluster.start_scheduler()
    try:
        cluster.add_workers(workers)
        yield cluster
    finally:
        cluster.stop()
