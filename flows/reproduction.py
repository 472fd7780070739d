"""Experiments of the papers, stage by stage. Needs no engine."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from flows.config import RunConfig
from flows.pipeline import open_workspace
from flows.repeating import REPRODUCED
from flows.stages import Span
from flows.terminal import current_reporter
from flows.training import StageRunner, Submit, log_run, repairing
from storage.errors import TrackingError
from storage.keys import ArtifactRef
from storage.store import Outcome, Store
from storage.tracking import TrackedRun
from tasks.reproduce import report, trials
from tasks.reproduce.comparison import Row
from tasks.reproduce.datasets import open_dataset
from tasks.reproduce.experiment import TRIALS, Experiment
from tasks.stage import Stage, Workspace, run_stage
from tasks.tracking import PAPERS, load_tracked

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
    store: Store
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
    page = execute(report.stage(experiment, quick, sets, cells, workspace))
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


def reproduce_one(
    experiment: Experiment, quick: bool, folder: Path, config: RunConfig, submit: Submit = run_stage
) -> Told:
    """Run an experiment as far as it has not been run, and keep a record of it."""
    workspace = open_workspace(config, current_reporter())
    runner = TimedRunner(workspace, submit, _pieces(experiment, quick))
    begun = time.perf_counter()
    with workspace.store.in_use(workspace.reporter.say):
        products = repairing(workspace, lambda: walk(experiment, quick, folder, config, workspace, runner))
        told = _tell(experiment, quick, products, workspace, runner)
        known = {REPRODUCED: experiment.name, "quick": quick, "sets": list(experiment.datasets)}
        # What the tracker does not know yet the same command adds, not `sync`.
        run = log_run(str(folder), known, runner, products, None, time.perf_counter() - begun)
    return replace(told, run_id=run.id)


def _pieces(experiment: Experiment, quick: bool) -> dict[str, int]:
    """How many trials each stage has, by the stage's label: the finishing time is reckoned in trials."""
    return {
        f"reproduce[{experiment.name}/{dataset}/{arm.title}]": experiment.settings(dataset, quick)[TRIALS]
        * len(experiment.preprocessing_of(arm, dataset))
        for dataset in experiment.datasets
        for arm in experiment.arms
    }


class TimedRunner(StageRunner):
    """Executes stages and says when the experiment will be finished, at the pace of the trials so far."""

    def __init__(self, workspace: Workspace, submit: Submit, pieces: Mapping[str, int]) -> None:
        super().__init__(workspace, Span([]), {}, submit)
        self._pieces = pieces
        self._left = sum(pieces.values())
        self._computed = 0
        self._seconds = 0.0

    def _remark(self, stage: Stage, outcome: Outcome) -> str:
        done = self._pieces.get(stage.label, 0)
        self._left -= done
        if not outcome.cached:
            self._computed += done
            self._seconds += outcome.seconds if done else 0.0
        if not (done and self._computed and self._left):
            return ""
        finish = datetime.now() + timedelta(seconds=self._seconds / self._computed * self._left)
        return f"; {self._left} trials left, done about {finish:%H:%M:%S}"


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
