"""`labelscape up` with configured databases: a real PostgreSQL for both servers, tried before the start."""

import json
import urllib.request
from pathlib import Path

import pytest

from flows.addresses import mlflow_pages
from flows.config import load_config
from flows.server_options import choose_server_options
from flows.services import down, up
from storage.errors import ConfigError, ServiceError
from storage.servers import read_token
from storage.tracking.addresses import default_uri
from storage.tracking.client import RunRecord, Tracker
from storage.urls import redact
from tests.storage.test_tracking import free_port
from tests.storage.test_tracking_postgres import execute
from tests.storage.test_tracking_postgres import server as server


def ask(url: str, token: str, body: object = None) -> object:
    """The answer of a server as JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_both_servers_use_postgresql(server: str, tmp_path: Path) -> None:
    for name in ("for_prefect", "for_mlflow"):
        execute(f"{server}/postgres", f"CREATE DATABASE {name}")
    config = load_config(
        None,
        [f"schedule.database={server}/for_prefect", f"tracking.uri={server}/for_mlflow"],
        home=str(tmp_path),
    )
    Tracker(f"{server}/for_mlflow").log(RunRecord(experiment="photos", name="first"))
    services = up(tmp_path, 0, 0, options=choose_server_options(config, workers=2))
    try:
        token = read_token(tmp_path) or ""
        assert ask(f"{services.prefect_url}/health", token) is True
        found = ask(
            f"{services.mlflow_url}/api/2.0/mlflow/experiments/get-by-name?experiment_name=photos", token
        )
        assert isinstance(found, dict)
        assert found["experiment"]["name"] == "photos"
        assert mlflow_pages(redact(f"{server}/for_mlflow"), tmp_path) == services.mlflow_url
        assert mlflow_pages(default_uri(tmp_path), tmp_path) is None
    finally:
        down(tmp_path)
    assert execute(f"{server}/for_prefect", "SELECT count(*) FROM flow_run") == [(0,)]
    assert not (tmp_path / "prefect" / "prefect.db").exists()
    assert not (tmp_path / "mlflow.db").exists()


def test_a_database_that_does_not_answer_is_refused_first(tmp_path: Path) -> None:
    address = f"postgresql://me:verysecretword@127.0.0.1:{free_port()}/prefect"
    config = load_config(None, [f"schedule.database={address}"], home=str(tmp_path))
    with pytest.raises(ServiceError, match=r"does not answer .*Start the database server") as refusal:
        choose_server_options(config)
    assert "verysecretword" not in str(refusal.value)
    assert not (tmp_path / "prefect").exists()


@pytest.mark.parametrize("address", ["mysql://host/prefect", "sqlite:///prefect.db", "http://host/db"])
def test_another_kind_of_database_is_refused(address: str, tmp_path: Path) -> None:
    config = load_config(None, [f"schedule.database={address}"], home=str(tmp_path))
    with pytest.raises(ConfigError, match="is not a PostgreSQL address"):
        choose_server_options(config)


@pytest.mark.parametrize("workers", [0, -1, 1000])
def test_a_number_of_processes_that_makes_no_sense_is_refused(workers: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--server-workers"):
        choose_server_options(load_config(None, home=str(tmp_path)), workers)
