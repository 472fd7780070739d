"""`sync`: what could not be recorded when it ran."""

import argparse
import json

from flows.commands.options import read_default_config
from flows.engine import prepare_libraries
from flows.stores import open_store
from flows.terminal import TerminalReporter, show
from storage.run_log import RunLog


def sync(options: argparse.Namespace) -> int:
    """Track the runs that were not; 1 where one still is not."""
    from flows.sync import sync_run, untracked_runs

    prepare_libraries(options.verbose)
    config = read_default_config(options)
    uri = options.uri or config.tracking.uri
    done = [
        sync_run(run, config, uri, TerminalReporter(quiet=options.json))
        for run in untracked_runs(RunLog.of(open_store(config)))
    ]
    failed = [one for one in done if one.problem]
    if options.json:
        record = [
            {"run": one.run.id, "tracked_as": one.tracker_id, "uri": one.uri, "problem": one.problem}
            for one in done
        ]
        show(json.dumps({"runs": record}, indent=2, ensure_ascii=False))
        return 1 if failed else 0
    for one in done:
        outcome = f"tracked as {one.tracker_id[:8]} at {one.uri}" if one.tracker_id else one.problem
        show(f"run {one.run.id} ({one.run.name}, {one.run.created[:10]})  {outcome}")
    if not done:
        show("Nothing to do: every run of this store is tracked, or was not to be.")
    return 1 if failed else 0
