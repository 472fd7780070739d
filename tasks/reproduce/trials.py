"""The trials of one method on one data set, side by side in processes, as one stage."""

import importlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from embedding_core.protocols.trial import Arm, TrialData
from embedding_core.registry import METHODS
from embedding_core.registry.method import Method
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import TrialCell, pack_cells, unpack_cells
from storage.artifacts.store import Artifact, ArtifactStore
from tasks.reproduce.datasets import DatasetRef, load_trial_data
from tasks.reproduce.experiment import TRIALS, Experiment
from tasks.stage import Stage, Workspace

if TYPE_CHECKING:
    from embedding_core.protocols.trial import Cell


@dataclass(frozen=True)
class Trial:
    """One piece of work: a protocol, an arm, a preprocessing, a number."""

    protocol: str
    arm: Arm
    settings: Mapping[str, Any]
    preprocessing: str
    number: int


def stage(experiment: Experiment, arm: Arm, data: DatasetRef, quick: bool, workspace: Workspace) -> Stage:
    """Every cell of one arm on one data set."""
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
    """Methods of the registry that a trial runs: the arm's, and those that the protocol's settings name."""
    named = (method for method, _ in settings.get("methods", {}).values())
    return [METHODS[name] for name in dict.fromkeys([arm.method, *named]) if name in METHODS]


def load_cells(store: ArtifactStore, ref: ArtifactRef) -> list[TrialCell]:
    """Every cell of one stage."""
    return unpack_cells(store.read(ref))


def _measure(
    experiment: Experiment, arm: Arm, settings: Mapping[str, Any], data: DatasetRef, workspace: Workspace
) -> Artifact:
    work = [
        Trial(experiment.protocol, arm, settings, preprocessing, number)
        for number in range(settings[TRIALS])
        for preprocessing in experiment.preprocessing_of(arm, data.name)
    ]
    rows: list[TrialCell] = []
    title = f"{experiment.name} {data.name} {arm.title}"
    with workspace.reporter.progress(title, len(work)) as advance:
        found = run_trials(work, load_trial_data(workspace.store, data), workspace.n_threads)
        for done, (one, cells) in enumerate(zip(work, found, strict=True), start=1):
            rows += [
                TrialCell(cell.condition, one.preprocessing, cell.metric, one.number, cell.value)
                for cell in cells
            ]
            advance(done)
    return pack_cells(rows)


def run_trials(work: list[Trial], data: TrialData, n_workers: int) -> "Iterator[list[Cell]]":
    """Cells of each trial in turn; several workers are processes, which later stages use again."""
    from joblib import Parallel, delayed

    # Small problems hold Python's lock most of the time, so that threads would take turns.
    pool = Parallel(n_jobs=min(n_workers, len(work)), backend="loky", return_as="generator")
    for cells, told in pool(delayed(run_trial)(one, data) for one in work):
        for text in told:
            warnings.warn(text, UserWarning, stacklevel=2)
        yield cells


def run_trial(one: Trial, data: TrialData) -> "tuple[list[Cell], list[str]]":
    """Cells of one trial, and the warnings it gave: those of another process would be lost."""
    from threadpoolctl import threadpool_limits

    protocol = importlib.import_module(one.protocol)
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        cells = protocol.trial(data, one.arm, one.settings, one.preprocessing, one.number)
    return cells, list(dict.fromkeys(str(warning.message) for warning in caught))
