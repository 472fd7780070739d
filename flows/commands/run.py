"""`run` and `stage`: the pipeline, in a Prefect flow."""

import argparse
import json

from flows.commands.options import read_config
from flows.config import RunConfig, find_home
from flows.engine import prepare_engine, starts_server
from flows.terminal import REPORTER, TerminalReporter, show


def run(options: argparse.Namespace) -> int:
    """Every stage, then the results."""
    return _execute(read_config(options), options, refresh=options.refresh, until=options.until)


def stage(options: argparse.Namespace) -> int:
    """One stage, and those below it whose input changed."""
    return _execute(
        read_config(options), options, refresh=[options.name] if options.force else [], until=None
    )


def _execute(config: RunConfig, options: argparse.Namespace, refresh: list[str], until: str | None) -> int:
    from flows.pipeline import check_config, check_stages

    check_stages([*refresh, *([until] if until else []), *([options.name] if "name" in options else [])])
    check_config(config)
    reporter = TerminalReporter(quiet=options.json)
    REPORTER.set(reporter)
    prepare_engine(find_home(config), options.verbose)
    if starts_server():
        reporter.say("starting Prefect for this run, 10 to 20 s (`labelscape up` keeps it running)")
    from flows.train import train

    result = train(config, refresh=refresh, until=until)
    from flows.summary import summarise_run, summary_text

    summary = summarise_run(config, result)
    show(
        json.dumps(summary, indent=2, ensure_ascii=False)
        if options.json
        else summary_text(config, result, summary)
    )
    return 0
