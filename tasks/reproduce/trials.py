"""Stage that runs the trials of one method on one data set."""

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from embedding_core.protocols.trial import Arm, TrialData
from embedding_core.registry import METHODS
from embedding_core.registry.method import Method
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import TrialCell, pack_cells, unpack_cells
from storage.artifacts.store import ArtifactStore
from tasks.executor import StoreHandle
from tasks.reproduce.datasets import DatasetRef, load_trial_data
from tasks.reproduce.experiment import TRIALS, Experiment
from tasks.stage import Stage, Workspace

if TYPE_CHECKING:
    from embedding_core.protocols.trial import Cell


@dataclass(frozen=True)
class Trial:
    """One trial as a job: the data by reference, the protocol, the method and the trial's number."""

    store: StoreHandle
    data: DatasetRef
    protocol: str
    arm: Arm
    settings: Mapping[str, Any]
    preprocessing: str
    number: int

    @property
    def title(self) -> str:
        """The trial in words, for messages."""
        return f"{self.arm.title} on {self.data.name}, trial {self.number + 1}"


def stage(experiment: Experiment, arm: Arm, data: DatasetRef, quick: bool, workspace: Workspace) -> Stage:
    """Stage of all cells of one method on one data set."""
    settings = experiment.settings(data.name, quick)
    methods = used_methods(arm, settings)
    return Stage(
        name="reproduce",
        variant=f"{experiment.name}/{data.name}/{arm.title}",
        code=(experiment.protocol, *(method.module for method in methods)),
        params={
            "arm": {**asdict(arm), "title": "", "params": dict(arm.params), "role": ""},
            "methods": [method.facts() for method in methods],
            "preprocessing": list(experiment.preprocessing_of(arm, data.name)),
            "settings": settings,
            "part": data.part,
        },
        inputs=data.inputs(workspace.store),
        produce=lambda: _measure(experiment, arm, settings, data, workspace),
    )


def used_methods(arm: Arm, settings: Mapping[str, Any]) -> list[Method]:
    """Registered methods that a trial runs: that of the arm, and those named in the protocol's settings."""
    named = (method for method, _ in settings.get("methods", {}).values())
    return [METHODS[name] for name in dict.fromkeys([arm.method, *named]) if name in METHODS]


def load_cells(store: ArtifactStore, ref: ArtifactRef) -> list[TrialCell]:
    """Every cell of one stage."""
    return unpack_cells(store.read(ref))


def _measure(
    experiment: Experiment, arm: Arm, settings: Mapping[str, Any], data: DatasetRef, workspace: Workspace
) -> Artifact:
    importlib.import_module(experiment.protocol)  # loaded before the executor limits its threads
    store = StoreHandle(workspace.store)
    for number in range(len(data.learned) or 1):
        _trial_data(
            workspace.store, data, number
        )  # a shared store copies the artifacts to where workers read them
    jobs = [
        Trial(store, data, experiment.protocol, arm, settings, preprocessing, number)
        for number in range(settings[TRIALS])
        for preprocessing in experiment.preprocessing_of(arm, data.name)
    ]
    rows: list[TrialCell] = []
    with workspace.reporter.progress(f"{experiment.name} {data.name} {arm.title}", len(jobs)) as advance:
        # Small problems hold Python's lock most of the time, so threads would not run in parallel.
        found = workspace.executor.map(run_trial, jobs, prefer="processes" if len(jobs) > 1 else "threads")
        for done, (job, cells) in enumerate(zip(jobs, found, strict=True), start=1):
            rows += [
                TrialCell(cell.condition, job.preprocessing, cell.metric, job.number, cell.value)
                for cell in cells
            ]
            advance(done)
    return pack_cells(rows)


def run_trial(job: Trial) -> "list[Cell]":
    """Cells of one trial."""
    protocol = importlib.import_module(job.protocol)
    data = _trial_data(job.store.store, job.data, job.number if job.data.learned else 0)
    cells: list[Cell] = protocol.trial(data, job.arm, job.settings, job.preprocessing, job.number)
    return cells


@lru_cache(maxsize=1)
def _trial_data(store: ArtifactStore, data: DatasetRef, number: int) -> TrialData:
    return load_trial_data(store, data, number)
