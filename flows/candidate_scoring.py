"""Scores the candidates of `auto` one after the other; each is scored, stopped early or skipped.

The budget covers the final fit of the winner: its expected time is set aside while candidates are scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from embedding_core.registry.candidates import Candidate
from embedding_core.threads import count_cores
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
from tasks.selection.copies import Copies, find_copies
from tasks.selection.out_of_fold import measure, only_folds
from tasks.selection.rare_labels import judged_part


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
            self.budget.reserve(0)
            self._announce(number, len(candidates), candidate)
            self.budget.reserve(self._seconds_to_fit(choice.leading(results, self.metric)))
            try:
                results.append(self._score_one(candidate, results))
            except BudgetEnded as error:
                results.append(CandidateResult(candidate, "skipped", str(error)))
            except StageError as error:
                results.append(CandidateResult(candidate, "failed", str(error)))
        self.budget.reserve(0)
        return results

    def score_open(self, winner: CandidateResult) -> CandidateResult:
        """Score the winner on all folds without the features of the test rows, for a closed collection."""
        self.budget.reserve(self._seconds_to_fit(winner))
        candidate, context = winner.candidate, replace(self.context, closed=False)
        trial = self.stages(trial_stage(candidate, context))
        return self._result(candidate, "scored", self.stages(candidate_stage(candidate, context, trial)))

    def find_copies(self, winner: CandidateResult) -> Copies | None:
        """Items of which the fits of the winner have seen a copy; None if there are none."""
        if winner.state != "scored" or winner.ref is None:
            return None
        found = load_predictions(self.context, winner.ref)
        judged = judged_part(found, self.context.dataset, self.context.rare)
        return find_copies(*judged, self.metric, self.context.tune_for)

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
        self.budget.reserve(max(self._seconds_to_fit(leader), self._seconds_to_fit(trial)))
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
        made = self._result(candidate, "scored", self.stages(mean_stage(candidate, self.context, refs)))
        return replace(made, members=tuple(members))

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
        """Why a candidate cannot catch up with the leader on the same folds; empty if it can.

        A plain baseline is never stopped: nobody becomes champion before each is scored on all folds.
        """
        if self._is_champion(trial.candidate) or trial.candidate.plain:
            return ""
        assert leader.ref
        found = only_folds(load_predictions(self.context, leader.ref), {row.fold for row in trial.rows})
        level = replace(leader, rows=self._measure(leader.candidate, found))
        return choice.reason_to_stop(trial, level, self.metric, self.context.settings.folds)

    def _seconds_to_fit(self, result: CandidateResult | None) -> float:
        """Expected seconds of a fit on all labeled items, from those of the folds.

        Folds run at once on all cores, the fit alone on one. Methods grow with up to the square of the items.
        """
        if result is None or not (result.ref or result.members):
            return 0.0
        if result.members:
            return sum(self._seconds_to_fit(one) for one in result.members)
        store, n_folds = self.context.workspace.store, self.context.settings.folds
        seconds = sum(store.details(ref)["seconds"] for ref in (result.ref, result.trial) if ref)
        scored = len({row.fold for row in result.rows})
        at_once = min(count_cores(), scored)
        return float(seconds * at_once / scored * (n_folds / (n_folds - 1)) ** 2)

    def _result(self, candidate: Candidate, state: choice.State, ref: ArtifactRef | None) -> CandidateResult:
        assert ref
        rows = self._measure(candidate, load_predictions(self.context, ref))
        return CandidateResult(candidate, state, "", rows, ref)

    def _measure(self, candidate: Candidate, found: Predictions) -> list[Score]:
        judged = judged_part(found, self.context.dataset, self.context.rare)
        return measure(candidate.name, *judged, self.context.tune_for)
