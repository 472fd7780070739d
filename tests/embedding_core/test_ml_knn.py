"""ML-kNN: a toy by hand, the formulas taken literally, limits, copies, errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.classifiers.ml_knn import MLkNN, other_neighbors
from embedding_core.errors import InvalidInput
from tests.synthetic import multi_label, sparse_items


def nearest(X, x, k, but=None):
    """Row numbers of the k items nearest to x, the first of equals, without item `but`."""
    order = np.argsort(((X - x) ** 2).sum(axis=1).round(12), kind="stable")
    return order[order != but][:k]


def literal_scores(X, Y, new, k, s):
    """Priors, likelihoods and posteriors of Zhang and Zhou, item by item and label by label."""
    n, K = Y.shape
    scores = np.empty((len(new), K))
    for label in range(K):
        y = Y[:, label]
        prior = (s + y.sum()) / (2 * s + n)
        kappa = np.zeros((2, k + 1))
        for i in range(n):
            kappa[y[i], y[nearest(X, X[i], k, but=i)].sum()] += 1
        for j, x in enumerate(new):
            c = y[nearest(X, x, k)].sum()
            likelihood = (s + kappa[:, c]) / (s * (k + 1) + kappa.sum(axis=1))
            yes, no = prior * likelihood[1], (1 - prior) * likelihood[0]
            scores[j, label] = yes / (yes + no)
    return scores


def test_a_toy_by_hand():
    # neighbors 1 0 1 4 3 (the first of equals), so counts 1 1 1 0 0 of the label 1 1 0 0 0
    X, Y = np.array([[0.0], [1.0], [2.0], [10.0], [11.0]]), np.array([[1], [1], [0], [0], [0]])
    model = MLkNN(n_neighbors=1).fit(X, Y)
    np.testing.assert_allclose(model.prior_, [3 / 7])
    np.testing.assert_allclose(model.likelihood_[1, :, 0], [1 / 4, 3 / 4])  # of 2 items, both have c = 1
    np.testing.assert_allclose(model.likelihood_[0, :, 0], [3 / 5, 2 / 5])  # of 3 items, one has c = 1
    # c = 1: 3/7 3/4 against 4/7 2/5; c = 0: 3/7 1/4 against 4/7 3/5
    np.testing.assert_allclose(model.predict_scores([[0.4], [10.6]]), [[45 / 77], [5 / 21]])
    assert model.predict([[0.4], [10.6]]).tolist() == [[1], [0]]


@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("s", [0.3, 1.0])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_scores_are_those_of_the_formulas(k, s, form):
    X, (_, Y) = sparse_items(50, 6, density=0.6).toarray(), multi_label(50)
    model = MLkNN(n_neighbors=k, smoothing=s).fit(form(X[:40]), Y[:40])
    found = model.predict_scores(form(X[40:]))
    np.testing.assert_allclose(found, literal_scores(X[:40], Y[:40], X[40:], k, s))


def test_many_copies_of_an_item_are_others_of_it():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(4, 3)), [7, 1, 5, 2], axis=0)
    Y = (rng.random((15, 3)) < 0.5).astype(np.int8)
    for k in (2, 3):
        distances, indices = other_neighbors(X, k)
        expected = [nearest(X, X[i], k, but=i) for i in range(15)]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(distances, np.linalg.norm(X[indices] - X[:, None], axis=2))
        found = MLkNN(n_neighbors=k).fit(X, Y).predict_scores(X)
        np.testing.assert_allclose(found, literal_scores(X, Y, X, k, 1.0))


def test_with_heavy_smoothing_scores_approach_the_prior_and_this_one_half():
    X, Y = multi_label()
    model = MLkNN(smoothing=1e6).fit(X, Y)
    scores = model.predict_scores(X)
    np.testing.assert_allclose(model.prior_, (1e6 + Y.sum(axis=0)) / (2e6 + 60))
    np.testing.assert_allclose(scores, np.tile(model.prior_, (60, 1)), atol=1e-4)
    np.testing.assert_allclose(scores, 0.5, atol=1e-3)


def test_with_little_smoothing_likelihoods_are_the_shares_seen():
    X, Y = multi_label()
    model = MLkNN(n_neighbors=3, smoothing=1e-12).fit(X, Y)
    counts = Y[other_neighbors(X, 3)[1]].sum(axis=1)
    for label in range(4):
        for b in (0, 1):
            seen = np.bincount(counts[Y[:, label] == b, label], minlength=4) / (Y[:, label] == b).sum()
            np.testing.assert_allclose(model.likelihood_[b, :, label], seen, atol=1e-9)
    np.testing.assert_allclose(model.prior_, Y.mean(axis=0))
    assert np.isfinite(model.predict_scores(X)).all()


def test_likelihoods_sum_to_one():
    X, Y = multi_label()
    model = MLkNN().fit(X, Y)
    assert model.likelihood_.shape == (2, 11, 4)
    np.testing.assert_allclose(model.likelihood_.sum(axis=1), 1.0)


def test_labels_that_no_item_or_every_item_has_follow_the_same_formulas():
    X, Y = multi_label()
    Y[:, 1], Y[:, 2] = 0, 1
    scores = MLkNN(n_neighbors=3).fit(X, Y).predict_scores(X)
    # nobody: prior 1/62, likelihoods 1/4 with and 61/64 without the label; everybody: the mirror image
    expected = (1 / 62 / 4) / (1 / 62 / 4 + 61 / 62 * 61 / 64)
    np.testing.assert_allclose(scores[:, 1], expected)
    np.testing.assert_allclose(scores[:, 2], 1 - expected)


def test_exchanging_yes_and_no_exchanges_the_scores():
    X, Y = multi_label()
    model, mirror = MLkNN().fit(X, Y), MLkNN().fit(X, 1 - Y)
    np.testing.assert_allclose(mirror.predict_scores(X), 1 - model.predict_scores(X))


def test_exactly_one_half_is_no():
    # four pairs: with and without the label, two items have c = 0 and two c = 1
    X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0], [30.0], [31.0]])
    model = MLkNN(n_neighbors=1).fit(X, [[1], [1], [0], [0], [1], [0], [1], [0]])
    assert model.predict_scores(X).tolist() == [[0.5]] * 8
    assert not model.predict(X).any()


def test_move_and_rotation_of_the_features_leave_the_scores():
    X, Y = multi_label(80)
    R = np.linalg.qr(np.random.default_rng(2).normal(size=(7, 7)))[0] * 3
    expected = MLkNN().fit(X[:60], Y[:60]).predict_scores(X[60:])
    moved = MLkNN().fit(X[:60] @ R + 9, Y[:60]).predict_scores(X[60:] @ R + 9)
    np.testing.assert_allclose(moved, expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal; give an integer >= 1"),
        ({"n_neighbors": 60}, r"n_neighbors=60 exceeds the 59 rows .*n_samples=60\); lower it"),
        ({"smoothing": 0}, "smoothing=0 is not legal; give a positive number"),
        ({"smoothing": True}, "smoothing=True is not legal"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        MLkNN(**parameters).fit(*multi_label())


def test_dense_and_sparse_items_do_not_mix():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match="both be dense or both be sparse"):
        MLkNN().fit(X, Y).predict(sp.csr_array(X))
