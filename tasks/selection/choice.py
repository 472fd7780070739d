"""The choice among candidates: the winner, the results of the others, and the winner's title."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

from embedding_core.model_selection.significance import (
    FAR_BEHIND,
    STOP_ERRORS,
    Lead,
    best_of,
    is_hopeless,
    paired_lead,
)
from embedding_core.registry import METHODS
from embedding_core.registry.candidates import Candidate
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Score, pack_files
from tasks.report.ranking import LOWER_IS_BETTER, describe_drop, describe_lead, metric_title
from tasks.report.score_table import score_table
from tasks.report.tables import Table
from tasks.selection.copies import Copies
from tasks.selection.out_of_fold import MEASURING
from tasks.selection.rare_labels import NO_RARE_LABELS, RareLabels
from tasks.stage import Stage, digest_of

State = Literal["scored", "stopped", "skipped", "failed"]
Title = Literal["champion", "challenger"]
_RECORD = "choice.json"
_NO_BASELINE = (
    "no plain baseline was among the candidates; name one with --candidates, for instance logistic_regression"
)


@dataclass(frozen=True)
class CandidateResult:
    """Result of one candidate.

    Attributes
    ----------
    state : {"scored", "stopped", "skipped", "failed"}
        Scored on all folds; stopped after the first folds; skipped, because the budget ended or it does not
        suit the data; or failed.
    reason : str
        Why it was not scored on all folds.
    rows : sequence of Score
        Every metric on the folds that were scored.
    ref, trial : ArtifactRef or None
        Out-of-fold scores of all folds, and of the first folds.
    members : tuple of CandidateResult
        The results whose scores were averaged.
    """

    candidate: Candidate
    state: State
    reason: str = ""
    rows: Sequence[Score] = ()
    ref: ArtifactRef | None = None
    trial: ArtifactRef | None = None
    members: "tuple[CandidateResult, ...]" = ()

    @property
    def name(self) -> str:
        """Name of the candidate."""
        return self.candidate.name

    def values(self, metric: str) -> list[float]:
        """A metric by fold, negated if smaller is better."""
        sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
        found = {row.fold: sign * row.value for row in self.rows if row.metric == metric}
        return [found[fold] for fold in sorted(found)]


@dataclass(frozen=True)
class Champion:
    """The registered champion: its candidate, the data and metric it was fitted for, and its version.

    `features` names its features, see `tasks.dataset.describe_features`, and `values` are its scores in
    `metric` on the folds; empty if they were not recorded.
    """

    candidate: Candidate
    digests: Mapping[str, str]
    version: str
    run_id: str
    tune_for: str = "hamming"
    features: str = ""
    metric: str = ""
    values: tuple[float, ...] = ()

    def has_other(self, features: str) -> bool:
        """Whether it was fitted on other features than these; it cannot be scored on these then."""
        return bool(self.features and features and self.features != features)

    @property
    def known(self) -> bool:
        """Whether this version of labelscape has its method."""
        return self.candidate.method in METHODS


@dataclass(frozen=True)
class TitleDecision:
    """The winner's title, the reason, and its lead over the present champion (None if not compared)."""

    title: Title
    reason: str
    lead: Lead | None = None


@dataclass(frozen=True)
class Choice:
    """The winner, the best plain baseline, and the winner's lead over it.

    Attributes
    ----------
    winner : CandidateResult
        Not scored if the budget ended before anything was scored; see `choose_unscored`.
    tune_for : str
        The metric that thresholds are tuned for, one of
        `embedding_core.model_selection.threshold_tuning.TARGETS`.
    rare : RareLabels
        Labels that were not part of the scores.
    closed : bool
        Whether fits saw the features of the test rows.
    open_result : CandidateResult or None
        The winner scored without these features, if `closed` and it makes a difference.
    copies : Copies or None
        Items with the same features as an item of another fold, and the winner's score on the others.
    """

    metric: str
    winner: CandidateResult
    baseline: CandidateResult | None
    lead: Lead | None
    results: Sequence[CandidateResult] = field(repr=False)
    tune_for: str = "hamming"
    rare: RareLabels = NO_RARE_LABELS
    closed: bool = False
    open_result: CandidateResult | None = field(default=None, repr=False)
    copies: Copies | None = None

    def find(self, recipe: Mapping[str, Any]) -> CandidateResult | None:
        """Result of the candidate with a recipe, if it was scored on all folds."""
        fitting = (one for one in self.scored if one.candidate.recipe() == recipe)
        return next(fitting, None)

    @property
    def scored(self) -> list[CandidateResult]:
        """Results of candidates that were scored on all folds."""
        return [one for one in self.results if one.state == "scored"]

    @property
    def tried(self) -> list[CandidateResult]:
        """Results of candidates that were scored on some folds at least; the winner is picked among them."""
        return [one for one in self.results if one.state in ("scored", "stopped")]


def reason_to_stop(trial: CandidateResult, leader: CandidateResult, metric: str, n_folds: int) -> str:
    """Why a candidate is stopped after its first folds; empty if it continues.

    Both are measured on these folds only, so that their thresholds are tuned on equally many rows.
    """
    ours, theirs = trial.values(metric), leader.values(metric)
    if not is_hopeless(ours, theirs, n_folds):
        return ""
    lag = paired_lead(theirs, ours, n_folds)
    return (
        f"after {lag.folds} folds {lag.mean:.3f} behind {leader.candidate.label} in {metric_title(metric)}, "
        f"more than {FAR_BEHIND:g} and {STOP_ERRORS:g} standard errors"
    )


def leading(results: Sequence[CandidateResult], metric: str) -> CandidateResult | None:
    """Result with the best mean among those scored on all folds."""
    scored = {one.name: one for one in results if one.state == "scored"}
    return scored[best_of({name: one.values(metric) for name, one in scored.items()})] if scored else None


def choose(results: Sequence[CandidateResult], metric: str, tune_for: str = "hamming") -> Choice | None:
    """Choose the candidate with the best mean over the folds; None if none was scored on all folds."""
    winner = leading(results, metric)
    if winner is None:
        return None
    baseline = leading([one for one in results if one.candidate.plain], metric)
    choice = Choice(metric, winner, baseline, None, tuple(results), tune_for)
    if baseline is None or baseline is winner:
        return choice
    others = [one for one in choice.tried if not one.candidate.plain]
    lead = paired_lead(winner.values(metric), baseline.values(metric), picked_among=len(others))
    return replace(choice, lead=lead)


def choose_unscored(
    results: Sequence[CandidateResult], plain: Sequence[Candidate], metric: str, late: str
) -> Choice | None:
    """Choose the cheapest plain candidate if the budget ended before anything was scored; otherwise None.

    `plain` are plain candidates, cheap ones first, of which those that failed are left out. `late` is the
    reason of candidates that were skipped for lack of time. The labels of the model are decided at 0.5: there
    are no scores to tune thresholds on.
    """
    failed = {one.name for one in results if one.state == "failed"}
    left = [one for one in plain if one.name not in failed]
    if not left or all(one.reason != late for one in results):
        return None
    winner = CandidateResult(left[0], "skipped", late)
    others = [one for one in results if one.name != winner.name]
    return Choice(metric, winner, None, None, (winner, *others))


def decide_title(
    choice: Choice, champion: Champion | None, features: str = "", labels: str = ""
) -> TitleDecision:
    """The title of the winner; `features` names its features, `labels` is the digest of the labels.

    The first winner becomes champion. A later winner takes the title if it beats the present champion, scored
    on the same folds of the same data, by more than the noise of the best of several
    (`embedding_core.model_selection.significance`). It also takes the title if the champion scores below the
    best plain baseline: a collection must not be annotated by a model that a plain baseline beats. For the
    same reason nothing becomes champion while a plain baseline is not scored on all folds, or if none is
    among the candidates. A champion with other features is compared by its recorded scores.
    """
    if choice.winner.state != "scored":
        return TitleDecision("challenger", "nothing was scored; give more time with --budget")
    other = champion is not None and champion.has_other(features)
    if champion and not other and champion.candidate.recipe() == choice.winner.candidate.recipe():
        return TitleDecision("champion", "it has the title already")
    unknown = [one for one in choice.results if _is_unknown_baseline(one)]
    if unknown:
        return TitleDecision("challenger", _without(unknown))
    verdict = _compare_titles(choice, champion, other, labels)
    if verdict.title == "champion" and choice.baseline is None:
        return TitleDecision("challenger", _NO_BASELINE, verdict.lead)
    return verdict


def find_drop(choice: Choice, champion: Champion | None, tolerance: float) -> str:
    """How far the winner is below the recorded score of the champion; empty within the tolerance."""
    now = choice.winner.values(choice.metric)
    if champion is None or champion.metric != choice.metric or not (champion.values and now):
        return ""
    sign = -1.0 if choice.metric in LOWER_IS_BETTER else 1.0
    return describe_drop(
        choice.metric, sign * fmean(champion.values), sign * fmean(now), tolerance, "the champion's score"
    )


def hold_title(verdict: TitleDecision, drop: str) -> TitleDecision:
    """The decision after a drop: the champion keeps its title and its model."""
    reason = f"{drop}; the champion stays as it is"
    return TitleDecision("challenger", reason, verdict.lead) if drop else verdict


def _compare_titles(choice: Choice, champion: Champion | None, other: bool, labels: str) -> TitleDecision:
    """Compare the winner with the present champion; `other` if that was fitted on other features."""
    if champion is None:
        return TitleDecision("champion", "the first champion of this collection")
    if not champion.candidate.method:
        return TitleDecision(
            "challenger", "the present champion was not registered by labelscape auto and stays"
        )
    if not champion.known:
        return TitleDecision(
            "champion", f"the present champion, {champion.candidate.name}, is not known to this version"
        )
    if other:
        return _compare_recorded(choice, champion, labels)
    present = choice.find(champion.candidate.recipe())
    if present is None:
        return TitleDecision(
            "challenger", f"the present champion, {champion.candidate.label}, was not scored"
        )
    return _compare(choice, present)


def _compare_recorded(choice: Choice, champion: Champion, labels: str) -> TitleDecision:
    """Compare the winner with the recorded scores of a champion that has other features."""
    name = f"{champion.candidate.label} on other features ({champion.features})"
    ours = choice.winner.values(choice.metric)
    same_folds = champion.digests.get("labels") == labels and len(champion.values) == len(ours)
    if champion.metric != choice.metric or not same_folds:
        return TitleDecision(
            "challenger",
            f"the present champion is {name}; its scores on these labels are not known. Run `labelscape "
            "auto` with its features to renew them",
        )
    lead = paired_lead(ours, champion.values, picked_among=len(choice.tried))
    amount = f"{describe_lead(lead)} in {metric_title(choice.metric)}"
    if lead.beyond_noise:
        return TitleDecision("champion", f"it beats the present champion, {name}, by {amount}", lead)
    return TitleDecision("challenger", f"its lead over the present champion, {name}, is {amount}", lead)


def _is_unknown_baseline(one: CandidateResult) -> bool:
    return one.candidate.plain and one.state != "scored"


def _without(unknown: Sequence[CandidateResult]) -> str:
    """Name the plain baselines that were not scored, and what to do."""
    were = "a plain baseline, was" if len(unknown) == 1 else "plain baselines, were"
    names = "; ".join(one.candidate.label for one in unknown)
    late = any(one.state == "skipped" for one in unknown)
    todo = f"{'give more time with --budget, or ' if late else ''}name others with --candidates"
    return f"{names}, {were} not scored; {todo}"


def _compare(choice: Choice, present: CandidateResult) -> TitleDecision:
    metric, name = choice.metric, present.candidate.label
    others = len(choice.tried) - 1  # without the champion
    lead = paired_lead(choice.winner.values(metric), present.values(metric), picked_among=others)
    amount = f"{describe_lead(lead)} in {metric_title(metric)}"
    if lead.beyond_noise:
        return TitleDecision("champion", f"it beats the present champion, {name}, by {amount}", lead)
    baseline = choice.baseline
    below = baseline is not None and leading([present, baseline], metric) is not present
    if baseline is not None and below:
        reason = f"the present champion, {name}, is below the best plain baseline, {baseline.candidate.label}"
        return TitleDecision("champion", reason, lead)
    reason = f"its lead over the present champion, {name}, is {amount}"
    return TitleDecision("challenger", reason, lead)


def stage(choice: Choice) -> Stage:
    """Stage that records a choice; its inputs are the scores of all candidates."""
    return Stage(
        name="choice",
        code=(
            "embedding_core.model_selection.significance",
            "tasks.selection.rare_labels",
            "tasks.selection.copies",
            *MEASURING,
        ),
        params={
            "metric": choice.metric,
            "tune_for": choice.tune_for,
            "states": {one.name: [one.state, one.reason] for one in choice.results},
            "rare_labels": choice.rare.record(),
            "closed": choice.closed,
            "copies": choice.copies.record() if choice.copies else None,
        },
        inputs={
            **{one.name: digest_of(one.ref) for one in choice.results if one.ref},
            **({"open": digest_of(choice.open_result.ref)} if choice.open_result else {}),
        },
        produce=lambda: _record(choice),
    )


def describe(choice: Choice) -> dict[str, Any]:
    """A choice as JSON data."""
    return {
        "metric": choice.metric,
        "tune_for": choice.tune_for,
        "winner": choice.winner.name,
        "baseline": choice.baseline.name if choice.baseline else None,
        "lead": asdict(choice.lead) if choice.lead else None,
        "rare_labels": choice.rare.record(),
        "closed": choice.closed,
        "copies": choice.copies.record() if choice.copies else None,
        "open_metrics": _by_metric(choice.open_result.rows) if choice.open_result else None,
        "candidates": [
            {
                "name": one.name,
                "title": one.candidate.label,
                "plain": one.candidate.plain,
                "state": one.state,
                "reason": one.reason or None,
                **one.candidate.recipe(),
                "metrics": _by_metric(one.rows),
            }
            for one in choice.results
        ],
    }


def leaderboard(choice: Choice) -> Table:
    """Tabulate the candidates that were scored on all folds, best first."""
    rows = [row for one in choice.scored for row in one.rows]
    titles = {one.name: one.candidate.label for one in choice.scored}
    baselines = {one.name for one in choice.scored if one.candidate.plain}
    return score_table(rows, sort_by=choice.metric, titles=titles, baselines=baselines)


def _by_metric(rows: Sequence[Score]) -> dict[str, list[float]]:
    """Values of each metric by fold."""
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.fold):
        found.setdefault(row.metric, []).append(row.value)
    return found


def _record(choice: Choice) -> Artifact:
    text = json.dumps(describe(choice), indent=2, sort_keys=True, ensure_ascii=False)
    return pack_files({_RECORD: text.encode()})
