"""`reproduce`: run the papers' tables and figures and compare with the published numbers."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from embedding_core.registry.method import did_you_mean
from flows.commands.options import Subparsers, add_command, read_default_config
from flows.config import RunConfig, find_home
from flows.experiments import ExperimentPlan, ExperimentResult
from flows.rerun import command_here
from flows.runner import Run, RunResult
from flows.summary import find_tracked, problem_lines
from flows.terminal import show
from storage.errors import ConfigError, LabelscapeError, ServiceDown, SourceError, StoreError
from storage.reference.sets import find_data_folder, is_original, locate, reference_sets
from tasks.report.tables import Table
from tasks.reporter import Reporter
from tasks.reproduce.against_plain import OUTCOMES, count_outcomes
from tasks.reproduce.catalog import experiments, get_experiment
from tasks.reproduce.comparison import IMPOSSIBLE, count_impossible, count_verdicts
from tasks.reproduce.experiment import Experiment
from tasks.reproduce.page import comparison_table, title_of

LIST, ALL, FETCH = "list", "all", "fetch"
_REMEDY = "repeat the command to track them."


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "reproduce", reproduce, json=True, staged=True)
    parser.add_argument(
        "name", metavar="NAME", help="an experiment, `list`, `all`, or `fetch` to download public data sets"
    )
    parser.add_argument("--quick", action="store_true", help="fewer trials: minutes instead of hours")
    parser.add_argument("--sets", metavar="A,B", help="comma-separated; use only these of its data sets")
    parser.add_argument("--data", metavar="DIR", help="folder of the data sets (default: LABELSCAPE_DATA)")


def reproduce(options: argparse.Namespace) -> int:
    """List the experiments, fetch public data, or run one experiment or all of them."""
    config = read_default_config(options)
    folder = find_data_folder(options.data, find_home(config), must_exist=options.name != FETCH)
    if options.name == LIST:
        return _list(folder, options.json)
    if options.name == FETCH:
        return _fetch(folder, options.json)
    ready: dict[str, Experiment] = {}
    failed: dict[str, str] = {}
    reporter = options.session.reporter
    for name in _names(options.name, options.sets):
        with _noting(name, failed, options):
            ready[name] = _available(get_experiment(name), folder, options.sets, reporter, options.quick)
    results = _run_all(ready, failed, options, folder, config)
    _conclude(results, failed, options)
    return 2 if failed else 0


def _names(name: str, sets: str | None) -> list[str]:
    """The named experiment, or all experiments that have at least one of the requested data sets."""
    named = list(experiments().values()) if name == ALL else [get_experiment(name)]
    asked = _split(sets)
    _check_sets(asked, list(dict.fromkeys(own for one in named for own in one.datasets)), name)
    return [one.name for one in named if not asked or one.only(asked).datasets]


def _split(sets: str | None) -> list[str]:
    return [name.strip() for name in sets.split(",")] if sets else []


def _check_sets(asked: Sequence[str], known: list[str], name: str) -> None:
    """Reject unknown data sets; otherwise they would be skipped silently."""
    for wrong in (one for one in asked if one not in known):
        there = "There are" if name == ALL else f"{name} has"
        near = did_you_mean(wrong, known)
        raise ConfigError(f"--sets {','.join(asked)}: no set {wrong!r}.{near} {there} {', '.join(known)}.")


@contextmanager
def _noting(name: str, failed: dict[str, str], options: argparse.Namespace) -> Iterator[None]:
    """With `all`, note an experiment that cannot run and report it at the end; otherwise raise the error."""
    try:
        yield
    except LabelscapeError as error:
        if options.name != ALL:
            raise
        failed[name] = str(error)


def _run_all(
    ready: Mapping[str, Experiment],
    failed: dict[str, str],
    options: argparse.Namespace,
    folder: Path,
    config: RunConfig,
) -> list[ExperimentResult]:
    """Run every experiment in turn and print its table."""
    results = []
    for number, (name, experiment) in enumerate(ready.items(), start=1):
        if len(ready) > 1:
            options.session.reporter.say(f"{name}, {number} of {len(ready)}")
        with _noting(name, failed, options):
            plan = ExperimentPlan(config, experiment, options.quick, folder)
            result = Run(plan, session=options.session).execute(options.verbose)
            results.append(result.products)
            if not options.json:
                show(_as_text(result, config))
    return results


def _available(
    experiment: Experiment, folder: Path, asked: str | None, reporter: Reporter, quick: bool = False
) -> Experiment:
    """The experiment on the requested data sets that exist; missing ones are reported."""
    wanted = _split(asked) or list((quick and experiment.quick_sets) or experiment.datasets)
    there = []
    problem: SourceError | None = None
    for name in experiment.only(wanted).datasets:
        try:
            locate(name, folder)
            there.append(name)
            if not is_original(name, folder):
                reporter.say_once(
                    f"{name}: not the file that the published results were computed from; results may differ."
                )
        except SourceError as error:
            problem = error
            reporter.say_once(f"skipped: {error}")
    if problem and not there:
        raise problem
    return experiment.only(there)


def _list(folder: Path, as_json: bool) -> int:
    """Print every experiment, and which of its data sets are missing."""
    records = [
        {
            "name": one.name,
            "shows": f"{one.where}: {one.title}",
            "paper": one.paper,
            "data": ", ".join(reference_sets()[name].title for name in one.datasets),
            "missing": ", ".join(name for name in one.datasets if not _is_there(name, folder)),
        }
        for one in experiments().values()
    ]
    if as_json:
        show(json.dumps(records, indent=2, ensure_ascii=False))
        return 0
    header = tuple(records[0])
    rows = tuple(tuple(record.values()) for record in records)
    show(Table(header, rows, texts=frozenset(range(len(header))), optional=(2, 3, 1)))
    show(f"\nFolder of the data sets: {folder} (choose another with --data or LABELSCAPE_DATA).")
    return 0


def _is_there(name: str, folder: Path) -> bool:
    try:
        return bool(locate(name, folder))
    except LabelscapeError:
        return False


def _fetch(folder: Path, as_json: bool) -> int:
    """Download the public data sets that are missing."""
    from storage.reference.fetch import fetch_set

    records: list[dict[str, str | None]] = []
    silent: dict[str, str] = {}
    files = {wanted.path: wanted for wanted in reversed(reference_sets().values()) if wanted.copy}
    for wanted in reversed(files.values()):
        if _is_there(wanted.name, folder):
            continue
        file, said, problem = str(folder / wanted.path), "", None
        try:
            if wanted.host in silent:  # do not wait again for a host that does not answer
                raise SourceError(silent[wanted.host])
            said = fetch_set(wanted, folder)
        except ServiceDown as error:
            problem = str(error)
            silent[wanted.host] = f"skipped: {wanted.host} does not answer."
        except (SourceError, StoreError) as error:
            problem = str(error)
        records.append({"name": wanted.name, "file": None if problem else file, "problem": problem})
        if not as_json:
            show(f"{wanted.title}: {problem or said}")
    if as_json:
        show(json.dumps(records, indent=2, ensure_ascii=False))
    elif not records:
        show(f"Every data set that can be downloaded is in {folder}.")
    return 2 if any(one["problem"] for one in records) else 0


def _as_text(result: RunResult[ExperimentResult], config: RunConfig) -> list[str | Table]:
    """The table of an experiment, and where its files are."""
    found, page = result.products, result.report
    assert page is not None
    table = comparison_table(found.experiment, found.rows)
    head: list[str | Table] = ["", title_of(found.experiment, found.quick), found.experiment.paper, ""]
    lines = [f"stages     {result.computed} computed", f"page       {page}"]
    lines += [f"figure     {file}" for file in sorted(page.parent.glob("*.png"))]
    tracked = find_tracked(result, found.tracked)
    if tracked:
        lines.append(f"tracked    run {tracked.parent_id[:8]} at {tracked.uri}")
    sync = command_here(config, "sync")
    problems = problem_lines(result.untracked, result.unrecorded, _REMEDY, sync)
    lines += [f"warning    {text}" for text in result.warnings]
    return [*head, table, "", *lines, *problems]


def _conclude(results: list[ExperimentResult], failed: dict[str, str], options: argparse.Namespace) -> None:
    """Print all results as JSON, or the summary of `all`."""
    if options.json:
        records = {one.name: [asdict(row) for row in one.rows] for one in results}
        show(json.dumps({"experiments": records, "failed": failed}, indent=2, ensure_ascii=False))
        return
    if options.name != ALL:
        return
    if results:
        show(["", _summary(results)])
    for one in results:
        if one.experiment.against_plain:
            show(["", _standing(one)])
    for name, problem in failed.items():
        show(f"\n{name} did not run: {problem}")


def _summary(results: Sequence[ExperimentResult]) -> Table:
    """Verdicts on printed cells, by experiment and in total."""
    verdicts = {one.name: count_verdicts(one.rows) for one in results}
    impossible = {one.name: count_impossible(one.rows) for one in results}
    counts = {
        name: [sum(found.values()), *found.values(), impossible[name]] for name, found in verdicts.items()
    }
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    lines = tuple((name, *map(str, own)) for name, own in counts.items())
    header = ("experiment", "printed cells", *count_verdicts([]), IMPOSSIBLE)
    caption = (
        f"{'quick runs, few trials: ' if results[0].quick else ''}verdicts under the paper's protocol; "
        f"{IMPOSSIBLE}: cells among them that are impossible under one reading of the paper"
    )
    return Table(header, lines, caption)


def _standing(result: ExperimentResult) -> Table:
    """On how many data sets each method is ahead of, level with or behind the best baseline."""
    counted = count_outcomes(result.experiment, result.rows)
    lines = tuple((method, *map(str, found.values())) for method, found in counted.items())
    plain = ", ".join(arm.title for arm in result.experiment.baselines)
    title = title_of(result.experiment, result.quick)
    return Table(("method", *OUTCOMES), lines, f"{title}; data sets by comparison with the best of {plain}")
