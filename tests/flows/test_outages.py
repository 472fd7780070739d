"""Prefect or MLflow servers that cannot be reached or die during a run: real servers, real kills."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from flows import services
from storage.servers import token_path
from storage.tracking.client import Tracker
from tests.relay import HANG_UP, relaying

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
QUICK = ("--set", "evaluation.folds=2")


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    return kept | {"LABELSCAPE_HOME": str(home), "PYTHONPATH": str(REPOSITORY)} | more


def labelscape(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", *arguments]
    return subprocess.run(
        command, cwd=home.parent, env=environment(home, **more), capture_output=True, text=True, timeout=300
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def nobody() -> str:
    """An address of this machine without a server."""
    return f"http://127.0.0.1:{free_port()}"


def digests(summary: dict[str, Any]) -> dict[str, str]:
    """Digests of the results by stage, without the record of tracking."""
    return {one["stage"]: one["digest"] for one in summary["stages"] if one["stage"] != "tracking"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a run without failures."""
    home = tmp_path_factory.mktemp("undisturbed") / "home"
    done = labelscape(home, "run", "wine", "--json", *QUICK, PREFECT_API_URL=f"{nobody()}/api")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["tracking"]["run_id"]
    return digests(summary)


@contextlib.contextmanager
def server(name: str, home: Path, port: int) -> Iterator[services.Service]:
    """A real Prefect or MLflow server."""
    started = services._start(name, home, port)
    try:
        services._wait([started])
        yield started
    finally:
        if process := started.process:  # a test may have killed it
            services.stop_group(process)


def test_a_run_needs_no_prefect(tmp_path: Path, undisturbed: dict[str, str]) -> None:
    home, address = tmp_path / "home", f"{nobody()}/api"
    done = labelscape(home, "run", "wine", *QUICK, PREFECT_API_URL=address)
    assert done.returncode == 0, done.stderr
    assert f"no Prefect server answers at {address}" in done.stderr
    assert "NOT IN PREFECT" in done.stdout
    assert "NOT TRACKED" not in done.stdout
    again = labelscape(home, "run", "wine", "--json", *QUICK, PREFECT_API_URL=address)
    summary = json.loads(again.stdout)
    assert {one["state"] for one in summary["stages"]} == {"fresh"}
    assert summary["prefect"]["problem"].startswith("no Prefect server answers")
    assert digests(summary) == undisturbed
    assert_lineage_is_tagged(summary)


def assert_lineage_is_tagged(summary: dict[str, Any]) -> None:
    """The tags and the report of the tracked run contain the tree of `labelscape lineage`."""
    run = client(summary["tracking"]["uri"]).get_run(summary["tracking"]["run_id"])
    tags = run.data.tags
    for one in summary["stages"]:
        if one["stage"] not in ("report", "tracking"):
            assert tags[f"labelscape.digest.{one['stage']}"] == one["digest"]
            assert tags[f"labelscape.key.{one['stage']}"] == one["key"]
            assert len(tags[f"labelscape.code.{one['stage']}"]) == 32
            assert float(tags[f"labelscape.seconds.{one['stage']}"]) >= 0
    assert "n_neighbors=10" in tags["labelscape.settings.affinity"]
    assert tags["labelscape.digest.source"]
    assert tags["labelscape.version.numpy"]
    page = client(summary["tracking"]["uri"]).download_artifacts(run.info.run_id, "report/index.html")
    assert '<svg class="lineage"' in Path(page).read_text(encoding="utf-8")


def test_a_run_without_prefect_is_recorded_later(tmp_path: Path, prefect_variables: dict[str, str]) -> None:
    home = tmp_path / "home"
    given = ("run", "wine", "--json", *QUICK, "--set", "tracking.enabled=false", "--until", "affinity")
    summary = json.loads(labelscape(home, *given, PREFECT_API_URL=f"{nobody()}/api").stdout)
    assert summary["prefect"]["problem"]
    later = labelscape(home, "sync", "--json", **prefect_variables)
    assert later.returncode == 0, later.stdout + later.stderr
    [recorded] = json.loads(later.stdout)["prefect"]
    known = ask(prefect_variables, f"flow_runs/{recorded['tracked_as']}")
    assert known["state_type"] == "COMPLETED"
    assert summary["run"] in known["state"]["message"]
    assert known["parameters"]["config"]["source"]["path"] == "wine"
    assert "Nothing to do" in labelscape(home, "sync", **prefect_variables).stdout


def test_model_selection_and_experiments_are_recorded_later_under_their_flows(
    tmp_path: Path, prefect_variables: dict[str, str]
) -> None:
    home, nowhere = tmp_path / "home", f"{nobody()}/api"
    (tmp_path / "labelscape.toml").write_text("[tracking]\nenabled = false\n")
    choice = ("auto", "iris", *QUICK, "--set", "tracking.enabled=false", "--candidates", "1nn")
    for given in (choice, ("reproduce", "dle-table3", "--quick", "--sets", "iris")):
        done = labelscape(home, *given, PREFECT_API_URL=nowhere)
        assert "Record it later: `labelscape sync" in done.stdout, done.stderr
    later = json.loads(labelscape(home, "sync", "--json", **prefect_variables).stdout)
    flows = []
    for one in later["prefect"]:
        known = ask(prefect_variables, f"flow_runs/{one['tracked_as']}")
        flow = ask(prefect_variables, f"flows/{known['flow_id']}")
        flows.append((flow["name"], set(known["parameters"])))
    assert flows == [
        ("labelscape-auto", {"config"}),
        ("labelscape-reproduce", {"name", "quick", "folder", "sets"}),
    ]


def ask(prefect: dict[str, str], path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {prefect['PREFECT_API_AUTH_STRING']}"}
    request = urllib.request.Request(f"{prefect['PREFECT_API_URL']}/{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=240) as answer:
        return dict(json.load(answer))


def test_prefect_dies_during_a_run(tmp_path: Path, undisturbed: dict[str, str]) -> None:
    home, port = tmp_path / "home", free_port()
    with server("prefect", tmp_path / "prefect", port) as prefect:
        command = [sys.executable, "-m", "flows.cli", "run", "wine", *QUICK]
        login = token_path(tmp_path / "prefect").read_text().strip()
        address = f"http://127.0.0.1:{port}/api"
        settings = environment(home, PREFECT_API_URL=address, PREFECT_API_AUTH_STRING=login)
        with subprocess.Popen(
            command, cwd=tmp_path, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stderr is not None
            for line in run.stderr:
                if line.strip().startswith("affinity"):
                    os.kill(prefect.pid, 9)
                    break
            out, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    assert "NOT IN PREFECT: Prefect failed" in out
    assert "Traceback" not in err
    again = labelscape(home, "run", "wine", "--json", *QUICK, PREFECT_API_URL=f"{nobody()}/api")
    summary = json.loads(again.stdout)
    assert {one["state"] for one in summary["stages"]} == {"fresh"}
    assert digests(summary) == undisturbed


def mlflow_login(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variable with which other homes, and this process, use the MLflow server of a home."""
    login = token_path(home).read_text().strip()
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", login)
    return {"MLFLOW_TRACKING_TOKEN": login}


def test_an_untracked_run_is_tracked_later(
    tmp_path: Path, undisturbed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, port = tmp_path / "home", free_port()
    uri, quiet = f"http://127.0.0.1:{port}", {"PREFECT_API_URL": f"{nobody()}/api"}
    address = ("--set", f"tracking.uri={uri}")
    done = labelscape(home, "run", "wine", "--json", *QUICK, *address, **quiet)
    summary = json.loads(done.stdout)
    assert done.returncode == 0
    assert f"no tracking server answers at {uri}" in summary["tracking"]["problem"]
    assert digests(summary) == undisturbed
    too_early = labelscape(home, "sync", **quiet)
    assert too_early.returncode == 2
    assert "no tracking server answers" in too_early.stdout
    with server("mlflow", tmp_path / "mlflow", port):
        refused = labelscape(home, "sync", **quiet)
        assert refused.returncode == 2
        assert "demands a login" in refused.stdout
        quiet |= mlflow_login(tmp_path / "mlflow", monkeypatch)
        later = labelscape(home, "sync", "--json", **quiet)
        [synced] = json.loads(later.stdout)["runs"]
        assert synced["run"] == summary["run"]
        assert synced["problem"] is None
        tracked = finished_runs(uri, "wine")
        assert [run.info.run_id for run in tracked] == [synced["tracked_as"]]
        assert {"mlda", "1nn"} <= {run.data.params["method"] for run in children(uri, tracked[0])}
        again = json.loads(labelscape(home, "sync", "--json", **quiet).stdout)
        assert again["runs"] == [], "tracked already"
        assert "no Prefect server answers" in again["prefect"][0]["problem"]
        again = json.loads(labelscape(home, "run", "wine", "--json", *QUICK, *address, **quiet).stdout)
        assert again["tracking"]["run_id"] == synced["tracked_as"]
        assert len(finished_runs(uri, "wine")) == 1


def client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri)


def finished_runs(uri: str, experiment: str) -> list[Any]:
    found = client(uri).get_experiment_by_name(experiment)
    runs = client(uri).search_runs([found.experiment_id], "attributes.status = 'FINISHED'")
    return [run for run in runs if "mlflow.parentRunId" not in run.data.tags]


def children(uri: str, parent: Any) -> list[Any]:
    chosen = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    return list(client(uri).search_runs([parent.info.experiment_id], chosen))


def dying_after(requests: int, target: str) -> contextlib.AbstractContextManager[str]:
    """Relay requests to a server; stop answering after some of them."""
    left = requests

    def refuse(headers: Message) -> int | None:
        nonlocal left
        left -= 1
        return HANG_UP if left < 0 else None

    return relaying(target, refuse)


def test_mlflow_dies_while_a_run_is_tracked(
    tmp_path: Path, undisturbed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, quiet = free_port(), {"PREFECT_API_URL": f"{nobody()}/api", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    with server("mlflow", tmp_path / "mlflow", port):
        quiet |= mlflow_login(tmp_path / "mlflow", monkeypatch)
        uri = f"http://127.0.0.1:{port}"
        for requests in (3, 8, 20):
            home = tmp_path / f"home{requests}"
            experiment = ("--set", f"tracking.experiment=after{requests}")
            with dying_after(requests, uri) as relay:
                at_relay = ("--set", f"tracking.uri={relay}")
                done = labelscape(home, "run", "wine", "--json", *QUICK, *experiment, *at_relay, **quiet)
            assert done.returncode == 0, done.stderr
            summary = json.loads(done.stdout)
            assert summary["tracking"]["problem"]
            assert digests(summary) == undisturbed
            later = labelscape(home, "sync", "--json", "--uri", uri, **quiet)
            [synced] = json.loads(later.stdout)["runs"]
            assert synced["problem"] is None
            [tracked] = finished_runs(uri, f"after{requests}")
            assert tracked.info.run_id == synced["tracked_as"]
            assert Tracker(uri, None).exists(synced["tracked_as"])
