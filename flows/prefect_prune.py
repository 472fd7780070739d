"""Remove old flow runs, logs and events from Prefect's database: `python -m flows.prefect_prune`.

The process of its own is needed because Prefect has one database per process, named by its environment. The
work is done by Prefect's own vacuum, which its server also runs every hour; both may run at the same time.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from storage.errors import ServiceError

_TABLES = {"flow runs": "FlowRun", "logs": "Log", "events": "Event"}
_DRY_RUN = "--dry-run"


def vacuum_variables(days: float) -> dict[str, str]:
    """Environment with which Prefect's server removes what is older, every hour."""
    seconds = str(round(days * 86_400))
    return {
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": seconds,
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"PT{seconds}S",  # read as ISO 8601, unlike the others
    }


def prune_database(
    variables: Mapping[str, str], folder: str, days: float, dry_run: bool = False
) -> dict[str, int]:
    """Remove what is older than some days; return the numbers of removed rows.

    Parameters
    ----------
    variables : mapping
        Environment that names the database.
    folder : str
        Working folder, to which the address of an SQLite file is relative.
    days : float
    dry_run : bool
        Only count.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    quiet = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "flows.prefect_prune", *([_DRY_RUN] if dry_run else [])],
        cwd=folder,
        env={**kept, **quiet, **variables, **vacuum_variables(days)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise ServiceError(f"Prefect's database could not be pruned: {said}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


async def _prune() -> dict[str, int]:
    from prefect.server.database.dependencies import provide_database_interface
    from prefect.server.services import db_vacuum

    db = provide_database_interface()
    if _DRY_RUN in sys.argv:
        return await _count_old(db)
    before = await _count(db)
    await db_vacuum.vacuum_old_flow_runs(db=db)
    await db_vacuum.vacuum_events_with_retention_overrides(db=db)
    await db_vacuum.vacuum_old_events(db=db)
    await db_vacuum.vacuum_orphaned_logs(db=db)
    await db_vacuum.vacuum_orphaned_artifacts(db=db)
    await db_vacuum.vacuum_stale_artifact_collections(db=db)
    after = await _count(db)
    return {name: max(0, before[name] - after[name]) for name in before}


async def _count(db: Any) -> dict[str, int]:
    import sqlalchemy as sa

    async with db.session_context() as session:
        return {
            title: int(await session.scalar(sa.select(sa.func.count()).select_from(getattr(db, table))) or 0)
            for title, table in _TABLES.items()
        }


async def _count_old(db: Any) -> dict[str, int]:
    """What the vacuum would remove: flow runs that ended long ago with their logs, and old events."""
    import sqlalchemy as sa
    from prefect.settings import get_current_settings
    from prefect.types._datetime import now

    settings = get_current_settings().server
    ended = db.FlowRun.end_time < now("UTC") - settings.services.db_vacuum.retention_period
    old = {
        "FlowRun": ended,
        "Log": db.Log.flow_run_id.in_(sa.select(db.FlowRun.id).where(ended)),
        "Event": db.Event.occurred < now("UTC") - settings.events.retention_period,
    }
    async with db.session_context() as session:
        counts = {
            table: await session.scalar(
                sa.select(sa.func.count()).select_from(getattr(db, table)).where(condition)
            )
            for table, condition in old.items()
        }
    return {title: int(counts[table] or 0) for title, table in _TABLES.items()}


if __name__ == "__main__":
    os.umask(0o077)
    sys.stdout.write(f"{json.dumps(asyncio.run(_prune()))}\n")
