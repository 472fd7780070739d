"""Running what a command asks for in a Prefect flow, or without one where its server does not answer."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from flows.config import RunConfig, find_home
from flows.prefect_engine import prepare_engine, starts_server
from flows.stores import open_store
from flows.terminal import current_reporter
from storage.artifacts.run_log import RunLog
from storage.errors import ServiceDown

if TYPE_CHECKING:
    from flows.auto import AutoResult
    from flows.experiments import Told
    from flows.runner import RunResult

# A dataclass with `unrecorded`: why Prefect does not know of the run.
Result = TypeVar("Result", bound=Any)


def run_with_engine(
    config: RunConfig, verbose: bool, in_flow: Callable[[], Result], plainly: Callable[[], Result]
) -> Result:
    """Prepare Prefect, then run `in_flow` (which imports it); `plainly` where no server answers."""
    reporter = current_reporter()
    with open_store(config).in_use(reporter.say):
        pass  # refused here and now where the store cannot be written, not after a server has started
    try:
        prepare_engine(find_home(config), verbose)
    except ServiceDown as error:
        reporter.say(f"{error} This run goes on without Prefect.")
        return replace(plainly(), unrecorded=str(error))
    if starts_server():
        reporter.say_once("starting Prefect for this run, 10 to 20 s (`labelscape up` keeps it running)")
    return in_flow()


def note_unrecorded(result: "RunResult | AutoResult | Told") -> None:
    """Keep why Prefect does not know of a run, so that `sync` tells it later."""
    if result.unrecorded:
        log = RunLog(result.store)
        log.update(replace(log.find(result.run_id), unrecorded=result.unrecorded))
