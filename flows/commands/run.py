"""`run` and `stage`: the pipeline, in a Prefect flow."""

import argparse
import json
from dataclasses import replace

from flows.commands.engine import note_unrecorded, run_with_engine
from flows.commands.options import read_config, read_default_config
from flows.config import RunConfig, repeat_config
from flows.rerun import command_again, kind_of
from flows.runner import RunResult, run_training
from flows.stages import Span, check_stages
from flows.stores import open_store
from flows.terminal import REPORTER, TerminalReporter, show
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.errors import ConfigError


def run(options: argparse.Namespace) -> int:
    """Every stage, then the results."""
    if options.as_run is None:
        return _execute(read_config(options), options, _span(options))
    if options.source or options.set or options.methods:
        raise ConfigError(
            "--as takes source and settings from the earlier run; leave the source, --set and --methods out."
        )
    here = read_default_config(options)
    return _repeat(RunLog(open_store(here)).find(options.as_run), here, options)


def _span(options: argparse.Namespace) -> Span:
    return Span(options.refresh, options.since, options.until, options.done)


def _repeat(earlier: LoggedRun, here: RunConfig, options: argparse.Namespace) -> int:
    """An earlier run once more, as what it was."""
    span, kind = _span(options), kind_of(earlier)
    if kind == "reproduce":
        again = command_again(earlier, here)
        raise ConfigError(f"run {earlier.id} is of an experiment; repeat it by `{again}`.")
    config = repeat_config(earlier, here)
    if options.paranoid:
        config = config.model_copy(update={"source": config.source.model_copy(update={"paranoid": True})})
    if kind == "run":
        return _execute(config, options, replace(span, until=span.until or earlier.until), earlier)
    if span != Span():
        raise ConfigError(
            f"run {earlier.id} is of `labelscape auto`, which has no --refresh, --from or --until."
        )
    from flows.commands.auto import choose_and_show

    return choose_and_show(config, options, earlier)


def stage(options: argparse.Namespace) -> int:
    """One stage, and those below it whose input changed."""
    check_stages([options.name])
    return _execute(
        read_config(options), options, Span([options.name] if options.force else [], done=options.done)
    )


def _execute(
    config: RunConfig, options: argparse.Namespace, span: Span, earlier: LoggedRun | None = None
) -> int:
    from flows.pipeline import check_config

    span.check()
    check_config(config)
    reporter = TerminalReporter(quiet=options.json)
    REPORTER.set(reporter)
    result = _train(config, span, options.verbose)
    note_unrecorded(result)
    from flows.summary import summarize_run, summary_text

    summary = summarize_run(config, result, earlier)
    show(
        json.dumps(summary, indent=2, ensure_ascii=False)
        if options.json
        else summary_text(config, result, summary)
    )
    return 0


def _train(config: RunConfig, span: Span, verbose: bool) -> RunResult:
    """In a Prefect flow, or without one where its server does not answer."""

    def in_flow() -> RunResult:
        from flows.prefect_flows import train_anyhow

        return train_anyhow(config, span)

    return run_with_engine(config, verbose, in_flow, lambda: run_training(config, span))
