"""The reproduce flow: an experiment of a paper as Prefect sees it."""

from pathlib import Path

from prefect import flow

from flows.config import RunConfig
from flows.reproduction import Told, reproduce_one
from flows.train import PrefectStages, anyhow, current_attempt
from tasks.reproduce.catalog import get_experiment
from tasks.reproduce.experiment import Experiment


@flow(name="labelscape-reproduce", flow_run_name="{name}", persist_result=False)
def reproduce(name: str, quick: bool, folder: str, config: RunConfig, sets: list[str]) -> Told:
    """Run one experiment; every stage of it is a task.

    Parameters
    ----------
    name : str
        The experiment, see `labelscape reproduce list`.
    quick : bool
        Fewer trials.
    folder : str
        Where the data sets lie.
    config : RunConfig
        Home, workers and tracking alone count.
    sets : list of str
        Data sets of the experiment to run it on.
    """
    stages = PrefectStages()
    told: Told = current_attempt().run(
        reproduce_one, get_experiment(name).only(sets), quick, Path(folder), config, stages
    )
    if stages.failure is not None:
        raise stages.failure
    return told


def reproduce_anyhow(experiment: Experiment, quick: bool, folder: Path, config: RunConfig) -> Told:
    """Run the flow; where Prefect fails the results are had all the same."""
    told, _ = anyhow(
        lambda: reproduce(experiment.name, quick, str(folder), config, list(experiment.datasets)),
        lambda: reproduce_one(experiment, quick, folder, config),
    )
    return told
