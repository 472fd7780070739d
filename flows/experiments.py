"""Experiments of the papers, stage by stage. Needs no engine."""

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from flows.config import RunConfig
from flows.eta import Forecast, current_forecast
from flows.eta_outlook import MEASURING, TimedRunner, remember, work_of
from flows.pipeline import open_workspace
from flows.rerun import REPRODUCED, reproducing_words
from flows.runner import StageRunner, Submit, log_run, repairing
from flows.terminal import current_reporter
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from storage.errors import LabelscapeError, TrackingError
from storage.tracking.client import TrackedRun
from tasks.reproduce import report, trials
from tasks.reproduce.comparison import Row
from tasks.reproduce.datasets import open_dataset
from tasks.reproduce.experiment import Experiment
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages.tracking import PAPERS, load_tracked

Execute = Callable[[Stage], ArtifactRef | None]


@dataclass(frozen=True)
class Told:
    """What an experiment gave.

    Attributes
    ----------
    rows : list of Row
        The comparison.
    page : Path
        The Markdown page in the home folder.
    tracked : TrackedRun or None
        Its run in the tracker.
    run_id : str
        Its run in the store's log; empty where nothing had to run.
    computed : int
        Stages that were not in the store.
    untracked, unrecorded : str or None
        Why the tracker, or Prefect, does not know of it.
    """

    experiment: Experiment
    quick: bool
    rows: list[Row]
    page: Path
    store: ArtifactStore
    tracked: TrackedRun | None
    run_id: str = ""
    computed: int = 0
    untracked: str | None = None
    unrecorded: str | None = None


@dataclass(frozen=True)
class Products:
    """References to what an experiment made, and what it is called; None where something was not there."""

    name: str
    experiment: str
    cells: Mapping[tuple[str, str], ArtifactRef | None]
    report: ArtifactRef | None
    tracked: ArtifactRef | None


def walk(
    experiment: Experiment,
    quick: bool,
    folder: Path,
    config: RunConfig,
    workspace: Workspace,
    execute: Execute,
) -> Products:
    """Every stage of an experiment in turn; `execute` decides what becomes of it."""
    cells: dict[tuple[str, str], ArtifactRef | None] = {}
    sets = [open_dataset(name, folder, workspace, execute) for name in experiment.datasets]
    for data in sets:
        for arm in experiment.arms_on(data.name):
            cells[data.name, arm.title] = execute(trials.stage(experiment, arm, data, quick, workspace))
    command = shlex.join(["labelscape", *reproducing_words(experiment.name, quick, experiment.datasets)])
    page = execute(report.stage(experiment, quick, command, sets, cells, workspace))
    tracked = None
    if config.tracking.enabled:
        place = config.tracking.uri
        tracked = execute(report.tracking_stage(experiment, quick, place, page, cells, workspace))
    # Of each experiment `store gc` keeps the newest runs: quick ones are not to crowd out a full one.
    logged_under = f"{PAPERS} {experiment.name}{', quick' if quick else ''}"
    return Products(experiment.name, logged_under, cells, page, tracked)


def find_told(experiment: Experiment, quick: bool, folder: Path, config: RunConfig) -> Told | None:
    """What an earlier call left, where nothing of it has to be computed again."""
    workspace = open_workspace(config, current_reporter())

    def find(stage: Stage) -> ArtifactRef | None:
        ref = workspace.store.find(stage.recipe(), verify=True) if stage.ready else None
        return ref if ref is not None and stage.holds(ref) else None

    try:
        products = walk(experiment, quick, folder, config, workspace, find)
    except TrackingError:
        return None
    if products.report is None or (config.tracking.enabled and products.tracked is None):
        return None
    return _tell(experiment, quick, products, workspace)


def look_ahead(experiments: Iterable[Experiment], quick: bool, folder: Path, config: RunConfig) -> Forecast:
    """What experiments have to measure that is not in the store, and how long the like of it took."""
    workspace = open_workspace(config, current_reporter())
    untracked = config.model_copy(update={"tracking": config.tracking.model_copy(update={"enabled": False})})
    forecast, found = Forecast(), {}

    def look(stage: Stage) -> ArtifactRef | None:
        ref = workspace.store.find(stage.recipe()) if stage.ready else None
        if stage.name == MEASURING and ref is None:
            forecast.expect(work_of(stage.label, stage.variant, stage.params))
        elif stage.name == MEASURING and ref is not None:
            found[stage.label] = ref
        return ref

    for experiment in experiments:
        with suppress(LabelscapeError):  # it will be told when the experiment runs
            walk(experiment, quick, folder, untracked, workspace, look)
    remember(forecast, workspace.store, found)
    return forecast


def reproduce_one(
    experiment: Experiment, quick: bool, folder: Path, config: RunConfig, submit: Submit = run_stage
) -> Told:
    """Run an experiment as far as it has not been run, and keep a record of it."""
    workspace = open_workspace(config, current_reporter())
    forecast = current_forecast() or look_ahead([experiment], quick, folder, config)
    runner = TimedRunner(workspace, submit, forecast)
    begun = time.perf_counter()
    with workspace.store.in_use(workspace.reporter.say):
        products = repairing(workspace, lambda: walk(experiment, quick, folder, config, workspace, runner))
        told = _tell(experiment, quick, products, workspace, runner)
        known = {REPRODUCED: experiment.name, "quick": quick, "sets": list(experiment.datasets)}
        # What the tracker does not know yet the same command adds, not `sync`.
        run = log_run(str(folder), known, runner, products, None, time.perf_counter() - begun)
    return replace(told, run_id=run.id)


def _tell(
    experiment: Experiment,
    quick: bool,
    products: Products,
    workspace: Workspace,
    runner: StageRunner | None = None,
) -> Told:
    assert products.report is not None
    tracked = load_tracked(workspace.store, products.tracked) if products.tracked else None
    return Told(
        experiment=experiment,
        quick=quick,
        rows=report.load_rows(workspace.store, experiment, quick, products.cells),
        page=report.lay_out(experiment, quick, products.report, workspace),
        store=workspace.store,
        tracked=tracked,
        computed=sum(not record.cached for record in runner.records.values()) if runner else 0,
        untracked=runner.untracked if runner else None,
    )
