"""The train flow: from a source to a tracked, comparable run."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed, State
from prefect.utilities.annotations import quote

from flows.config import RunConfig
from flows.pipeline import Products, open_workspace, resolved_config, walk
from flows.stages import Span
from flows.terminal import current_reporter
from storage.errors import ArtifactDamaged, StoreError, TrackingError
from storage.keys import ArtifactRef
from storage.run_log import LoggedRun, RunLog
from storage.store import Outcome
from storage.tracking_engine import redact
from tasks.report import write_report
from tasks.runs import load_last_run, remember_run
from tasks.stage import Stage, Workspace, run_stage
from tasks.tracking import load_tracked

# A damaged artefact is set aside when it is read; the next walk computes it again.
_MAX_REPAIRS = 5


@dataclass(frozen=True)
class StageRecord:
    """What became of one stage."""

    label: str
    cached: bool
    seconds: float
    ref: ArtifactRef


@dataclass(frozen=True)
class RunResult:
    """What a run made, where it lies, and what it cost."""

    products: Products
    stages: list[StageRecord]
    report: Path | None
    home: Path
    untracked: str | None
    run_id: str


@task(cache_policy=NO_CACHE, persist_result=False)
def compute_stage(stage: Stage, workspace: Workspace, force: bool) -> Outcome | State[Outcome]:
    """One stage as a Prefect task; a stage taken from the store ends in the state `Cached`."""
    outcome = run_stage(stage, workspace, force)
    return Completed(data=outcome, name="Cached") if outcome.cached else outcome


class StageRunner:
    """Executes stages as Prefect tasks and remembers what became of each."""

    def __init__(self, workspace: Workspace, span: Span, before: Mapping[str, ArtifactRef]) -> None:
        self.records: dict[str, StageRecord] = {}
        self.untracked: str | None = None
        self._workspace = workspace
        self._span = span
        self._before = before

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """Compute the stage, or leave it out where the run ends before it."""
        if not (self._span.reaches(stage.name) and stage.ready):
            return None
        if self._span.leaves(stage.name) and (left := self._before.get(stage.label)):
            self._record(stage, Outcome(left, True, 0.0))
            return left
        try:
            outcome = self._submit(stage)
        except TrackingError as error:
            self.untracked = str(error)
            return None
        self._record(stage, outcome)
        return outcome.ref

    def _submit(self, stage: Stage) -> Outcome:
        force = self._span.refreshes(stage.name) and stage.label not in self.records
        named = compute_stage.with_options(name=stage.name, task_run_name=stage.label)
        # Quoted, so that Prefect does not search them for results of other tasks.
        arguments: tuple[Any, ...] = (quote(stage), quote(self._workspace), force)
        answer = named(*arguments)
        return answer.result() if isinstance(answer, State) else answer

    def _record(self, stage: Stage, outcome: Outcome) -> None:
        self.records[stage.label] = StageRecord(stage.label, outcome.cached, outcome.seconds, outcome.ref)
        state = "fresh" if outcome.cached else f"computed in {outcome.seconds:.1f} s"
        self._workspace.reporter.say(f"  {stage.label:<38} {state}")


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
    started = time.perf_counter()
    workspace = open_workspace(config, current_reporter())
    span = Span(refresh or [], since, until)
    span.check()
    runner = StageRunner(workspace, span, _last_results(config, workspace) if since else {})
    with workspace.store.in_use():
        try:
            products = _walk_repairing(config, workspace, runner)
        except BaseException:
            # Of two errors the first is the one to show.
            with suppress(StoreError):
                _remember(config, workspace, runner)
            raise
        _remember(config, workspace, runner)
        run = _log(config, workspace, runner, products, time.perf_counter() - started)
        page = write_report(products.report, workspace) if products.report else None
    return RunResult(products, list(runner.records.values()), page, workspace.home, runner.untracked, run.id)


def _last_results(config: RunConfig, workspace: Workspace) -> dict[str, ArtifactRef]:
    """What the last run of the source left, as far as it is still there."""
    store, known = workspace.store, load_last_run(workspace.store, config.source)
    refs = {label: ArtifactRef.from_json(ref) for label, ref in known.items()}
    return {label: ref for label, ref in refs.items() if store.has(ref)}


def _remember(config: RunConfig, workspace: Workspace, runner: StageRunner) -> None:
    done = {record.label: record.ref for record in runner.records.values()}
    if done:
        remember_run(workspace.store, config.source, done)


def _log(
    config: RunConfig, workspace: Workspace, runner: StageRunner, products: Products, seconds: float
) -> LoggedRun:
    tracked = load_tracked(workspace.store, products.tracked) if products.tracked else None
    return RunLog(workspace.store.root).add(
        LoggedRun(
            name=products.name,
            experiment=products.experiment,
            source=config.source.path,
            config=resolved_config(config),
            stages={record.label: record.ref for record in runner.records.values()},
            seconds=round(seconds, 3),
            tracked={"uri": redact(tracked.uri), "run_id": tracked.parent_id} if tracked else None,
            problem=runner.untracked,
        )
    )


def _walk_repairing(config: RunConfig, workspace: Workspace, runner: StageRunner) -> Products:
    tags = {"prefect.flow_run_id": str(flow_run.id), "prefect.flow_run_name": str(flow_run.name)}
    for _ in range(_MAX_REPAIRS):
        try:
            return walk(config, workspace, runner, tags)
        except ArtifactDamaged as damage:
            workspace.reporter.say(f"{damage} Computing it again.")
    return walk(config, workspace, runner, tags)
