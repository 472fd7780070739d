"""The reproduce flow: an experiment of a paper as Prefect sees it."""

from pathlib import Path

from prefect import flow

from flows.config import RunConfig
from flows.reproduction import Told, reproduce_one
from flows.train import PrefectStages, anyhow, current_attempt
from tasks.reproduce.catalog import get_experiment


@flow(name="labelscape-reproduce", flow_run_name="{name}", persist_result=False)
def reproduce(name: str, quick: bool, folder: str, config: RunConfig) -> Told:
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
    """
    stages = PrefectStages()
    told: Told = current_attempt().run(
        reproduce_one, get_experiment(name), quick, Path(folder), config, stages
    )
    if stages.failure is not None:
        raise stages.failure
    return told


def reproduce_anyhow(name: str, quick: bool, folder: Path, config: RunConfig) -> Told:
    """Run the flow; where Prefect fails the results are had all the same."""
    told, _ = anyhow(
        lambda: reproduce(name, quick, str(folder), config),
        lambda: reproduce_one(get_experiment(name), quick, folder, config),
    )
    return told
