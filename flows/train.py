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
from flows.engine import abandon
from flows.stages import Span
from flows.terminal import current_reporter
from flows.training import RunResult, run_training
from storage.errors import LabelscapeError
from storage.store import Outcome
from tasks.stage import Stage, Workspace, run_stage

Result = TypeVar("Result")


@dataclass
class Attempt:
    """How far a piece of work came, whatever the engine around it makes of that."""

    result: Any = None
    error: Exception | None = None

    def run(self, work: Any, *arguments: Any) -> Any:
        """Do it, and keep what came of it."""
        try:
            self.result = work(*arguments)
        except Exception as error:
            self.error = error
            raise
        return self.result


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
    config: RunConfig, refresh: list[str] | None = None, until: str | None = None, since: str | None = None
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
    """
    tags = {"prefect.flow_run_id": str(flow_run.id), "prefect.flow_run_name": str(flow_run.name)}
    stages = PrefectStages()
    span = Span(refresh or [], since, until)
    result: RunResult = current_attempt().run(run_training, config, span, stages, tags)
    if stages.failure is not None:
        raise stages.failure
    return result


def train_anyhow(config: RunConfig, span: Span) -> RunResult:
    """Run the flow; where Prefect fails before, during or after it, the results are had all the same."""

    def in_flow() -> RunResult:
        return train(config, refresh=span.refresh, until=span.until, since=span.since)

    result, reason = anyhow(in_flow, lambda: run_training(config, span))
    return replace(result, unrecorded=reason) if reason else result


def anyhow(in_flow: Callable[[], Result], alone: Callable[[], Result]) -> tuple[Result, str | None]:
    """Do a piece of work in a flow, or by itself where Prefect fails; gives its result and Prefect's failure.

    The flow keeps what it did in the attempt of `current_attempt`.
    """
    attempt = Attempt()
    token = _ATTEMPT.set(attempt)
    try:
        return in_flow(), None
    except Exception as error:
        if isinstance(error, (LabelscapeError, InvalidInput)) or attempt.error is not None:
            raise
        reason = f"Prefect failed ({type(error).__name__}: {error})"
        current_reporter().say(f"{reason}; this run goes on without it.")
        abandon()
        return attempt.result or alone(), reason
    finally:
        _ATTEMPT.reset(token)


def current_attempt() -> Attempt:
    """The attempt of which a flow is part."""
    return _ATTEMPT.get(Attempt())
