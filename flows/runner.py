"""A run: walks the stages of a plan, repairs damage, and records what was made.

`run`, `auto`, `reproduce` and `annotate` each provide a `Plan`; everything else about a run is the same for
all of them.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from flows.config import RunConfig, find_home
from flows.prefect_settings import load_prefect, prepare_engine, starts_server
from flows.resume import LastRunStages
from flows.run_settings import check_tracker
from flows.session import Session
from flows.stages import Compute, StageRecord, StageRunner, StageSelection
from flows.stores import open_store
from storage.artifacts.artifact import QuarantinedBlob
from storage.artifacts.fingerprint import use_cache_file
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind, LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.credentials import keep
from storage.errors import ArtifactDamaged, ServiceDown, SourceChanged, StoreError, StoreUnreachable
from storage.permissions import private_umask
from tasks.changes import changes_between
from tasks.executor import make_executor
from tasks.experiment_names import claim_experiment
from tasks.report.tables import Table
from tasks.reporter import Reporter
from tasks.runs import load_last_run, remember_run
from tasks.stage import Workspace, run_stage
from tasks.stages.tracking import load_tracked

# A damaged artifact is quarantined when it is read; the next walk recomputes it.
_MAX_REPAIRS = 5
# If the source changes during a run (an upload), the next walk lists it again.
_MAX_READINGS = 3
FLOW_RUN_TAG = "prefect.flow_run_id"
"""Tag of the tracker with the id of the flow run."""
# Kinds of run whose experiment belongs to their source.
_OWNING = ("run", "auto")

Walked = TypeVar("Walked")


class Products(Protocol):
    """References to the results of a run: what all kinds of run have in common."""

    @property
    def name(self) -> str:
        """Name of the run."""

    @property
    def experiment_name(self) -> str:
        """Experiment under which the run is logged."""

    @property
    def tracked(self) -> ArtifactRef | None:
        """The record of the tracked run."""

    @property
    def shown(self) -> Iterable[ArtifactRef | None]:
        """Artifacts that are read after the walk, to show the results."""


ProductsT = TypeVar("ProductsT", bound=Products)


@dataclass(frozen=True)
class Plan(ABC, Generic[ProductsT]):
    """What a kind of run does: its stages and their order. A new kind of run is a new subclass.

    Attributes
    ----------
    kind : str
        The command that makes such runs.
    stage_names : tuple of str
        The stages in order, for `--from`, `--until` and `--refresh`; empty if the command has none of these.
    keeps_last_run : bool
        Whether the store remembers the artifacts as the last run of the source.
    sync_tracks : bool
        Whether `labelscape sync` tracks a run whose tracker was down. If not, repeating the command does.
    starts_prefect : bool
        Whether the run starts a temporary Prefect server if none is configured or running. If not, it then
        runs without Prefect.
    """

    config: RunConfig
    kind: ClassVar[Kind]
    stage_names: ClassVar[tuple[str, ...]] = ()
    keeps_last_run: ClassVar[bool] = True
    sync_tracks: ClassVar[bool] = False
    starts_prefect: ClassVar[bool] = True

    @property
    def source(self) -> str:
        """The place of the data, for the run log."""
        return self.config.source.path

    @property
    def flow_run_name(self) -> str | None:
        """Name of the flow run; default: the source and the changed settings."""
        return None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings that identify the run; also the parameters shown by Prefect."""

    def check(self, workspace: Workspace) -> None:
        """Raise what is certain to fail, before an engine is started for the run."""

    @abstractmethod
    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> ProductsT:
        """Hand every stage to `stages` in order; `tags` are facts of the engine for the tracker."""

    def publish(self, products: ProductsT, run: LoggedRun, workspace: Workspace) -> Path | None:
        """Write the report into the home folder; None if this kind of run has none."""
        return None

    def result_tables(self, products: ProductsT, store: ArtifactStore) -> dict[str, Table]:
        """The results as tables by title, for the pages of Prefect."""
        return {}

    def map_picture(self, products: ProductsT, store: ArtifactStore) -> bytes | None:
        """A picture of the items in the plane (PNG), for the pages of Prefect; None if there is none."""
        return None


@dataclass(frozen=True)
class RunResult(Generic[ProductsT]):
    """What a run made, where it is kept, and what it cost.

    Attributes
    ----------
    products : Products
        References; the class depends on the plan.
    report : Path or None
        The page in the home folder.
    untracked, unrecorded : str or None
        Why the tracker, or Prefect, has no record of the run.
    damaged : tuple of QuarantinedBlob
        Artifacts that were damaged and recomputed.
    changes : mapping or None
        How the items changed since the last run of the source.
    warnings : tuple of str
        What is shown after the results, such as a damaged tracking database that was set aside.
    """

    products: ProductsT
    stages: list[StageRecord]
    report: Path | None
    home: Path
    store: ArtifactStore
    untracked: str | None
    run_id: str
    damaged: tuple[QuarantinedBlob, ...] = ()
    changes: Mapping[str, Any] | None = None
    unrecorded: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def computed(self) -> int:
        """Number of stages that were not in the store."""
        return sum(not record.cached for record in self.stages)


def open_workspace(config: RunConfig, reporter: Reporter) -> Workspace:
    """The workspace of a configuration; the home folder is created if it does not exist."""
    home = find_home(config)
    use_cache_file(home / "cache" / "code.json")
    executor = make_executor(config.executor, home)
    return Workspace(home=home, store=open_store(config), executor=executor, reporter=reporter)


class Run(Generic[ProductsT]):
    """One execution of a plan.

    Parameters
    ----------
    plan : Plan
    selection : StageSelection, optional
        Which stages; default: all.
    session : Session, optional
    """

    def __init__(
        self,
        plan: Plan[ProductsT],
        selection: StageSelection | None = None,
        session: Session | None = None,
    ) -> None:
        self.plan = plan
        self.selection = selection or StageSelection()
        self.session = session or Session()

    def execute(self, verbose: bool = False) -> RunResult[ProductsT]:
        """Run the stages in a Prefect flow; without Prefect if it does not answer or fails.

        A plan that does not start Prefect itself uses it only if a server is configured or running.
        """
        reporter = self.session.reporter
        with open_store(self.plan.config).in_use(reporter.say):
            pass  # reject an unusable store before starting a server
        keep(self.plan.config.tracking.uri, find_home(self.plan.config))
        check_tracker(self.plan.config)
        self.plan.check(open_workspace(self.plan.config, reporter))
        try:
            prepare_engine(find_home(self.plan.config), verbose)
        except ServiceDown as error:
            reporter.say(f"{error} Continuing without Prefect.")
            result = replace(self.run_stages(), unrecorded=str(error))
        else:
            if starts_server():
                if not self.plan.starts_prefect:
                    return self.run_stages()
                reporter.say_once(
                    "starting Prefect for this run, 10 to 20 s (`labelscape up` keeps it running)"
                )
            load_prefect()
            from flows.prefect_engine import run_in_flow

            result = run_in_flow(self)
        if result.unrecorded:
            log = RunLog(result.store)
            log.update(replace(log.find(result.run_id), unrecorded=result.unrecorded))
        return result

    @private_umask()
    def run_stages(
        self, compute: Compute = run_stage, tags: Mapping[str, str] | None = None
    ) -> RunResult[ProductsT]:
        """Run the stages in this process and log the run.

        Parameters
        ----------
        compute : callable, optional
            Runs one stage; default: directly.
        tags : mapping, optional
            Facts of the engine, for the tracker.
        """
        started = time.perf_counter()
        plan, selection = self.plan, self.selection
        selection.check(plan.stage_names)
        workspace = open_workspace(plan.config, self.session.reporter)
        store = workspace.store
        last_run = LastRunStages(store, plan.config.source) if selection.since else None
        stages = StageRunner(workspace, compute, selection, plan.stage_names, last_run)
        # Shared, so that a run that is stopped from outside can say what it has recomputed.
        stages.recomputed = self.session.recomputed
        with store.in_use(workspace.reporter.say), workspace.executor:
            last = load_last_run(store, plan.config.source) if plan.keeps_last_run else {}
            workspace.reporter.expect(lambda label: _last_seconds(store, last.get(label)))
            try:
                products = repair(workspace, lambda: self._walk(stages, tags or {}))
            except BaseException:
                # The first error is the one to show.
                with suppress(StoreError, StoreUnreachable):
                    self._remember(stages)
                raise
            self._remember(stages)
            now = stages.records.get("ingest")
            changes = changes_between(store, last.get("ingest"), now.ref if now else None)
            if plan.kind in _OWNING and plan.config.tracking.experiment is None:
                claim_experiment(store, plan.config.source, products.experiment_name)
            run = self._log(stages, products, time.perf_counter() - started, changes, tags or {})
            page = plan.publish(products, run, workspace)
        return RunResult(
            products,
            list(stages.records.values()),
            page,
            workspace.home,
            store,
            stages.untracked,
            run.id,
            tuple(store.quarantined),
            changes,
            warnings=tuple(workspace.reporter.warnings),
        )

    def _walk(self, stages: StageRunner, tags: Mapping[str, str]) -> ProductsT:
        """Walk the plan, then verify what will be shown: fresh stages did not read it."""
        products = self.plan.walk(stages, tags)
        damage = None
        for ref in products.shown:
            try:
                if ref is not None:
                    stages.workspace.store.fetch(ref)
            except ArtifactDamaged as error:
                damage = error  # check all of them, so that one more walk repairs them together
        if damage is not None:
            raise damage
        return products

    def _remember(self, stages: StageRunner) -> None:
        done = {record.label: record.ref for record in stages.records.values()}
        if done and self.plan.keeps_last_run:
            remember_run(stages.workspace.store, self.plan.config.source, done)

    def _log(
        self,
        stages: StageRunner,
        products: ProductsT,
        seconds: float,
        changes: Mapping[str, Any] | None,
        tags: Mapping[str, str],
    ) -> LoggedRun:
        store = stages.workspace.store
        tracked = load_tracked(store, products.tracked) if products.tracked else None
        return RunLog(store).add(
            LoggedRun(
                name=products.name,
                experiment=products.experiment_name,
                source=self.plan.source,
                config=self.plan.settings(),
                stages={record.label: record.ref for record in stages.records.values()},
                seconds=round(seconds, 3),
                tracked={"uri": tracked.uri, "run_id": tracked.parent_id} if tracked else None,
                problem=stages.untracked if self.plan.sync_tracks else None,
                changes=changes,
                damaged=tuple(one.to_json() for one in store.quarantined),
                until=self.selection.until,
                kind=self.plan.kind,
                flow_run=tags.get(FLOW_RUN_TAG),
            )
        )


def _last_seconds(store: ArtifactStore, ref: Mapping[str, Any] | None) -> float | None:
    """Seconds that a stage took the last time; None if that is unknown."""
    try:
        return float(store.details(ArtifactRef.from_json(ref))["seconds"]) if ref else None
    except StoreError:
        return None


def repair(workspace: Workspace, walk: Callable[[], Walked]) -> Walked:
    """Walk again after a damaged artifact, which is quarantined by then, or a changed source."""
    repairs, readings = _MAX_REPAIRS, _MAX_READINGS
    while True:
        try:
            return walk()
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
