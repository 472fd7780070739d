"""A run: every stage in turn, what became of each, and the record of it. Needs no engine."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flows.config import RunConfig
from flows.pipeline import Products, open_workspace, resolved_config, walk
from flows.resume import LeftStages
from flows.stages import RENEWED, Span
from flows.terminal import current_reporter
from storage.artifacts.artifact import SetAside
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.schemas import unpack_manifest
from storage.artifacts.store import Outcome, Store
from storage.errors import (
    ArtifactDamaged,
    ConfigError,
    SourceChanged,
    SourceError,
    StoreError,
    StoreUnreachable,
    TrackingError,
)
from storage.tracking.engine import redact
from tasks.changes import changes_since
from tasks.runs import load_last_run, remember_run
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages.report import Circumstances, write_report
from tasks.stages.tracking import load_tracked

# How a stage is run: as itself, or as a task of an engine.
Submit = Callable[[Stage, Workspace, bool], Outcome]
Walked = TypeVar("Walked")

# A damaged artifact is set aside when it is read; the next walk computes it again.
_MAX_REPAIRS = 5
# Where an upload comes in the midst of a run, the next walk lists the source as it is then.
_MAX_READINGS = 3


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
    changes : mapping or None
        What happened to the items since the last run of the source.
    """

    products: Products
    stages: list[StageRecord]
    report: Path | None
    home: Path
    store: Store
    untracked: str | None
    run_id: str
    damaged: tuple[SetAside, ...] = ()
    changes: Mapping[str, Any] | None = None
    unrecorded: str | None = None


class StageRunner:
    """Executes stages and remembers what became of each."""

    def __init__(
        self, workspace: Workspace, span: Span, submit: Submit, left: LeftStages | None = None
    ) -> None:
        self.records: dict[str, StageRecord] = {}
        self.untracked: str | None = None
        self.workspace = workspace
        self._span = span
        self._left = left
        self._submit = submit

    @property
    def until(self) -> str | None:
        """The last stage to reach, None for all."""
        return self._span.until

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """Compute the stage, or leave it out where the run ends before it."""
        if not (self._span.reaches(stage.name) and stage.ready):
            return None
        if self._span.leaves(stage.name):
            return self._leave(stage)
        force = self._span.refreshes(stage.name, stage.label) and stage.label not in self.records
        try:
            outcome = self._submit(stage, self.workspace, force)
        except TrackingError as error:
            self.untracked = str(error)
            return None
        if force:
            RENEWED.get([]).append(stage.label)
        self._record(stage, outcome)
        return outcome.ref

    def _leave(self, stage: Stage) -> ArtifactRef:
        """Take a stage as the last run left it; compute it where nothing whole was left."""
        left = self._left.take(stage) if self._left else None
        try:
            outcome = Outcome(left, True, 0.0) if left else self._submit(stage, self.workspace, False)
        except SourceError as error:
            raise ConfigError(
                f"{stage.label} is no longer as the last run left it, and cannot be made from the source as "
                f"it is now ({error}); use --from ingest."
            ) from error
        self._record(stage, outcome)
        return outcome.ref

    def _record(self, stage: Stage, outcome: Outcome) -> None:
        self.records[stage.label] = StageRecord(stage.label, outcome.cached, outcome.seconds, outcome.ref)
        state = "fresh" if outcome.cached else f"computed in {outcome.seconds:.1f} s"
        self.workspace.reporter.say(f"  {stage.label:<38} {state}{self._remark(stage, outcome)}")

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
    left = LeftStages(workspace.store, config.source) if span.since else None
    runner = StageRunner(workspace, span, submit, left)
    with workspace.store.in_use(workspace.reporter.say):
        known_run = load_last_run(workspace.store, config.source)
        last = known_run.get("ingest")
        workspace.reporter.expect(lambda label: last_seconds(workspace.store, known_run.get(label)))
        products = walk_remembering(
            config, workspace, runner, lambda: _walk_all(config, workspace, runner, dict(tags or {}))
        )
        changes = _changes(workspace, last, products.manifest)
        seconds = time.perf_counter() - started
        known = resolved_config(config)
        run = log_run(config.source.path, known, runner, products, runner.untracked, seconds, changes)
        around = Circumstances(run.stages, run.damaged)
        page = write_report(products.report, workspace, around) if products.report else None
    return RunResult(
        products,
        list(runner.records.values()),
        page,
        workspace.home,
        workspace.store,
        runner.untracked,
        run.id,
        tuple(workspace.store.set_aside),
        changes,
    )


def last_seconds(store: Store, ref: Mapping[str, Any] | None) -> float | None:
    """Seconds that a stage took the last time; None if that is unknown."""
    try:
        return float(store.details(ArtifactRef.from_json(ref))["seconds"]) if ref else None
    except StoreError:
        return None


def _changes(
    workspace: Workspace, last: Mapping[str, Any] | None, now: ArtifactRef | None
) -> dict[str, Any] | None:
    """What happened to the items since the last run of the source; None where nothing did."""
    if last is None or now is None or last["digest"] == now.digest:
        return None
    return changes_since(workspace.store, last, unpack_manifest(workspace.store.read(now))) or None


def _remember(config: RunConfig, workspace: Workspace, runner: StageRunner) -> None:
    done = {record.label: record.ref for record in runner.records.values()}
    if done:
        remember_run(workspace.store, config.source, done)


class Loggable(Protocol):
    """What a record of a run says of its products."""

    @property
    def name(self) -> str:
        """What the run is called."""

    @property
    def experiment(self) -> str:
        """Where it belongs."""

    @property
    def tracked(self) -> ArtifactRef | None:
        """The record of the tracked run."""


def log_run(
    source: str,
    known: Mapping[str, Any],
    runner: StageRunner,
    products: Loggable,
    problem: str | None,
    seconds: float,
    changes: Mapping[str, Any] | None = None,
) -> LoggedRun:
    """Keep a record of a run, with the configuration as `known` and why it is to be tracked later, if so."""
    store = runner.workspace.store
    tracked = load_tracked(store, products.tracked) if products.tracked else None
    return RunLog.of(store).add(
        LoggedRun(
            name=products.name,
            experiment=products.experiment,
            source=source,
            config=known,
            stages={record.label: record.ref for record in runner.records.values()},
            seconds=round(seconds, 3),
            tracked={"uri": redact(tracked.uri), "run_id": tracked.parent_id} if tracked else None,
            problem=problem,
            changes=changes,
            damaged=tuple(one.to_json() for one in store.set_aside),
            until=runner.until,
        )
    )


def walk_remembering(
    config: RunConfig, workspace: Workspace, runner: StageRunner, walk_stages: Callable[[], Walked]
) -> Walked:
    """Go through stages and remember what they gave, also where they break off."""
    try:
        products = repairing(workspace, walk_stages)
    except BaseException:
        # Of two errors the first is the one to show.
        with suppress(StoreError, StoreUnreachable):
            _remember(config, workspace, runner)
        raise
    _remember(config, workspace, runner)
    return products


def repairing(workspace: Workspace, walk_stages: Callable[[], Walked]) -> Walked:
    """Go through stages again where they met a damaged artifact, set aside by then, or a changed source."""
    repairs, readings = _MAX_REPAIRS, _MAX_READINGS
    while True:
        try:
            return walk_stages()
        except ArtifactDamaged as damage:
            if not repairs:
                raise
            repairs -= 1
            workspace.reporter.say(f"{damage.found}. Computing it again.")
        except SourceChanged as change:
            if not readings:
                raise
            readings -= 1
            workspace.reporter.say(f"{change.found}. Reading it again.")


def _walk_all(config: RunConfig, workspace: Workspace, runner: StageRunner, tags: dict[str, str]) -> Products:
    """Every stage, then have at hand, verified, what is shown at the end: fresh stages did not read it."""
    products = walk(config, workspace, runner, tags)
    damage = None
    for ref in (products.manifest, products.features, *products.scores.values(), products.report):
        try:
            if ref is not None:
                workspace.store.fetch(ref)
        except ArtifactDamaged as error:
            damage = error  # all are looked at, so that one more walk mends them together
    if damage is not None:
        raise damage
    return products
