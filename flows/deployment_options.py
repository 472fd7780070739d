"""What deployments of labelscape have in common: one run at a time, triggers, detection of crashes."""

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.crash_detection import ensure_crash_detection
from flows.notifications import collection_resource
from storage.servers import find_login, token_path

CHANGED_EVENT = "labelscape.changed"
"""Event that starts the deployments of a collection; any program may send it."""


def one_at_a_time(config: Mapping[str, Any]) -> Any:
    """The limit of a deployment: one run at a time; one that becomes due meanwhile waits, or is skipped.

    A run that waited finds most stages fresh. See `flows.deployed_runs` for several that wait.
    """
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy

    waits = overlap_of(config) == "wait"
    strategy = ConcurrencyLimitStrategy.ENQUEUE if waits else ConcurrencyLimitStrategy.CANCEL_NEW
    return ConcurrencyLimitConfig(limit=1, collision_strategy=strategy)


def overlap_of(config: Mapping[str, Any]) -> str:
    """The setting `schedule.overlap` of the parameters of a flow."""
    return str((config.get("schedule") or {}).get("overlap", "wait"))


def make_runner(name: str, config: Mapping[str, Any]) -> Any:
    """A runner for a deployment; it survives a server that goes away."""
    from flows.steady_runner import SteadyRunner

    # The server can only cancel a run that the runner has submitted.
    limit = 1 if overlap_of(config) == "wait" else 5
    return SteadyRunner(name=name, pause_on_shutdown=False, limit=limit)


def make_triggers(flow: str, name: str, on_change: bool) -> list[Any]:
    """Triggers of a deployment: the event that the collection has changed, if that is wanted."""
    if not on_change:
        return []
    from prefect.events import DeploymentEventTrigger

    return [
        DeploymentEventTrigger(
            name=f"{flow}/{name} on change",
            expect={CHANGED_EVENT},
            match={"prefect.resource.id": collection_resource(name)},
        )
    ]


def how_to_start(flow: str, name: str, on_change: bool, home: Path, api: str) -> str:
    """Commands that start a deployment, one per line: now, and by an event if a trigger waits for it."""
    # A shell knows neither the address of the server of `labelscape up` nor its token.
    token = f'PREFECT_API_AUTH_STRING="$(cat {shlex.quote(str(token_path(home)))})" '
    login = f"PREFECT_API_URL={api} {token}" if find_login(home, api) else ""
    run = shlex.join(["prefect", "deployment", "run", f"{flow}/{name}"])
    event = shlex.join(
        ["prefect", "events", "emit", CHANGED_EVENT, "--resource-id", collection_resource(name)]
    )
    lines = [f"run it now:  {login}{run}"]
    lines += [f"start it by an event:  {login}{event}"] if on_change else []
    return "\n".join(lines)


def detect_crashes() -> None:
    """Let the server mark runs as crashed whose process was killed; one without automations does not."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    with contextlib.suppress(PrefectHTTPStatusError), get_client(sync_client=True) as client:
        ensure_crash_detection(client)
