"""`sync`: what could not be recorded when it ran."""

import argparse
import json
from typing import TYPE_CHECKING

from flows.commands.options import read_default_config
from flows.prefect_engine import prepare_libraries
from flows.stores import open_store
from flows.terminal import TerminalReporter, show
from storage.artifacts.run_log import RunLog

if TYPE_CHECKING:
    from flows.sync import Synced


def sync(options: argparse.Namespace) -> int:
    """Record the runs that were not; 1 where one still is not."""
    from flows.sync import record_run, sync_run, unrecorded_runs, untracked_runs

    prepare_libraries(options.verbose)
    config = read_default_config(options)
    store = open_store(config)
    uri, log = options.uri or config.tracking.uri, RunLog(store)
    reporter = TerminalReporter(quiet=options.json)
    tracked = [sync_run(run, config, uri, reporter) for run in untracked_runs(log)]
    recorded = [record_run(run, config, log, options.verbose) for run in unrecorded_runs(log)]
    if options.json:
        record = {"runs": [_record(one) for one in tracked], "prefect": [_record(one) for one in recorded]}
        show(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        for one in (*tracked, *recorded):
            show(_line(one))
        if not (tracked or recorded):
            show(f"Nothing to do: every run of the store {store.place} is recorded, or was not to be.")
    return 1 if any(one.problem for one in (*tracked, *recorded)) else 0


def _record(one: "Synced") -> dict[str, str | None]:
    return {"run": one.run.id, "tracked_as": one.tracker_id, "uri": one.uri, "problem": one.problem}


def _line(one: "Synced") -> str:
    outcome = f"recorded as {one.tracker_id[:8]} at {one.uri}" if one.tracker_id else one.problem
    return f"run {one.run.id} ({one.run.name}, {one.run.created[:10]})  {outcome}"
