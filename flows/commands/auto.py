"""`auto`: score candidate models, keep the best as the collection's champion."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from flows.commands.options import Subparsers, add_command, add_configuration, add_paranoid, read_config

if TYPE_CHECKING:
    from flows.config import RunConfig
    from storage.artifacts.run_log import LoggedRun


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "auto", auto, json=True, staged=True)
    add_configuration(parser, methods=False)
    add_paranoid(parser)
    parser.add_argument(
        "--budget",
        help="time from the start of the command to the fitted model, as 90s, 10m, 1h30m (default: 10m). Data"
        " and features count and always finish; tracking comes after it",
    )
    parser.add_argument("--candidates", metavar="NAMES", help="comma-separated (default: all candidates)")
    parser.add_argument(
        "--closed",
        action="store_true",
        default=None,
        help="only items of this collection will be annotated: fits may use their features",
    )


def auto(options: argparse.Namespace) -> int:
    """Print the leaderboard, the winner and its title."""
    return select_and_show(read_config(options), options)


def select_and_show(config: RunConfig, options: argparse.Namespace, earlier: LoggedRun | None = None) -> int:
    """Select a model and print the result; `earlier` is the run that this one repeats, if any."""
    from embedding_core.registry.candidates import pick_candidates
    from flows.auto_summary import auto_text, summarize_auto
    from flows.label_care import report_gain
    from flows.run_settings import check_config, check_source
    from flows.runner import Run
    from flows.selection import SelectionPlan
    from flows.terminal import show

    plan = SelectionPlan(config)
    plan.budget.start()
    check_config(config)
    check_source(config)
    pick_candidates(None, config.auto.candidates)
    result = Run(plan, session=options.session).execute(options.verbose)
    summary = summarize_auto(config, result, earlier)
    gain = report_gain(config, result)
    summary["gain"] = asdict(gain) if gain else None
    text = json.dumps(summary, indent=2, ensure_ascii=False) if options.json else ""
    show(text or auto_text(config, result, summary))
    if gain and not options.json:
        show(["", *gain.lines(12)])
    return 0
