"""Unchanged refreshes of a table, all in one process: memory and files stay flat, databases grow evenly.

python -m tests.hostile.refreshes --runs 1440            # runs of a deployment, on the servers of `up`
python -m tests.hostile.refreshes --runs 1440 --watch    # as `labelscape watch` does it
"""

import argparse
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from flows.config import RunConfig, load_config
from tests.hostile.samples import table_text, write_table
from tests.hostile.soak import call, show, size_of

_SHOWN = (0, 1, 10, 50, 100, 200, 300, 500, 700, 1000, 1200)
_SETTINGS = ("auto.candidates=['1nn']", "executor=serial", "evaluation.folds=2", "evaluation.n_neighbors=[1]")
# Python's collector waits until a quarter of all objects is garbage.
_GARBAGE_MB = 80.0
# Prefect's server keeps its database in the page caches of SQLite, up to 80 MB per connection.
_BESIDE_CACHE_MB = 25.0
_PREFECT_KB_PER_RUN = 60.0
_MORE_FILES = 4


@dataclass(frozen=True)
class Sample:
    """What the processes and the home use after a number of refreshes; memory and databases in MB."""

    run: int
    process: float
    prefect_server: float
    mlflow_server: float
    prefect: float
    mlflow: float
    open_files: int
    files: int

    def __str__(self) -> str:
        sizes = (self.process, self.prefect_server, self.mlflow_server, self.prefect, self.mlflow)
        numbers = "".join(f"{size:13.1f}" for size in sizes)
        return f"{self.run:5d}{numbers}{self.open_files:7d}{self.files:7d}"


_HEADER = f"{'run':>5}{'process':>13}{'prefect':>13}{'mlflow':>13}{'prefect.db':>13}{'mlflow.db':>13}"
_HEADER += f"{'open':>7}{'files':>7}"


def memory(*pids: int) -> float:
    """Resident memory of processes and their children."""
    roots = [psutil.Process(pid) for pid in pids]
    both = [one for root in roots for one in (root, *root.children(recursive=True))]
    return sum(one.memory_info().rss for one in both) / 1e6


def measure(run: int, home: Path, services: Any) -> Sample:
    """Measure now, without the garbage of this process."""
    gc.collect()
    own = psutil.Process()
    return Sample(
        run,
        own.memory_info().rss / 1e6,
        memory(services.prefect.pid) if services else 0.0,
        memory(services.mlflow.pid) if services else 0.0,
        size_of(home / "prefect" / "prefect.db") / 1e6,
        size_of(home / "mlflow.db") / 1e6,
        own.num_fds(),
        sum(1 for one in home.rglob("*") if one.is_file()),
    )


def refresh_by_deployment(config: RunConfig) -> Callable[[], bool]:
    """A function that runs the deployed flow once in this process, and says whether nothing had changed."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow

    from flows.deployed_flows import CACHED, refresh
    from flows.schedule import ENTRYPOINTS, deploy

    deploy(config, None, "soak", "soak", entrypoint=ENTRYPOINTS["refresh"])
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("labelscape-refresh/soak").id

    def run() -> bool:
        with get_client(sync_client=True) as client:
            flow_run = client.create_flow_run_from_deployment(deployment)
        os.environ["PREFECT__FLOW_RUN_ID"] = str(flow_run.id)
        state: Any = run_flow(refresh, flow_run=flow_run, return_type="state")
        assert state.is_completed(), state
        return bool(state.name == CACHED)

    return run


def refresh_as_watch(config: RunConfig) -> Callable[[], bool]:
    """A function that refreshes once without Prefect, and says whether nothing had changed."""
    from flows.refresh import Refresh
    from flows.runner import Plan, Run, RunResult

    def execute(plan: Plan[Any]) -> RunResult[Any]:
        return Run(plan).run_stages()

    return lambda: Refresh(config, execute).run().cached


def repeat(home: Path, services: Any, refresh: Callable[[], bool], runs: int) -> Iterator[Sample]:
    """Refresh again and again without a change."""
    for number in range(runs + 1):
        assert refresh() == (number > 0), f"refresh {number}"
        if number in (*_SHOWN, runs):
            yield measure(number, home, services)


def find_growth(samples: list[Sample]) -> list[str]:
    """What grew more than it may since the first unchanged refresh."""
    first, last = samples[1], samples[-1]
    steps = max(1, last.run - first.run)
    database = last.prefect - first.prefect
    allowed = {
        "process": _GARBAGE_MB,
        "prefect_server": database + _BESIDE_CACHE_MB,
        "mlflow_server": _BESIDE_CACHE_MB,
        "prefect": _PREFECT_KB_PER_RUN / 1e3 * steps + 4,  # its write-ahead log
        "mlflow": 0.0,
        "open_files": _MORE_FILES,
        "files": _MORE_FILES,
    }
    grown = {name: getattr(last, name) - getattr(first, name) for name in allowed}
    return [
        f"{name} grew by {grown[name]:.1f}, more than {most:.1f}"
        for name, most in allowed.items()
        if grown[name] > most
    ]


@contextmanager
def servers(home: Path) -> Iterator[Any]:
    """The servers of `labelscape up`, for this process."""
    from flows.prefect_settings import prepare_engine
    from flows.services import running

    code, said = call(home, "up", "--prefect-port", "0", "--mlflow-port", "0")
    assert code == 0, said
    try:
        prepare_engine(home)
        yield running(home)
        show(call(home, "prune")[1])
    finally:
        call(home, "down")


def soak(home: Path, source: Path, runs: int, watch: bool) -> list[Sample]:
    """The samples of many refreshes, printed as they are measured."""
    config = load_config(None, [f"source.path={source}", *_SETTINGS], home=str(home))
    samples: list[Sample] = []

    def keep(found: Iterator[Sample]) -> list[Sample]:
        show(_HEADER)
        for one in found:
            show(str(one))
            samples.append(one)
        return samples

    if watch:
        return keep(repeat(home, None, refresh_as_watch(config), runs))
    with servers(home) as services:
        return keep(repeat(home, services, refresh_by_deployment(config), runs))


def main() -> int:
    """Refresh many times; exit code 1 if something grew."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.refreshes", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=1440, help="unchanged refreshes (default: %(default)s)")
    parser.add_argument("--watch", action="store_true", help="without Prefect, as `labelscape watch`")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="refreshes-"))
    source = write_table(folder / "source", table_text(40))
    os.chdir(folder)
    try:
        problems = find_growth(soak(folder / "home", source, options.runs, options.watch))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        show(f"BAD {problem}")
    show(f"{options.runs} refreshes: {'flat' if not problems else 'not flat'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
