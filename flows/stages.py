"""Which stages a run computes, and the object that runs them one by one and records the outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from embedding_core.registry.method import did_you_mean
from flows.resume import LastRunStages
from storage.artifacts.artifact import Outcome
from storage.artifacts.keys import ArtifactRef
from storage.errors import ConfigError, SourceError, TrackingError
from tasks.stage import Stage, Workspace

# Runs one stage: directly, or as a task of an engine. The last argument forces recomputation.
Compute = Callable[[Stage, Workspace, bool], Outcome]
# Returns the artifact of a stage; None if the stage was left out or is only looked up and not in the store.
Execute = Callable[[Stage], ArtifactRef | None]


def check_stages(names: Sequence[str], known: Sequence[str]) -> None:
    """Reject names that are not among the known stages."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, list(known))
            raise ConfigError(f"{name}: no such stage.{hint} The stages are {', '.join(known)}.")


@dataclass(frozen=True)
class StageSelection:
    """Which stages of a plan a run computes.

    Attributes
    ----------
    refresh : list of str
        Stages to recompute even if the store has them.
    since : str, optional
        Also recomputed; the stages before it are taken unchanged from the last run.
    until : str, optional
        The last stage to run.
    done : list of str
        Labels of stages that an interrupted run has recomputed already; they are not recomputed again.
    """

    refresh: list[str] = field(default_factory=list)
    since: str | None = None
    until: str | None = None
    done: list[str] = field(default_factory=list)

    def check(self, order: Sequence[str]) -> None:
        """Reject unknown stage names, and an end before the start."""
        done = [label.partition("[")[0] for label in self.done]
        ends = [name for name in (self.since, self.until) if name is not None]
        check_stages([*self.refresh, *ends, *done], order)
        if self.since and self.until and order.index(self.since) > order.index(self.until):
            raise ConfigError(
                f"--from {self.since} --until {self.until}: {self.until} comes first; nothing would run."
            )

    def refreshes(self, stage: Stage) -> bool:
        """Whether to recompute a stage even if the store has it."""
        return stage.name in (*self.refresh, self.since) and stage.label not in self.done

    def skips(self, stage: Stage, order: Sequence[str]) -> bool:
        """Whether to take a stage unchanged from the last run."""
        return self.since is not None and order.index(stage.name) < order.index(self.since)

    def reaches(self, stage: Stage, order: Sequence[str]) -> bool:
        """Whether a stage runs before the end of the selection."""
        return self.until is None or order.index(stage.name) <= order.index(self.until)


@dataclass(frozen=True)
class StageRecord:
    """The outcome of one stage."""

    label: str
    cached: bool
    seconds: float
    ref: ArtifactRef


class StageRunner:
    """Runs the selected stages and records the outcome of each.

    Parameters
    ----------
    workspace : Workspace
    compute : callable
        Runs one stage.
    selection : StageSelection, optional
    order : sequence of str, optional
        The stage names in the order of the plan; needed for a selection with a start or an end.
    last_run : LastRunStages, optional
        Where stages before the start of the selection come from.

    Attributes
    ----------
    records : dict of str to StageRecord
        By stage label.
    recomputed : list of str
        Labels of stages that were recomputed on request.
    untracked : str or None
        Why the tracker has no record of the run.
    """

    def __init__(
        self,
        workspace: Workspace,
        compute: Compute,
        selection: StageSelection | None = None,
        order: Sequence[str] = (),
        last_run: LastRunStages | None = None,
    ) -> None:
        self.records: dict[str, StageRecord] = {}
        self.recomputed: list[str] = []
        self.untracked: str | None = None
        self.workspace = workspace
        self._compute = compute
        self._selection = selection or StageSelection()
        self._order = order
        self._last_run = last_run

    def __call__(self, stage: Stage) -> ArtifactRef | None:
        """Run a stage; None if it is not selected, an input is missing, or the tracker does not answer."""
        if not (stage.ready and self._selection.reaches(stage, self._order)):
            return None
        if self._selection.skips(stage, self._order):
            return self._take(stage)
        force = self._selection.refreshes(stage) and stage.label not in self.records
        try:
            outcome = self._compute(stage, self.workspace, force)
        except TrackingError as error:
            self.untracked = str(error)
            return None
        if force:
            self.recomputed.append(stage.label)
        return self._record(stage, outcome)

    def _take(self, stage: Stage) -> ArtifactRef:
        """Take a stage from the last run; compute it if its artifact is missing or damaged."""
        found = self._last_run.find(stage) if self._last_run else None
        try:
            outcome = Outcome(found, True, 0.0) if found else self._compute(stage, self.workspace, False)
        except SourceError as error:
            raise ConfigError(
                f"{stage.label} of the last run is gone or damaged, and cannot be computed from the present "
                f"source ({error}); use --from ingest."
            ) from error
        return self._record(stage, outcome)

    def _record(self, stage: Stage, outcome: Outcome) -> ArtifactRef:
        self.records[stage.label] = StageRecord(stage.label, outcome.cached, outcome.seconds, outcome.ref)
        state = "fresh" if outcome.cached else f"computed in {outcome.seconds:.1f} s"
        self.workspace.reporter.say(f"  {stage.label:<38} {state}")
        return outcome.ref
