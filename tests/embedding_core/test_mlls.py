"""MLLS: its objective, the corrected Eq. 24, ridge regression as limit, penalties and thresholds, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from embedding_core.classifiers.mlls import MLLS, PENALTIES, penalty_pairs
from embedding_core.classifiers.ridge import RidgePath
from embedding_core.errors import InvalidInput
from tests.synthetic import multi_label, projector, single_label, sparse_items

ALPHA, BETA = 0.7, 0.05
SHAPES = pytest.mark.parametrize("shape", [(60, 7), (25, 40)])


def centered(A: np.ndarray) -> np.ndarray:
    return A - A.mean(axis=0)


def pieces(X, Y, alpha=ALPHA, beta=BETA):
    """M, S_1 and S_2 of the corrected Eq. 24, p x p."""
    X, Y = centered(X), centered(Y)
    M = X.T @ X / len(X) + (alpha + beta) * np.eye(X.shape[1])
    R = np.linalg.solve(M, X.T @ Y)
    return M, np.eye(len(M)) - alpha * np.linalg.inv(M), R @ R.T


def literal_mlls(X, Y, q, alpha=ALPHA, beta=BETA):
    """Theta by the leading eigenvectors of S_1^-1 S_2, then U = (M - alpha Theta^T Theta)^-1 X^T Y / n."""
    M, S_1, S_2 = pieces(X, Y, alpha, beta)
    values, vectors = np.linalg.eig(np.linalg.solve(S_1, S_2))
    Theta = np.linalg.qr(vectors[:, np.argsort(-values.real)[:q]].real)[0].T
    U = np.linalg.solve(M - alpha * Theta.T @ Theta, centered(X).T @ centered(Y)) / len(X)
    return U, Theta


def objective(X, Y, U, V, Theta, alpha=ALPHA, beta=BETA):
    loss = ((centered(X) @ U - centered(Y)) ** 2).sum() / len(X)
    return loss + alpha * ((U - Theta.T @ V) ** 2).sum() + beta * (U**2).sum()


def random_subspace(p, q, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(p, q)))[0].T


@SHAPES
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_it_is_the_literal_solution_of_the_corrected_equation(shape, form, q):
    X, Y = multi_label(*shape)
    model = MLLS(alpha=ALPHA, beta=BETA, n_components=q).fit(form(X), Y)
    U, Theta = literal_mlls(X, Y, q)
    np.testing.assert_allclose(model.coef_, U, atol=1e-9)
    np.testing.assert_allclose(model.subspace_.T @ model.subspace_, np.eye(q), atol=1e-10)
    np.testing.assert_allclose(model.subspace_ @ model.subspace_.T, Theta.T @ Theta, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, Y.mean(axis=0) - X.mean(axis=0) @ U, atol=1e-9)


@SHAPES
@pytest.mark.parametrize("seed", range(3))
def test_with_the_inverse_of_m_equation_24_is_the_objective_and_as_printed_it_is_not(shape, seed):
    X, Y = multi_label(*shape)
    M, S_1, S_2 = pieces(X, Y)
    Theta = random_subspace(shape[1], 2, seed)
    B = centered(X).T @ centered(Y)

    def gain(first: np.ndarray) -> float:
        return np.trace(np.linalg.solve(Theta @ first @ Theta.T, Theta @ S_2 @ Theta.T))

    best_U = np.trace(B.T @ np.linalg.solve(M - ALPHA * Theta.T @ Theta, B))
    without = np.trace(B.T @ np.linalg.solve(M, B))
    assert best_U == pytest.approx(without + ALPHA * gain(S_1))
    assert best_U != pytest.approx(without + ALPHA * gain(np.eye(shape[1]) - ALPHA * M), rel=1e-3)


@SHAPES
@pytest.mark.parametrize("q", [1, 3])
def test_the_gradient_of_the_objective_is_zero(shape, q):
    X, Y = multi_label(*shape)
    model = MLLS(alpha=ALPHA, beta=BETA, n_components=q).fit(X, Y)
    U, Theta = model.coef_, model.subspace_.T
    V = Theta @ U
    own = U - Theta.T @ V
    by_U = 2 * centered(X).T @ (centered(X) @ U - centered(Y)) / len(X) + 2 * ALPHA * own + 2 * BETA * U
    by_V = -2 * ALPHA * Theta @ own
    by_Theta = -2 * ALPHA * V @ own.T  # on the tangent space of Theta Theta^T = I
    for gradient in (by_U, by_V, by_Theta - by_Theta @ Theta.T @ Theta):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
    assert np.abs(own).max() > 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_no_other_subspace_does_better(seed):
    X, Y = multi_label()
    model = MLLS(alpha=ALPHA, beta=BETA, n_components=2).fit(X, Y)
    Theta = model.subspace_.T
    found = objective(X, Y, model.coef_, Theta @ model.coef_, Theta)
    for other in (
        random_subspace(7, 2, seed),
        np.linalg.qr((Theta + 0.05 * random_subspace(7, 2, seed)).T)[0].T,
    ):
        M = pieces(X, Y)[0]
        U = np.linalg.solve(M - ALPHA * other.T @ other, centered(X).T @ centered(Y)) / len(X)
        assert found < objective(X, Y, U, other @ U, other)


@SHAPES
def test_without_alpha_it_is_ridge_regression(shape):
    X, Y = multi_label(*shape)
    ridge = Ridge(alpha=BETA * len(X), solver="svd").fit(X, Y)
    model = MLLS(alpha=0.0, beta=BETA).fit(X, Y)
    np.testing.assert_allclose(model.coef_, ridge.coef_.T, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-9)
    near = MLLS(alpha=1e-9, beta=BETA).fit(X, Y)
    np.testing.assert_allclose(near.coef_, ridge.coef_.T, atol=1e-7)


def test_a_subspace_for_all_labels_leaves_beta_alone_and_one_label_has_no_subspace():
    X, Y = multi_label()
    ridge = Ridge(alpha=BETA * 60, solver="svd").fit(X, Y)
    np.testing.assert_allclose(MLLS(alpha=5.0, beta=BETA, n_components=4).fit(X, Y).coef_, ridge.coef_.T)
    single = MLLS(alpha=ALPHA, beta=BETA).fit(X, Y[:, :1])
    alone = Ridge(alpha=(ALPHA + BETA) * 60, solver="svd").fit(X, Y[:, 0])
    np.testing.assert_allclose(single.coef_[:, 0], alone.coef_, atol=1e-9)
    assert single.subspace_.shape == (7, 0)


def test_with_a_large_alpha_all_functions_lie_in_the_subspace():
    X, Y = multi_label()
    model = MLLS(alpha=1e9, beta=BETA, n_components=2).fit(X, Y)
    inside = model.subspace_ @ (model.subspace_.T @ model.coef_)
    np.testing.assert_allclose(inside, model.coef_, atol=1e-7)


def test_k_minus_one_dimensions_are_the_default():
    X, Y = multi_label()
    model, same = MLLS(alpha=1.0, beta=0.1), MLLS(alpha=1.0, beta=0.1, n_components=3)
    np.testing.assert_array_equal(model.fit(X, Y).coef_, same.fit(X, Y).coef_)


def test_labels_alike_share_one_direction():
    X, Y = multi_label()
    model = MLLS(alpha=1.0, beta=0.1).fit(X, Y[:, [0, 1, 0, 0]])
    assert model.subspace_.shape == (7, 2)
    np.testing.assert_allclose(model.coef_[:, 0], model.coef_[:, 3], atol=1e-12)


def test_thresholds_are_the_best_for_f1_on_answers_for_items_left_out():
    # q = K is ridge regression, whose left-out answers scikit-learn can give by refits
    X, Y = multi_label(40)
    model = MLLS(alpha=1.0, beta=BETA, n_components=4).fit(X, Y)
    left_out = np.empty(Y.shape)
    for i in range(40):
        others = np.delete(np.arange(40), i)
        left_out[i] = Ridge(alpha=BETA * 40).fit(X[others], Y[others]).predict(X[[i]])[0]
    assert f1(Y, left_out > model.thresholds_) == pytest.approx(best_f1(Y, left_out))
    on_themselves = X @ model.coef_ + model.intercept_
    assert (f1(Y, on_themselves > model.thresholds_) <= best_f1(Y, on_themselves)).all()


def f1(Y, decided):
    return 2 * (Y * decided).sum(axis=0) / (Y.sum(axis=0) + decided.sum(axis=0))


def best_f1(Y, scores):
    return np.max([f1(Y, scores >= row) for row in scores], axis=0)


def test_scores_pass_one_half_at_the_threshold():
    X, Y = multi_label(80)
    model = MLLS(alpha=1.0, beta=0.1).fit(X[:60], Y[:60])
    f = X[60:] @ model.coef_ + model.intercept_
    scores = model.predict_scores(X[60:])
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-4 * (f - model.thresholds_))))
    np.testing.assert_array_equal(model.predict(X[60:]), f > model.thresholds_)


def cv_f1(X, Y, alpha, beta, q):
    """Mean of the best F1 scores on left-out answers, with W of all items."""
    n = len(X)
    low, high = (Ridge(alpha=n * penalty, solver="svd").fit(X, Y).coef_.T for penalty in (beta, alpha + beta))
    W = np.linalg.eigh(low.T @ high)[1][:, ::-1][:, :q]
    fits = RidgePath(X, Y).fit([beta, alpha + beta])
    left_out = fits[alpha + beta].left_out
    left_out = left_out + (fits[beta].left_out - left_out) @ W @ W.T
    return best_f1(Y, left_out).mean()


@pytest.mark.slow
@SHAPES
def test_cv_takes_the_penalties_with_the_best_f1(shape):
    X, Y = multi_label(*shape)
    model = MLLS(n_components=2).fit(X, Y)
    pairs = penalty_pairs("cv", "cv", RidgePath(X, Y).mean_variance)
    values = [cv_f1(X, Y, total - beta, beta, 2) for beta, total in pairs]
    beta, total = pairs[int(np.argmax(values))]
    assert model.beta_ == pytest.approx(beta)
    assert model.alpha_ == pytest.approx(total - beta)
    again = MLLS(alpha=model.alpha_, beta=model.beta_, n_components=2).fit(X, Y)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-12)
    np.testing.assert_allclose(again.thresholds_, model.thresholds_, atol=1e-9)


def test_of_equal_f1_the_strongest_penalties_are_taken():
    _, Y = multi_label()
    X = 10 * Y + np.random.default_rng(0).normal(size=Y.shape)  # any penalty tells these apart
    model = MLLS().fit(X, Y)
    assert model.beta_ == pytest.approx(10 * X.var(axis=0).mean())
    assert model.alpha_ == 0.0


def test_penalties_tried():
    both = penalty_pairs("cv", "cv", 2.0)
    assert both[0] == (20.0, 20.0)
    assert len(both) == len(PENALTIES) * (len(PENALTIES) + 1) / 2
    assert all(beta <= total for beta, total in both)
    assert penalty_pairs(0.5, 0.25, 2.0) == [(0.25, 0.75)]
    assert penalty_pairs("cv", 1.0, 1.0) == [(1.0, 10.0), (1.0, 1.0)]
    assert penalty_pairs("cv", 100.0, 1.0) == [(100.0, 100.0)]
    assert [beta for beta, _ in penalty_pairs(0.5, "cv", 1.0)] == pytest.approx(PENALTIES.tolist())
    assert [total - beta for beta, total in penalty_pairs(0.5, "cv", 1.0)] == pytest.approx([0.5] * 8)


def test_by_cv_the_unit_of_the_features_does_not_matter():
    X, Y = multi_label(80)
    plain = MLLS().fit(X[:60], Y[:60]).predict_scores(X[60:])
    scaled = MLLS().fit(X[:60] * 1e4 + 50, Y[:60]).predict_scores(X[60:] * 1e4 + 50)
    np.testing.assert_allclose(scaled, plain, atol=1e-8)


def test_wide_sparse_items_never_need_a_p_by_p_matrix():
    X, (_, Y) = sparse_items(30, 200_000, density=1e-3), multi_label(30)
    model = MLLS().fit(X, Y)  # p x p would be 320 GB
    assert model.coef_.shape == (200_000, 4)
    assert np.isfinite(model.predict_scores(X)).all()


def test_float32_is_fitted_in_float64():
    X, Y = multi_label()
    X = X.astype(np.float32)
    single, double = MLLS().fit(X, Y), MLLS().fit(X.astype(np.float64), Y)
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-12)


def test_rotation_of_the_features_leaves_the_answers():
    X, Y = multi_label(25, 40)
    R = np.linalg.qr(np.random.default_rng(2).normal(size=(40, 40)))[0]
    model, turned = MLLS(alpha=1.0, beta=0.1).fit(X, Y), MLLS(alpha=1.0, beta=0.1).fit(X @ R, Y)
    np.testing.assert_allclose(R @ turned.coef_, model.coef_, atol=1e-9)
    np.testing.assert_allclose(projector(R @ turned.subspace_), projector(model.subspace_), atol=1e-7)


def test_constant_items_are_answered_by_the_shares():
    _, Y = multi_label()
    model = MLLS().fit(np.ones((60, 3)), Y)
    np.testing.assert_allclose(model.coef_, 0.0)
    np.testing.assert_allclose(model.intercept_, Y.mean(axis=0))


def test_classes_are_told_apart():
    X, y = single_label(120)
    assert MLLS().fit(X[:80], y[:80]).score(X[80:], y[80:]) > 0.85


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1}, 'alpha=-1 is not legal; give a number >= 0 or "cv"'),
        ({"alpha": "auto"}, "alpha='auto' is not legal"),
        ({"beta": 0}, 'beta=0 is not legal; give a positive number or "cv"'),
        ({"beta": np.nan}, "beta=nan is not legal"),
        ({"n_components": 0}, "n_components=0 is not legal; give an integer >= 1 or None"),
        ({"n_components": 5}, "n_components=5 exceeds the 4 labels"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        MLLS(**parameters).fit(*multi_label())


def test_one_labeled_item_is_too_few():
    X, Y = multi_label()
    Y[1:] = -1
    with pytest.raises(InvalidInput, match="n_samples=1 labeled row and needs two"):
        MLLS().fit(X, Y)
