"""Draws and folds of the published anchors: same splits, a choice inside training, one rule for all."""

import numpy as np
import pytest

from embedding_core.annotator import Annotator
from embedding_core.metrics import multilabel_metrics
from embedding_core.protocols import published_anchors
from embedding_core.protocols.published_anchors import (
    CHOSEN,
    DRAWS,
    FOLDS,
    ONE_RULE,
    choose_scores,
    decided_figures,
    split_rows,
    trial,
)
from embedding_core.protocols.trial import Arm, TrialData
from embedding_core.protocols.tuned_split import FIGURES, SplitScores, judge_split, score_split, split_figures
from embedding_core.scaling import Scaler
from tasks.reproduce.anchors import ANCHORS
from tests.synthetic import multi_label

MEMBERS = {"ML-kNN": ["ml_knn", {}], "Kernel DLE": ["kernel_dle", {"few_labels": False}]}
SETTINGS = {
    "train": 0.6,
    "folds": 10,
    "seed": 0,
    "methods": MEMBERS,
    "candidates": [["ML-kNN"], ["Kernel DLE"], ["ML-kNN", "Kernel DLE"]],
}


@pytest.fixture(scope="module")
def data():
    X, Y = multi_label(100)
    return TrialData(X, Y)


def test_draws_have_60_percent_and_folds_cover_all_rows(data):
    train, test = split_rows(data, DRAWS, SETTINGS, 3)
    assert (len(train), len(test)) == (60, 40)
    assert np.array_equal(np.sort([*train, *test]), np.arange(100))
    tested = [split_rows(data, FOLDS, SETTINGS, number)[1] for number in range(10)]
    assert np.array_equal(np.sort(np.concatenate(tested)), np.arange(100))
    assert (ANCHORS.full["train"], ANCHORS.full["folds"], ANCHORS.full["trials"]) == (0.6, 10, 10)


def test_a_method_is_judged_as_in_any_split(data):
    cells = trial(data, Arm("ML-kNN", "ml_knn"), SETTINGS, "zscore", 1)
    for split in (DRAWS, FOLDS):
        train, test = split_rows(data, split, SETTINGS, 1)
        X = Scaler("zscore").fit(data.X[train]).transform(data.X)
        expected = judge_split(Annotator("ml_knn"), X, data.Y, train, test)
        assert {c.metric: c.value for c in cells if c.condition == split} == expected
    conditions = {
        f"{split}{rule}" for split in (DRAWS, FOLDS) for rule in ("", *(f", {r}" for r in ONE_RULE))
    }
    assert {cell.condition for cell in cells} == conditions


@pytest.mark.slow
def test_the_choice_depends_on_training_labels_alone(data):
    """It is the best candidate on left-out scores, whatever the test labels are."""
    arm = Arm("chosen", CHOSEN)
    train, test = split_rows(data, DRAWS, SETTINGS, 0)
    X = Scaler("zscore").fit(data.X[train]).transform(data.X)
    found = [score_split(Annotator(*one), X, data.Y, train, test) for one in MEMBERS.values()]
    left_out, scores = (np.mean([getattr(s, part) for s in found], axis=0) for part in ("left_out", "test"))
    found.append(SplitScores(left_out, scores))
    for metric in FIGURES:
        sign = -1 if metric == "hamming_loss" else 1
        own = [
            sign * split_figures(SplitScores(s.left_out, s.left_out), data.Y[train], data.Y[train])[metric]
            for s in found
        ]
        best = found[int(np.argmax(own))]
        expected = split_figures(best, data.Y[train], data.Y[test])[metric]
        (value,) = [c.value for c in trial(data, arm, SETTINGS, "zscore", 0) if c[:2] == (DRAWS, metric)]
        assert value == pytest.approx(expected)


def test_smaller_hamming_losses_are_chosen():
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=np.int8)
    right, wrong = (SplitScores(scores, scores) for scores in (Y * 0.8 + 0.1, 0.9 - Y * 0.8))
    for metric in FIGURES:
        assert choose_scores([wrong, right, wrong], Y, metric) is right


def test_one_rule_decides_for_all_metrics():
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 3)) < 0.3).astype(np.int8)
    scores = SplitScores(0.2 * Y + 0.3 * rng.random(Y.shape), rng.random(Y.shape))
    plain = multilabel_metrics(Y, (scores.test > 0.5).astype(np.int8), scores.test)
    found = decided_figures(scores, Y, Y, "hamming")
    assert found == {name: plain[name] for name in ("hamming_loss", "micro_f1", "macro_f1")}
    common = decided_figures(scores, Y, Y, "micro_f1")
    assert common["micro_f1"] == split_figures(scores, Y, Y)["micro_f1"]
    assert common["hamming_loss"] != found["hamming_loss"]


@pytest.mark.slow
def test_members_are_fitted_once_per_split(data, monkeypatch):
    """A candidate's members are arms of their own; their scores are shared."""
    calls = []
    plain = published_anchors.score_split
    monkeypatch.setattr(published_anchors, "score_split", lambda *a: calls.append(a[0].method) or plain(*a))
    fresh = TrialData(data.X, data.Y)
    trial(fresh, Arm("ML-kNN", *MEMBERS["ML-kNN"]), SETTINGS, "zscore", 0)
    trial(fresh, Arm("chosen", CHOSEN), SETTINGS, "zscore", 0)
    assert sorted(calls) == ["kernel_dle"] * 2 + ["ml_knn"] * 2
