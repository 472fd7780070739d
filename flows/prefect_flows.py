"""The train flow: a run as Prefect sees it, and what becomes of a run when Prefect fails."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed, State
from prefect.utilities.annotations import quote

from embedding_core.errors import InvalidInput
from flows.config import RunConfig
from flows.prefect_engine import abandon
from flows.runner import RunResult, run_training
from flows.stages import Span
from flows.terminal import current_reporter
from storage.artifacts.store import Outcome
from storage.errors import LabelscapeError
from tasks.stage import Stage, Workspace, run_stage


@dataclass
class Attempt:
    """How far a piece of work came, whatever the engine around it makes of that.

    An interrupt counts as an error too: it may reach a server of Prefect's as well, and then what the flow
    ends with is that nobody answers.
    """

    result: Any = None
    error: BaseException | None = None

    def run(self, work: Any, *arguments: Any) -> Any:
        """Do it, and keep what came of it."""
        try:
            self.result = work(*arguments)
        except BaseException as error:
            self.error = error
            raise
        return self.result


# A dataclass with `unrecorded`: why Prefect does not know of the run.
Result = TypeVar("Result", bound=Any)
_ATTEMPT: ContextVar[Attempt] = ContextVar("labelscape_attempt")


@task(cache_policy=NO_CACHE, persist_result=False)
def compute_stage(
    stage: Stage, workspace: Workspace, force: bool, attempt: Attempt
) -> Outcome | State[Outcome]:
    """One stage as a Prefect task; a stage taken from the store ends in the state `Cached`."""
    outcome: Outcome = attempt.run(run_stage, stage, workspace, force)
    return Completed(data=outcome, name="Cached") if outcome.cached else outcome


@dataclass
class PrefectStages:
    """Runs stages as Prefect tasks, and by themselves from the moment that Prefect fails.

    Attributes
    ----------
    failure : Exception or None
        What Prefect failed with.
    """

    failure: Exception | None = field(default=None)

    def __call__(self, stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        """Run one stage."""
        if self.failure is not None:
            return run_stage(stage, workspace, force)
        named = compute_stage.with_options(name=stage.name, task_run_name=stage.label)
        attempt = Attempt()
        # Quoted, so that Prefect does not search them for results of other tasks.
        arguments: tuple[Any, ...] = (quote(stage), quote(workspace), force, quote(attempt))
        try:
            answer = named(*arguments)
            return answer.result() if isinstance(answer, State) else answer
        except Exception as error:
            if attempt.error is not None:
                raise attempt.error from None
            self.failure = error
            return attempt.result or run_stage(stage, workspace, force)


@flow(name="labelscape-train", validate_parameters=True, persist_result=False)
def train(
    config: RunConfig,
    refresh: list[str] | None = None,
    until: str | None = None,
    since: str | None = None,
    done: list[str] | None = None,
) -> RunResult:
    """Run every stage on the configured collection and track the result.

    Parameters
    ----------
    config : RunConfig
        The typed configuration; a server checks it against its schema.
    refresh : list of str, optional
        Stages to compute again even where the store has them.
    until : str, optional
        Last stage to run.
    since : str, optional
        Stage to compute again; those before it are taken as the last run left them.
    done : list of str, optional
        Labels of stages that were computed again already.
    """
    span = Span(refresh or [], since, until, done or [])
    return run_in_flow(lambda stages, tags: run_training(config, span, stages, tags))


def run_in_flow(work: Callable[[PrefectStages, dict[str, str]], Result]) -> Result:
    """The body of a flow: work whose stages are Prefect's tasks; Prefect's failure fails the flow."""
    tags = {"prefect.flow_run_id": str(flow_run.id), "prefect.flow_run_name": str(flow_run.name)}
    stages = PrefectStages()
    result: Result = _ATTEMPT.get(Attempt()).run(work, stages, tags)
    if stages.failure is not None:
        raise stages.failure
    return result


def train_anyhow(config: RunConfig, span: Span) -> RunResult:
    """Run the flow, and without Prefect where that fails."""
    return run_anyhow(
        lambda: train(config, refresh=span.refresh, until=span.until, since=span.since, done=span.done),
        lambda: run_training(config, span),
    )


def run_anyhow(in_flow: Callable[[], Result], plainly: Callable[[], Result]) -> Result:
    """Run a flow; where Prefect fails before, during or after it, the results are had all the same."""
    attempt = Attempt()
    token = _ATTEMPT.set(attempt)
    try:
        return in_flow()
    except Exception as error:
        if attempt.error is not None:
            raise attempt.error from None
        if isinstance(error, (LabelscapeError, InvalidInput)):
            raise
        reason = f"Prefect failed ({type(error).__name__}: {error})"
        current_reporter().say(f"{reason}; this run goes on without it.")
        abandon()
        result: Result = attempt.result or plainly()
        return replace(result, unrecorded=reason)
    finally:
        _ATTEMPT.reset(token)
