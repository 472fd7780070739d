"""Metrics against scikit-learn where it has the same metric, otherwise against their definitions."""

import numpy as np
import pytest
from sklearn import metrics as reference

from embedding_core.errors import InvalidInput
from embedding_core.metrics import METRICS, multilabel_metrics


def draw(seed, n=60, n_labels=5, levels=None):
    """Return random labels, decisions and scores; few score levels give many ties."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.35).astype(int)
    Y[:, 0] = np.maximum(Y[:, 0], Y.sum(axis=1) == 0)
    scores = rng.random((n, n_labels)) if levels is None else rng.integers(0, levels, (n, n_labels)) / levels
    return Y, (scores > 0.5).astype(int), scores


@pytest.mark.parametrize("levels", [None, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_scikit_learn(seed, levels):
    Y, decided, scores = draw(seed, levels=levels)
    found = multilabel_metrics(Y, decided, scores)
    for average in ("macro", "micro"):
        precision, recall, f1, _ = reference.precision_recall_fscore_support(
            Y, decided, average=average, zero_division=0
        )
        assert found[f"{average}_precision"] == pytest.approx(precision)
        assert found[f"{average}_recall"] == pytest.approx(recall)
        assert found[f"{average}_f1"] == pytest.approx(f1)
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(Y, decided))
    assert found["hamming_loss"] == pytest.approx(reference.hamming_loss(Y, decided))
    assert found["lrap"] == pytest.approx(reference.label_ranking_average_precision_score(Y, scores))
    assert found["coverage0"] == pytest.approx(reference.coverage_error(Y, scores) - 1)
    assert found["ranking_loss"] == pytest.approx(reference.label_ranking_loss(Y, scores))
    assert found["map_macro"] == pytest.approx(reference.average_precision_score(Y, scores, average="macro"))


def test_every_declared_metric_is_returned_in_order():
    assert list(multilabel_metrics(*draw(0))) == [metric.name for metric in METRICS]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_perfect_predictions_reach_the_better_end(metric):
    Y = draw(1)[0]
    worse = multilabel_metrics(Y, 1 - Y, 1 - Y)[metric.name]
    best = multilabel_metrics(Y, Y, Y)[metric.name]
    assert best > worse if metric.higher_is_better else best < worse
    if metric.name != "coverage0":
        assert best == float(metric.higher_is_better)


def test_empty_class_counts_in_macro_precision_and_not_in_means_over_occurring_classes():
    Y = [[1, 0, 0], [0, 1, 0]]
    decided = [[1, 0, 1], [0, 1, 0]]
    found = multilabel_metrics(Y, decided, decided)
    assert found["macro_precision"] == pytest.approx(2 / 3)
    assert found["precision_class_mean"] == 1.0
    assert found["map_macro"] == 1.0


def test_class_that_is_never_predicted_has_precision_zero_in_both_means():
    found = multilabel_metrics([[1, 0], [0, 1]], [[1, 0], [0, 0]], [[0.9, 0.1], [0.2, 0.3]])
    assert found["macro_precision"] == found["precision_class_mean"] == 0.5


@pytest.mark.parametrize(("Y", "decided"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_constant_labels_are_finite_and_follow_the_stated_conventions(Y, decided):
    shape = (4, 3)
    found = multilabel_metrics(np.full(shape, Y), np.full(shape, decided), np.full(shape, 0.5))
    assert all(np.isfinite(list(found.values())))
    assert found["lrap"] == 1.0
    assert found["ranking_loss"] == 0.0
    assert found["one_error"] == 0.0
    assert found["coverage0"] == (2.0 if Y else 0.0)
    assert found["map_macro"] == float(Y)


def test_row_without_labels_is_ignored_by_one_error_and_counts_zero_in_coverage0():
    Y, scores = [[0, 0], [0, 1]], [[0.1, 0.9], [0.9, 0.1]]
    found = multilabel_metrics(Y, [[0, 1], [1, 0]], scores)
    assert found["one_error"] == 1.0
    assert found["coverage0"] == 0.5


def test_ties_at_the_top_share_the_one_error_in_any_column_order():
    Y, scores = np.array([[1, 0, 0]]), np.array([[0.7, 0.7, 0.1]])
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        assert multilabel_metrics(Y[:, order], Y[:, order], scores[:, order])["one_error"] == 0.5


def test_single_column_is_defined():
    found = multilabel_metrics([[1], [0]], [[1], [1]], [[0.8], [0.6]])
    assert found["micro_precision"] == 0.5
    assert found["map_macro"] == 1.0
    assert found["coverage0"] == 0.0


@pytest.mark.parametrize(
    ("Y", "decided", "scores", "message"),
    [
        ([[-1, -1]], [[0, 0]], [[0, 0]], "Leave out unlabeled rows"),
        ([[1, 0]], [[1, 2]], [[0, 0]], r"Y_pred contains \[2\]"),
        ([[1, 0]], [[1, 0]], [[np.nan, 0]], "1 NaN or infinite"),
        ([[1, 0]], [[1, 0]], [[0.1]], "differ in shape"),
        ([1, 0], [[1, 0]], [[1, 0]], r"Y_true has shape \(2,\)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2)), "at least one"),
    ],
)
def test_bad_input_raises_clear_errors(Y, decided, scores, message):
    with pytest.raises(InvalidInput, match=message):
        multilabel_metrics(Y, decided, scores)


def test_labels_absent_from_a_fold_can_be_left_out_of_macro_averages():
    Y = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=np.int8)
    perfect = multilabel_metrics(Y, Y, Y.astype(float), skip_absent=True)
    assert (perfect["macro_f1"], perfect["macro_precision"], perfect["macro_recall"]) == (1, 1, 1)
    assert multilabel_metrics(Y, Y, Y.astype(float))["macro_f1"] == pytest.approx(2 / 3)
    given = Y.copy()
    given[0, 2] = 1  # a label that is given to a row of another one still counts as 0
    assert multilabel_metrics(Y, given, given.astype(float), skip_absent=True)["macro_f1"] == pytest.approx(
        2 / 3
    )
    others = [name for name in perfect if not name.startswith("macro_")]
    plain = multilabel_metrics(Y, Y, Y.astype(float))
    assert [perfect[name] for name in others] == [plain[name] for name in others]
