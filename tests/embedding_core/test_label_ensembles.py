"""Chains of classifiers and calibrated label ranking, against literal versions and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.classifiers.label_ensembles import CalibratedLabelRanking, ClassifierChains
from embedding_core.errors import InvalidInput
from storage.artifacts.models import dump_model, load_model
from tests.synthetic import multi_label

BASES = ("logistic", "linear_svm", "rbf_svm")
ENSEMBLES = (ClassifierChains(n_chains=3), CalibratedLabelRanking())


def machine(base, model):
    """The base classifier of scikit-learn with the chosen parameters."""
    if base == "logistic":
        return LogisticRegression(C=model.C_, tol=1e-8, max_iter=5000)
    return SVC(C=model.C_, gamma=model.gamma_)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["logistic", "rbf_svm"])
def test_one_chain_is_that_of_scikit_learn(base):
    X, Y = multi_label(100)
    model = ClassifierChains(base, n_chains=1).fit(X[:70], Y[:70])
    scaler = StandardScaler().fit(X[:70])
    chain = ClassifierChain(machine(base, model), order=model.orders_[0].tolist())
    chain.fit(scaler.transform(X[:70]), Y[:70])
    expected = chain.decision_function(scaler.transform(X[70:]))
    np.testing.assert_allclose(model._values(X[70:]) + 0.5, expit(expected), atol=2e-3)
    np.testing.assert_array_equal(model.predict(X[70:]), chain.predict(scaler.transform(X[70:])))


def test_chains_have_different_orders_and_are_averaged():
    X, Y = multi_label(80)
    model = ClassifierChains(n_chains=4).fit(X, Y)
    assert len({tuple(order) for order in model.orders_.tolist()}) > 1
    rows = model.scaler_.transform(X)
    each = [expit(model._follow(number, rows, None)) for number in range(4)]
    np.testing.assert_allclose(model._values(X), np.mean(each, axis=0) - 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["logistic", "rbf_svm"])
def test_label_ranking_is_the_literal_one(base):
    X, Y = multi_label(60, K=3)
    model = CalibratedLabelRanking(base).fit(X, Y)
    Z = StandardScaler().fit_transform(X)
    votes = np.zeros((60, 4))
    for i in range(3):
        for j in range(i + 1, 4):
            known = np.ones(60, dtype=bool) if j == 3 else Y[:, i] != Y[:, j]
            fitted = machine(base, model).fit(Z[known], Y[known, i])
            vote = expit(fitted.decision_function(Z))
            votes[:, i] += vote
            votes[:, j] += 1 - vote
    np.testing.assert_allclose(model._values(X), (votes[:, :3] - votes[:, 3:]) / 3, atol=2e-3)
    margin = votes[:, :3] - votes[:, 3:]
    sure = np.abs(margin) > 0.01
    np.testing.assert_array_equal(model.predict(X)[sure], (margin > 0)[sure])


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("model", ENSEMBLES, ids=lambda one: type(one).__name__)
def test_rare_constant_and_unlabeled(model, base):
    X, Y = multi_label(60)
    Y[:, 0], Y[:, 1] = 1, 0
    Y[3, 1] = 1
    hidden = np.vstack([Y[:40], np.full((20, 4), -1)])
    model = type(model)(**{**model.get_params(), "base": base})
    scores = model.fit(X, hidden).predict_scores(X)
    assert np.isfinite(scores).all()
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_array_equal(scores, model.fit(X[:40], Y[:40]).predict_scores(X))
    assert (model.predict(X)[:, 0] == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("model", ENSEMBLES, ids=lambda one: type(one).__name__)
def test_sparse_rows(model):
    X, Y = multi_label(60)
    X = np.where(X > 1.5, np.ceil(X), 0.0)
    model = type(model)(**{**model.get_params(), "scale": "tfidf"})
    dense = model.fit(X, Y).predict_scores(X)
    found = model.fit(sp.csr_array(X), Y).predict_scores(sp.csr_array(X))
    np.testing.assert_allclose(found, dense, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["logistic", "rbf_svm"])
@pytest.mark.parametrize("name", ["ecc", "calibrated_label_ranking"])
def test_saved_models_score_the_same(name, base):
    X, Y = multi_label(50)
    model = Annotator(name, {"base": base}).fit(X, Y)
    loaded = load_model(dump_model(model), SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(loaded.predict_scores(X), model.predict_scores(X))


def test_bad_parameters(monkeypatch):
    X, Y = multi_label(30)
    with pytest.raises(InvalidInput, match="base='tree'"):
        ClassifierChains("tree").fit(X, Y)
    with pytest.raises(InvalidInput, match="n_chains=0"):
        ClassifierChains(n_chains=0).fit(X, Y)
    monkeypatch.setattr("embedding_core.classifiers.label_ensembles.MOST_PAIRS", 5)
    with pytest.raises(InvalidInput, match="4 labels have 6 pairs"):
        CalibratedLabelRanking().fit(X, Y)
