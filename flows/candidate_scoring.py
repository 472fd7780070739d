"""Scores the candidates of `auto` one after the other; each is scored, stopped early or skipped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from embedding_core.registry.candidates import Candidate
from flows.stages import StageRunner
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.predictions import Predictions
from storage.artifacts.schemas import Score
from storage.errors import StageError
from tasks.budget import Budget, BudgetEnded, format_duration
from tasks.selection import choice
from tasks.selection.candidates import (
    SelectionContext,
    candidate_stage,
    items_per_label,
    load_predictions,
    mean_stage,
    trial_stage,
)
from tasks.selection.choice import CandidateResult, Champion
from tasks.selection.out_of_fold import measure, only_folds


@dataclass
class CandidateScoring:
    """Scores each candidate on its first folds and, unless it is hopeless, on the remaining ones.

    Attributes
    ----------
    context : SelectionContext
        Data, evaluation settings, workspace and budget.
    stages : StageRunner
    budget : Budget
    metric : str
        Decides which candidate leads.
    champion : Champion or None
        The present champion. It is never stopped early or skipped: the winner must be compared with it.
    named : bool
        Whether the user named the candidates. If so, none is skipped for its number of items per label.
    """

    context: SelectionContext
    stages: StageRunner
    budget: Budget
    metric: str
    champion: Champion | None
    named: bool

    def score(self, candidates: Sequence[Candidate]) -> list[CandidateResult]:
        """The result of each candidate."""
        self.budget.start()
        results: list[CandidateResult] = []
        for number, candidate in enumerate(candidates, start=1):
            self._announce(number, len(candidates), candidate)
            try:
                results.append(self._score_one(candidate, results))
            except BudgetEnded as error:
                results.append(CandidateResult(candidate, "skipped", str(error)))
            except StageError as error:
                results.append(CandidateResult(candidate, "failed", str(error)))
        return results

    def _announce(self, number: int, total: int, candidate: Candidate) -> None:
        if self.budget.left:
            left = format_duration(self.budget.left)
            self.context.workspace.reporter.say(
                f"candidate {number} of {total}: {candidate.label} (budget left: {left})"
            )

    def _score_one(self, candidate: Candidate, before: Sequence[CandidateResult]) -> CandidateResult:
        reason = self._reason_to_skip(candidate)
        if reason:
            return CandidateResult(candidate, "skipped", reason)
        members = [one for one in before if one.name in candidate.members]
        if candidate.members and len(members) == len(candidate.members):
            return self._average(candidate, members)
        trial = self._result(candidate, "stopped", self.stages(trial_stage(candidate, self.context)))
        leader = choice.leading(before, self.metric)
        reason = self._reason_to_stop(trial, leader) if leader else ""
        if reason:
            return replace(trial, reason=reason)
        ref = self.stages(candidate_stage(candidate, self.context, trial.ref))
        return replace(self._result(candidate, "scored", ref), trial=trial.ref)

    def _average(self, candidate: Candidate, members: Sequence[CandidateResult]) -> CandidateResult:
        """Score a candidate that averages the predictions of others."""
        for one in members:
            if one.state == "skipped":
                return CandidateResult(candidate, "skipped", one.reason)
            if one.state != "scored":
                reason = f"it averages candidates, and {one.candidate.label} was not scored on all folds"
                return CandidateResult(candidate, "skipped", reason)
        refs = {one.name: one.ref for one in members}
        return self._result(candidate, "scored", self.stages(mean_stage(candidate, self.context, refs)))

    def _reason_to_skip(self, candidate: Candidate) -> str:
        """Why a candidate does not suit the data; empty if it does, was named, or is the champion."""
        found = items_per_label(self.context.dataset)
        if candidate.most_items is None or found < candidate.most_items:
            return ""
        if self.named or self._is_champion(candidate):
            return ""
        return (
            f"it is meant for fewer than {candidate.most_items} items per label; here there are {found:.0f}"
        )

    def _is_champion(self, candidate: Candidate) -> bool:
        return self.champion is not None and candidate.recipe() == self.champion.candidate.recipe()

    def _reason_to_stop(self, trial: CandidateResult, leader: CandidateResult) -> str:
        """Why a candidate cannot catch up with the leader on the same folds; empty if it can."""
        if self._is_champion(trial.candidate):
            return ""
        assert leader.ref
        found = only_folds(load_predictions(self.context, leader.ref), {row.fold for row in trial.rows})
        level = replace(leader, rows=self._measure(leader.candidate, found))
        return choice.reason_to_stop(trial, level, self.metric, self.context.settings.folds)

    def _result(self, candidate: Candidate, state: choice.State, ref: ArtifactRef | None) -> CandidateResult:
        assert ref
        rows = self._measure(candidate, load_predictions(self.context, ref))
        return CandidateResult(candidate, state, "", rows, ref)

    def _measure(self, candidate: Candidate, found: Predictions) -> list[Score]:
        return measure(candidate.name, found, self.context.dataset, self.context.tune_for)
