"""Remove what accumulates beside the store (`labelscape prune`): Prefect's history, deleted runs, reports.

The store has its own garbage collection, `labelscape store gc`.
"""

import contextlib
import sqlite3
import time
from pathlib import Path

from flows.config import RunConfig
from flows.prefect_database import database_file
from flows.prefect_prune import prune_database
from flows.services import prefect_database_variables
from flows.stores import open_store
from storage.artifacts.run_log import RunLog
from storage.quoting import count_of
from storage.tracking.deleted_runs import remove_deleted
from tasks.report.reports_page import LATEST, find_reports, remove_reports
from tasks.stages.report import report_of, report_page
from tasks.stages.tracking import make_tracker


def prune_all(config: RunConfig, home: Path, dry_run: bool = False) -> list[str]:
    """Remove what is older than `schedule.keep_days`; return what was removed, one line each."""
    days = config.schedule.keep_days
    return [
        _prune_prefect(config, home, days, dry_run),
        _prune_mlflow(config, home, days, dry_run),
        _prune_reports(config, home, days, dry_run),
    ]


def _prune_prefect(config: RunConfig, home: Path, days: float, dry_run: bool) -> str:
    file = database_file(home)
    if config.schedule.database is None and not file.is_file():
        return "Prefect: no database in this home"
    variables = prefect_database_variables(home, config.schedule.database)
    removed = prune_database(variables, str(file.parent), days, dry_run)
    counts = ", ".join(f"{count} {name}" for name, count in removed.items())
    if dry_run:
        return f"Prefect: would remove {counts}"
    return f"Prefect: removed {counts}{_shrink(file) if config.schedule.database is None else ''}"


def _shrink(file: Path) -> str:
    """Give free pages back to the file system; a server that is writing right now keeps them for itself."""
    before = file.stat().st_size
    opened = contextlib.closing(sqlite3.connect(file, timeout=5, isolation_level=None))
    with contextlib.suppress(sqlite3.OperationalError), opened as database:
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return f"; {file.name} {before / 1e6:.1f} → {file.stat().st_size / 1e6:.1f} MB"


def _prune_mlflow(config: RunConfig, home: Path, days: float, dry_run: bool) -> str:
    tracker = make_tracker(config.tracking.uri, home)
    if tracker.is_empty():
        return "MLflow: no database yet"
    found = remove_deleted(tracker, days, dry_run)
    if found is None:
        return f"MLflow: {tracker.uri} is a server; prune on its machine, with `mlflow gc`"
    runs = count_of(found[0], "deleted run", "deleted runs")
    models = count_of(found[1], "deleted model", "deleted models")
    return f"MLflow: {'would remove' if dry_run else 'removed'} {runs} and {models}"


def _prune_reports(config: RunConfig, home: Path, days: float, dry_run: bool) -> str:
    """Remove old reports; the latest, the newest of each source and those of pinned runs stay."""
    reports = home / "reports"
    if not reports.is_dir():
        return "reports: none"
    known, oldest = find_reports(reports), time.time() - days * 86_400
    pinned = [run for run in RunLog(open_store(config)).entries() if run.pinned]
    # Runs with the same report share its folder, which names only the last of them.
    kept = {report_page(ref, home).parent.name for run in pinned if (ref := report_of(run))}
    latest = (reports / LATEST).resolve().name
    newest = {one["source"]: one["folder"] for one in reversed(known)}
    old = [
        one["folder"]
        for one in known
        if one["id"] not in {run.id for run in pinned}
        and one["folder"] not in (latest, *newest.values(), *kept)
        and (reports / one["folder"]).stat().st_mtime < oldest
    ]
    if old and not dry_run:
        remove_reports(reports, old)
    return f"reports: {'would remove' if dry_run else 'removed'} {len(old)} of {len(known)}"
