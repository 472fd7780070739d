"""Thresholds that give each label to a plausible share of the rows."""

import numpy as np
import pytest

from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.threshold_tuning import tune_thresholds
from embedding_core.model_selection.thresholds import (
    MOST_TIMES,
    f1_thresholds,
    shrunk_share_thresholds,
)
from embedding_core.protocols.tuned_split import SplitScores, split_figures


def draw(n=90, seed=0, strength=0.3):
    """Scores on a grid, so that no two are closer than 1/20000, of labels from rare to frequent."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 6)) < [0.01, 0.03, 0.1, 0.2, 0.5, 0.8]).astype(np.int8)
    Y[:2] = 1, 1, 1, 1, 1, 0
    Y[2] = 0
    noise = np.argsort(rng.random((n, 6)), axis=0) / n
    return np.round(Y * strength + noise * (1 - strength), 4) + np.arange(n)[:, None] * 1e-5 / n, Y


def given(scores, Y, **options):
    return (scores > shrunk_share_thresholds(scores, Y, **options)).sum(axis=0)


def literal_count(scores, Y):
    """The recipe for one label without tied scores."""
    n, n_pos = len(Y), int(Y.sum())
    ranked = np.sort(scores)[::-1]
    best, q1 = -1.0, 0.0
    for k in range(1, n + 1):
        f1 = 2 * Y[scores >= ranked[k - 1]].sum() / (k + n_pos)
        if f1 > best:
            best, q1 = f1, k / n
    q0, w = n_pos / n, n_pos / (n_pos + 10)
    return round(min(q1**w * q0 ** (1 - w), 3 * q0) * n)


@pytest.mark.parametrize("seed", range(5))
def test_the_recipe_label_by_label(seed):
    scores, Y = draw(seed=seed)
    expected = [literal_count(scores[:, k], Y[:, k]) for k in range(6)]
    assert given(scores, Y).tolist() == expected
    thresholds = shrunk_share_thresholds(scores, Y)
    for k, count in enumerate(expected):
        ranked = np.sort(scores[:, k])[::-1]
        assert thresholds[k] == pytest.approx((ranked[count - 1] + ranked[count]) / 2)


@pytest.mark.parametrize("transform", [np.exp, lambda s: s**3, lambda s: np.log(s + 0.1) * 50 - 7])
def test_monotone_transformations_do_not_change_the_decisions(transform):
    scores, Y = draw()
    scores = np.argsort(np.argsort(scores, axis=0), axis=0) / len(Y)
    moved = transform(scores)
    expected = scores > shrunk_share_thresholds(scores, Y)
    np.testing.assert_array_equal(moved > shrunk_share_thresholds(moved, Y), expected)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_no_label_is_given_to_more_than_three_times_its_share(seed, levels):
    rng = np.random.default_rng(seed)
    Y = (rng.random((70, 8)) < rng.random(8) * 0.4).astype(np.int8)
    scores = np.floor(rng.random((70, 8)) * levels) / levels  # ties, and no relation to the labels
    assert (given(scores, Y) <= MOST_TIMES * Y.sum(axis=0)).all()


def test_many_carriers_use_the_f1_threshold_up_to_the_limit():
    rng = np.random.default_rng(1)
    n = 20_000
    Y = (rng.random((n, 3)) < [0.5, 0.3, 0.1]).astype(np.int8)
    scores = Y * [0.6, 0.3, 0.0] + rng.random((n, 3))
    passed = (scores > f1_thresholds(scores, Y)[0]).sum(axis=0)
    expected = np.minimum(passed, 3 * Y.sum(axis=0))
    np.testing.assert_allclose(given(scores, Y), expected, rtol=0.006)
    assert passed[2] > 0.9 * n  # scores without information: the best F1 is that of all rows
    np.testing.assert_array_equal(given(scores, Y, prior_carriers=0), expected)


def test_without_limit_and_prior_it_is_the_f1_threshold():
    scores, Y = draw()
    plain = shrunk_share_thresholds(scores, Y, prior_carriers=0, most_times=np.inf)
    np.testing.assert_array_equal(plain, f1_thresholds(scores, Y)[0])


def test_an_infinite_prior_matches_the_share_of_carriers():
    scores, Y = draw()
    np.testing.assert_array_equal(given(scores, Y, prior_carriers=1e12), Y.sum(axis=0))


def test_tied_rows_pass_together_and_the_nearest_possible_number_is_taken():
    Y = np.zeros((20, 1), dtype=np.int8)
    Y[:4] = 1
    scores = np.repeat([0.9, 0.5, 0.1], [3, 4, 13])[:, None]  # 3, 7 or 20 rows can pass; at most 12 may
    assert given(scores, Y).tolist() == [3]
    scores = np.repeat([0.9, 0.5, 0.1], [1, 4, 15])[:, None]
    assert given(scores, Y).tolist() == [5]


def test_tied_rows_beyond_the_limit_do_not_pass_but_a_higher_score_would():
    Y = np.zeros((20, 1), dtype=np.int8)
    Y[0] = 1
    cut = shrunk_share_thresholds(np.full((20, 1), 0.4), Y)
    assert 0.4 < cut[0] < 0.401


def test_scores_closer_than_rounding_are_tied():
    Y = np.array([[1], [1], [0], [0], [0], [0]], dtype=np.int8)
    scores = np.array([[0.5], [0.5 + 1e-12], [0.5 - 1e-12], [0.1], [0.1], [0.1]])
    assert given(scores, Y).tolist() == [3]


def test_labels_that_no_row_or_every_row_carries_stay_as_they_are():
    Y = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 0]], dtype=np.int8)
    scores = np.array([[0.9, 0.1, 0.8], [0.8, 0.2, 0.3], [0.7, 0.3, 0.2]])
    assert shrunk_share_thresholds(scores, Y)[:2].tolist() == [np.inf, -np.inf]
    assert tune_thresholds(scores, Y, "label_f1")[:2].tolist() == [np.inf, -np.inf]


def test_a_rare_label_with_a_low_scored_carrier_is_not_given_to_all_rows():
    """The case that a user saw: 2 of 95 photos carry it, all new photos got it."""
    rng = np.random.default_rng(0)
    scores = rng.random((95, 1))
    Y = np.zeros((95, 1), dtype=np.int8)
    Y[np.argsort(scores[:, 0])[[0, 1]]] = 1
    assert (scores > f1_thresholds(scores, Y)[0]).all()
    assert given(scores, Y).tolist() == [round(95 ** (2 / 12) * 2 ** (10 / 12))] == [4]


def test_each_rule_has_its_name():
    scores, Y = draw()
    np.testing.assert_array_equal(tune_thresholds(scores, Y, "macro_f1"), shrunk_share_thresholds(scores, Y))
    np.testing.assert_array_equal(tune_thresholds(scores, Y, "label_f1"), f1_thresholds(scores, Y)[0])


def test_published_figures_use_the_best_f1_of_each_label():
    """RESULTS.md was measured with this rule; tables of `reproduce` must not change with the other one."""
    scores, Y = draw()
    others, Y_test = draw(seed=1)
    found = split_figures(SplitScores(scores, others), Y, Y_test)["macro_f1"]
    by_rule = {
        rule: multilabel_metrics(Y_test, (others > tune_thresholds(scores, Y, rule)).astype(int), others)
        for rule in ("label_f1", "macro_f1")
    }
    assert found == by_rule["label_f1"]["macro_f1"] != by_rule["macro_f1"]["macro_f1"]
