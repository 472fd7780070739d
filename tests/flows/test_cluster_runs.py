"""Runs on a Dask cluster that are killed in the middle: two homes, one S3 server, workers as processes."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, write_pictures
from tests.dask_cluster import DaskCluster
from tests.gated_worker import GATE
from tests.s3_server import BUCKET, S3Server, s3_server, surroundings
from tests.storage.test_shared_store_s3 import digests, finish, start, states, succeed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (find_spec("s3fs") and find_spec("moto") and find_spec("distributed")),
        reason="needs the test extra: pip install labelscape[test]",
    ),
]
PORTIONS = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures that make five portions."""
    return write_pictures(tmp_path_factory.mktemp("many") / "pictures", 600)


@pytest.fixture(scope="module")
def expected(pictures: Path, server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a run without a cluster."""
    place = Place(tmp_path_factory.mktemp("serial"), server, pictures)
    return digests(place.succeed("home", "serial"))


class Place:
    """One shared store, and homes that use it."""

    def __init__(self, folder: Path, server: S3Server, pictures: Path) -> None:
        self.folder = folder
        self.server = server
        self.gate = folder / "gate"
        self.gate.mkdir()
        self._pictures = pictures
        self._store = {"LABELSCAPE_STORE": f"s3://{BUCKET}/{folder.name}"}

    def start(self, home: str, executor: str) -> "subprocess.Popen[str]":
        return start(self.folder / home, self.server.port, *self._words(executor), **self._store)

    def succeed(self, home: str, executor: str) -> Any:
        return succeed(self.folder / home, self.server.port, *self._words(executor), **self._store)

    def _words(self, executor: str) -> tuple[str, ...]:
        quick = ("--set", "tracking.enabled=false", "--until", "features")
        return ("run", str(self._pictures), *quick, "--set", f"executor={executor}")

    def wait_for_the_middle(self, run: "subprocess.Popen[str]") -> int:
        """Wait until a worker has stored a portion and holds another; return its process id."""
        deadline = time.monotonic() + 240
        while not (found := sorted(self.gate.glob("waiting-*"))):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline, "no worker gets to its second portion"
            time.sleep(0.05)
        return int(found[0].name.removeprefix("waiting-"))

    def stored(self) -> Counter[str]:
        """How often each portion was uploaded."""
        prefix = f"{BUCKET}/{self.folder.name}/features_part/"
        return Counter(
            name for verb, name in self.server.requests() if verb == "PUT" and name.startswith(prefix)
        )


@pytest.fixture
def place(tmp_path: Path, server: S3Server, pictures: Path) -> Place:
    return Place(tmp_path, server, pictures)


@pytest.fixture
def cluster(place: Place) -> Iterator[DaskCluster]:
    """Two workers that stop in the middle, without access to any folder of the homes."""
    running = DaskCluster(place.folder / "cluster")
    running.start_scheduler()
    try:
        gated = ("--no-nanny", "--preload", str(REPOSITORY / "tests" / "gated_worker.py"))
        variables = {GATE: str(place.gate), **surroundings(place.server.port)}
        running.add_workers(2, *gated, **variables)
        yield running
    finally:
        running.stop()


def test_a_killed_worker_costs_its_portion_and_another_home_finds_all(
    place: Place, cluster: DaskCluster, expected: dict[str, str]
) -> None:
    run = place.start("one", cluster.setting)
    os.kill(place.wait_for_the_middle(run), signal.SIGKILL)
    (place.gate / "go").touch()
    done = finish(run)
    assert done.returncode == 0, done.stderr
    assert sorted(worker.poll() or 0 for worker in cluster.workers) == [-9, 0]
    second = place.succeed("two", "serial")
    assert digests(second) == expected
    assert set(states(second).values()) == {"fresh"}
    uploads = place.stored()
    assert len(uploads) == 2 * PORTIONS, "data and manifest"
    assert set(uploads.values()) == {1}


def test_after_a_killed_scheduler_the_next_run_resumes(
    place: Place, cluster: DaskCluster, expected: dict[str, str]
) -> None:
    run = place.start("one", cluster.setting)
    place.wait_for_the_middle(run)
    cluster.scheduler.kill()
    done = finish(run)
    assert done.returncode == 2
    assert "no longer answers. What is stored is kept" in done.stderr
    assert "resume with: labelscape run" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    before = place.stored()
    assert 0 < len(before) < 2 * PORTIONS
    cluster.stop()
    assert digests(place.succeed("two", "serial")) == expected
    assert all(place.stored()[name] == 1 for name in before), "finished portions are not computed again"


def test_after_a_killed_client_the_next_run_resumes(
    place: Place, cluster: DaskCluster, expected: dict[str, str]
) -> None:
    run = place.start("one", cluster.setting)
    place.wait_for_the_middle(run)
    run.kill()
    run.communicate()
    before = place.stored()
    assert 0 < len(before) < 2 * PORTIONS
    (place.gate / "go").touch()
    assert digests(place.succeed("two", cluster.setting)) == expected
    assert all(place.stored()[name] == 1 for name in before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_jobs(place: Place, cluster: DaskCluster, number: int) -> None:
    run = place.start("one", cluster.setting)
    place.wait_for_the_middle(run)
    run.send_signal(number)
    done = finish(run)
    assert done.returncode == 128 + number
    assert done.stderr.splitlines()[-1].startswith("resume with: labelscape run")
    cluster.wait_until_idle()
