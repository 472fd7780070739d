"""Telling Prefect of a run that it did not see."""

from typing import Any

from prefect import Flow, get_client
from prefect.states import Completed

from flows.auto_flow import auto
from flows.prefect_flows import train
from flows.reproduce import reproduce
from flows.rerun import Kind, flow_parameters, kind_of
from storage.artifacts.run_log import LoggedRun

_FLOWS: dict[Kind, Flow[Any, Any]] = {"run": train, "auto": auto, "reproduce": reproduce}


def record_later(run: LoggedRun) -> str:
    """Record a run under its own flow; gives the id of the flow run.

    Its stages are not told of: tasks that nobody ran would be made up.
    """
    text = f"Run {run.id} of {run.created} without Prefect ({run.unrecorded}); recorded by `labelscape sync`."
    with get_client(sync_client=True) as client:
        found = client.create_flow_run(
            _FLOWS[kind_of(run)],
            name=f"{run.name}-{run.id}",
            parameters=flow_parameters(run),
            tags=["labelscape-sync"],
            state=Completed(message=text),
        )
    return str(found.id)
