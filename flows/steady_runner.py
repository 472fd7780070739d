"""Prefect's runner and worker, made to wait for a server that is away; importing this module imports Prefect.

`python -m flows.steady_runner worker start ...` is the command `prefect worker start ...` with that patience.
"""

import logging
from datetime import datetime
from functools import partial
from typing import Any, Self

import httpx
from prefect._internal import observers
from prefect.logging.loggers import get_logger
from prefect.runner import Runner, _scheduled_run_poller
from prefect.utilities import services
from prefect.workers import base

from flows.terminal import tell

# Failed requests in a row after which Prefect gives up: polling every 10 s, more than a week.
_FAILURES = 100_000


def keep_trying() -> None:
    """Let the polls of runner, worker and cancellation in this process go on when requests fail."""
    patient = partial(services.critical_service_loop, consecutive=_FAILURES)
    for module in (_scheduled_run_poller, observers, base):
        module.critical_service_loop = patient  # type: ignore[attr-defined]
    # It polls where its events end, and says so with a traceback of the lost connection.
    get_logger("FlowRunCancellingObserver").addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Let a message pass, without its traceback."""
    record.exc_info = None
    return True


class SteadyRunner(Runner):
    """A runner that keeps polling while the server is away; Prefect's own ends after three failed polls."""

    async def __aenter__(self) -> Self:
        """Start, with a poll that says when the server goes away and comes back."""
        keep_trying()
        await super().__aenter__()
        poller: Any = self._scheduled_run_poller
        poll = poller._get_and_submit_flow_runs
        away = False

        async def poll_patiently(*arguments: Any, **options: Any) -> None:
            nonlocal away
            try:
                await poll(*arguments, **options)
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
                    raise
                if not away:
                    tell(
                        f"{_now()}  Prefect's server does not answer ({type(error).__name__}); waiting for it"
                    )
                away = True
            else:
                if away:
                    tell(f"{_now()}  Prefect's server answers again")
                away = False

        poller._get_and_submit_flow_runs = poll_patiently
        return self


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


if __name__ == "__main__":
    from prefect.cli import app

    keep_trying()
    app()
