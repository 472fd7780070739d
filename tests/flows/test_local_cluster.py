"""`labelscape up --workers N`: a cluster on the loopback address that only the owner of the home can use."""

import os
import stat
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from flows.local_cluster import MAX_WORKERS, start_cluster, stop_cluster
from flows.services import Services
from storage.cluster_record import (
    ClusterRecord,
    certificate_path,
    find_certificates,
    read_cluster,
    write_cluster,
)
from storage.errors import ServiceError
from storage.servers import HOST, Service
from tasks.cluster import ClusterLost
from tasks.executor import make_executor
from tests.conftest import Command

with_dask = pytest.mark.skipif(not find_spec("distributed"), reason="needs labelscape[dask]")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home") / "home"
    start_cluster(folder, 1)
    yield folder
    stop_cluster(folder)


@pytest.fixture
def record(home: Path) -> ClusterRecord:
    found = read_cluster(home)
    assert found
    return found


def processes(record: ClusterRecord) -> list[psutil.Process]:
    leaders = [process for one in record.services if (process := one.process)]
    return [*leaders, *(child for one in leaders for child in one.children(recursive=True))]


@pytest.mark.slow
@with_dask
class TestCluster:
    def test_jobs_run_in_its_workers(self, home: Path, record: ClusterRecord) -> None:
        with make_executor(record.address, home) as executor:
            # Its workers import no tests: jobs are functions of an installed package.
            assert set(executor.map(os.getpgid, [0, 0, 0])) == {record.workers.pid}

    def test_a_client_without_the_certificate_is_refused(
        self, record: ClusterRecord, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tasks.cluster.CONNECT_SECONDS", 1.0)
        for setting in (record.address, record.address.replace("tls", "dask")):
            with make_executor(setting) as executor, pytest.raises(ClusterLost, match="no Dask scheduler"):
                list(executor.map(os.getpgid, [0]))

    def test_a_client_with_another_certificate_is_refused(
        self, record: ClusterRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from flows.local_cluster import _create_certificate

        monkeypatch.setattr("tasks.cluster.CONNECT_SECONDS", 1.0)
        certificate_path(tmp_path).parent.mkdir()
        _create_certificate(tmp_path)
        write_cluster(tmp_path, record)
        with make_executor(record.address, tmp_path) as executor, pytest.raises(ClusterLost):
            list(executor.map(os.getpgid, [0]))

    def test_it_listens_on_the_loopback_address_only(self, record: ClusterRecord) -> None:
        listening = [
            one.laddr.ip
            for process in processes(record)
            for one in process.net_connections("inet")
            if one.status == psutil.CONN_LISTEN
        ]
        assert listening
        assert set(listening) == {HOST}

    def test_only_its_owner_can_read_the_certificate(self, home: Path) -> None:
        assert stat.S_IMODE(certificate_path(home).stat().st_mode) == 0o600
        assert stat.S_IMODE(certificate_path(home).parent.stat().st_mode) == 0o700

    def test_the_dashboard_answers(self, record: ClusterRecord) -> None:
        from urllib.request import urlopen

        with urlopen(record.dashboard, timeout=60) as page:
            assert page.status == 200

    def test_a_second_start_finds_it_and_another_number_is_refused(
        self, home: Path, record: ClusterRecord
    ) -> None:
        assert start_cluster(home, 1) == record
        with pytest.raises(ServiceError, match=r"a cluster with 1 workers is running.*labelscape down"):
            start_cluster(home, 2)


@pytest.mark.slow
@with_dask
def test_up_prints_its_addresses_and_down_stops_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service("stand-in", 1, 0.0, 1, "")
    monkeypatch.setattr("flows.services.up", lambda *_, **__: Services(service, service, "now", ""))
    done = command("up", "--workers", "1", "--home", tmp_path / "home")
    record = read_cluster(tmp_path / "home")
    assert record
    assert f"Dask     {record.dashboard}\n" in done.out
    assert f"--set executor={record.address}\n" in done.out
    started = processes(record)
    assert command("down", "--home", tmp_path / "home").out == "stopped\n"
    assert psutil.wait_procs(started, timeout=30)[1] == []
    assert not certificate_path(tmp_path / "home").exists()


@pytest.mark.parametrize("count", ["0", "-1", str(MAX_WORKERS + 1)])
def test_an_impossible_number_is_refused_before_anything_starts(
    command: Command, tmp_path: Path, count: str
) -> None:
    done = command("up", "--workers", count, "--home", tmp_path / "home")
    assert done.code == 2
    assert f"give a number from 1 to {MAX_WORKERS}" in done.err
    assert not (tmp_path / "home" / "services.json").exists()


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.local_cluster.find_spec", lambda name: None)
    with pytest.raises(ServiceError, match=r'pip install "labelscape\[dask\]"'):
        start_cluster(tmp_path, 2)


def test_the_certificate_is_for_its_own_cluster_only(tmp_path: Path) -> None:
    scheduler = Service("dask-scheduler", 1, 0.0, 8786, "")
    certificate_path(tmp_path).parent.mkdir()
    write_cluster(tmp_path, ClusterRecord(scheduler, scheduler, 2, 8787))
    assert read_cluster(tmp_path) == ClusterRecord(scheduler, scheduler, 2, 8787)
    assert find_certificates(tmp_path, "tls://127.0.0.1:8786") == certificate_path(tmp_path)
    assert find_certificates(tmp_path, "tls://10.0.0.1:8786") is None
    assert find_certificates(None, "tls://127.0.0.1:8786") is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"scheduler": {"pid": 1}}'])
def test_a_record_that_is_not_ours_counts_as_none(tmp_path: Path, text: str) -> None:
    certificate_path(tmp_path).parent.mkdir()
    (certificate_path(tmp_path).parent / "cluster.json").write_text(text)
    assert read_cluster(tmp_path) is None
