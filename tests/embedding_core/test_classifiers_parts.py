"""Parts of the classifiers: centered items, ridge regression with its left-out answers, thresholds for F1."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from embedding_core.classifiers.ridge import RidgePath
from embedding_core.knn_classifier import decide_labels
from embedding_core.linalg import row_blocks
from embedding_core.linalg.scatter import center_items
from embedding_core.model_selection.thresholds import TIE, f1_thresholds, shift_scores
from tests.synthetic import multi_label, sparse_items

SHAPES = pytest.mark.parametrize("shape", [(60, 7), (20, 20), (15, 40)])
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array])


@SHAPES
@FORMS
def test_centered_items_are_those_of_numpy(shape, form, monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 4)
    X = sparse_items(*shape, density=0.5).toarray()
    A = np.random.default_rng(1).normal(size=(shape[0], 3))
    items, centered = center_items(form(X)), X - X.mean(axis=0)
    lifted = items.lift(items.moments(A))
    np.testing.assert_allclose(lifted, centered.T @ A, atol=1e-10)
    np.testing.assert_allclose(items.project(items.moments(A)), centered @ (centered.T @ A), atol=1e-9)
    np.testing.assert_allclose(items.lift(items.scatter @ items.moments(A)), centered.T @ (centered @ lifted))
    assert len(items.mean) <= min(shape)
    assert items.are_features == (shape[1] <= shape[0])


def test_items_far_from_the_origin_keep_their_digits():
    X, Y = multi_label()
    moved = center_items(X + 1e7)
    np.testing.assert_allclose(moved.moments(Y), center_items(X).moments(Y), rtol=1e-6, atol=1e-6)


@SHAPES
@FORMS
@pytest.mark.parametrize("penalty", [1e-4, 0.3, 1e12])
def test_ridge_is_that_of_scikit_learn(shape, form, penalty):
    X, (_, Y) = sparse_items(*shape, density=0.5).toarray(), multi_label(*shape)
    path = RidgePath(form(X), Y)
    expected = Ridge(alpha=penalty * len(X), solver="svd").fit(X, Y).coef_.T
    found = path.lift(path.fit([penalty])[penalty].coef)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(30, 7), (12, 10), (15, 15), (15, 40)])
@FORMS
@pytest.mark.parametrize("penalty", [1e-14, 1e-4, 0.3])
def test_left_out_answers_are_those_of_fits_on_the_others(shape, form, penalty, monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 16)
    X, (_, Y) = sparse_items(*shape, density=0.5).toarray(), multi_label(*shape)
    expected = []
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        fit = Ridge(alpha=penalty * len(X), solver="svd").fit(X[others], Y[others])
        expected.append(fit.predict(X[[i]])[0])
    found = RidgePath(form(X), Y).fit([penalty])[penalty].left_out
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_many_penalties_are_each_as_if_alone():
    X, Y = multi_label()
    path = RidgePath(X, Y)
    together = path.fit([0.1, 1.0])
    for penalty in (0.1, 1.0):
        alone = path.fit([penalty])[penalty]
        np.testing.assert_array_equal(together[penalty].coef, alone.coef)
        np.testing.assert_array_equal(together[penalty].left_out, alone.left_out)


def test_part_of_the_labels_can_follow_another_penalty():
    X, Y = multi_label()
    weak, strong = RidgePath(X, Y).fit([0.1, 10.0]).values()
    first = np.diag([1.0, 0, 0, 0])
    mixed = strong.replace_part(weak, first)
    np.testing.assert_allclose(mixed.coef[:, 0], weak.coef[:, 0])
    np.testing.assert_allclose(mixed.coef[:, 1:], strong.coef[:, 1:])
    np.testing.assert_allclose(mixed.left_out[:, 0], weak.left_out[:, 0])
    np.testing.assert_allclose(mixed.left_out[:, 1:], strong.left_out[:, 1:])


def test_mean_variance_counts_the_components_in_which_items_vary():
    X, Y = multi_label()
    total = X.var(axis=0).sum()
    assert RidgePath(np.column_stack([X, X[:, 0] * 0 + 3]), Y).mean_variance == pytest.approx(total / 7)
    assert RidgePath(np.ones((60, 2)), Y).mean_variance == 1.0


def test_items_all_the_same_are_answered_by_the_mean_of_the_others():
    _, Y = multi_label()
    left_out = RidgePath(np.ones((60, 2)), Y).fit([1.0])[1.0].left_out
    np.testing.assert_allclose(left_out, (Y.sum(axis=0) - Y) / 59)


def f1_score(y, decided):
    return 2 * (y & decided).sum() / (y.sum() + decided.sum())


def best_f1(scores, y):
    """Best F1 over every cut that tells scores apart."""
    return max(f1_score(y, scores >= cut) for cut in np.unique(scores))


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_have_the_best_f1_there_is(seed):
    rng = np.random.default_rng(seed)
    Y = (rng.random((50, 4)) < [0.1, 0.3, 0.5, 0.9]).astype(np.int8)
    scores = (Y * 0.5 + rng.normal(size=Y.shape)).round(1)  # with ties
    thresholds, f1 = f1_thresholds(scores, Y)
    for k in range(4):
        assert f1[k] == pytest.approx(best_f1(scores[:, k], Y[:, k]))
        assert f1_score(Y[:, k], scores[:, k] > thresholds[k]) == pytest.approx(f1[k])
    assert np.abs(scores - thresholds).min() > TIE / 3
    decided = decide_labels(shift_scores(scores, thresholds))
    np.testing.assert_array_equal(decided, scores > thresholds)


def test_a_threshold_by_hand():
    scores = np.array([[0.9], [0.8], [0.4], [0.2]])
    thresholds, f1 = f1_thresholds(scores, np.array([[1], [0], [1], [0]], dtype=np.int8))
    # yes to one, two, three, four: F1 2/3, 2/4, 4/5, 4/6
    np.testing.assert_allclose(thresholds, [0.3])
    np.testing.assert_allclose(f1, [0.8])


def test_of_equal_f1_the_fewest_yes_are_taken():
    # yes to one: F1 2/3; yes to four: 2 * 2 / (2 + 4) = 2/3
    scores = np.array([[0.9], [0.8], [0.4], [0.2]])
    thresholds, f1 = f1_thresholds(scores, np.array([[1], [0], [0], [1]], dtype=np.int8))
    np.testing.assert_allclose(thresholds, [0.85])
    np.testing.assert_allclose(f1, [2 / 3])


def test_yes_to_all_is_a_threshold_just_below():
    Y = np.array([[1], [1], [0], [1]], dtype=np.int8)
    thresholds, _ = f1_thresholds(np.array([[0.5], [0.1], [0.9], [0.1]]), Y)
    np.testing.assert_allclose(thresholds, [0.1 - TIE], rtol=1e-9)
    assert decide_labels(shift_scores(np.array([[0.1]]), thresholds)).all()


def test_labels_of_one_value_have_infinite_thresholds():
    scores = np.array([[0.2, 0.4], [0.3, 0.1]])
    thresholds, f1 = f1_thresholds(scores, np.array([[0, 1], [0, 1]], dtype=np.int8))
    assert thresholds.tolist() == [np.inf, -np.inf]
    assert f1.tolist() == [0.0, 1.0]
    assert shift_scores(scores, thresholds).tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_shifted_scores_rise_with_the_score_and_rank_labels_by_their_margin():
    f = np.linspace(-1, 2, 301)[:, None]
    low, high = shift_scores(np.hstack([f, f]), np.array([0.2, 0.7])).T
    assert (np.diff(low) > 0).all()
    np.testing.assert_array_equal(low > 0.5, f[:, 0] > 0.2)
    assert (low > high).all()
    np.testing.assert_allclose(low[:-50], high[50:])  # equal margins, equal scores
    near = np.abs(f[:, 0] - 0.2) < 0.02
    np.testing.assert_allclose(low[near], 0.5 + f[near, 0] - 0.2, atol=1e-4)
