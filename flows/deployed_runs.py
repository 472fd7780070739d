"""What every run of a deployment does around its work: checks, late runs, notices; uses Prefect's API.

After an outage, or while a long run is active, scheduled runs become late. One of them is enough: it sees the
present state of the source. The run that starts first therefore skips the others.
"""

import contextlib
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from flows.config import RunConfig
from flows.deployed_places import check_places
from flows.interrupts import Interrupts
from flows.notifications import Notice, collection_name, send
from storage.credentials import hide_secrets
from tasks.safe_text import printable

SKIPPED = "Skipped"
_AT_ONCE = 100


@contextlib.contextmanager
def deployed_run(config: RunConfig) -> Iterator[None]:
    """Surround the work of a deployed run; an error is reported as the settings `notify.*` say."""
    check_places(config)
    _tidy(config)
    try:
        with Interrupts(_last_words).watching():
            yield
    except Exception as error:
        text = printable(hide_secrets(f"{type(error).__name__}: {error}"))
        send(config, Notice("failure", collection_name(config), text, _facts()), _warn)
        raise


def _last_words(number: int) -> str:
    """What a deployed run prints when a signal ends it during a stage."""
    return f"stopped by {signal.Signals(number).name}; finished stages are kept, and the next run resumes."


def _tidy(config: RunConfig) -> None:
    """Skip late runs of this deployment, and report if the run before this one crashed."""
    from prefect.runtime import deployment, flow_run

    if deployment.id is None or flow_run.id is None:
        return
    try:
        skip_late_runs(str(deployment.id), str(flow_run.id))
        crashed = find_crash(str(deployment.id))
    except Exception as error:  # the work of this run does not depend on it
        _warn(f"late runs were not looked for: {hide_secrets(str(error))}")
        return
    if crashed:
        text = f"the run before this one crashed; this run resumes it. {crashed}"
        send(config, Notice("failure", collection_name(config), text, _facts()), _warn)


def skip_late_runs(deployment_id: str, own_id: str) -> int:
    """Cancel the runs of a deployment that are due and would only repeat this one; return their number.

    Runs that a person started, or that have other parameters, stay.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelled

    skipped = 0
    with get_client(sync_client=True) as client:
        own = client.read_flow_run(UUID(own_id))
        message = f"skipped: {own.name} started first and sees the same state of the source"
        for run in _late_runs(client, deployment_id):
            if run.id != own.id and run.parameters == own.parameters and _is_automatic(run):
                client.set_flow_run_state(run.id, Cancelled(name=SKIPPED, message=message), force=True)
                skipped += 1
    return skipped


def _late_runs(client: Any, deployment_id: str) -> list[Any]:
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType

    known: dict[Any, Any] = {}
    state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
    chosen, this = filters.FlowRunFilter(state=state), _this(deployment_id)
    for offset in range(0, 100 * _AT_ONCE, _AT_ONCE):
        found = client.read_flow_runs(
            deployment_filter=this, flow_run_filter=chosen, limit=_AT_ONCE, offset=offset
        )
        known |= {run.id: run for run in found}
        if len(found) < _AT_ONCE:
            break
    return [run for run in known.values() if _due(run) <= datetime.now(UTC)]


def _due(run: Any) -> datetime:
    """When a run should have started; one that waits for another has got a later time since."""
    times = [time for time in (run.expected_start_time, run.next_scheduled_start_time) if time]
    return min(times, default=datetime.max.replace(tzinfo=UTC))


def _is_automatic(run: Any) -> bool:
    """Whether a schedule or an automation created a run."""
    return bool(run.auto_scheduled or (run.created_by and run.created_by.type == "AUTOMATION"))


def find_crash(deployment_id: str) -> str | None:
    """The message of the last run of a deployment that has ended, if it crashed."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import TERMINAL_STATES, StateType
    from prefect.client.schemas.sorting import FlowRunSort

    ended = filters.FlowRunFilter(
        state=filters.FlowRunFilterState(
            type=filters.FlowRunFilterStateType(any_=list(TERMINAL_STATES)),
            name=filters.FlowRunFilterStateName(not_any_=[SKIPPED]),
        )
    )
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(
            deployment_filter=_this(deployment_id),
            flow_run_filter=ended,
            sort=FlowRunSort.END_TIME_DESC,
            limit=1,
        )
    if not found or found[0].state is None or found[0].state.type != StateType.CRASHED:
        return None
    return printable(hide_secrets(f"{found[0].name}: {found[0].state.message or 'no message'}"))


def _this(deployment_id: str) -> Any:
    from prefect.client.schemas import filters

    return filters.DeploymentFilter(id=filters.DeploymentFilterId(any_=[UUID(deployment_id)]))


def _facts() -> dict[str, str]:
    from prefect.runtime import flow_run

    return {"flow_run": str(flow_run.id), "flow_run_name": str(flow_run.name)}


def _warn(text: str) -> None:
    from prefect import get_run_logger

    get_run_logger().warning(text)
