"""Runs as Prefect flows and stages as Prefect tasks; importing this module imports Prefect.

A run continues without Prefect if Prefect fails before, during or after it.
"""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import prefect
from prefect import Flow, flow, get_client, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed
from prefect.utilities.annotations import quote

from embedding_core.errors import InvalidInput
from flows.addresses import flow_run_address
from flows.config import RunConfig, find_home
from flows.deployed_runs import deployed_run
from flows.pipeline import TrainingPlan, TrainingProducts
from flows.prefect_progress import PrefectReporter
from flows.prefect_settings import prepare_temporary_server
from flows.prefect_views import add_tags, flow_tags, name_deployed_run, name_flow_run, show_results
from flows.rerun import flow_name, flow_parameters
from flows.runner import FLOW_RUN_TAG, ProductsT, Run, RunResult
from flows.stages import StageSelection
from storage.artifacts.artifact import Outcome
from storage.artifacts.run_log import LoggedRun
from storage.credentials import hide_secrets
from storage.errors import LabelscapeError, ServiceError
from storage.sqlite.migrated import Warn
from tasks.budget import BudgetEnded
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages.tracking import FLOW_RUN_NAME, FLOW_RUN_URL

Result = TypeVar("Result")


class WithoutSecrets(Exception):
    """The traceback of an error whose own texts contain a secret."""


@dataclass
class Attempt(Generic[Result]):
    """The result or the error of a piece of work, independent of the state that Prefect reports.

    An interrupt counts as an error: it may also reach a Prefect server of this process, and the flow then
    ends with a connection error.
    """

    result: Result | None = None
    error: BaseException | None = None

    def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do the work and keep its result or error; Prefect records the text of an error, without secrets."""
        try:
            self.result = work(*arguments)
            return self.result
        except BaseException as error:
            self.error = error
            text = "".join(traceback.format_exception(error))
            if not isinstance(error, Exception) or hide_secrets(text) == text:
                raise
        raise WithoutSecrets(hide_secrets(text))


@task(cache_policy=NO_CACHE, persist_result=False)
def compute_stage(
    stage: Stage, workspace: Workspace, force: bool, attempt: Attempt[Outcome]
) -> Outcome | State[Outcome]:
    """One stage as a Prefect task; it ends as `Cached` if the store had it, as `Stopped` if time ran out."""
    try:
        outcome = attempt.run(run_stage, stage, workspace, force)
    except BudgetEnded as error:
        return Cancelled(name="Stopped", message=str(error))
    state = "taken from the store" if outcome.cached else f"computed in {outcome.seconds:.1f} s"
    get_run_logger().info(f"{stage.label} {state}")
    return Completed(data=outcome, name="Cached") if outcome.cached else outcome


@dataclass
class PrefectStages:
    """Runs stages as Prefect tasks; if Prefect fails, runs the remaining stages without it.

    Attributes
    ----------
    failure : Exception or None
        The error of Prefect.
    """

    failure: Exception | None = None

    def __call__(self, stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        """Run one stage."""
        if self.failure is not None:
            return run_stage(stage, workspace, force)
        named = compute_stage.with_options(name=stage.name, task_run_name=stage.label)
        attempt: Attempt[Outcome] = Attempt()
        # Quoted: Prefect must not search them for results of other tasks.
        arguments: tuple[Any, ...] = (quote(stage), quote(workspace), force, quote(attempt))
        try:
            answer = named(*arguments)
            return answer.result() if isinstance(answer, State) else answer
        except Exception as error:
            if attempt.error is not None:
                raise attempt.error from None
            self.failure = error
            return attempt.result or run_stage(stage, workspace, force)


@flow(
    name=flow_name("run"),
    flow_run_name=lambda: name_deployed_run(flow_run.parameters),
    validate_parameters=True,
    persist_result=False,
)
def train(
    config: RunConfig,
    refresh: list[str] | None = None,
    until: str | None = None,
    since: str | None = None,
    done: list[str] | None = None,
) -> RunResult[TrainingProducts]:
    """Run every stage on the configured collection and track the result; the flow that is deployed.

    Parameters
    ----------
    config : RunConfig
        The typed configuration; a server checks it against its schema.
    refresh : list of str, optional
        Stages to recompute even if the store has them.
    until : str, optional
        Last stage to run.
    since : str, optional
        Stage to recompute; the stages before it are taken unchanged from the last run.
    done : list of str, optional
        Labels of stages that were recomputed already.
    """
    with deployed_run(config):
        run = Run(TrainingPlan(config), StageSelection(refresh or [], since, until, done or []))
        return run_in_this_flow(run)


def run_in_this_flow(
    run: Run[ProductsT], attempt: Attempt[RunResult[ProductsT]] | None = None
) -> RunResult[ProductsT]:
    """The body of a flow: every stage is a task. An error of Prefect fails the flow."""
    tags = {FLOW_RUN_TAG: str(flow_run.id), FLOW_RUN_NAME: str(flow_run.name)}
    if address := flow_run_address(str(flow_run.id), find_home(run.plan.config)):
        tags[FLOW_RUN_URL] = address
    stages, session = PrefectStages(), run.session
    terminal = session.reporter
    session.reporter = PrefectReporter(terminal, Path(run.plan.source).name)
    try:
        result = (attempt or Attempt()).run(run.run_stages, stages, tags)
    finally:
        session.reporter = terminal
    if stages.failure is not None:
        raise stages.failure
    try:
        show_results(run.plan, result)
        add_tags(run.plan, result.products)
    except Exception as error:  # results are safe; a view of them is not worth a failed run
        get_run_logger().warning(hide_secrets(f"the results could not be shown here: {error}"))
    return result


def run_in_flow(run: Run[ProductsT]) -> RunResult[ProductsT]:
    """Execute a run as a flow; if Prefect fails, continue without it and keep finished results."""
    attempt: Attempt[RunResult[ProductsT]] = Attempt()
    plan = run.plan
    try:
        prepare_temporary_server(find_home(plan.config), run.session.reporter.warn)
    except ServiceError as error:
        return _continue_without(run, attempt, f"Prefect has no database: {error}")
    parameters = flow_parameters(plan.kind, plan.settings(), plan.source)
    made = _make_flow(
        flow_name(plan.kind), parameters, lambda: run_in_this_flow(run, attempt), name_flow_run(plan)
    )
    try:
        with prefect.tags(*flow_tags(plan)):
            result: RunResult[ProductsT] = made(**parameters)
        return result
    except Exception as error:
        if attempt.error is not None:
            raise attempt.error from None
        if isinstance(error, (LabelscapeError, InvalidInput)):
            raise
        return _continue_without(run, attempt, f"Prefect failed ({type(error).__name__}: {error})")


def _continue_without(
    run: Run[ProductsT], attempt: Attempt[RunResult[ProductsT]], reason: str
) -> RunResult[ProductsT]:
    """Report why Prefect is not used, and return the result of the run, which Prefect does not record."""
    reason = hide_secrets(reason)
    run.session.reporter.say(f"{reason.removesuffix('.')}; continuing without it.")
    run.session.prefect_failed = True
    return replace(attempt.result or run.run_stages(), unrecorded=reason)


def _make_flow(
    name: str, parameters: Mapping[str, Any], work: Callable[[], Any], flow_run_name: str | None = None
) -> Flow[..., Any]:
    """A flow around `work`, which keeps its objects in a closure; Prefect only shows the parameters."""

    def body(**shown: object) -> Any:
        try:
            return work()
        except KeyboardInterrupt as stop:  # Ctrl-C or SIGTERM
            return Cancelled(message=f"stopped by {type(stop).__name__}")

    # inspect.signature() reads this attribute; the type of functions does not declare it
    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    named = None if flow_run_name is None else lambda: flow_run_name  # a text would be a template
    decorate = flow(name=name, flow_run_name=named, validate_parameters=False, persist_result=False)
    return decorate(body)


def record_run(run: LoggedRun, home: Path, warn: Warn) -> str:
    """Record a finished run under its flow and return the id of the flow run.

    `home` and `warn` are those of `prepare_temporary_server`.

    Its stages are not recorded: Prefect would show tasks that it did not run.
    """
    text = f"Run {run.id} of {run.created} without Prefect ({run.unrecorded}); recorded by `labelscape sync`."
    parameters = flow_parameters(run.kind, run.config, run.source)
    prepare_temporary_server(home, warn)
    with get_client(sync_client=True) as client:
        found = client.create_flow_run(
            _make_flow(flow_name(run.kind), parameters, lambda: None),
            name=f"{run.name}-{run.id}",
            parameters=parameters,
            tags=["labelscape-sync"],
            state=Completed(message=text),
        )
    return str(found.id)
