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
from flows.config import RunConfig
from flows.run_settings import (
    changed_settings,
    check_methods,
    check_places,
    chosen_methods,
    compared_methods,
    method_params,
    resolved_config,
    run_name,
)
from flows.runner import Plan
from flows.stages import Execute, StageRunner
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind, LoggedRun
from storage.sources import OpenedSource
from tasks.stage import Stage, Workspace
from tasks.stages import (
    affinity,
    correlation,
    embedding,
    evaluation,
    feature_blocks,
    ingest,
    report,
    tracking,
)

Refs = dict[str, ArtifactRef | None]


@dataclass
class PipelineState:
    """A walk in progress: what the steps so far made, for the steps that follow.

    Attributes
    ----------
    refs : dict of str to dict
        By stage name and variant: the artifact, or None if it is not available.
    """

    config: RunConfig
    workspace: Workspace
    source: OpenedSource
    tags: Mapping[str, str]
    refs: dict[str, Refs] = field(default_factory=dict)

    def variants(self, stage: str) -> Refs:
        """The artifacts of a stage by variant, for instance by method."""
        return self.refs.get(stage, {})

    def ref(self, stage: str) -> ArtifactRef | None:
        """The artifact of a stage that has no variants."""
        return self.variants(stage).get("")

    @property
    def title(self) -> str:
        """Name of the run."""
        return run_name(self.config, self.source.name)

    @property
    def experiment_name(self) -> str:
        """Experiment under which the run is tracked."""
        return self.config.tracking.experiment or self.source.name

    @cached_property
    def scale(self) -> Any:
        """How a single block of features is scaled; several have a scale each."""
        return self.blocks[0].preparation["scale"]

    @cached_property
    def blocks(self) -> list[feature_blocks.BlockPlan]:
        """The blocks of features."""
        return feature_blocks.plan_blocks(self.config.features, self.source)

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

    @cached_property
    def compared(self) -> list[str]:
        """The configured methods and the baselines."""
        return compared_methods(self.config, self.chosen)


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
        if get_method(name).role == "classifier" and get_method(name).inductive:
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


def _tracking(state: PipelineState) -> Iterable[Stage]:
    config = state.config
    if not config.tracking.enabled:
        return
    params = {name: method_params(config, name) for name in state.variants("evaluation")}
    facts = tracking.Facts(
        state.title,
        state.experiment_name,
        resolved_config(config),
        params,
        changed_settings(config),
        dict(state.tags),
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
    "tracking": _tracking,
}
STAGES = tuple(STEPS)
# The steps that every method needs.
DATA_STAGES = ("ingest", "features", "affinity")


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
        return (self.manifest, self.features, *self.scores.values(), self.report)


def start(config: RunConfig, workspace: Workspace, tags: Mapping[str, str]) -> PipelineState:
    """Check the configuration and open its source."""
    check_methods(config)
    check_places(config)
    source = ingest.open_collection(config.source, workspace, config.features.fills)
    return PipelineState(config, workspace, source, tags)


def walk(
    config: RunConfig, workspace: Workspace, execute: Execute, tags: Mapping[str, str] | None = None
) -> TrainingProducts:
    """Hand every stage to `execute` in order; `execute` decides whether to compute or only inspect it."""
    state = start(config, workspace, tags or {})
    _walk_steps(state, execute, STAGES)
    return TrainingProducts(state.title, state.experiment_name, state.refs)


def walk_data(config: RunConfig, workspace: Workspace, execute: Execute) -> PipelineState:
    """The stages that every method needs: ingest, features, affinity."""
    state = start(config, workspace, {})
    _walk_steps(state, execute, DATA_STAGES)
    return state


def _walk_steps(state: PipelineState, execute: Execute, names: Sequence[str]) -> None:
    for name in names:
        made = state.refs.setdefault(name, {})
        for stage in STEPS[name](state):
            made[stage.variant] = execute(stage)


@dataclass(frozen=True)
class TrainingPlan(Plan[TrainingProducts]):
    """The pipeline on the configured collection: `labelscape run`."""

    kind: ClassVar[Kind] = "run"
    stage_names: ClassVar[tuple[str, ...]] = STAGES
    sync_tracks: ClassVar[bool] = True

    def settings(self) -> dict[str, Any]:
        """The configuration without settings that change no result."""
        return resolved_config(self.config)

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> TrainingProducts:
        """Every step of the pipeline."""
        return walk(self.config, stages.workspace, stages, tags)

    def publish(self, products: TrainingProducts, run: LoggedRun, workspace: Workspace) -> Path | None:
        """Write the report page; None if the run ended before it."""
        if products.report is None:
            return None
        return report.write_report(products.report, workspace, report.Circumstances(run.stages, run.damaged))
