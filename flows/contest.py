"""`auto` as a table of contents: the data, the candidates in turn, the choice, the winner and its title."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from embedding_core.menu import Candidate, pick_candidates
from embedding_core.registry import inner_methods
from flows.config import RunConfig
from flows.pipeline import changed_settings, resolved_config, run_name, walk_data
from flows.repeating import CHOSEN
from flows.training import StageRunner
from storage.errors import ConfigError, StageError, TrackingError
from storage.keys import ArtifactRef
from storage.tracking import Tracker
from tasks import auto_tracking, choice, ingest
from tasks.budget import Budget, BudgetEnded, format_duration
from tasks.candidates import (
    Contest,
    candidate_stage,
    check_labels,
    items_a_label,
    load_predictions,
    mean_stage,
    measure,
    trial_stage,
)
from tasks.choice import Champion, Choice, Standing, Verdict
from tasks.embedding import Data, model_stage
from tasks.fold_pool import FoldRunner
from tasks.stage import Workspace
from tasks.tracking import Facts, load_tracked, make_tracker


@dataclass(frozen=True)
class Contested:
    """What a run of `auto` came to.

    Attributes
    ----------
    models : mapping
        The winner's, and the champion's where it was fitted anew.
    settled : Settled or None
        The titles in the registry; None where nothing was registered.
    tracked : ArtifactRef or None
        The record of the tracked run.
    """

    name: str
    experiment: str
    choice: Choice
    verdict: Verdict
    champion: Champion | None
    models: Mapping[str, ArtifactRef]
    settled: auto_tracking.Settled | None
    tracked: ArtifactRef | None


def walk_contest(
    config: RunConfig,
    workspace: Workspace,
    runner: StageRunner,
    tags: Mapping[str, str],
    run_folds: FoldRunner,
    budget: Budget,
) -> Contested:
    """Every stage in turn."""
    source, data = walk_data(config, workspace, runner)
    contest = Contest(config.evaluation, data, workspace, run_folds)
    check_labels(contest.dataset, config.evaluation.folds)
    experiment = config.tracking.experiment or source.name
    champion = _present_champion(config, experiment, runner)
    entrants = line_up(config, ingest.has_single_labels(data.manifest, workspace.store), champion)
    race = Race(contest, runner, budget, config.evaluation.sort_by, champion, bool(config.auto.candidates))
    standings = race.run(entrants)
    made = choice.choose(standings, config.evaluation.sort_by)
    if made is None:
        raise _nobody(standings)
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
    """With what the configuration says of its method; what makes it this candidate goes before that."""
    given = config.embedding.params
    params: dict[str, Any] = {**given.get(candidate.method, {}), **candidate.params}
    if candidate.members:
        own, names = params.get("params", {}), inner_methods(candidate.method, params)
        params["params"] = {name: {**given.get(name, {}), **own.get(name, {})} for name in names}
    return replace(candidate, params=params)


@dataclass
class Race:
    """Candidates one after the other, each on its first folds and then, unless hopeless, on the rest."""

    contest: Contest
    runner: StageRunner
    budget: Budget
    metric: str
    champion: Champion | None
    named: bool

    def run(self, entrants: Sequence[Candidate]) -> list[Standing]:
        """What became of each."""
        self.budget.start()
        standings: list[Standing] = []
        for number, candidate in enumerate(entrants, start=1):
            self._announce(number, len(entrants), candidate)
            try:
                standings.append(self._enter(candidate, standings))
            except BudgetEnded as error:
                standings.append(Standing(candidate, "skipped", str(error)))
            except StageError as error:
                standings.append(Standing(candidate, "failed", str(error)))
        return standings

    def _announce(self, number: int, total: int, candidate: Candidate) -> None:
        if self.budget.left:
            left = format_duration(self.budget.left)
            self.contest.workspace.reporter.say(
                f"candidate {number} of {total}: {candidate.label} ({left} of the budget left)"
            )

    def _enter(self, candidate: Candidate, before: Sequence[Standing]) -> Standing:
        reason = self._reason_to_skip(candidate)
        if reason:
            return Standing(candidate, "skipped", reason)
        members = [one for one in before if one.name in candidate.members]
        if candidate.members and len(members) == len(candidate.members):
            return self._average(candidate, members)
        trial = self._stand(candidate, "stopped", self.runner(trial_stage(candidate, self.contest)))
        leader = choice.leading(before, self.metric)
        reason = self._reason_to_stop(trial, leader) if leader else ""
        if reason:
            return replace(trial, reason=reason)
        ref = self.runner(candidate_stage(candidate, self.contest, trial.ref))
        return self._stand(candidate, "scored", ref)

    def _average(self, candidate: Candidate, members: Sequence[Standing]) -> Standing:
        for one in members:
            if one.state == "skipped":
                return Standing(candidate, "skipped", one.reason)
            if one.state != "scored":
                reason = f"it is a mean, and {one.candidate.label} was not scored on all folds"
                return Standing(candidate, "skipped", reason)
        refs = {one.name: one.ref for one in members}
        return self._stand(candidate, "scored", self.runner(mean_stage(candidate, self.contest, refs)))

    def _reason_to_skip(self, candidate: Candidate) -> str:
        """Why a candidate does not fit the data; one that was named, or is champion, enters all the same."""
        found = items_a_label(self.contest.dataset)
        if candidate.most_items is None or found < candidate.most_items:
            return ""
        if self.named or self._is_champion(candidate):
            return ""
        return f"it is for labels that fewer than {candidate.most_items} items carry; here {found:.0f} do"

    def _is_champion(self, candidate: Candidate) -> bool:
        return self.champion is not None and candidate.recipe() == self.champion.candidate.recipe()

    def _reason_to_stop(self, trial: Standing, leader: Standing) -> str:
        """The present champion is never given up: the winner must be compared with it."""
        if self._is_champion(trial.candidate):
            return ""
        return choice.reason_to_stop(trial, leader, self.metric, self.contest.settings.folds)

    def _stand(self, candidate: Candidate, state: choice.State, ref: ArtifactRef | None) -> Standing:
        assert ref
        rows = measure(candidate.name, load_predictions(self.contest, ref), self.contest.dataset)
        return Standing(candidate, state, "", rows, ref)


def known_settings(config: RunConfig) -> dict[str, Any]:
    """The configuration as a record keeps it; the budget changes no result unless it ends, which is said."""
    return {**resolved_config(config), CHOSEN: config.auto.model_dump(mode="json", exclude={"budget"})}


def _nobody(standings: Sequence[Standing]) -> Exception:
    """Why no candidate was scored."""
    for one in standings:
        if one.state == "failed":
            return StageError(f"no candidate could be scored; {one.reason}")
    return ConfigError(f"{standings[0].reason} before any candidate was scored; give more with --budget.")


def _present_champion(config: RunConfig, experiment: str, runner: StageRunner) -> Champion | None:
    if not config.tracking.enabled:
        return None
    try:
        return auto_tracking.load_champion(_tracker(config, runner), experiment)
    except TrackingError as error:
        runner.untracked = str(error)
        return None


def _tracker(config: RunConfig, runner: StageRunner) -> Tracker:
    return make_tracker(config.tracking.uri, runner.workspace.home)


def _fit_models(
    made: Choice, verdict: Verdict, champion: Champion | None, data: Data, runner: StageRunner
) -> dict[str, ArtifactRef]:
    """Fit the winner on all labels, and a champion that stays but has not seen the present data."""
    chosen = [made.winner]
    digests = auto_tracking.data_digests(data, runner.workspace.store)
    if verdict.title == "challenger" and champion and auto_tracking.is_outdated(champion, digests):
        present = made.find(champion.candidate.recipe())
        chosen += [present] if present else []
    models = {}
    for one in chosen:
        method, params = one.candidate.method, one.candidate.params
        ref = runner(model_stage(method, params, data, runner.workspace, variant=one.name))
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
    ref = runner(auto_tracking.stage(facts, uri, data, done.choice, record, done.models, workspace))
    if ref is None:
        return done
    try:
        settled = auto_tracking.settle(
            _tracker(config, runner),
            done.experiment,
            done.choice,
            done.verdict,
            load_tracked(workspace.store, ref),
            done.models,
            auto_tracking.data_digests(data, workspace.store),
        )
    except TrackingError as error:
        runner.untracked = str(error)
        return replace(done, tracked=ref)
    return replace(done, settled=settled, tracked=ref)
