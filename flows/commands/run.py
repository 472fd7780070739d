"""`run` and `stage`: the training pipeline."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from flows.commands.options import (
    Subparsers,
    add_command,
    add_configuration,
    add_paranoid,
    read_config,
    read_default_config,
)

if TYPE_CHECKING:
    from flows.config import RunConfig
    from flows.stages import StageSelection
    from storage.artifacts.run_log import LoggedRun

# Kinds of runs that `run --as` does not repeat.
_OTHER_COMMANDS = {
    "reproduce": "of an experiment",
    "annotate": "an annotation of new items",
    "review": "a review of labels",
}


def add_parser(commands: Subparsers) -> None:
    """Declare `run` and `stage`."""
    parser = add_command(commands, "run", run, json=True, staged=True)
    _add_common(parser)
    parser.add_argument(
        "--refresh",
        action="append",
        default=[],
        metavar="STAGE",
        help="recompute this stage, and later ones only if its result changed; may be repeated",
    )
    parser.add_argument("--until", metavar="STAGE", help="stop after this stage")
    parser.add_argument(
        "--from",
        dest="since",
        metavar="STAGE",
        help="like --refresh, and take the stages before it unchanged from the last run",
    )
    parser.add_argument(
        "--as", dest="as_run", metavar="RUN", help="repeat an earlier run with its configuration, and compare"
    )
    parser.add_argument(
        "--yes", action="store_true", help="also run methods that are expected to take more than an hour"
    )
    parser = add_command(commands, "stage", stage, json=True, staged=True)
    parser.add_argument("name", metavar="NAME", help="for instance features, affinity, embedding")
    _add_common(parser)
    parser.add_argument("--force", action="store_true", help="recompute it even if it is fresh")


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_configuration(parser)
    add_paranoid(parser)
    parser.add_argument(
        "--done",
        action="append",
        default=[],
        metavar="STAGE",
        help="do not recompute this stage again; part of the resume command; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Run every stage and print the results."""
    from flows.stores import open_store
    from storage.errors import ConfigError
    from tasks.maintenance.damaged_runs import find_run

    if options.as_run is None:
        return _execute(read_config(options), options, _selection(options))
    if options.source or options.set or options.methods:
        raise ConfigError(
            "--as takes source and settings from the earlier run; leave out the source, --set and --methods."
        )
    here = read_default_config(options)
    return _repeat(find_run(open_store(here), options.as_run), here, options)


def stage(options: argparse.Namespace) -> int:
    """Run one stage, and later ones whose input changed."""
    from flows.pipeline import STAGES
    from flows.stages import StageSelection, check_stages

    check_stages([options.name], STAGES)
    refresh = [options.name] if options.force else []
    return _execute(read_config(options), options, StageSelection(refresh, done=options.done))


def _selection(options: argparse.Namespace) -> StageSelection:
    from flows.stages import StageSelection

    return StageSelection(options.refresh, options.since, options.until, options.done)


def _repeat(earlier: LoggedRun, here: RunConfig, options: argparse.Namespace) -> int:
    """Repeat an earlier run of `run` or `auto`."""
    from flows.config import repeat_config
    from flows.rerun import command_again
    from flows.stages import StageSelection
    from storage.errors import ConfigError

    selection = _selection(options)
    if earlier.kind in _OTHER_COMMANDS:
        again = command_again(earlier, here)
        raise ConfigError(f"run {earlier.id} is {_OTHER_COMMANDS[earlier.kind]}; repeat it with `{again}`.")
    config = repeat_config(earlier, here)
    if options.paranoid:
        config = config.model_copy(update={"source": config.source.model_copy(update={"paranoid": True})})
    if earlier.kind == "run":
        return _execute(config, options, replace(selection, until=selection.until or earlier.until), earlier)
    if selection != StageSelection():
        raise ConfigError(
            f"run {earlier.id} is a run of `labelscape auto`, which has no --refresh, --from or --until."
        )
    from flows.commands.auto import select_and_show

    return select_and_show(config, options, earlier)


def _execute(
    config: RunConfig,
    options: argparse.Namespace,
    selection: StageSelection,
    earlier: LoggedRun | None = None,
) -> int:
    from flows.pipeline import STAGES, TrainingPlan
    from flows.run_settings import check_config, check_source
    from flows.runner import Run
    from flows.terminal import show

    selection.check(STAGES)
    check_config(config)
    check_source(config)
    plan = TrainingPlan(config, confirmed=getattr(options, "yes", True))
    result = Run(plan, selection, options.session).execute(options.verbose)
    from flows.summary import find_gain, summarize_run, summary_text

    gain = find_gain(config, result)
    summary = {**summarize_run(config, result, earlier), "gain": asdict(gain) if gain else None}
    text = json.dumps(summary, indent=2, ensure_ascii=False) if options.json else ""
    show(text or summary_text(config, result, summary, gain))
    return 0
