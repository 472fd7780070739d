"""A run: every stage in turn, what became of each, and the record of it. Needs no engine."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from flows.config import RunConfig
from flows.pipeline import Products, open_workspace, resolved_config, walk
from flows.stages import Span
from flows.terminal import current_reporter
from storage.artifacts import SetAside
from storage.errors import ArtifactDamaged, StoreError, TrackingError
from storage.keys import ArtifactRef
from storage.run_log import LoggedRun, RunLog
from storage.store import Outcome
from storage.tracking_engine import redact
from tasks.report import write_report
from tasks.runs import load_last_run, remember_run
from tasks.stage import Stage, Workspace, run_stage
from tasks.tracking import load_tracked

Result = TypeVar("Result")

# How a stage is run: as itself, or as a task of an engine.
Submit = Callable[[Stage, Workspace, bool], Outcome]

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
    """What a run made, where it lies, and what it cost.

    Attributes
    ----------
    untracked, unrecorded : str or None
        Why the tracker, or Prefect, does not know of it.
    damaged : tuple of SetAside
        What was found damaged and computed anew.
    """

    products: Products
    stages: list[StageRecord]
    report: Path | None
    home: Path
    untracked: str | None
    run_id: str
    damaged: tuple[SetAside, ...] = ()
    unrecorded: str | None = None


class StageRunner:
    """Executes stages and remembers what became of each."""

    def __init__(
        self, workspace: Workspace, span: Span, before: Mapping[str, ArtifactRef], submit: Submit
    ) -> None:
        self.records: dict[str, StageRecord] = {}
        self.untracked: str | None = None
        self._workspace = workspace
        self._span = span
        self._before = before
        self._submit = submit

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """Compute the stage, or leave it out where the run ends before it."""
        if not (self._span.reaches(stage.name) and stage.ready):
            return None
        if self._span.leaves(stage.name) and (left := self._before.get(stage.label)):
            self._record(stage, Outcome(left, True, 0.0))
            return left
        force = self._span.refreshes(stage.name) and stage.label not in self.records
        try:
            outcome = self._submit(stage, self._workspace, force)
        except TrackingError as error:
            self.untracked = str(error)
            return None
        self._record(stage, outcome)
        return outcome.ref

    def _record(self, stage: Stage, outcome: Outcome) -> None:
        self.records[stage.label] = StageRecord(stage.label, outcome.cached, outcome.seconds, outcome.ref)
        state = "fresh" if outcome.cached else f"computed in {outcome.seconds:.1f} s"
        self._workspace.reporter.say(f"  {stage.label:<38} {state}{self._remark(stage, outcome)}")

    def _remark(self, stage: Stage, outcome: Outcome) -> str:
        """What else to say of a finished stage."""
        return ""


def run_training(
    config: RunConfig, span: Span, submit: Submit = run_stage, tags: Mapping[str, str] | None = None
) -> RunResult:
    """Run the stages of a span on the configured collection, track the result and keep a record of it.

    Parameters
    ----------
    config : RunConfig
    span : Span
        Which stages.
    submit : callable, optional
        Runs one stage; default: here and now.
    tags : mapping, optional
        Facts of the engine, for the tracker.
    """
    started = time.perf_counter()
    workspace = open_workspace(config, current_reporter())
    span.check()
    before = _last_results(config, workspace) if span.since else {}
    runner = StageRunner(workspace, span, before, submit)
    with workspace.store.in_use():
        try:
            products = repairing(lambda: walk(config, workspace, runner, dict(tags or {})), workspace)
        except BaseException:
            # Of two errors the first is the one to show.
            with suppress(StoreError):
                _remember(config, workspace, runner)
            raise
        _remember(config, workspace, runner)
        run = _log(config, workspace, runner, products, time.perf_counter() - started)
        page = write_report(products.report, workspace) if products.report else None
    return RunResult(
        products,
        list(runner.records.values()),
        page,
        workspace.home,
        runner.untracked,
        run.id,
        tuple(workspace.store.set_aside),
    )


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


def repairing(work: Callable[[], Result], workspace: Workspace) -> Result:
    """Do a piece of work again where it met a damaged artefact, which has been set aside by then."""
    for _ in range(_MAX_REPAIRS):
        try:
            return work()
        except ArtifactDamaged as damage:
            workspace.reporter.say(f"{damage} Computing it again.")
    return work()
