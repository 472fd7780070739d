"""Prune: old flow runs, events, logs, deleted runs of MLflow and reports go; what is young or kept stays."""

import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from flows.config import RunConfig, load_config
from flows.prefect_database import database_file, prepare_database
from flows.prune import prune_all
from flows.stores import open_store
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind, LoggedRun, RunLog
from storage.tracking.client import RunRecord, Tracker
from storage.tracking.models import MODEL
from storage.tracking.registry import CHAMPION, ModelRegistry
from tasks.report.reports_page import find_reports, list_report
from tasks.stages.report import report_page
from tasks.stages.tracking import make_tracker
from tests.storage.test_tracking import TRUSTED, method, payload, record

DAY = 86_400


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    return load_config(None, ["schedule.keep_days=10"], home=str(tmp_path))


def add_flow_run(database: sqlite3.Connection, days: float) -> str:
    """A finished flow run of some days ago with a log line and an event."""
    when = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%d %H:%M:%S.%f")
    flow, run = str(uuid4()), str(uuid4())
    insert(database, "flow", id=flow, name=f"flow-{flow}", tags="[]")
    insert(
        database,
        "flow_run",
        id=run,
        flow_id=flow,
        name="old",
        state_type="COMPLETED",
        state_name="Completed",
        end_time=when,
        start_time=when,
        run_count=1,
        parameters="{}",
        context="{}",
        empirical_policy="{}",
        tags="[]",
        total_run_time="1970-01-01 00:00:00.000000",
        auto_scheduled=0,
        infrastructure_document_id=None,
    )
    insert(database, "log", id=str(uuid4()), name="x", level=20, flow_run_id=run, message="x", timestamp=when)
    event = {"id": str(uuid4()), "occurred": when, "received": when, "recorded": when}
    known = {"resource_id": "x", "resource": "{}", "related_resource_ids": "[]", "related": "[]"}
    insert(database, "events", event="labelscape.drop", payload="{}", **event, **known)
    return run


def insert(database: sqlite3.Connection, table: str, **values: object) -> None:
    columns = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    database.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(values.values()))


def count(file: Path, table: str) -> int:
    with closing(sqlite3.connect(file)) as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.slow
def test_old_flow_runs_logs_and_events_go(config: RunConfig, tmp_path: Path) -> None:
    prepare_database(tmp_path)
    file = database_file(tmp_path)
    with closing(sqlite3.connect(file)) as database:
        for days in (20, 30, 40):
            add_flow_run(database, days)
        young = add_flow_run(database, 1)
        database.commit()
    expected = "Prefect: would remove 3 flow runs, 3 logs, 3 events"
    assert prune_all(config, tmp_path, dry_run=True)[0] == expected
    assert count(file, "flow_run") == 4
    line = prune_all(config, tmp_path)[0]
    assert line.startswith("Prefect: removed 3 flow runs, 3 logs, 3 events; prefect.db ")
    assert [count(file, table) for table in ("flow_run", "log", "events")] == [1, 1, 1]
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT id FROM flow_run").fetchone()[0] == young


def tracked_run(tracker: Tracker, name: str) -> str:
    return tracker.log(RunRecord(experiment="photos", name=name)).parent_id


@pytest.mark.slow
def test_deleted_runs_of_mlflow_go_with_their_files(config: RunConfig, tmp_path: Path) -> None:
    tracker = make_tracker(None, tmp_path)
    kept, deleted, late = (tracked_run(tracker, name) for name in ("kept", "deleted", "late"))
    with tracker.connected() as client:
        place = Path(client.get_run(deleted).info.artifact_uri.removeprefix("file://"))
        (place / "x").mkdir(parents=True)
        for run in (deleted, late):
            client.delete_run(run)
    long_ago = round((time.time() - 20 * DAY) * 1000)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("UPDATE runs SET deleted_time = ? WHERE run_uuid = ?", (long_ago, deleted))
        database.commit()
    assert prune_all(config, tmp_path, dry_run=True)[1] == (
        "MLflow: would remove 1 deleted run and 0 deleted models"
    )
    assert prune_all(config, tmp_path)[1] == "MLflow: removed 1 deleted run and 0 deleted models"
    assert not place.exists()
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        left = {row[0] for row in database.execute("SELECT run_uuid FROM runs")}
    assert deleted not in left
    assert {kept, late} <= left


@pytest.mark.slow
def test_what_a_registered_model_needs_stays(config: RunConfig, tmp_path: Path) -> None:
    tracker = make_tracker(None, tmp_path)
    both = (method("mlda", model=payload()), method("dle", model=payload(3.0)))
    done, other = (tracker.log(record(name, *both), TRUSTED) for name in ("registered", "other"))
    run = done.children["mlda"]
    ModelRegistry(tracker).register("labelscape-photos", run, CHAMPION, {})
    with tracker.connected() as client:
        models = {
            one: client.get_run(one).data.tags[MODEL]
            for one in (*done.children.values(), *other.children.values())
        }
        files = {one: client.get_logged_model(one).artifact_location for one in models.values()}
        places = {one: Path(file.removeprefix("file://")) for one, file in files.items()}
        for one in (done.parent_id, other.parent_id, *models):
            client.delete_run(one)
        for one in models.values():
            client.delete_logged_model(one)
    assert all(place.is_dir() for place in places.values())
    long_ago = round((time.time() - 20 * DAY) * 1000)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("UPDATE runs SET deleted_time = ?", (long_ago,))
        database.execute("UPDATE logged_models SET last_updated_timestamp_ms = ?", (long_ago,))
        database.commit()
    expected = "4 deleted runs and 3 deleted models"
    assert prune_all(config, tmp_path, dry_run=True)[1] == f"MLflow: would remove {expected}"
    assert prune_all(config, tmp_path)[1] == f"MLflow: removed {expected}"
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert {row[0] for row in database.execute("SELECT run_uuid FROM runs")} == {done.parent_id, run}
        assert [row[0] for row in database.execute("SELECT model_id FROM logged_models")] == [models[run]]
    assert {one for one, place in places.items() if place.is_dir()} == {models[run]}


def test_old_reports_go_except_the_newest_and_pinned_ones(config: RunConfig, tmp_path: Path) -> None:
    pinned = RunLog(open_store(config)).add(LoggedRun("p", "photos", "photos", {}, {}, pinned=True))
    ages = {"old": 40, "pinned": 40, "newest": 30, "young": 1, "alone": 50}
    for number, (name, days) in enumerate(ages.items()):
        folder = tmp_path / "reports" / name
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(name)
        source = "songs" if name == "alone" else "wine" if name == "young" else "photos"
        run = pinned.id if name == "pinned" else f"{number:012x}"
        when = "2026-01-02" if name == "newest" else "2026-01-01"
        list_report(folder, {"name": name, "source": source, "time": when, "id": run})
        os.utime(folder, (time.time() - days * DAY,) * 2)
    assert prune_all(config, tmp_path, dry_run=True)[2] == "reports: would remove 1 of 5"
    assert prune_all(config, tmp_path)[2] == "reports: removed 1 of 5"
    assert {one["folder"] for one in find_reports(tmp_path / "reports")} == {*ages} - {"old"}
    assert ">old<" not in (tmp_path / "reports" / "index.html").read_text()


@pytest.mark.parametrize(("kind", "stage"), [("run", "report"), ("auto", "choice")])
def test_the_folder_of_a_pinned_report_stays_if_another_run_wrote_it_later(
    config: RunConfig, tmp_path: Path, kind: Kind, stage: str
) -> None:
    ref = ArtifactRef(stage, "a" * 64, "d" * 64, "files", 1)
    run = LoggedRun("p", "photos", "photos", {}, {stage: ref}, kind=kind, pinned=True)
    RunLog(open_store(config)).add(run)
    for name, when in ((report_page(ref, tmp_path).parent.name, "2026-01-01"), ("newest", "2026-01-02")):
        folder = tmp_path / "reports" / name
        folder.mkdir(parents=True)
        list_report(folder, {"name": name, "source": "photos", "time": when, "id": "0" * 12})
        os.utime(folder, (time.time() - 40 * DAY,) * 2)
    assert prune_all(config, tmp_path)[2] == "reports: removed 0 of 2"


def test_an_empty_home_has_nothing_to_prune(config: RunConfig, tmp_path: Path) -> None:
    assert prune_all(config, tmp_path) == [
        "Prefect: no database in this home",
        "MLflow: no database yet",
        "reports: none",
    ]
