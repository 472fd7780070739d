"""Least-squares machines: the literal solution, blocks, calibration, and agreement with an exact SVM."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.classifiers import least_squares_svm
from embedding_core.classifiers.baselines import ScaledSVM
from embedding_core.classifiers.least_squares_svm import LeastSquaresSVM
from embedding_core.errors import InvalidInput
from embedding_core.linalg.kernel_space import rbf_values
from embedding_core.metrics import multilabel_metrics


def make_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 6))
    curved = X[:, 0] ** 2 + X[:, 1] > 1.5
    return X, np.stack([curved, X[:, 2] > 1.0], axis=1).astype(np.int8)


def test_coefficients_solve_the_normal_equations(monkeypatch):
    monkeypatch.setattr(least_squares_svm, "_FEWEST_ROWS", 10**6)  # all rows are fitted
    X, Y = make_rows(80)
    model = LeastSquaresSVM(landmarks=20, C=2.0, scale="none", gamma=0.3).fit(X, Y)
    K, M = rbf_values(X, model.support_, 0.3), rbf_values(model.support_, model.support_, 0.3)
    errors = 2.0 * Y - 1 - K @ model.coef_ - model.intercept_
    assert np.abs(errors.sum(axis=0)).max() < 1e-6
    assert np.abs(2.0 * K.T @ errors - M @ model.coef_).max() < 1e-5


def test_blocks_of_rows_give_the_same_machines(monkeypatch):
    X, Y = make_rows(300)
    whole = LeastSquaresSVM(landmarks=30).fit(X, Y)
    monkeypatch.setattr(least_squares_svm, "_BLOCK_ROWS", 37)
    parts = LeastSquaresSVM(landmarks=30).fit(X, Y)
    assert parts.coef_ == pytest.approx(whole.coef_, rel=1e-4)
    assert parts.predict_scores(X) == pytest.approx(whole.predict_scores(X), abs=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_unlabeled_rows_do_not_matter_and_constant_labels_are_kept(kernel):
    X, Y = make_rows(200)
    Y = np.column_stack([Y, np.ones(200, np.int8), np.zeros(200, np.int8)])
    model = LeastSquaresSVM(kernel=kernel, scale="none", landmarks=50).fit(X, Y)
    more = LeastSquaresSVM(kernel=kernel, scale="none", landmarks=50).fit(
        np.vstack([X, X[:7]]), np.vstack([Y, np.full((7, 4), -1, np.int8)])
    )
    assert (model.predict_scores(X) == more.predict_scores(X)).all()
    assert (model.predict(X)[:, 2:] == [1, 0]).all()


def test_it_is_as_good_as_the_exact_machine():
    X, Y = make_rows(1500)
    found = {}
    for model in (ScaledSVM(), LeastSquaresSVM(landmarks=200)):
        model.fit(X[:1000], Y[:1000])
        scores = multilabel_metrics(Y[1000:], model.predict(X[1000:]), model.predict_scores(X[1000:]))
        found[type(model).__name__] = scores["macro_f1"]
    assert found["LeastSquaresSVM"] > found["ScaledSVM"] - 0.02


def test_an_unknown_kernel_is_refused():
    with pytest.raises(InvalidInput, match="kernel"):
        LeastSquaresSVM(kernel="cubic").fit(*make_rows(20))


def test_sparse_features_give_the_machine_of_dense_ones_without_a_square_matrix():
    rng = np.random.default_rng(5)
    X = sp.random_array((80, 30), density=0.2, rng=rng, format="csr")
    Y = (X[:, [0, 1]].toarray() + 0.1 * rng.normal(size=(80, 2)) > 0.1).astype(int)
    dense = LeastSquaresSVM("linear", scale="none").fit(X.toarray(), Y)
    sparse = LeastSquaresSVM("linear", scale="none").fit(X, Y)
    np.testing.assert_allclose(sparse.decision_values(X), dense.decision_values(X.toarray()), atol=1e-5)
    wide = sp.random_array((80, 200_000), density=1e-4, rng=rng, format="csr")
    assert LeastSquaresSVM("linear", scale="none").fit(wide, Y).predict_scores(wide).shape == (80, 2)
