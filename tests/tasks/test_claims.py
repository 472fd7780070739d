"""Claims in words: which cells belong to each side, and when a claim holds."""

from dataclasses import replace

import pytest

from embedding_core.protocols.trial import Arm
from storage.artifacts.schemas import TrialCell
from storage.reference.published import PublishedCell
from tasks.reproduce import claims
from tasks.reproduce.claims import claim_rows
from tasks.reproduce.comparison import compare, count_verdicts, verdict_line
from tasks.reproduce.experiment import Experiment
from tasks.reproduce.page import comparison_table

EXPERIMENT = Experiment(
    name="lpssvm-uci",
    title="",
    paper="",
    where="Fig. 3",
    datasets=("sonar",),
    arms=(Arm("SVM", "svm"), Arm("LPSSVM", "lpssvm")),
    protocol="",
    full={"trials": 2},
    quick={"rows": 40},
)


def cells(metric="accuracy", preprocessing="raw", **by_condition):
    return [
        TrialCell(condition.replace("_", ", "), preprocessing, metric, trial, value)
        for condition, values in by_condition.items()
        for trial, value in enumerate(values)
    ]


def claim(method, condition="", metric="accuracy", value=None):
    return PublishedCell("lpssvm-uci", "Fig. 3", "sonar", method, metric, condition, value, "claim", "so")


def judge(monkeypatch, one, left, right=None, quick=False):
    monkeypatch.setattr(claims, "published_claims", lambda name: (one,))
    measured = {("sonar", "LPSSVM"): left, ("sonar", "SVM"): right or []}
    return claim_rows(EXPERIMENT, measured, quick)


def test_a_lead_holds_if_it_exists_under_every_condition(monkeypatch):
    ahead = cells(N5=[0.8, 0.9], N9=[0.9, 0.9])
    (row,) = judge(monkeypatch, claim("LPSSVM > SVM"), ahead, cells(N5=[0.7, 0.7], N9=[0.8, 0.9]))
    assert (row.verdict, row.trials, row.claim, row.primary) == ("reproduced", 2, True, True)
    assert row.mean == pytest.approx(0.1)
    assert row.spread == pytest.approx(0.0, abs=1e-12)  # 0.1 on average in both trials
    (row,) = judge(monkeypatch, claim("LPSSVM > SVM"), ahead, cells(N5=[0.7, 0.7], N9=[0.9, 0.95]))
    assert row.verdict == "worse"
    assert row.reason == 'ahead under 1 of 2 conditions; the paper: "so"'


def test_less_error_is_a_lead(monkeypatch):
    low, high = cells("error", N5=[0.1]), cells("error", N5=[0.2])
    (row,) = judge(monkeypatch, claim("LPSSVM > SVM", metric="error"), low, high)
    assert (row.verdict, row.mean) == ("reproduced", pytest.approx(0.1))


def test_similar_means_within_two_points(monkeypatch):
    for lead, verdict in ((0.019, "reproduced"), (-0.019, "reproduced"), (0.03, "worse")):
        (row,) = judge(monkeypatch, claim("LPSSVM ~ SVM"), cells(N5=[0.5 + lead]), cells(N5=[0.5]))
        assert row.verdict == verdict


def test_a_rounding_difference_is_not_a_lead(monkeypatch):
    """Shares of 85 rows: 3, 2, 1, 0 wrong ones against 3, 1, 1, 1."""
    left, right = ([1 - (1 - k / 85) for k in wrong] for wrong in ((3, 1, 1, 1), (3, 2, 1, 0)))
    (row,) = judge(
        monkeypatch, claim("LPSSVM > SVM", metric="error"), *(cells("error", N5=v) for v in (left, right))
    )
    assert 0 < row.mean < 1e-15
    assert row.verdict == "worse"


def test_conditions_may_be_the_two_sides(monkeypatch):
    both = cells(**{"9-D_K=1": [0.9], "9-D_K=10": [0.95], "100-D_K=1": [0.95], "100-D_K=10": [0.99]})
    both += cells(**{"9-D": [0.1], "100-D": [0.0], "19-D_K=1": [1.0]})
    (row,) = judge(monkeypatch, claim("LPSSVM", "100-D, K=1 > 9-D, K=1"), both)
    assert row.mean == pytest.approx(0.05)
    (row,) = judge(monkeypatch, claim("LPSSVM", "100-D > 9-D"), both)
    assert row.reason.startswith("ahead under 2 of 3 conditions")


def test_each_preprocessing_that_both_have_is_a_row(monkeypatch):
    left = cells(N5=[0.9]) + cells(preprocessing="zscore", N5=[0.9]) + cells(preprocessing="unit", N5=[0.9])
    right = cells(preprocessing="zscore", N5=[0.8]) + cells(N5=[0.8])
    rows = judge(monkeypatch, claim("LPSSVM > SVM"), left, right)
    assert [(row.preprocessing, row.primary) for row in rows] == [("raw", True), ("zscore", False)]


def test_a_printed_lead_is_a_printed_number(monkeypatch):
    one = claim("LPSSVM > SVM", value=0.10)
    for lead, verdict in ((0.11, "reproduced"), (0.2, "better"), (0.02, "worse")):
        (row,) = judge(monkeypatch, one, cells(N5=[0.5 + lead]), cells(N5=[0.5]))
        assert row.verdict == verdict
        assert count_verdicts([row])[verdict] == 1
    (row,) = judge(monkeypatch, one, cells(N5=[0.6]), cells(N5=[0.5]), quick=True)
    assert row.verdict == "not comparable"


def test_a_result_exists_if_one_trial_shows_it(monkeypatch):
    for values, verdict, said in (([0.0, 1.0], "reproduced", "found"), ([0.0, 0.0], "worse", "not found")):
        found = cells("found_alone", MLDA_car=values, SVM_car=[2.0, 2.0])
        (row,) = judge(monkeypatch, claim("LPSSVM", "MLDA, car", "found_alone"), found)
        assert (row.verdict, row.metric, row.reason) == (verdict, "found_alone", f'{said}; the paper: "so"')
        assert row.mean == sum(values) / 2


def test_claims_in_words_are_counted_separately(monkeypatch):
    (holds,) = judge(monkeypatch, claim("LPSSVM > SVM"), cells(N5=[0.9]), cells(N5=[0.8]))
    rows = [holds, replace(holds, verdict="worse"), replace(holds, primary=False)]
    assert sum(count_verdicts(rows).values()) == 0
    assert verdict_line(EXPERIMENT, rows).endswith("1 of 2 claims in words hold (raw)")
    assert verdict_line(EXPERIMENT, rows[:1]).endswith("the claim in words holds (raw)")
    assert verdict_line(EXPERIMENT, rows[1:2]).endswith("the claim in words does not hold (raw)")


def test_a_figure_without_numbers_is_not_comparable():
    measured = {("sonar", "SVM"): cells(**{"N=5": [0.6]}), ("sonar", "LPSSVM"): cells(**{"N=5": [0.6]})}
    rows = compare(EXPERIMENT, measured)
    assert [(row.verdict, row.paper) for row in rows[:2]] == [("not comparable", None)] * 2
    assert rows[0].reason.startswith("figure only")


def test_unlisted_conditions_are_missing_only_from_the_table():
    hides = replace(EXPERIMENT, unlisted=r"K=[2-9]$")
    measured = {
        ("sonar", "SVM"): cells(**{"K=1": [0.6], "K=2": [0.7], "K=10": [0.8]}),
        ("sonar", "LPSSVM"): [],
    }
    rows = compare(hides, measured)
    assert {"K=1", "K=2"} <= {row.condition for row in rows}
    shown = [line for line in comparison_table(hides, rows).rows if line[1] == "SVM"]
    assert [line[2] for line in shown if line[0] == "sonar"] == ["K=1", "K=10"]
