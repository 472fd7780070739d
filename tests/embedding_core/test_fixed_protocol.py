"""The fixed protocol: one split for all methods, and verdicts by differences trial by trial."""

from dataclasses import replace

import numpy as np
import pytest

from embedding_core import InvalidInput
from embedding_core.protocols import fixed_protocol
from embedding_core.protocols.fixed_protocol import TUNED_THRESHOLDS, split_rows
from embedding_core.protocols.trial import Arm
from flows.commands.reproduce import _available, _standing, _summary
from flows.config import load_config
from flows.experiments import ExperimentPlan
from flows.runner import Run
from storage.artifacts.schemas import TrialCell
from tasks.reporter import Reporter
from tasks.reproduce.against_plain import count_outcomes, judge_against_plain
from tasks.reproduce.comparison import Row, compare, verdict_line
from tasks.reproduce.fixed_protocol import FIXED
from tasks.reproduce.page import comparison_table
from tests.embedding_core.test_protocols import several_labels
from tests.trial_sets import blobs, shuffle_rows

SETTINGS = {"labeled": 0.2, "folds": 4, "rows": 0, "seed": 0, "methods": {"DLE": ["multilabel_dle", {}]}}
KNN = Arm("kNN", "1nn", {"neighbors": [1, 3, 5]}, role="baseline")
DLE = Arm("DLE", "dle", {"n_neighbors": [5, 10], "sigma_times": 1.0, "neighbors": [1, 3, 5]})
SMALL = replace(FIXED, datasets=("iris",), arms=(DLE, KNN), overrides={})


def test_classes_give_an_accuracy_of_the_rows_that_are_not_labeled():
    data = blobs()
    [cell] = fixed_protocol.trial(data, DLE, SETTINGS, "zscore", 0)
    assert (cell.condition, cell.metric) == ("", "accuracy")
    train, test = split_rows(data, SETTINGS, 0)
    assert len(train) == 24
    assert 1 / 3 < cell.value < 1
    assert cell.value * len(test) == pytest.approx(round(cell.value * len(test)))


def test_labels_give_ranking_and_tuned_decisions_by_the_form_for_several_labels():
    cells = fixed_protocol.trial(several_labels(), DLE, SETTINGS, "zscore", 1)
    assert [(cell.condition, cell.metric) for cell in cells] == [
        (TUNED_THRESHOLDS, "hamming_loss"),
        (TUNED_THRESHOLDS, "micro_f1"),
        (TUNED_THRESHOLDS, "macro_f1"),
        ("", "lrap"),
    ]
    assert cells[-1].value > 0.8


def test_the_form_for_several_labels_has_parameters_of_its_own(monkeypatch):
    asked, fit = [], fixed_protocol.fit_tuned

    def remember(method, params, *others):
        asked.append((method, params))
        return fit(method, params, *others)

    monkeypatch.setattr(fixed_protocol, "fit_tuned", remember)
    settings = {**SETTINGS, "methods": {"DLE": ["multilabel_dle", {"n_neighbors": 7, "beta": 0.5}]}}
    for data in (several_labels(), blobs()):
        fixed_protocol.trial(data, DLE, settings, "zscore", 0)
    assert asked == [("multilabel_dle", {**DLE.params, "n_neighbors": 7, "beta": 0.5}), ("dle", DLE.params)]


@pytest.mark.parametrize("method", ["mlda", "1nn"])
def test_thresholds_ask_for_scores_that_training_rows_get_without_their_labels(method):
    arm = Arm("plain", method)
    [accuracy] = fixed_protocol.trial(blobs(), arm, SETTINGS, "zscore", 0)
    assert accuracy.metric == "accuracy"
    with pytest.raises(
        InvalidInput, match=rf"Arm 'plain': .* but {method} .* has none; leave a parameter open"
    ):
        fixed_protocol.trial(several_labels(), arm, SETTINGS, "zscore", 0)
    assert fixed_protocol.trial(
        several_labels(), replace(arm, params={"neighbors": [1, 3]}), SETTINGS, "raw", 0
    )


def test_scaling_is_learned_on_training_rows(monkeypatch):
    data = blobs()
    train, test = split_rows(data, SETTINGS, 0)
    moved = data.X.copy()
    moved[test] = moved[test] * 1000 + 5
    given = []
    fit = fixed_protocol.fit_tuned

    def remember(method, params, X, *others):
        given.append(X)
        return fit(method, params, X, *others)

    monkeypatch.setattr(fixed_protocol, "fit_tuned", remember)
    for X in (data.X, moved):
        fixed_protocol.trial(replace(data, X=X), KNN, SETTINGS, "zscore", 0)
    np.testing.assert_array_equal(given[0][train], given[1][train])
    np.testing.assert_allclose(given[0][train].std(axis=0), 1)
    assert not np.array_equal(given[0][test], given[1][test])


@pytest.mark.parametrize("make", [blobs, several_labels], ids=["classes", "labels"])
def test_test_labels_change_what_is_measured_alone(make, monkeypatch):
    data = make()
    train, test = split_rows(data, SETTINGS, 0)
    shuffled = shuffle_rows(data, test)
    # Folds and draws of each class depend on the labels of all rows; the question is what a fit sees.
    monkeypatch.setattr(fixed_protocol, "split_rows", lambda *_: (train, test))
    found = []
    fit = fixed_protocol.fit_tuned

    def remember(*arguments):
        found.append(fit(*arguments))
        return found[-1]

    monkeypatch.setattr(fixed_protocol, "fit_tuned", remember)
    cells = [fixed_protocol.trial(one, DLE, SETTINGS, "zscore", 0) for one in (data, shuffled)]
    assert cells[0] != cells[1]
    assert found[0].params == found[1].params
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    np.testing.assert_array_equal(found[0].left_out, found[1].left_out)


def cells(values, metric="accuracy", condition=""):
    return [TrialCell(condition, "zscore", metric, number, value) for number, value in enumerate(values)]


def judged(ours, knn, svc, metric="accuracy", condition="", folds=0):
    one = replace(SMALL, arms=(DLE, KNN, replace(KNN, title="SVC")), full={**SMALL.full, "folds": folds})
    measured = {
        ("iris", "DLE"): cells(ours, metric, condition),
        ("iris", "kNN"): cells(knn, metric, condition),
        ("iris", "SVC"): cells(svc, metric, condition),
    }
    return one, judge_against_plain(one, compare(one, measured), measured, quick=False)


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [([0.02, 0.03, 0.02], "ahead"), ([0.02, -0.03, 0.02], "level"), ([-0.02, -0.03, -0.02], "behind")],
)
def test_verdict_is_by_differences_trial_by_trial(lead, verdict):
    plain = [0.5, 0.7, 0.9]  # differ by far more than the lead
    ours = [value + gain for value, gain in zip(plain, lead, strict=True)]
    _, [row, total] = judged(ours, [0.4, 0.6, 0.8], plain)
    assert row.verdict == verdict
    assert "against SVC" in row.reason
    assert (total.dataset, total.method, total.mean) == ("all sets", "DLE", None)
    assert f"1 {verdict}" in total.verdict


def test_folds_share_rows_and_ask_for_a_larger_lead():
    ours, plain = [0.52, 0.50, 0.52, 0.505], [0.5, 0.495, 0.49, 0.5]
    verdicts = [judged(ours, plain, plain, folds=folds)[1][0].verdict for folds in (0, 2)]
    assert verdicts == ["ahead", "level"]


def test_a_smaller_loss_is_ahead():
    _, rows = judged([0.1, 0.12, 0.1], [0.3, 0.3, 0.3], [0.2, 0.2, 0.21], "hamming_loss")
    assert rows[0].verdict == "ahead"
    assert "against SVC" in rows[0].reason


def test_rows_that_the_table_does_not_list_are_not_counted():
    one, rows = judged([0.9, 0.9, 0.9], [0.5, 0.5, 0.5], [0.4, 0.4, 0.4], "macro_f1", TUNED_THRESHOLDS)
    assert [row.verdict for row in rows] == ["ahead"]
    assert count_outcomes(one, rows) == {}


def test_a_quick_run_says_so_and_speaks_of_no_paper():
    row = Row("iris", "DLE", "", "zscore", "accuracy", mean=0.5, trials=2, verdict="level")
    full = SMALL.settings("iris", quick=False)["trials"]
    assert verdict_line(SMALL, [row]) == f"quick, 2 of {full} trials"
    assert verdict_line(SMALL, [replace(row, trials=full)]) == ""
    of_a_paper = replace(SMALL, against_plain=False)
    assert verdict_line(of_a_paper, [row]) == f"quick, 2 of {full} trials: the paper prints no number here"


def test_quick_runs_take_some_sets_unless_others_are_asked_for(tmp_path):
    one = replace(FIXED, datasets=("iris", "wine", "digits"), quick_sets=("wine",))
    assert _available(one, tmp_path, None, Reporter(), quick=True).datasets == ("wine",)
    assert _available(one, tmp_path, None, Reporter(), quick=False).datasets == one.datasets
    assert _available(one, tmp_path, "iris", Reporter(), quick=True).datasets == ("iris",)


def test_the_experiment_names_sets_and_methods_that_there_are():
    assert set(FIXED.quick_sets) <= set(FIXED.datasets)
    assert set(FIXED.full["methods"]) <= {arm.title for arm in FIXED.arms}
    assert {arm.title for arm in FIXED.baselines} == {"kNN", "RBF-SVC", "random forest"}
    for dataset in FIXED.datasets:
        settings = FIXED.settings(dataset, quick=True)
        assert settings["trials"] <= (settings["folds"] or settings["trials"])


@pytest.mark.slow
def test_a_whole_run_ends_in_one_table_and_a_count(tmp_path):
    one = replace(SMALL, full={**SMALL.full, "trials": 3})
    config = load_config(None, home=str(tmp_path), executor="serial", tracking={"enabled": False})
    result = Run(ExperimentPlan(config, one, False, tmp_path)).run_stages()
    reported = result.products
    assert [row.method for row in reported.rows] == ["DLE", "DLE"]
    table = comparison_table(one, reported.rows)
    assert table.rows[0][0] == "iris"
    assert table.rows[1][0] == "all sets"
    assert "paper prints" not in table.caption  # there is none
    assert sum(int(count) for count in _standing(reported).rows[0][1:]) == 1
    assert result.report and (result.report.parent / "cells.parquet").exists()
    counted = _summary([reported]).rows
    assert [row[0] for row in counted] == [one.name, "all"]
    assert {count for row in counted for count in row[1:]} == {"0"}
