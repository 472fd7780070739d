"""`reproduce`: the papers' tables and figures, beside what the papers print."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from embedding_core.registry.method import did_you_mean
from flows.commands.engine import note_unrecorded, run_with_engine
from flows.commands.options import read_default_config
from flows.config import RunConfig, find_home
from flows.eta import current_forecast, forecasting
from flows.eta_outlook import MEASURING
from flows.experiments import Told, find_told, look_ahead, reproduce_one
from flows.rerun import command_here
from flows.summary import problem_lines
from flows.terminal import REPORTER, TerminalReporter, current_reporter, show
from storage.errors import ConfigError, LabelscapeError, ServiceDown, SourceError, StoreError
from storage.reference.sets import find_data_folder, is_original, locate, reference_sets
from storage.tracking.engine import redact
from tasks.report.tables import Table
from tasks.reproduce.catalog import experiments, get_experiment
from tasks.reproduce.comparison import IMPOSSIBLE, count_impossible, count_verdicts
from tasks.reproduce.experiment import Experiment
from tasks.reproduce.page import comparison_table, title_of
from tasks.reproduce.standing import STANDINGS, count_standings

LIST, ALL, FETCH = "list", "all", "fetch"
_REMEDY = "give the same command again to track them."


def reproduce(options: argparse.Namespace) -> int:
    """List the experiments, fetch public data, or run one experiment or all."""
    config = read_default_config(options)
    folder = find_data_folder(options.data, find_home(config), must_exist=options.name != FETCH)
    if options.name == LIST:
        return _list(folder, options.json)
    if options.name == FETCH:
        return _fetch(folder, options.json)
    REPORTER.set(TerminalReporter(quiet=options.json))
    names = _names(options.name, options.sets)
    ready: dict[str, Experiment] = {}
    failed: dict[str, str] = {}
    for name in names:
        with _noting(name, failed, options):
            ready[name] = _at_hand(get_experiment(name), folder, options.sets, options.quick)
    if len(ready) > 1:
        with forecasting(look_ahead(ready.values(), options.quick, folder, config)):
            told = _run_all(ready, failed, options, folder, config)
    else:
        told = _run_all(ready, failed, options, folder, config)
    _conclude(told, failed, options)
    return 2 if failed else 0


def _names(name: str, sets: str | None) -> list[str]:
    """The experiment that was named, or all; those without any of the asked sets are no part of all."""
    named = list(experiments().values()) if name == ALL else [get_experiment(name)]
    asked = _split(sets)
    _check_sets(asked, list(dict.fromkeys(own for one in named for own in one.datasets)), name)
    return [one.name for one in named if not asked or one.only(asked).datasets]


def _split(sets: str | None) -> list[str]:
    return [name.strip() for name in sets.split(",")] if sets else []


def _check_sets(asked: Sequence[str], known: list[str], name: str) -> None:
    """Refuse sets that are not there: an experiment without them would look as if they had been run."""
    for wrong in (one for one in asked if one not in known):
        there = "There are" if name == ALL else f"{name} has"
        near = did_you_mean(wrong, known)
        raise ConfigError(f"--sets {','.join(asked)}: no set {wrong!r}.{near} {there} {', '.join(known)}.")


@contextmanager
def _noting(name: str, failed: dict[str, str], options: argparse.Namespace) -> Iterator[None]:
    """Of all experiments one that cannot run is told at the end; one that was named is an error."""
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
) -> list[Told]:
    """Every experiment in turn; those ahead and when they will be done are told in between."""
    told = []
    for number, (name, experiment) in enumerate(ready.items(), start=1):
        forecast = current_forecast()
        if forecast:
            ahead = forecast.tell(datetime.now())
            current_reporter().say(f"{name}, {number} of {len(ready)}{f'; {ahead}' if ahead else ''}")
        with _noting(name, failed, options):
            told.append(_one(experiment, options, folder, config))
        if forecast:
            forecast.finish(label for label in forecast.ahead if label.startswith(f"{MEASURING}[{name}/"))
    return told


def _one(experiment: Experiment, options: argparse.Namespace, folder: Path, config: RunConfig) -> Told:
    told = find_told(experiment, options.quick, folder, config)
    told = told or _run(experiment, options.quick, folder, config, options.verbose)
    note_unrecorded(told)
    if not options.json:
        show(_as_text(told, config))
    return told


def _at_hand(experiment: Experiment, folder: Path, asked: str | None, quick: bool = False) -> Experiment:
    """The experiment on the sets that were asked for and are there; the others are told."""
    wanted = _split(asked) or list((quick and experiment.quick_sets) or experiment.datasets)
    there = []
    problem: SourceError | None = None
    for name in experiment.only(wanted).datasets:
        try:
            locate(name, folder)
            there.append(name)
            if not is_original(name, folder):
                current_reporter().say_once(f"{name}: not the file of the README's numbers; they may differ.")
        except SourceError as error:
            problem = error
            current_reporter().say_once(f"left out: {error}")
    if problem and not there:
        raise problem
    return experiment.only(there)


def _run(experiment: Experiment, quick: bool, folder: Path, config: RunConfig, verbose: bool) -> Told:
    """In a Prefect flow, or without one where its server does not answer."""

    def in_flow() -> Told:
        from flows.reproduce import reproduce_anyhow

        return reproduce_anyhow(experiment, quick, folder, config)

    return run_with_engine(config, verbose, in_flow, lambda: reproduce_one(experiment, quick, folder, config))


def _list(folder: Path, as_json: bool) -> int:
    """Every experiment, and whether its data are there."""
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
    show(f"\nData sets are looked for in {folder} (--data or LABELSCAPE_DATA name another folder).")
    return 0


def _is_there(name: str, folder: Path) -> bool:
    try:
        return bool(locate(name, folder))
    except LabelscapeError:
        return False


def _fetch(folder: Path, as_json: bool) -> int:
    """Get the public data sets that are not there yet."""
    from storage.reference.fetch import fetch_set

    records: list[dict[str, str | None]] = []
    silent: dict[str, str] = {}
    files = {wanted.path: wanted for wanted in reversed(reference_sets().values()) if wanted.copy}
    for wanted in reversed(files.values()):
        if _is_there(wanted.name, folder):
            continue
        file, said, problem = str(folder / wanted.path), "", None
        try:
            if wanted.host in silent:  # the others of a host would wait for the same network
                raise SourceError(silent[wanted.host])
            said = fetch_set(wanted, folder)
        except ServiceDown as error:
            problem = str(error)
            silent[wanted.host] = f"not asked for: {wanted.host} does not answer."
        except (SourceError, StoreError) as error:
            problem = str(error)
        records.append({"name": wanted.name, "file": None if problem else file, "problem": problem})
        if not as_json:
            show(f"{wanted.title}: {problem or said}")
    if as_json:
        show(json.dumps(records, indent=2, ensure_ascii=False))
    elif not records:
        show(f"every set that can be fetched is in {folder}.")
    return 2 if any(one["problem"] for one in records) else 0


def _as_text(told: Told, config: RunConfig) -> list[str | Table]:
    """The table of an experiment, and where its files are."""
    table = comparison_table(told.experiment, told.rows)
    sync = command_here(config, "sync")
    head: list[str | Table] = [
        "",
        title_of(told.experiment, told.quick),
        told.experiment.paper,
        "",
        table,
        "",
    ]
    lines = [f"stages     {told.computed} computed", f"page       {told.page}"]
    lines += [f"figure     {file}" for file in sorted(told.page.parent.glob("*.png"))]
    lines += (
        [f"tracked    run {told.tracked.parent_id[:8]} at {redact(told.tracked.uri)}"] if told.tracked else []
    )
    return [*head, *lines, *problem_lines(told.untracked, told.unrecorded, _REMEDY, sync)]


def _conclude(told: list[Told], failed: dict[str, str], options: argparse.Namespace) -> None:
    if options.json:
        records = {one.experiment.name: [asdict(row) for row in one.rows] for one in told}
        show(json.dumps({"experiments": records, "failed": failed}, indent=2, ensure_ascii=False))
        return
    if options.name != ALL:
        return
    if told:
        show(["", _summary(told)])
    for one in told:
        if one.experiment.against_plain:
            show(["", _standing(one)])
    for name, problem in failed.items():
        show(f"\n{name} did not run: {problem}")


def _summary(told: list[Told]) -> Table:
    """Verdicts on printed cells by experiment and in all."""
    verdicts = {one.experiment.name: count_verdicts(one.rows) for one in told}
    impossible = {one.experiment.name: count_impossible(one.rows) for one in told}
    counts = {
        name: [sum(found.values()), *found.values(), impossible[name]] for name, found in verdicts.items()
    }
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    lines = tuple((name, *map(str, own)) for name, own in counts.items())
    header = ("experiment", "printed cells", *count_verdicts([]), IMPOSSIBLE)
    caption = (
        f"{'quick runs, few trials: ' if told[0].quick else ''}verdicts under the paper's protocol; "
        f"{IMPOSSIBLE}: cells among them that cannot be under one reading of the paper's words"
    )
    return Table(header, lines, caption)


def _standing(told: Told) -> Table:
    """On how many sets each method is ahead of the best plain one, level with it, behind it."""
    counted = count_standings(told.experiment, told.rows)
    lines = tuple((method, *map(str, found.values())) for method, found in counted.items())
    plain = ", ".join(arm.title for arm in told.experiment.baselines)
    caption = f"{title_of(told.experiment, told.quick)}; sets by how a method stands to the best of {plain}"
    return Table(("method", *STANDINGS), lines, caption)
