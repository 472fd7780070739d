"""`auto`: score a menu of candidates, keep the best as the collection's champion."""

import argparse
import json

from flows.auto import AutoResult, run_auto
from flows.commands.engine import note_unrecorded, run_with_engine
from flows.commands.options import read_config
from flows.config import RunConfig
from flows.terminal import REPORTER, TerminalReporter, show
from storage.artifacts.run_log import LoggedRun


def auto(options: argparse.Namespace) -> int:
    """Print the leaderboard, the winner and its title."""
    return choose_and_show(read_config(options), options)


def choose_and_show(config: RunConfig, options: argparse.Namespace, earlier: LoggedRun | None = None) -> int:
    """Choose by a configuration, that of an `earlier` run perhaps, and print what came of it."""
    from embedding_core.registry.candidates import pick_candidates
    from flows.auto_summary import auto_text, summarize_auto
    from flows.pipeline import check_config

    check_config(config)
    pick_candidates(None, config.auto.candidates)
    REPORTER.set(TerminalReporter(quiet=options.json))
    result = _choose(config, options.verbose)
    note_unrecorded(result)
    summary = summarize_auto(config, result, earlier)
    show(
        json.dumps(summary, indent=2, ensure_ascii=False)
        if options.json
        else auto_text(config, result, summary)
    )
    return 0


def _choose(config: RunConfig, verbose: bool) -> AutoResult:
    def in_flow() -> AutoResult:
        from flows.auto_flow import auto_anyhow

        return auto_anyhow(config)

    return run_with_engine(config, verbose, in_flow, lambda: run_auto(config))
