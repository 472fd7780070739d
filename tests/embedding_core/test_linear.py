"""Linear baselines: the optimum of scikit-learn, for all labels at once; scaling by kind of items."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from embedding_core.classifiers import linear
from embedding_core.classifiers.linear import TunedLinear, fit_linear, principal_rows, signs
from embedding_core.errors import InvalidInput
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.inner_choice import rate_scores
from embedding_core.scaling import Scaler, TfIdf, are_occurrences, make_scaler, row_scale, scales_to_try
from tests.synthetic import multi_label, sparse_items


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_logistic_regression_is_that_of_scikit_learn(form, C):
    X, Y = multi_label(80)
    found = fit_linear(form(X), signs(Y), C, "logistic").decide(form(X))
    theirs = [LogisticRegression(C=C, tol=1e-8, max_iter=5000).fit(X, y).decision_function(X) for y in Y.T]
    np.testing.assert_allclose(found, np.column_stack(theirs), atol=2e-3 * np.abs(found).max())


@pytest.mark.parametrize("shape", [(80, 7), (30, 50)])
def test_machine_is_that_of_scikit_learn_also_for_rotated_items(shape):
    X, Y = multi_label(*shape)
    rotated = principal_rows(X)
    found = rotated.lift(fit_linear(rotated.Z, signs(Y), 0.1, "squared_hinge")).decide(X)
    # scikit-learn penalizes the intercept; a large scale makes that negligible
    theirs = [
        LinearSVC(C=0.1, dual=False, intercept_scaling=100, tol=1e-8).fit(X, y).decision_function(X)
        for y in Y.T
    ]
    np.testing.assert_allclose(found, np.column_stack(theirs), atol=5e-3)


def test_sparse_items_with_more_features_than_rows_are_rotated_without_dense_axes():
    X, Y = sparse_items(30, 80), multi_label(30)[1]
    rotated = principal_rows(X[:20])
    assert rotated.axes.shape == (20, 20)
    found = fit_linear(rotated.Z, signs(Y[:20]), 1.0, "logistic")
    plain = fit_linear(X[:20], signs(Y[:20]), 1.0, "logistic")
    np.testing.assert_allclose(found.decide(rotated.place(X[20:])), plain.decide(X[20:]), atol=5e-3)
    np.testing.assert_allclose(rotated.lift(found).decide(X[20:]), plain.decide(X[20:]), atol=5e-3)


def test_rows_and_features_can_be_left_out_of_single_problems():
    X, Y = multi_label(60)
    T = signs(Y)
    T[:20, 1] = 0
    allowed = np.ones((7, 4))
    allowed[3:, 2] = 0
    found = fit_linear(X, T, 1.0, "logistic", features=allowed)
    alone = fit_linear(X[20:], T[20:, [1]], 1.0, "logistic")
    np.testing.assert_allclose(found.W[:, 1], alone.W[:, 0], atol=2e-3)
    short = fit_linear(X[:, :3], T[:, [2]], 1.0, "logistic")
    np.testing.assert_allclose(found.W[:3, 2], short.W[:, 0], atol=2e-3)
    assert (found.W[3:, 2] == 0).all()


def test_blocks_of_labels_change_nothing(monkeypatch):
    X, Y = multi_label(60)
    whole = fit_linear(X, signs(Y), 1.0, "logistic").W
    monkeypatch.setattr(linear, "_MOST_COEFFICIENTS", 10)
    np.testing.assert_allclose(fit_linear(X, signs(Y), 1.0, "logistic").W, whole, atol=2e-3)


@pytest.mark.slow
def test_the_penalty_is_the_best_on_the_inner_folds():
    X, Y = multi_label(90)
    model = TunedLinear().fit(X, Y)
    ratings = {}
    for C in (0.001, 0.01, 0.1, 1.0, 10.0):
        scores = np.zeros(Y.shape)
        for train, test in stratified_folds(Y, 3, seed=0):
            fitted = TunedLinear(penalties=(C,)).fit(X[train], Y[train])
            scores[test] = fitted.predict_scores(X[test])
        ratings[C] = rate_scores(Y, scores)
    assert ratings[model.C_][0] == pytest.approx(max(ratings.values())[0], abs=2e-3)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_constant_labels_and_unlabeled_rows(loss):
    X, Y = multi_label(60)
    Y[:, 0], Y[:, 1] = 1, 0
    hidden = np.vstack([Y[:40], np.full((20, 4), -1)])
    model, alone = TunedLinear(loss).fit(X, hidden), TunedLinear(loss).fit(X[:40], Y[:40])
    np.testing.assert_array_equal(model.predict_scores(X), alone.predict_scores(X))
    assert (model.predict_scores(X)[:, :2] == [1.0, 0.0]).all()
    assert (model.predict(X)[:, :2] == [1, 0]).all()


def test_which_scalings_are_tried():
    X, _ = multi_label(30)
    words = sparse_items(30, 40)
    counts = sp.csr_array(np.ceil(words.toarray()))
    assert scales_to_try("auto", X) == ("zscore",)
    assert scales_to_try("auto", words) == ("unit", "zscore")
    assert scales_to_try("auto", counts) == scales_to_try("auto", counts.toarray()) == ("tfidf", "zscore")
    assert scales_to_try("none", counts) == ("none",)
    assert not are_occurrences(np.abs(X))
    assert row_scale(X) == "unit"
    with pytest.raises(InvalidInput, match="scale='log'"):
        TunedLinear(scale="log").fit(*multi_label(20))
    with pytest.raises(InvalidInput, match="scale 'log'"):
        make_scaler("log")


def test_weights_of_counts_are_those_of_scikit_learn():
    counts = np.ceil(sparse_items(30, 40).toarray())
    expected = TfidfTransformer().fit(counts[:20]).transform(counts[20:]).toarray()
    model = TfIdf().fit(counts[:20])
    np.testing.assert_allclose(model.transform(counts[20:]), expected)
    np.testing.assert_allclose(model.transform(sp.csr_array(counts[20:])).toarray(), expected)
    assert type(make_scaler("unit")) is Scaler


@pytest.mark.parametrize("params", [{"loss": "hinge"}, {"penalties": ()}, {"penalties": (-1.0,)}])
def test_bad_parameters(params):
    with pytest.raises(InvalidInput, match=next(iter(params))):
        TunedLinear(**params).fit(*multi_label(20))
