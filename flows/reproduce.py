"""The reproduce flow: an experiment of a paper as Prefect sees it."""

from pathlib import Path

from prefect import flow

from flows.config import RunConfig
from flows.experiments import Told, reproduce_one
from flows.prefect_flows import run_anyhow, run_in_flow
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
        Only home, executor and tracking are used.
    sets : list of str
        Data sets of the experiment to run it on.
    """
    experiment = get_experiment(name).only(sets)
    return run_in_flow(lambda stages, tags: reproduce_one(experiment, quick, Path(folder), config, stages))


def reproduce_anyhow(experiment: Experiment, quick: bool, folder: Path, config: RunConfig) -> Told:
    """Run the flow; where Prefect fails the results are had all the same."""
    return run_anyhow(
        lambda: reproduce(experiment.name, quick, str(folder), config, list(experiment.datasets)),
        lambda: reproduce_one(experiment, quick, folder, config),
    )
