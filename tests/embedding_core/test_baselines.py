"""The plain baselines."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from embedding_core.classifiers.baselines import InputNeighbors, ScaledSVM, TunedNeighbors, draw_rows
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels
from embedding_core.model_selection.calibration import calibrate_shared
from embedding_core.model_selection.inner_choice import rate_scores


def draw(n=90, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * [1, 10, 100, 1, 1]
    Y = np.column_stack([X[:, 0] > 0, X[:, 3] + X[:, 4] > 0.5, rng.random(n) < 0.3]).astype(np.int8)
    return X, Y


def test_unscaled_svm_equals_that_of_scikit_learn():
    X, Y = draw()
    model = ScaledSVM(scale="none").fit(X[:60], Y[:60])
    plain = OneVsRestClassifier(SVC()).fit(X[:60], Y[:60])
    np.testing.assert_array_equal(model.predict(X[60:]), plain.predict(X[60:]))
    assert not np.array_equal(model.predict(X[60:]), ScaledSVM().fit(X[:60], Y[:60]).predict(X[60:]))


def test_svm_equals_a_pipeline_of_scikit_learn():
    X, Y = draw()
    expected = make_pipeline(StandardScaler(), OneVsRestClassifier(SVC())).fit(X[:60], Y[:60])
    model = ScaledSVM().fit(X[:60], Y[:60])
    np.testing.assert_array_equal(model.predict(X[60:]), expected.predict(X[60:]))
    decision = expected.decision_function(X[60:])
    np.testing.assert_allclose(model.predict_scores(X[60:]), 1 / (1 + np.exp(-decision)))


def test_svm_predicts_one_valued_labels_as_seen():
    X, Y = draw()
    Y[:, 0], Y[:, 1] = 1, 0
    model = ScaledSVM().fit(X, Y)
    assert (model.predict(X)[:, :2] == [1, 0]).all()
    assert (model.predict_scores(X)[:, :2] == [1.0, 0.0]).all()


def test_svm_with_constant_columns_ignores_them():
    X, Y = draw()
    padded = np.column_stack([X, np.full(len(X), 7.3)])
    # gamma = 1 / (p variance) counts the constant column twice, in p and in the variance, and so is the same.
    np.testing.assert_array_equal(
        ScaledSVM().fit(padded, Y).predict(padded), ScaledSVM().fit(X, Y).predict(X)
    )


def test_svm_learns_only_from_labeled_rows():
    X, Y = draw()
    hidden = Y.copy()
    hidden[60:] = -1
    other = Y.copy()
    other[60:] = 1 - other[60:]
    model, reported = ScaledSVM().fit(X, hidden), ScaledSVM().fit(X, other)
    alone = SVC().fit(StandardScaler().fit(X).transform(X)[:60], Y[:60, 0])
    expected = alone.predict(StandardScaler().fit(X).transform(X))
    np.testing.assert_array_equal(model.predict(X)[:, 0], expected)
    assert (reported.predict(X) != model.predict(X)).any()


def test_svm_takes_sparse_rows():
    X, Y = draw()
    X[np.abs(X) < 0.3] = 0
    scores = ScaledSVM().fit(sp.csr_array(X), Y).predict_scores(sp.csr_array(X))
    divided = X / X.std(axis=0)
    expected = SVC().fit(divided, Y[:, 0]).decision_function(divided)
    np.testing.assert_allclose(scores[:, 0], 1 / (1 + np.exp(-expected)), atol=1e-6)


def test_input_neighbors_with_and_without_scaling():
    X, Y = draw()
    scaler = StandardScaler().fit(X[:60])
    raw = NeighborLabels().fit(X[:60], Y[:60]).predict(X[60:])
    scaled = NeighborLabels().fit(scaler.transform(X[:60]), Y[:60]).predict(scaler.transform(X[60:]))
    assert (raw != scaled).any()
    np.testing.assert_array_equal(InputNeighbors().fit(X[:60], Y[:60]).predict(X[60:]), raw)
    np.testing.assert_array_equal(InputNeighbors("zscore").fit(X[:60], Y[:60]).predict(X[60:]), scaled)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ScaledSVM(C=0), "C=0 is not legal; give a positive number"),
        (ScaledSVM(gamma="wide"), "gamma='wide'"),
        (ScaledSVM(gamma=-1.0), "gamma=-1.0"),
        (InputNeighbors("loud"), "scale 'loud' is not known"),
        (InputNeighbors(n_neighbors=100), "n_neighbors=100 with 90"),
    ],
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(InvalidInput, match=message):
        model.fit(*draw())


def test_labels_of_other_rows_are_refused():
    X, Y = draw()
    with pytest.raises(InvalidInput, match="X has 90 rows and Y has 89"):
        ScaledSVM().fit(X, Y[:-1])


@pytest.mark.parametrize("model", [ScaledSVM(C=2.0, gamma=0.1), InputNeighbors("unit", 3, "distance")])
def test_parameters_survive_clone(model):
    assert clone(model).get_params() == model.get_params()


@pytest.mark.slow
def test_tuned_neighbors_take_the_best_number_by_leave_one_out():
    X, Y = draw()
    model = TunedNeighbors("zscore").fit(X, Y)
    Z = StandardScaler().fit_transform(X)
    ratings = {}
    for k in (1, 3, 5, 10, 15, 20, 30, 50):
        others = [np.flatnonzero(np.arange(90) != row) for row in range(90)]
        votes = [
            NeighborLabels(k, "distance").fit(Z[rest], Y[rest]).predict_scores(Z[[row]])[0]
            for row, rest in enumerate(others)
        ]
        ratings[k] = rate_scores(Y, np.array(votes))
    assert ratings[model.n_neighbors_] == pytest.approx(max(ratings.values()))
    assert len(set(ratings.values())) > 3


def test_neighbors_by_cosine_do_not_see_the_length_of_rows():
    X, Y = draw()
    model = TunedNeighbors().fit(X, Y)
    lengths = np.random.default_rng(0).uniform(0.5, 20, size=(90, 1))
    other = TunedNeighbors().fit(X * lengths, Y)
    np.testing.assert_allclose(model.predict_scores(X + 1), other.predict_scores(7 * (X + 1)), atol=1e-9)
    counts = np.random.default_rng(0).poisson(0.2, size=(90, 6)).astype(float)
    assert TunedNeighbors().fit(counts, Y).scale_ == "tfidf"
    assert TunedNeighbors().fit(X[:1], Y[:1]).n_neighbors_ == 1
    with pytest.raises(InvalidInput, match="candidates=0"):
        TunedNeighbors(candidates=(0,)).fit(X, Y)


def test_tuned_neighbors_of_many_rows_are_chosen_on_a_sample():
    X, Y = draw(seed=4)
    model = TunedNeighbors("zscore", candidates=(1, 5, 9), tuning_rows=30).fit(X, Y)
    Z, rows = StandardScaler().fit_transform(X), draw_rows(90, 30, 0)
    ratings = {}
    for k in (1, 5, 9):
        scores = []
        for row in rows:  # each sampled row by all others, not only by those of the sample
            others = np.delete(np.arange(90), row)
            scores.append(NeighborLabels(k, "distance").fit(Z[others], Y[others]).predict_scores(Z[[row]])[0])
        ratings[k] = rate_scores(Y[rows], np.array(scores))
    assert model.n_neighbors_ == max(ratings, key=lambda k: (*ratings[k], -k))
    assert model.left_out_scores_ is None
    assert len(model.neighbors_.Y_) == 90


def test_calibrated_votes_keep_the_order_of_items_and_labels_that_do_not_vary():
    X, Y = draw(120, seed=5)
    Y = np.column_stack([Y, np.zeros(120), np.ones(120)]).astype(np.int8)
    plain = TunedNeighbors("zscore").fit(X[:80], Y[:80])
    model = TunedNeighbors("zscore", calibrate=True).fit(X[:80], Y[:80])
    before, after = plain.predict_scores(X[80:]), model.predict_scores(X[80:])
    for k in range(3):
        assert (np.diff(after[np.argsort(before[:, k]), k]) >= 0).all()
    assert (after[:, 3:] == [0.0, 1.0]).all()
    assert ((after - Y[80:]) ** 2).mean() < ((before - Y[80:]) ** 2).mean()
    link = calibrate_shared(plain.left_out_scores_[:, :3], Y[:80, :3])
    assert np.abs(model.left_out_scores_[:, :3] - link.apply(plain.left_out_scores_[:, :3])).max() < 0.1
    single = np.eye(2, dtype=np.int8)[Y[:80, 0]]
    assert TunedNeighbors("zscore", calibrate=True).fit(X[:80], single).calibration_ is None
