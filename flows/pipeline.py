"""The training pipeline as a table of steps, shared by `run`, `status` and, for its first steps, `auto`.

A step builds the stages of one name from what the steps before it made. To add a stage, write its module in
`tasks/stages` and add one entry to `STEPS`; see the README of `tasks`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from embedding_core.blocks import replaces_own_scaling
from embedding_core.registry import get_method
from flows.addresses import page_links
from flows.config import RunConfig
from flows.line_up import any_uses_graph
from flows.run_settings import (
    check_methods,
    check_places,
    chosen_methods,
    compared_methods,
    keeps_model,
    method_params,
    resolved_config,
)
from flows.runner import Plan
from flows.stages import Execute, StageRunner
from flows.time_estimates import announce
from flows.tracked_names import changes_of, describe_run, run_facts
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind, LoggedRun
from storage.artifacts.store import ArtifactStore
from storage.sources import OpenedSource
from tasks.experiment_names import find_experiment
from tasks.map import controls
from tasks.map.versions import remember_places
from tasks.report.reports_page import about_run, list_report
from tasks.report.score_table import score_table
from tasks.report.tables import Table
from tasks.stage import Stage, Workspace
from tasks.stages import (
    affinity,
    correlation,
    embedding,
    evaluation,
    feature_blocks,
    ingest,
    mapping,
    report,
    tracking,
)
from tasks.stages.missing_parts import load_lacking
from tasks.stages.tracking import load_tracked

Refs = dict[str, ArtifactRef | None]


@dataclass
class PipelineState:
    """A walk in progress: what the steps so far made, for the steps that follow.

    Attributes
    ----------
    refs : dict of str to dict
        By stage name and variant: the artifact, or None if it is not available.
    for_auto : bool
        Whether only the data stages are walked, for the candidates of `auto`.
    """

    config: RunConfig
    workspace: Workspace
    source: OpenedSource
    tags: Mapping[str, str]
    refs: dict[str, Refs] = field(default_factory=dict)
    for_auto: bool = False

    def variants(self, stage: str) -> Refs:
        """The artifacts of a stage by variant, for instance by method."""
        return self.refs.get(stage, {})

    def ref(self, stage: str) -> ArtifactRef | None:
        """The artifact of a stage that has no variants."""
        return self.variants(stage).get("")

    @property
    def title(self) -> str:
        """Title of the report."""
        return self.config.name or self.source.name

    @property
    def name(self) -> str:
        """Name of the run."""
        return describe_run(self.config, self.source.name)

    @cached_property
    def experiment_name(self) -> str:
        """Experiment under which the run is tracked; that of another source is taken only if configured."""
        given = self.config.tracking.experiment
        return given or find_experiment(self.workspace.store, self.config.source, self.source.name)

    @cached_property
    def scale(self) -> Any:
        """How a single block of features is scaled; several have a scale each."""
        return self.blocks[0].preparation["scale"]

    @cached_property
    def blocks(self) -> list[feature_blocks.BlockPlan]:
        """The blocks of features. Known only after ingest: items may lack sound."""
        lacking = load_lacking(self.ref("ingest"), self.workspace.store)
        say = self.workspace.reporter.say_once
        return feature_blocks.plan_blocks(self.config.features, self.source, lacking, say)

    @property
    def data(self) -> embedding.Data:
        """What methods are fitted to."""
        edges_given = affinity.resolve_graph(self.config.affinity, self.config.source) == "given"
        joined = replaces_own_scaling([block.preparation for block in self.blocks])
        refs = (self.ref("ingest"), self.ref("features"), self.ref("affinity"))
        return embedding.Data(*refs, self.scale, edges_given, joined)

    @cached_property
    def chosen(self) -> list[str]:
        """The configured methods. Known only after ingest: the labels determine what "all" means."""
        single_label = ingest.has_single_labels(self.ref("ingest"), self.workspace.store)
        return chosen_methods(self.config, single_label)

    @property
    def n_labeled(self) -> int:
        """Number of labeled items; 0 before ingest."""
        return ingest.count_labeled(self.ref("ingest"), self.workspace.store)

    @cached_property
    def compared(self) -> list[str]:
        """The configured methods and the baselines, which may depend on the number of labeled items."""
        found = compared_methods(self.config, self.chosen, self.n_labeled)
        replaced = [name for name in self.config.evaluation.baselines if name not in found]
        if replaced:
            limit = self.config.evaluation.exact_items
            self.workspace.reporter.say_once(
                f"  {', '.join(replaced)}: nystrom_svm and least_squares_svm in its place "
                f"({self.n_labeled:,} labeled items, evaluation.exact_items={limit:,})"
            )
        return found

    @property
    def uses_graph(self) -> bool:
        """Whether a method of the run, or a candidate of `auto`, uses the graph."""
        data = self.data
        if self.for_auto:
            single_label = ingest.has_single_labels(self.ref("ingest"), self.workspace.store)
            return any_uses_graph(self.config, single_label, self.n_labeled, data)
        return any(
            embedding.takes_graph(name, method_params(self.config, name), data) for name in self.compared
        )


def _ingest(state: PipelineState) -> Iterable[Stage]:
    yield ingest.stage(state.config.source, state.source, state.workspace)


def _features(state: PipelineState) -> Iterable[Stage]:
    yield from feature_blocks.block_stages(
        state.blocks,
        state.config.source,
        state.source,
        state.ref("ingest"),
        state.variants("features"),
        state.workspace,
    )


def _affinity(state: PipelineState) -> Iterable[Stage]:
    config, found = state.config, state.ref("features")
    if state.uses_graph:
        yield affinity.stage(config.affinity, config.source, state.scale, found, state.workspace)


def _correlation(state: PipelineState) -> Iterable[Stage]:
    yield correlation.stage(state.ref("ingest"), state.workspace)


def _embedding(state: PipelineState) -> Iterable[Stage]:
    config = state.config
    for name in state.chosen:
        if get_method(name).role == "projection":
            params = method_params(config, name)
            yield embedding.stage(name, params, config.annotation, state.data, state.workspace)


def _model(state: PipelineState) -> Iterable[Stage]:
    for name in state.compared:
        is_model = get_method(name).role == "classifier" and get_method(name).inductive
        if is_model and keeps_model(state.config, name, state.n_labeled):
            params = method_params(state.config, name)
            yield embedding.model_stage(name, params, state.data, state.workspace)


def _evaluation(state: PipelineState) -> Iterable[Stage]:
    for name in state.compared:
        params = method_params(state.config, name)
        yield evaluation.stage(name, params, state.config.evaluation, state.data, state.workspace)


def _report(state: PipelineState) -> Iterable[Stage]:
    yield report.stage(
        state.config.report,
        state.config.evaluation,
        state.title,
        state.source,
        state.data,
        state.ref("correlation"),
        state.variants("embedding"),
        state.variants("evaluation"),
        state.workspace,
    )


def _map(state: PipelineState) -> Iterable[Stage]:
    config = state.config
    shown = mapping.pictures_stage(config.map, state.source, state.ref("ingest"), state.workspace)
    if shown is not None:
        yield shown
    if controls.METHOD in state.chosen:
        params = method_params(config, controls.METHOD)
        yield from controls.control_stages(params, state.data, state.workspace)
    placing = mapping.places_stage(config.source, state.data, state.workspace)
    if placing is not None:
        yield placing
    yield mapping.stage(
        config.map,
        config.evaluation,
        state.title,
        state.source,
        state.data,
        state.variants("embedding"),
        state.variants("model"),
        state.variants("evaluation"),
        mapping.extra_views(config.source, state.variants("map"), state.workspace.store),
        state.workspace,
    )


def _tracking(state: PipelineState) -> Iterable[Stage]:
    config = state.config
    if not config.tracking.enabled:
        return
    facts = run_facts(
        config,
        state.name,
        state.experiment_name,
        state.variants("evaluation"),
        dict(state.tags),
        changes_of(config, state.workspace, state.ref("ingest")),
    )
    yield tracking.stage(
        config.tracking,
        facts,
        state.data,
        state.variants("embedding"),
        state.variants("model"),
        state.variants("evaluation"),
        state.ref("report"),
        state.workspace,
        state.ref("correlation"),
        state.variants("map"),
    )


STEPS: dict[str, Callable[[PipelineState], Iterable[Stage]]] = {
    "ingest": _ingest,
    "features": _features,
    "affinity": _affinity,
    "correlation": _correlation,
    "embedding": _embedding,
    "model": _model,
    "evaluation": _evaluation,
    "report": _report,
    "map": _map,
    "tracking": _tracking,
}
STAGES = tuple(STEPS)
# The steps that every method needs.
DATA_STAGES = ("ingest", "features", "affinity")
# A file that is read in less time than an engine takes to start.
_SMALL_BYTES = 10_000_000


@dataclass(frozen=True)
class TrainingProducts:
    """References to what a walk over the pipeline made.

    Attributes
    ----------
    refs : mapping
        By stage name and variant; see `PipelineState.refs`.
    """

    name: str
    experiment_name: str
    refs: Mapping[str, Refs]

    def ref(self, stage: str) -> ArtifactRef | None:
        """The artifact of a stage that has no variants."""
        return self.refs[stage].get("")

    @property
    def manifest(self) -> ArtifactRef | None:
        """Items and labels."""
        return self.ref("ingest")

    @property
    def features(self) -> ArtifactRef | None:
        """Features of all items."""
        return self.ref("features")

    @property
    def scores(self) -> Refs:
        """Scores by method."""
        return self.refs["evaluation"]

    @property
    def report(self) -> ArtifactRef | None:
        """The report page."""
        return self.ref("report")

    @property
    def tracked(self) -> ArtifactRef | None:
        """The record of the tracked run."""
        return self.ref("tracking")

    @property
    def shown(self) -> tuple[ArtifactRef | None, ...]:
        """Artifacts that are read after the walk, to show the results."""
        maps = self.refs.get("map", {}).values()
        return (self.manifest, self.features, *self.scores.values(), self.report, *maps)


def start(config: RunConfig, workspace: Workspace, tags: Mapping[str, str]) -> PipelineState:
    """Check the configuration and open its source."""
    check_methods(config)
    check_places(config)
    source = ingest.open_collection(config.source, workspace, config.features.fills)
    return PipelineState(config, workspace, source, tags)


def check_source(config: RunConfig, workspace: Workspace) -> None:
    """Raise what `start` and the choice of extractors find, and what is wrong in a small file.

    A folder or a large file is only opened: reading it takes longer than a mistake in the settings costs.
    """
    state = start(config, workspace, {})
    feature_blocks.plan_blocks(config.features, state.source)
    path = Path(config.source.path)
    if path.is_file() and path.stat().st_size <= _SMALL_BYTES:
        state.source.read(workspace.cache_dir)


def walk(
    config: RunConfig,
    workspace: Workspace,
    execute: Execute,
    tags: Mapping[str, str] | None = None,
    before_methods: Callable[[PipelineState], None] = lambda state: None,
) -> TrainingProducts:
    """Hand every stage to `execute` in order; `execute` decides whether to compute or only inspect it.

    `before_methods` is called after the stages that every method needs, and may stop the walk.
    """
    state = start(config, workspace, tags or {})
    methods = STAGES.index(DATA_STAGES[-1]) + 1
    _walk_steps(state, execute, STAGES[:methods])
    before_methods(state)
    _walk_steps(state, execute, STAGES[methods:])
    return TrainingProducts(state.name, state.experiment_name, state.refs)


def walk_data(
    config: RunConfig, workspace: Workspace, execute: Execute, for_auto: bool = True
) -> PipelineState:
    """The stages that every method needs: ingest, features, affinity.

    Affinity is left out if no configured method, or with `for_auto` no candidate, uses the graph.
    """
    state = start(config, workspace, {})
    state.for_auto = for_auto
    _walk_steps(state, execute, DATA_STAGES)
    return state


def _walk_steps(state: PipelineState, execute: Execute, names: Sequence[str]) -> None:
    for name in names:
        made = state.refs.setdefault(name, {})
        for stage in STEPS[name](state):
            made[stage.variant] = execute(stage)


@dataclass(frozen=True)
class TrainingPlan(Plan[TrainingProducts]):
    """The pipeline on the configured collection: `labelscape run`.

    Unless `confirmed`, a method that would take more than an hour stops it before it starts.
    """

    confirmed: bool = True
    kind: ClassVar[Kind] = "run"
    stage_names: ClassVar[tuple[str, ...]] = STAGES
    sync_tracks: ClassVar[bool] = True

    def settings(self) -> dict[str, Any]:
        """The configuration without settings that change no result."""
        return resolved_config(self.config)

    def check(self, workspace: Workspace) -> None:
        """Report a mistake in the source or the settings at once."""
        check_source(self.config, workspace)

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> TrainingProducts:
        """Every step of the pipeline."""
        return walk(self.config, stages.workspace, stages, tags, self._check_time)

    def _check_time(self, state: PipelineState) -> None:
        """State the expected time of methods that grow faster than n log n, and ask if it is long."""
        data, workspace = state.data, state.workspace
        planned = [
            (name, method_params(state.config, name))
            for name in state.compared
            if get_method(name).growth > 1 and state.n_labeled > state.config.evaluation.exact_items
        ]
        stages = [
            evaluation.stage(name, params, state.config.evaluation, data, workspace)
            for name, params in planned
        ]
        due = [
            one
            for one, stage in zip(planned, stages, strict=True)
            if stage.ready and workspace.store.find(stage.recipe()) is None
        ]
        announce(due, data, state.config.evaluation.folds, workspace, self.confirmed)

    def result_tables(self, products: TrainingProducts, store: ArtifactStore) -> dict[str, Table]:
        """The scores of all methods."""
        rows = [row for ref in products.scores.values() if ref for row in evaluation.load_scores(store, ref)]
        if not rows:
            return {}
        titles = {name: get_method(name).title for name in products.scores}
        baselines = {name for name in products.scores if get_method(name).baseline}
        sort_by = self.config.evaluation.sort_by
        note = evaluation.sampling_note(store, products.scores.values(), sort_by)
        table = score_table(rows, sort_by=sort_by, titles=titles, baselines=baselines, note=note)
        return {"Scores": table}

    def map_picture(self, products: TrainingProducts, store: ArtifactStore) -> bytes | None:
        """The figure of the first method's embedding in the report."""
        return report.embedding_figure(products.report, store) if products.report else None

    def publish(self, products: TrainingProducts, run: LoggedRun, workspace: Workspace) -> Path | None:
        """Write the report page; None if the run ended before it."""
        if products.report is None:
            return None
        if placed := products.refs["map"].get(mapping.PLACES):
            remember_places(workspace.store, self.config.source, placed)
        tracked = load_tracked(workspace.store, products.tracked) if products.tracked else None
        links = page_links(tracked, run.flow_run, workspace.home)
        around = report.Circumstances(run.stages, run.damaged, run.id, links)
        page = report.write_report(products.report, workspace, around)
        list_report(page.parent, about_run(run, self.result_tables(products, workspace.store)))
        return page
