"""The choice among candidates and the winner's title, computed from scores."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from embedding_core.model_selection.significance import paired_lead
from embedding_core.registry.candidates import Candidate
from storage.artifacts.schemas import Score
from tasks.report.ranking import describe_lead, judge
from tasks.selection.choice import (
    CandidateResult,
    Champion,
    State,
    TitleDecision,
    choose,
    choose_unscored,
    decide_title,
    describe,
    leading,
    reason_to_stop,
)
from tasks.selection.tracking import is_outdated
from tasks.selection.wording import verdict_lines
from tests.tasks.test_page import Page, make, render_report, undrawn

__all__ = ["undrawn"]

BASE = [0.70, 0.72, 0.71, 0.69, 0.73]


def result(
    method: str, values: Sequence[float], state: State = "scored", metric: str = "macro_f1"
) -> CandidateResult:
    rows = [Score(method, method, fold, metric, value) for fold, value in enumerate(values)]
    return CandidateResult(Candidate(method, method), state, "", rows)


def shifted(by: float) -> list[float]:
    return [value + by + 0.001 * number for number, value in enumerate(BASE)]


def champion(method: str) -> Champion:
    return Champion(Candidate(method, method), {}, "3", "run")


def test_the_best_mean_wins_and_is_compared_with_the_best_plain_one() -> None:
    choice = choose(
        [result("svm", BASE), result("rbf_svc", shifted(0.01)), result("mlls", shifted(0.05))],
        "macro_f1",
    )
    assert choice
    assert (choice.winner.name, choice.baseline and choice.baseline.name) == ("mlls", "rbf_svc")
    assert choice.lead
    assert choice.lead.mean == pytest.approx(0.04)


def test_a_lead_counts_how_many_candidates_the_winner_was_picked_among() -> None:
    results = [result("svm", BASE), result("mlls", shifted(0.05)), result("ml_knn", BASE)]
    results += [result("ldac1", BASE[:2], "stopped"), result("ecc", (), "skipped")]
    choice = choose(results, "macro_f1")
    assert choice
    assert choice.lead
    assert choice.lead.picked_among == 3  # without the plain baseline and the one that was not started
    assert choice.lead.needed > paired_lead(shifted(0.05), BASE).needed
    over = decide_title(choice, champion("ml_knn")).lead
    assert over
    assert over.picked_among == 3  # all that were tried, without the champion


def test_smaller_losses_are_better() -> None:
    found = leading(
        [
            result("svm", [0.3, 0.3], metric="hamming_loss"),
            result("mlls", [0.2, 0.2], metric="hamming_loss"),
        ],
        "hamming_loss",
    )
    assert found
    assert found.name == "mlls"


def test_only_those_scored_on_all_folds_can_win() -> None:
    high = [result("mlls", [0.99, 0.99], state) for state in ("stopped", "skipped", "failed")]
    choice = choose([*high, result("svm", BASE)], "macro_f1")
    assert choice
    assert choice.winner.name == "svm"
    assert choice.lead is None
    assert choose(high, "macro_f1") is None


def test_the_winner_is_never_below_a_plain_baseline() -> None:
    choice = choose([result("mlls", BASE), result("random_forest", shifted(0.001))], "macro_f1")
    assert choice
    assert choice.winner.candidate.plain


@pytest.mark.parametrize(
    ("present", "others", "title", "says"),
    [
        (None, {"1nn": 0.0}, "champion", "the first champion of this collection"),
        (None, {}, "challenger", "no plain baseline was among the candidates"),
        (None, {"ml_knn": 0.0}, "challenger", "no plain baseline was among the candidates"),
        ("ml_knn", {"ml_knn": 0.0}, "challenger", "no plain baseline was among the candidates"),
        ("ml_knn", {"ml_knn": 0.0, "1nn": 0.0}, "champion", "it beats the present champion, ML-kNN"),
        ("mlls", {}, "champion", "it has the title already"),
        ("svm", {"svm": 0.0}, "champion", "it beats the present champion, Scaled SVM, by 0.030"),
        ("ml_knn", {"ml_knn": None}, "challenger", "within noise"),
        ("ml_knn", {}, "challenger", "the present champion, ML-kNN, was not scored"),
        ("a_method_of_old", {"1nn": 0.0}, "champion", "is not known to this version"),
        ("", {}, "challenger", "was not registered by labelscape auto and stays"),
    ],
)
def test_titles(present: str | None, others: dict[str, float | None], title: str, says: str) -> None:
    noisy = [0.79, 0.68, 0.79, 0.67, 0.74]  # below the winner by less than its folds vary
    results = [result("mlls", shifted(0.03 - 0.002))]
    results += [result(name, noisy if by is None else shifted(by - 0.002)) for name, by in others.items()]
    choice = choose(results, "macro_f1")
    assert choice
    assert choice.winner.name == "mlls"
    verdict = decide_title(choice, None if present is None else champion(present))
    assert (verdict.title, says in verdict.reason) == (title, True), verdict


def test_a_champion_below_a_plain_baseline_loses_the_title_even_within_noise() -> None:
    noisy = [0.79, 0.66, 0.79, 0.63, 0.69]
    results = [result("ml_knn", noisy), result("svm", shifted(0.005)), result("mlls", shifted(0.01))]
    choice = choose(results, "macro_f1")
    assert choice
    verdict = decide_title(choice, champion("ml_knn"))
    assert verdict.lead
    assert not verdict.lead.beyond_noise
    assert verdict.title == "champion"
    assert "below the best plain baseline, Scaled SVM" in verdict.reason


def test_a_plain_champion_below_the_best_plain_one_loses_the_title_too() -> None:
    noisy = [0.79, 0.66, 0.79, 0.63, 0.69]
    choice = choose([result("svm", noisy), result("random_forest", shifted(0.005))], "macro_f1")
    assert choice
    verdict = decide_title(choice, champion("svm"))
    assert verdict.lead
    assert not verdict.lead.beyond_noise
    assert verdict.title == "champion"
    assert "Scaled SVM, is below the best plain baseline, Random forest" in verdict.reason


def test_the_best_plain_one_keeps_the_title_from_another_within_noise() -> None:
    noisy = [0.79, 0.66, 0.79, 0.63, 0.69]
    choice = choose([result("svm", noisy), result("mlls", shifted(0.005))], "macro_f1")
    assert choice
    assert decide_title(choice, champion("svm")).title == "challenger"


def test_no_candidate_becomes_champion_while_a_plain_baseline_is_unscored() -> None:
    choice = choose([result("mlls", BASE), result("random_forest", (), "skipped")], "macro_f1")
    assert choice
    verdict = decide_title(choice, None)
    assert verdict.title == "challenger"
    assert "Random forest, a plain baseline, was not scored; give more time with --budget" in verdict.reason
    assert decide_title(choice, champion("mlls")).title == "champion"


def test_no_candidate_becomes_champion_while_a_plain_baseline_is_scored_on_some_folds_only() -> None:
    choice = choose(
        [result("mlls", BASE), result("svm", BASE[:2], "stopped"), result("1nn", BASE)], "macro_f1"
    )
    assert choice
    verdict = decide_title(choice, None)
    assert verdict.title == "challenger"
    assert "Scaled SVM, a plain baseline, was not scored" in verdict.reason


@pytest.mark.parametrize("states", [("failed",), ("failed", "failed"), ("skipped", "failed")])
def test_a_failed_plain_baseline_counts_as_unscored(states: tuple[State, ...]) -> None:
    plain = zip(("random_forest", "rbf_svc"), states, strict=False)
    choice = choose([result("mlls", BASE), *(result(name, (), state) for name, state in plain)], "macro_f1")
    assert choice
    verdict = decide_title(choice, None)
    assert verdict.title == "challenger"
    assert verdict.reason.endswith("name others with --candidates")
    assert ("--budget" in verdict.reason) == ("skipped" in states)


class TestNothingScored:
    """The budget ended before anything was scored."""

    late = "the budget of 1 s ended"

    def results(self, *states: tuple[str, State]) -> list[CandidateResult]:
        return [CandidateResult(Candidate(name, name), state, self.late) for name, state in states]

    def test_the_cheapest_plain_model_is_the_answer_and_no_champion(self) -> None:
        results = self.results(("mlls", "skipped"), ("1nn", "skipped"), ("svm", "skipped"))
        plain = [one.candidate for one in results if one.candidate.plain]
        choice = choose_unscored(results, plain, "macro_f1", self.late)
        assert choice
        assert (choice.winner.name, choice.tune_for, choice.scored) == ("1nn", "hamming", [])
        for present in (None, champion("1nn"), champion("mlls")):
            verdict = decide_title(choice, present)
            assert verdict.title == "challenger"
            assert verdict.reason == "nothing was scored; give more time with --budget"
        said = "\n".join(verdict_lines(choice))
        assert "not scored: the budget of 1 s ended before any candidate was scored, so the cheapest" in said

    def test_a_plain_model_that_failed_is_not_the_answer(self) -> None:
        results = self.results(("1nn", "failed"), ("svm", "skipped"))
        choice = choose_unscored(results, [one.candidate for one in results], "macro_f1", self.late)
        assert choice
        assert choice.winner.name == "svm"

    def test_without_lack_of_time_there_is_no_such_answer(self) -> None:
        results = [
            replace(one, reason="its data") for one in self.results(("mlls", "failed"), ("ecc", "skipped"))
        ]
        assert choose_unscored(results, [Candidate("svm", "svm")], "lrap", self.late) is None

    def test_a_plain_model_that_was_not_named_is_the_answer_if_no_named_one_is_plain(self) -> None:
        choice = choose_unscored(
            self.results(("mlls", "skipped")), [Candidate("svm", "svm")], "macro_f1", self.late
        )
        assert choice
        assert [one.name for one in choice.results] == ["svm", "mlls"]


@pytest.mark.parametrize(
    ("digests", "tune_for", "outdated"),
    [
        ({"labels": "a"}, "macro_f1", False),
        ({"labels": "b"}, "macro_f1", True),
        ({"labels": "a"}, "hamming", True),
    ],
)
def test_a_champion_of_other_data_or_other_thresholds_is_outdated(
    digests: dict[str, str], tune_for: str, outdated: bool
) -> None:
    present = Champion(Candidate("svm", "svm"), {"labels": "a", "model": "m"}, "1", "run", "macro_f1")
    assert is_outdated(present, digests, tune_for) is outdated


def test_a_stopped_candidate_is_reported_with_its_lag() -> None:
    leader = result("svm", BASE[:2])
    reason = reason_to_stop(result("mlls", [0.5, 0.52]), leader, "macro_f1", 5)
    assert reason == "after 2 folds 0.200 behind Scaled SVM in macro F1, more than 0.05 and 3 standard errors"
    assert reason_to_stop(result("mlls", [0.69, 0.71]), leader, "macro_f1", 5) == ""


def test_the_record_contains_every_fold() -> None:
    choice = choose([result("mlls", BASE), result("svm", BASE[:2], "stopped")], "macro_f1")
    assert choice
    record = describe(choice)
    assert record["candidates"][0]["metrics"] == {"macro_f1": BASE}
    assert [one["state"] for one in record["candidates"]] == ["scored", "stopped"]


def folds_with(lead: float, spread: float, seed: int) -> tuple[list[float], list[float]]:
    """Scores of a method and a baseline on five folds; their differences have this mean and spread."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=5)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    base = 0.5 + 0.1 * rng.random(5)
    return (base + lead + spread * noise).tolist(), base.tolist()


# Five folds need 1.43 spreads: 1.40 is noise and 1.46 is not. The spread alone, or twice it, would differ.
@pytest.mark.parametrize(
    ("spreads", "kind"),
    [(1.1, "level"), (1.40, "level"), (1.46, "ahead"), (2.5, "ahead"), (-1.40, "level"), (-1.46, "behind")],
)
@pytest.mark.parametrize("metric", ["macro_f1", "hamming_loss"])
@pytest.mark.usefixtures("undrawn")
def test_run_auto_and_report_say_the_same_on_the_same_folds(spreads: float, kind: str, metric: str) -> None:
    ours, base = folds_with(0.02 * spreads, 0.02, seed=3)
    if metric == "hamming_loss":
        ours, base = [1 - value for value in ours], [1 - value for value in base]
    method, baseline = result("mlls", ours, metric=metric), result("svm", base, metric=metric)
    rows = [*method.rows, *baseline.rows]
    run = judge(rows, metric, {"svm"})
    lead, lag = (paired_lead(*pair) for pair in _both_ways(method.values(metric), baseline.values(metric)))
    assert run.kind == kind == ("ahead" if lead.beyond_noise else "behind" if lag.beyond_noise else "level")
    choice = choose([method, baseline], metric)
    assert choice
    if spreads > 0:
        assert choice.lead
        assert choice.lead.beyond_noise is (kind == "ahead")
        assert describe_lead(choice.lead) in run.text, "in the same words"
        assert describe_lead(choice.lead) in "\n".join(verdict_lines(choice))
        taken = decide_title(choice, champion("svm"))
        assert taken.title == ("champion" if kind == "ahead" else "challenger")
    else:
        assert choice.winner is baseline
    titles = {"mlls": "mlls", "svm": "svm"}
    page = Page(render_report(make(scores=rows, method_titles=titles), sort_by=metric)["index.html"])
    assert f"verdict {kind}" in page.attributes("p", "class")
    assert run.text in page.text


def _both_ways(ours: list[float], theirs: list[float]) -> tuple[tuple[list[float], list[float]], ...]:
    return (ours, theirs), (theirs, ours)


class TestOtherFeatures:
    """A champion with other features is compared by its recorded scores."""

    def decide(self, winner: list[float], **facts: object) -> TitleDecision:
        made = choose([result("svm", winner)], "macro_f1")
        assert made is not None
        known: dict[str, object] = {
            "features": "efficientnet_lite0 1",
            "metric": "macro_f1",
            "values": tuple(BASE),
            **facts,
        }
        present = Champion(Candidate("svm", "svm"), {"labels": "a"}, "1", "run", **known)  # type: ignore[arg-type]
        return decide_title(made, present, "color_moments 2", "a")

    def test_a_worse_model_of_the_same_method_does_not_take_the_title(self) -> None:
        verdict = self.decide(shifted(-0.2))
        assert verdict.title == "challenger"
        assert "on other features (efficientnet_lite0 1)" in verdict.reason

    def test_a_clearly_better_one_does(self) -> None:
        assert self.decide(shifted(0.2)).title == "champion"

    @pytest.mark.parametrize("facts", [{"metric": "lrap"}, {"values": ()}])
    def test_without_comparable_scores_the_champion_stays(self, facts: dict[str, object]) -> None:
        verdict = self.decide(shifted(0.2), **facts)
        assert verdict.title == "challenger"
        assert "are not known" in verdict.reason

    def test_features_of_older_versions_are_not_compared(self) -> None:
        assert self.decide(shifted(-0.2), features="").reason == "it has the title already"
