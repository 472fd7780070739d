"""`compare`: tracked runs of an experiment side by side, best first; the difference of two runs."""

import argparse
import contextlib
import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from flows.commands.options import Subparsers, add_command, add_tracker, open_tracker, read_default_config
from flows.terminal import show, show_verbatim
from storage.csv_cells import guard_cell
from storage.errors import ConfigError, TrackingError
from storage.tracking.client import Tracker
from tasks import comparison
from tasks.comparison import MethodRow
from tasks.report.page import render_table_page
from tasks.report.ranking import METRIC_TITLES, judge
from tasks.report.score_table import DEFAULT_METRICS
from tasks.report.tables import Table, render_markdown
from tasks.run_difference import RunDifference, compare_runs, pick_pair, score_table
from tasks.stages.tracking import list_collections

_SHOWN_CHANGES = 20
_SHOWN_OTHERS = 5


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "compare", compare, json=True)
    parser.add_argument("experiment", nargs="?", help="default: the experiment of the newest run")
    add_tracker(parser)
    parser.add_argument("--sort-by", default="macro_f1", metavar="METRIC", help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="every run, not only the newest of each result")
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="comma-separated metrics, settings (affinity.n_neighbors), or differs, run, name, started, "
        "settings, changes, data",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only results with this setting, method or classifier; may be repeated",
    )
    parser.add_argument("--after", metavar="DAY", help="only runs that started on this day (UTC) or later")
    parser.add_argument("--before", metavar="DAY", help="only runs that started before this day (UTC)")
    parser.add_argument("--group-by", metavar="KEY", help="the best result for each value of a setting")
    parser.add_argument(
        "--diff",
        nargs="*",
        metavar="RUN",
        help="what differs between two runs, by their ids; default: the newest two of the same kind (run or "
        "auto)",
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("csv", "markdown", "html"):
        kinds.add_argument(f"--{kind}", action="store_true", help=f"print {kind.upper()}")


def compare(options: argparse.Namespace) -> int:
    """Print every method and classifier of the tracked runs, or the difference of two runs."""
    if forms := [kind for kind in ("csv", "markdown", "html") if options.json and getattr(options, kind)]:
        raise ConfigError(f"--json and --{forms[0]} are two forms of output; choose one.")
    if options.sort_by not in METRIC_TITLES:
        raise ConfigError(
            f"--sort-by {options.sort_by}: no such metric; choose from {', '.join(METRIC_TITLES)}."
        )
    tracker = open_tracker(options)
    experiment = options.experiment or _newest_experiment(tracker)
    found = comparison.make_rows(tracker.runs(experiment))
    if options.diff is not None:
        return _show_difference(options, found, tracker)
    rows = comparison.sort_rows(_selected(options, found), options.sort_by)
    chosen = rows if options.all or options.group_by else comparison.newest_of_each(rows)
    if options.json and not options.group_by:
        show(json.dumps(comparison.as_records(chosen), indent=2, ensure_ascii=False))
        return 0
    columns = _columns(options, chosen)
    table = _table(options, chosen, columns, len(rows) - len(chosen))
    groups = comparison.group_records(chosen, options.group_by, options.sort_by) if options.group_by else []
    if options.json:
        show(json.dumps(groups, indent=2, ensure_ascii=False))
        return 0
    if options.csv:
        cells = _group_cells(groups) if groups else comparison.as_cells(chosen, columns)
        show_verbatim(_as_csv(cells).rstrip())
        return 0
    title = f"experiment {experiment}, {tracker.uri}"
    others = [] if options.experiment else [one.name for one in list_collections(tracker)[1:]]
    if options.markdown:
        show_verbatim(render_markdown(table).rstrip())
    elif options.html:
        show_verbatim(render_table_page(f"Experiment {experiment}", table, tracker.uri).rstrip())
    elif not chosen:
        conditions = "no result meets these conditions; leave out --where, --after or --before."
        show([title, conditions if found else "no run of this experiment has finished yet."])
    else:
        show([title, *_name_others(others), table])
        if not options.group_by:
            show(f"\n{_judge_run(tracker, found, chosen[0], options.sort_by)}")
    return 0


def _selected(options: argparse.Namespace, rows: Sequence[MethodRow]) -> list[MethodRow]:
    after = comparison.parse_day(options.after, "--after") if options.after else None
    before = comparison.parse_day(options.before, "--before") if options.before else None
    return comparison.select_rows(rows, comparison.parse_conditions(options.where), after, before)


def _columns(options: argparse.Namespace, rows: Sequence[MethodRow]) -> list[str]:
    """The columns of the table after the method."""
    if options.columns:
        names = [name.strip() for name in options.columns.split(",") if name.strip()]
        comparison.check_columns(names, rows, "--columns")
        return names
    others = [name for name in DEFAULT_METRICS if name != options.sort_by]
    if options.csv:
        return [
            options.sort_by,
            *others,
            "run",
            "started",
            "data",
            *comparison.varying_settings(rows),
            "settings",
        ]
    # Narrow terminals drop columns from the right; what tells two runs of a method apart stays.
    return [options.sort_by, "differs", "run", *others, "started"]


def _table(
    options: argparse.Namespace, rows: Sequence[MethodRow], columns: Sequence[str], hidden: int
) -> Table:
    if not options.group_by:
        return comparison.comparison_table(rows, options.sort_by, columns, hidden)
    comparison.check_columns([options.group_by], rows, "--group-by")
    return comparison.group_table(rows, options.group_by, options.sort_by)


def _group_cells(groups: Sequence[Mapping[str, object]]) -> list[list[object]]:
    empty = [["" if value is None else value for value in one.values()] for one in groups]
    return [[*groups[0]], *empty]


def _as_csv(cells: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([guard_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in cells)
    return text.getvalue()


def _judge_run(tracker: Tracker, rows: Sequence[MethodRow], best: MethodRow, metric: str) -> str:
    """Whether the best method of the best row's run beats its baselines by more than noise."""
    own = [row for row in rows if row.run.parent_id == best.run.parent_id]
    scores = {(row.run.method, row.classifier): _fold_scores(tracker, row, metric) for row in own}
    n_folds = max(map(len, scores.values()))
    folds = [
        (method, classifier, fold, metric, value)
        for (method, classifier), values in scores.items()
        if len(values) == n_folds  # `auto` stops some candidates after their first folds
        for fold, value in values.items()
    ]
    baselines = {row.run.method for row in own if row.is_baseline}
    return judge(folds, metric, baselines, {row.run.method: row.run.title for row in own}).text


def _fold_scores(tracker: Tracker, row: MethodRow, metric: str) -> dict[int, float]:
    name = metric if row.classifier == row.run.classifier else f"{row.classifier}/{metric}"
    return tracker.fold_scores(row.run.run_id, name)


def _show_difference(options: argparse.Namespace, rows: Sequence[MethodRow], tracker: Tracker) -> int:
    for kind in ("csv", "markdown", "html"):
        if getattr(options, kind):
            raise ConfigError(f"--diff prints text, or everything with --json; leave --{kind} out.")
    first, second = _two_runs(rows, [_tracked_id(name, options) for name in options.diff])
    found = compare_runs(
        first, second, options.sort_by, lambda row, metric: _fold_scores(tracker, row, metric)
    )
    if options.json:
        show(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return 0
    show(_difference_lines(first, second, found))
    show(score_table(found) if found.scores else "No method is in both runs, so no scores are compared.")
    return 0


def _difference_lines(
    first: Sequence[MethodRow], second: Sequence[MethodRow], found: RunDifference
) -> list[str]:
    lines = [
        f"{place:<13}{rows[0].text('name')}, run {rows[0].text('run')}, {rows[0].text('started')}"
        for place, rows in (("first", first), ("second", second))
    ]
    for title, changes in (
        ("settings", found.settings),
        ("data", found.data),
        ("code", found.code),
        ("versions", found.versions),
    ):
        shown = [one.text for one in changes[:_SHOWN_CHANGES]]
        if len(changes) > len(shown):
            shown.append(f"and {len(changes) - len(shown)} more (--json lists all)")
        lines += [f"{title if not place else '':<13}{text}" for place, text in enumerate(shown or ["same"])]
    for title, names in (("only first", found.only_first), ("only second", found.only_second)):
        lines += [f"{title:<13}{'; '.join(names)}"] if names else []
    return [*lines, ""]


def _tracked_id(name: str, options: argparse.Namespace) -> str:
    """The id in MLflow of a run that is named by its id in the store."""
    from flows.stores import open_store
    from storage.artifacts.run_log import RunLog
    from storage.errors import StoreError

    with contextlib.suppress(StoreError):
        run = RunLog(open_store(read_default_config(options))).find(name)
        return str(run.tracked["run_id"]) if run.tracked else name
    return name


def _two_runs(rows: Sequence[MethodRow], names: Sequence[str]) -> tuple[list[MethodRow], list[MethodRow]]:
    """The rows of two runs; without names the newest and the one before it."""
    by_run: dict[str, list[MethodRow]] = {}
    for row in sorted(rows, key=lambda row: row.run.started, reverse=True):
        by_run.setdefault(row.run.parent_id, []).append(row)
    if not names and (pair := pick_pair(list(by_run.values()))):
        return pair
    if len(names) != 2:
        known = ", ".join(name[:8] for name in list(by_run)[:5])
        raise ConfigError(f"--diff takes the ids of two runs; this experiment has {known or 'none'}.")
    first, second = (_find_run(by_run, name) for name in names)
    return first, second


def _find_run(by_run: dict[str, list[MethodRow]], name: str) -> list[MethodRow]:
    near = [run for run in by_run if run.startswith(name)]
    if len(near) != 1:
        what = f"matches {len(near)} runs" if near else "is no run of this experiment"
        known = ", ".join(run[:8] for run in list(by_run)[:5])
        raise ConfigError(f"--diff {name} {what}; the newest are {known}.")
    return by_run[near[0]]


def _name_others(names: Sequence[str]) -> list[str]:
    more = f" and {len(names) - _SHOWN_OTHERS} more" if len(names) > _SHOWN_OTHERS else ""
    return [f"other experiments: {', '.join(names[:_SHOWN_OTHERS])}{more}"] if names else []


def _newest_experiment(tracker: Tracker) -> str:
    known = list_collections(tracker)
    if not known:
        raise TrackingError(f"no run has been tracked at {tracker.uri} yet; start with `labelscape run`.")
    return known[0].name
