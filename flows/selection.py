"""`auto` as a table of contents: the data, the candidates in turn, the choice, the winner and its title."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from embedding_core.registry import inner_methods
from embedding_core.registry.candidates import Candidate, pick_candidates
from flows.config import RunConfig
from flows.pipeline import changed_settings, resolved_config, run_name, walk_data
from flows.rerun import CHOSEN
from flows.runner import StageRunner
from flows.selection_race import Race
from storage.artifacts.keys import ArtifactRef
from storage.errors import ConfigError, StageError, TrackingError
from storage.tracking.client import Tracker
from tasks.budget import Budget
from tasks.reporter import Reporter
from tasks.selection import choice, tracking
from tasks.selection.candidates import SelectionContext, check_labels
from tasks.selection.choice import CandidateResult, Champion, Choice, TitleDecision
from tasks.selection.out_of_fold import Tuning
from tasks.stage import Workspace
from tasks.stages import ingest
from tasks.stages.embedding import Data, model_stage
from tasks.stages.tracking import Facts, load_tracked, make_tracker

# The parameter by which a method decides for a metric by itself.
_TUNE_FOR = "tune_for"


@dataclass(frozen=True)
class Contested:
    """What a run of `auto` came to.

    Attributes
    ----------
    models : mapping
        The winner's, and the champion's where it was fitted anew.
    settled : RegisteredTitles or None
        The titles in the registry; None where nothing was registered.
    tracked : ArtifactRef or None
        The record of the tracked run.
    """

    name: str
    experiment: str
    choice: Choice
    verdict: TitleDecision
    champion: Champion | None
    models: Mapping[str, ArtifactRef]
    settled: tracking.RegisteredTitles | None
    tracked: ArtifactRef | None


def walk_contest(
    config: RunConfig,
    workspace: Workspace,
    runner: StageRunner,
    tags: Mapping[str, str],
    budget: Budget,
) -> Contested:
    """Every stage in turn."""
    source, data = walk_data(config, workspace, runner)
    context = SelectionContext(config.evaluation, data, workspace, budget)
    check_labels(context.dataset, config.evaluation.folds)
    experiment = config.tracking.experiment or source.name
    champion = _present_champion(config, experiment, runner)
    entrants = line_up(config, ingest.has_single_labels(data.manifest, workspace.store), champion)
    _tell_what_decides(config, workspace.reporter)
    race = Race(context, runner, budget, config.evaluation.sort_by, champion, bool(config.auto.candidates))
    results = race.run(entrants)
    made = choice.choose(results, config.evaluation.sort_by, context.tune_for)
    if made is None:
        raise _nobody(results)
    record = runner(choice.stage(made))
    verdict = choice.decide_title(made, champion)
    models = _fit_models(made, verdict, champion, data, runner)
    name = f"{run_name(config, source.name)}, auto"
    done = Contested(name, experiment, made, verdict, champion, models, None, None)
    return _track(config, done, record, data, runner, tags) if config.tracking.enabled else done


def line_up(config: RunConfig, single_label: bool | None, champion: Champion | None) -> list[Candidate]:
    """The candidates with the configuration's parameters; before them a champion that is none of them."""
    found = [_configured(one, config) for one in pick_candidates(single_label, config.auto.candidates)]
    if not found:
        raise ConfigError("auto.candidates: none of them takes these labels; see `labelscape methods`.")
    if champion is None or not champion.known:
        return found
    known = [one.recipe() for one in found]
    return found if champion.candidate.recipe() in known else [_renamed(champion.candidate, found), *found]


def _renamed(holder: Candidate, others: Sequence[Candidate]) -> Candidate:
    """The champion under a name that no other candidate has."""
    taken = holder.name in {one.name for one in others}
    title = f"{holder.label}, as it was"
    return replace(holder, name=f"{holder.name}_champion", title=title, members=()) if taken else holder


def _configured(candidate: Candidate, config: RunConfig) -> Candidate:
    """With what the configuration says of its method; what makes it this candidate goes before that.

    A method's own tuning is left out: all candidates are decided alike, and a mean wants untuned scores.
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


def _tell_what_decides(config: RunConfig, reporter: Reporter) -> None:
    """Say that a method's own tuning does not count here."""
    for method, params in config.embedding.params.items():
        if _TUNE_FOR in params:
            reporter.say_once(
                f"  warning: embedding.params.{method}.{_TUNE_FOR} is not used by auto; the labels of all "
                "candidates are decided for evaluation.sort_by."
            )


def known_settings(config: RunConfig) -> dict[str, Any]:
    """The configuration as a record keeps it; the budget changes no result unless it ends, which is said."""
    return {**resolved_config(config), CHOSEN: config.auto.model_dump(mode="json", exclude={"budget"})}


def _nobody(results: Sequence[CandidateResult]) -> Exception:
    """Why no candidate was scored."""
    for one in results:
        if one.state == "failed":
            return StageError(f"no candidate could be scored; {one.reason}")
    return ConfigError(f"{results[0].reason} before any candidate was scored; give more with --budget.")


def _present_champion(config: RunConfig, experiment: str, runner: StageRunner) -> Champion | None:
    if not config.tracking.enabled:
        return None
    try:
        return tracking.load_champion(_tracker(config, runner), experiment)
    except TrackingError as error:
        runner.untracked = str(error)
        return None


def _tracker(config: RunConfig, runner: StageRunner) -> Tracker:
    return make_tracker(config.tracking.uri, runner.workspace.home)


def _fit_models(
    made: Choice, verdict: TitleDecision, champion: Champion | None, data: Data, runner: StageRunner
) -> dict[str, ArtifactRef]:
    """Fit the winner on all labels, and a champion that stays but was fitted or tuned for something else."""
    chosen = [made.winner]
    digests = tracking.data_digests(data, runner.workspace.store)
    outdated = champion and tracking.is_outdated(champion, digests, made.tune_for)
    if verdict.title == "challenger" and champion and outdated:
        present = made.find(champion.candidate.recipe())
        chosen += [present] if present else []
    models = {}
    for one in chosen:
        method, params = one.candidate.method, one.candidate.params
        assert one.ref
        tuning = None if made.tune_for == "hamming" else Tuning(made.tune_for, one.ref)
        ref = runner(model_stage(method, params, data, runner.workspace, one.name, tuning))
        assert ref
        models[one.name] = ref
    return models


def _track(
    config: RunConfig,
    done: Contested,
    record: ArtifactRef | None,
    data: Data,
    runner: StageRunner,
    tags: Mapping[str, str],
) -> Contested:
    """Track the choice and register the winner, as far as the tracker answers."""
    if runner.untracked:
        return done
    settings = changed_settings(config)
    facts = Facts(done.name, done.experiment, known_settings(config), {}, settings, tags)
    workspace, uri = runner.workspace, config.tracking.uri
    ref = runner(tracking.stage(facts, uri, data, done.choice, record, done.models, workspace))
    if ref is None:
        return done
    try:
        settled = tracking.register_titles(
            _tracker(config, runner),
            done.experiment,
            done.choice,
            done.verdict,
            load_tracked(workspace.store, ref),
            done.models,
            tracking.data_digests(data, workspace.store),
        )
    except TrackingError as error:
        runner.untracked = str(error)
        return replace(done, tracked=ref)
    return replace(done, settled=settled, tracked=ref)
