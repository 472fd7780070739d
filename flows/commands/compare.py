"""`compare`: tracked runs of an experiment side by side, best first."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from flows.commands.options import Subparsers, add_command, add_tracker, open_tracker
from flows.terminal import show
from storage.errors import ConfigError, TrackingError
from storage.tracking.client import ComparedRun, Tracker
from tasks.report.ranking import (
    LOWER_IS_BETTER,
    METRIC_TITLES,
    Entry,
    format_score,
    judge,
    metric_arrow,
    metric_title,
)
from tasks.report.score_table import DEFAULT_METRICS
from tasks.report.tables import Table
from tasks.stages.tracking import BASELINE_TAG, SCORES_TAG, SETTINGS_TAG, list_collections


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "compare", compare, json=True)
    parser.add_argument("experiment", nargs="?", help="default: the experiment of the newest run")
    add_tracker(parser)
    parser.add_argument("--sort-by", default="macro_f1", metavar="METRIC", help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="every run, not only the newest of each method")


def compare(options: argparse.Namespace) -> int:
    """Print every method of the newest run, or of all runs, with the spread over folds."""
    if options.sort_by not in METRIC_TITLES:
        raise ConfigError(
            f"--sort-by {options.sort_by}: no such metric; choose from {', '.join(METRIC_TITLES)}."
        )
    tracker = open_tracker(options)
    experiment = options.experiment or _newest_experiment(tracker)
    found = sort_runs(tracker.runs(experiment), options.sort_by)
    runs = found if options.all else newest_of_each(found)
    if options.json:
        show(json.dumps([_as_record(run) for run in runs], indent=2, ensure_ascii=False))
        return 0
    show(f"experiment {experiment}, {tracker.uri}")
    show(comparison_table(runs, options.sort_by))
    if runs:
        own = [run for run in found if run.parent_id == runs[0].parent_id]
        show(f"\n{judge_run(tracker, own, options.sort_by)}")
    return 0


def judge_run(tracker: Tracker, runs: Sequence[ComparedRun], metric: str) -> str:
    """Whether the best method of one parent run beats its baselines by more than noise."""
    scores = {run.method: tracker.fold_scores(run.run_id, metric) for run in runs}
    n_folds = max(map(len, scores.values()))
    rows = [
        (run.method, run.classifier, fold, metric, value)
        for run in runs
        if len(scores[run.method]) == n_folds  # `auto` stops some candidates after their first folds
        for fold, value in scores[run.method].items()
    ]
    baselines = {run.method for run in runs if is_baseline(run)}
    return judge(rows, metric, baselines, {run.method: run.title for run in runs}).text


def is_baseline(run: ComparedRun) -> bool:
    """Whether the method is a plain baseline."""
    return run.tags.get(BASELINE_TAG) == "true"


def sort_runs(runs: Sequence[ComparedRun], metric: str) -> list[ComparedRun]:
    """Sort runs best first; runs without the metric come last."""
    sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
    return sorted(runs, key=lambda run: sign * run.metrics[metric] if metric in run.metrics else float("inf"))


def newest_of_each(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Of runs with identical scores keep only the one that started last, in the given order."""
    newest: dict[tuple[str, str], ComparedRun] = {}
    for run in runs:
        key = (run.method, run.tags.get(SCORES_TAG, run.run_id))
        if key not in newest or run.started > newest[key].started:
            newest[key] = run
    kept = {run.run_id for run in newest.values()}
    return [run for run in runs if run.run_id in kept]


def comparison_table(runs: Sequence[ComparedRun], sort_by: str) -> Table:
    """Tabulate runs, one row per method and run."""
    metrics = [sort_by, *(name for name in DEFAULT_METRICS if name != sort_by)]
    titles = (f"{metric_title(name)} {metric_arrow(name)}" for name in metrics)
    header = ("method", *titles, "run", "started", "settings")
    rows = tuple(
        (
            run_title(run),
            *(format_score(run.metrics.get(name), run.metrics_std.get(name)) for name in metrics),
            run.run_id[:8],
            run.started.strftime("%Y-%m-%d %H:%M"),
            run.run_tags.get(SETTINGS_TAG, ""),
        )
        for run in runs
    )
    caption = f"mean ± standard deviation over folds; best {metric_title(sort_by)} first"
    run, started, settings = range(len(header) - 3, len(header))
    metric_columns = range(len(metrics), 1, -1)
    optional = (settings, *metric_columns, started, run)
    return Table(header, rows, caption, texts=frozenset({run, started, settings}), optional=optional)


def run_title(run: ComparedRun) -> str:
    """Title of a method with its classifier, as in the table of a run."""
    mark = " (baseline)" if is_baseline(run) else ""
    return Entry(run.method, run.classifier, {}).title({run.method: run.title}) + mark


def _newest_experiment(tracker: Tracker) -> str:
    names = list_collections(tracker)
    if not names:
        raise TrackingError(f"no run has been tracked at {tracker.uri} yet; start with `labelscape run`.")
    return names[0]


def _as_record(run: ComparedRun) -> dict[str, object]:
    return {**asdict(run), "started": run.started.isoformat()}
