"""Runs whose process was killed: Prefect's server marks them as crashed when their heartbeats stop.

A run sends a heartbeat every 30 s (`PREFECT_FLOWS_HEARTBEAT_FREQUENCY`, see `flows.prefect_settings`). An
automation of the server changes the state of a run that misses them; until then the run would block the next.
"""

from datetime import timedelta
from typing import Any

NAME = "labelscape: runs without heartbeats have crashed"
PATIENCE = timedelta(seconds=75)
"""Time without a heartbeat: two may be late or lost on the way."""
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "TimedOut", "Paused", "Suspended")
_OWN_ENDS = ("Cached", "Dropped")


def ensure_crash_detection(client: Any) -> None:
    """Create the automation, unless the server has it already."""
    if client.read_automations_by_name(NAME):
        return
    client.create_automation(make_automation())


def make_automation() -> Any:
    """An automation that marks flow runs as crashed after `PATIENCE` without a heartbeat."""
    from prefect.client.schemas.objects import StateType
    from prefect.events import Posture
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger

    beat = "prefect.flow-run.heartbeat"
    # The server itself sends this one: a run that is killed at once has not sent a heartbeat.
    start = "prefect.flow-run.Running"
    return AutomationCore(
        name=NAME,
        description="Created by labelscape serve and deploy.",
        trigger=EventTrigger(
            after={beat, start},
            expect={beat, *(f"prefect.flow-run.{name}" for name in (*_ENDS, *_OWN_ENDS))},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            # Not the runs of other programs on the same server.
            match_related={"prefect.resource.role": ["flow"], "prefect.resource.name": ["labelscape-*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=PATIENCE,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                message=f"no heartbeat for {PATIENCE.seconds} s: its process was killed, or could not reach "
                "the server. Finished stages are kept; the next run resumes.",
            )
        ],
    )
