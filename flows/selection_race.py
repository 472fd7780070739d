"""The candidates of `auto` in turn: each tried, then scored, stopped or left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from embedding_core.registry.candidates import Candidate
from flows.runner import StageRunner
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
class Race:
    """Candidates one after the other, each on its first folds and then, unless hopeless, on the rest."""

    context: SelectionContext
    runner: StageRunner
    budget: Budget
    metric: str
    champion: Champion | None
    named: bool

    def run(self, entrants: Sequence[Candidate]) -> list[CandidateResult]:
        """What became of each."""
        self.budget.start()
        results: list[CandidateResult] = []
        for number, candidate in enumerate(entrants, start=1):
            self._announce(number, len(entrants), candidate)
            try:
                results.append(self._enter(candidate, results))
            except BudgetEnded as error:
                results.append(CandidateResult(candidate, "skipped", str(error)))
            except StageError as error:
                results.append(CandidateResult(candidate, "failed", str(error)))
        return results

    def _announce(self, number: int, total: int, candidate: Candidate) -> None:
        if self.budget.left:
            left = format_duration(self.budget.left)
            self.context.workspace.reporter.say(
                f"candidate {number} of {total}: {candidate.label} ({left} of the budget left)"
            )

    def _enter(self, candidate: Candidate, before: Sequence[CandidateResult]) -> CandidateResult:
        reason = self._reason_to_skip(candidate)
        if reason:
            return CandidateResult(candidate, "skipped", reason)
        members = [one for one in before if one.name in candidate.members]
        if candidate.members and len(members) == len(candidate.members):
            return self._average(candidate, members)
        trial = self._stand(candidate, "stopped", self.runner(trial_stage(candidate, self.context)))
        leader = choice.leading(before, self.metric)
        reason = self._reason_to_stop(trial, leader) if leader else ""
        if reason:
            return replace(trial, reason=reason)
        ref = self.runner(candidate_stage(candidate, self.context, trial.ref))
        return replace(self._stand(candidate, "scored", ref), trial=trial.ref)

    def _average(self, candidate: Candidate, members: Sequence[CandidateResult]) -> CandidateResult:
        for one in members:
            if one.state == "skipped":
                return CandidateResult(candidate, "skipped", one.reason)
            if one.state != "scored":
                reason = f"it is a mean, and {one.candidate.label} was not scored on all folds"
                return CandidateResult(candidate, "skipped", reason)
        refs = {one.name: one.ref for one in members}
        return self._stand(candidate, "scored", self.runner(mean_stage(candidate, self.context, refs)))

    def _reason_to_skip(self, candidate: Candidate) -> str:
        """Why a candidate does not fit the data; one that was named, or is champion, enters all the same."""
        found = items_per_label(self.context.dataset)
        if candidate.most_items is None or found < candidate.most_items:
            return ""
        if self.named or self._is_champion(candidate):
            return ""
        return f"it is for labels that fewer than {candidate.most_items} items carry; here {found:.0f} do"

    def _is_champion(self, candidate: Candidate) -> bool:
        return self.champion is not None and candidate.recipe() == self.champion.candidate.recipe()

    def _reason_to_stop(self, trial: CandidateResult, leader: CandidateResult) -> str:
        """The present champion is never given up: the winner must be compared with it."""
        if self._is_champion(trial.candidate):
            return ""
        assert leader.ref
        found = only_folds(load_predictions(self.context, leader.ref), {row.fold for row in trial.rows})
        level = replace(leader, rows=self._measure(leader.candidate, found))
        return choice.reason_to_stop(trial, level, self.metric, self.context.settings.folds)

    def _stand(self, candidate: Candidate, state: choice.State, ref: ArtifactRef | None) -> CandidateResult:
        assert ref
        rows = self._measure(candidate, load_predictions(self.context, ref))
        return CandidateResult(candidate, state, "", rows, ref)

    def _measure(self, candidate: Candidate, found: Predictions) -> list[Score]:
        return measure(candidate.name, found, self.context.dataset, self.context.tune_for)
