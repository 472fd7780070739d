"""The plan of `labelscape reproduce`: the stages of one experiment of a paper."""

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flows.rerun import REPRODUCED, reproducing_words
from flows.runner import Plan
from flows.stages import StageRunner
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind, LoggedRun
from tasks.budget import format_duration
from tasks.reporter import Reporter
from tasks.reproduce import report, trials
from tasks.reproduce.comparison import Row
from tasks.reproduce.datasets import open_dataset
from tasks.reproduce.experiment import Experiment
from tasks.stage import Workspace
from tasks.stages.tracking import PAPERS

# Minimum number of seconds between two reports of progress.
_PROGRESS_SECONDS = 2.0


@dataclass(frozen=True)
class ExperimentResult:
    """References to what an experiment made, and its comparison with the paper.

    Attributes
    ----------
    cells : mapping
        The measurements by data set and arm.
    rows : list of Row
        The comparison.
    report : ArtifactRef
        Table and figures.
    tracked : ArtifactRef or None
        The record of the tracked run.
    """

    experiment: Experiment
    quick: bool
    cells: Mapping[tuple[str, str], ArtifactRef | None]
    rows: list[Row]
    report: ArtifactRef
    tracked: ArtifactRef | None
    shown: ClassVar[tuple[ArtifactRef, ...]] = ()

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self.experiment.name

    @property
    def experiment_name(self) -> str:
        """Quick runs are logged separately: `store gc` keeps the newest runs of each experiment."""
        return f"{PAPERS} {self.name}{', quick' if self.quick else ''}"


@dataclass(frozen=True)
class ExperimentPlan(Plan[ExperimentResult]):
    """One experiment on the data sets in a folder.

    Attributes
    ----------
    config : RunConfig
        Only home, store, executor and tracking are used.
    experiment : Experiment
    quick : bool
        Fewer trials.
    folder : Path
        Folder of the data sets.
    """

    experiment: Experiment
    quick: bool
    folder: Path
    kind: ClassVar[Kind] = "reproduce"
    keeps_last_run: ClassVar[bool] = False

    @property
    def source(self) -> str:
        """The folder of the data sets."""
        return str(self.folder)

    @property
    def flow_run_name(self) -> str:
        """Name of the experiment."""
        return self.experiment.name

    def settings(self) -> dict[str, Any]:
        """Experiment, mode and data sets."""
        return {REPRODUCED: self.experiment.name, "quick": self.quick, "sets": list(self.experiment.datasets)}

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> ExperimentResult:
        """Open the data sets, measure every arm on each, write the page and track it."""
        experiment, quick, workspace = self.experiment, self.quick, stages.workspace
        sets = [
            open_dataset(name, self.folder, workspace, stages, experiment.draws(name, quick))
            for name in experiment.datasets
        ]
        pairs = [(data, arm) for data in sets for arm in experiment.arms_on(data.name)]
        progress = MeasuringProgress(len(pairs), workspace.reporter)
        cells: dict[tuple[str, str], ArtifactRef | None] = {}
        for data, arm in pairs:
            stage = trials.stage(experiment, arm, data, quick, workspace)
            cells[data.name, arm.title] = stages(stage)
            progress.advance(computed=not stages.records[stage.label].cached)
        command = shlex.join(["labelscape", *reproducing_words(experiment.name, quick, experiment.datasets)])
        page = stages(report.stage(experiment, quick, command, sets, cells, workspace))
        assert page is not None
        tracked = None
        if self.config.tracking.enabled:
            uri = self.config.tracking.uri
            tracked = stages(report.tracking_stage(experiment, quick, uri, page, cells, workspace))
        rows = report.load_rows(workspace.store, experiment, quick, cells)
        return ExperimentResult(experiment, quick, cells, rows, page, tracked)

    def publish(self, products: ExperimentResult, run: LoggedRun, workspace: Workspace) -> Path:
        """Write the Markdown page and its figures."""
        return report.lay_out(self.experiment, self.quick, products.report, workspace)


class MeasuringProgress:
    """Reports how many measurements are done, and an ETA from the mean time of the computed ones."""

    def __init__(self, total: int, reporter: Reporter) -> None:
        self._total = total
        self._reporter = reporter
        self._done = self._computed = 0
        self._started = self._reported = time.monotonic()

    def advance(self, computed: bool) -> None:
        """Count one more measurement; those from the store do not enter the ETA."""
        self._done += 1
        self._computed += computed
        now, left = time.monotonic(), self._total - self._done
        if computed and left and now - self._reported >= _PROGRESS_SECONDS:
            self._reported = now
            eta = format_duration((now - self._started) / self._computed * left)
            self._reporter.say(f"  {self._done} of {self._total} measured, ETA {eta}")
