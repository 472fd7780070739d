"""`sync`: track and record runs whose tracker or Prefect server was down."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from flows.commands.options import Subparsers, add_command, read_default_config

if TYPE_CHECKING:
    from flows.sync import Synced


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "sync", sync, json=True, resumable=True)
    parser.add_argument("--uri", help="MLflow URI (default: that of each run)")


def sync(options: argparse.Namespace) -> int:
    """Track and record what is missing; exit code 2 if a run still could not be recorded."""
    from flows.config import find_home
    from flows.prefect_settings import prepare_libraries
    from flows.stores import open_store
    from flows.sync import lost_runs, sync_prefect, sync_run, unrecorded_runs, untracked_runs
    from flows.terminal import show, tell
    from storage.artifacts.run_log import RunLog
    from tasks.stages.tracking import make_tracker

    prepare_libraries(options.verbose)
    config = read_default_config(options)
    uri, reporter = options.uri or config.tracking.uri, options.session.reporter
    make_tracker(uri, find_home(config))  # reject an address that cannot be used
    store = open_store(config)
    log = RunLog(store)
    missing = untracked_runs(log) + lost_runs(log, lambda known: make_tracker(known, find_home(config)))
    tracked = [sync_run(run, config, uri, reporter) for run in missing]
    recorded = [sync_prefect(run, config, log, reporter, options.verbose) for run in unrecorded_runs(log)]
    if options.json:
        record = {
            "runs": [_record(one) for one in tracked],
            "prefect": [_record(one) for one in recorded],
            "warnings": reporter.warnings,
        }
        show(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        for one in (*tracked, *recorded):
            show(_line(one))
        if not (tracked or recorded):
            show(f"Nothing to do: every run of the store {store.place} is recorded, or needs no record.")
    failed = sum(one.problem is not None for one in (*tracked, *recorded))
    if failed:
        tell(f"labelscape: {failed} of {len(tracked) + len(recorded)} records are still missing; see above.")
    return 2 if failed else 0


def _record(one: Synced) -> dict[str, str | None]:
    return {"run": one.run.id, "tracked_as": one.tracker_id, "uri": one.uri, "problem": one.problem}


def _line(one: Synced) -> str:
    outcome = f"recorded as {one.tracker_id[:8]} at {one.uri}" if one.tracker_id else one.problem
    return f"run {one.run.id} ({one.run.name}, {one.run.created[:10]})  {outcome}"
