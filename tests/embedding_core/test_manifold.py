"""LapRLS and LapSVM against their defining equations, limits, literal versions and hand-computed cases."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from embedding_core.graph.affinity import build_gaussian_graph, build_knn_graph
from embedding_core.labels import as_indicator
from embedding_core.margin.manifold import RIDGES, SMOOTHNESS, LapRLS, LapSVM
from embedding_core.model_selection.folds import stratified_folds
from tests.literal_margin import literal_laprls, literal_lapsvm, two_classes
from tests.synthetic import literal_laplacian, multi_label, single_label

BOTH = pytest.mark.parametrize("method", [LapRLS, LapSVM])


def coefficients(model, n):
    """alpha (n,) of a model with a precomputed kernel."""
    alpha = np.zeros(n)
    alpha[model.basis_items_] = model.coef_[:, 0]
    return alpha


# --- defining equations


@pytest.mark.parametrize("gamma_I", [0.0, 1.0, 1e3, 1e5])
def test_laprls_solves_its_linear_system(gamma_I):
    X, y, W = two_classes()
    K, l, gamma_A = rbf_kernel(X, gamma=0.3), (y >= 0).sum(), 1e-3  # noqa: E741
    model = LapRLS(kernel="precomputed", gamma_A=gamma_A, gamma_I=gamma_I).fit(K, y, W)
    alpha = coefficients(model, 60)
    s = np.where(y == 1, 1.0, -1.0) * (y >= 0)
    left = (y >= 0) * (K @ alpha) + gamma_A * l * alpha
    left += gamma_I * l / 60**2 * literal_laplacian(W) @ (K @ alpha)
    np.testing.assert_allclose(left, s, atol=1e-6)
    assert model.intercept_.tolist() == [0.0]
    assert (model.gamma_A_, model.gamma_I_) == pytest.approx((gamma_A, gamma_I))


@pytest.mark.parametrize("gamma_I", [1.0, 1e3])
def test_both_minimize_their_objective(gamma_I):
    # Eq. 4, squared and hinge loss: every step away costs
    X, y, W = two_classes()
    K, labeled, gamma_A = rbf_kernel(X, gamma=0.3), y >= 0, 1e-3
    s, L = np.where(y == 1, 1.0, -1.0)[labeled], literal_laplacian(W)
    losses = {LapRLS: lambda f: (s - f) ** 2, LapSVM: lambda f: np.maximum(0.0, 1 - s * f)}

    def cost(loss, alpha, bias):
        f = K @ alpha
        return loss((f + bias)[labeled]).mean() + gamma_A * alpha @ K @ alpha + gamma_I / 60**2 * f @ L @ f

    rng = np.random.default_rng(0)
    for method, loss in losses.items():
        model = method(kernel="precomputed", gamma_A=gamma_A, gamma_I=gamma_I).fit(K, y, W)
        alpha, bias = coefficients(model, 60), model.intercept_[0]
        least = cost(loss, alpha, bias)
        for size in (1e-3, 1e-1):
            for _ in range(20):
                move = size * np.abs(alpha).max() * rng.normal(size=60)
                shift = size * rng.normal() if method is LapSVM else 0.0
                assert cost(loss, alpha + move, bias + shift) > least


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
def test_both_are_their_literal_versions(kernel, shape):
    X, y, W = two_classes(*shape)
    new = single_label(20, shape[1], K=2, seed=5)[0]
    if kernel == "linear":
        K, K_new = X @ X.T, new @ X.T
    else:
        K, K_new = rbf_kernel(X, gamma=0.1), rbf_kernel(new, X, gamma=0.1)
    settings = {"kernel": kernel, "theta": 0.1, "gamma_A": 1e-3, "gamma_I": 50.0}
    items, new_items = (K, K_new) if kernel == "precomputed" else (X, new)
    expected = K_new @ literal_laprls(K, W, y, 1e-3, 50.0)
    found = LapRLS(**settings).fit(items, y, W).decision_function(new_items)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    alpha, bias = literal_lapsvm(K, W, y, 1e-3, 50.0)
    found = LapSVM(**settings).fit(items, y, W).decision_function(new_items)
    np.testing.assert_allclose(found, K_new @ alpha + bias, atol=1e-4)


@BOTH
def test_landmarks_seek_the_minimum_in_their_span(method):
    X, y, W = two_classes()
    K, rows, labeled = rbf_kernel(X, gamma=0.2), np.arange(0, 60, 4), y >= 0
    l, L, K_b = labeled.sum(), literal_laplacian(W), K[:, rows]  # noqa: E741
    settings = {"theta": 0.2, "gamma_A": 1e-3, "gamma_I": 20.0}
    model = method(landmarks=rows, **settings).fit(X, y, W)
    assert len(model.basis_items_) == 15
    # a norm v^T B v, B = gamma_A K_bb + gamma_I / n² K_b^T L K_b, on functions K_b v
    B = 1e-3 * K[np.ix_(rows, rows)] + 20.0 / 60**2 * K_b.T @ L @ K_b
    s = np.where(y[labeled] == 1, 1.0, -1.0)
    if method is LapRLS:
        v = np.linalg.solve(K_b[labeled].T @ K_b[labeled] / l + B, K_b[labeled].T @ s / l)
        expected = K_b @ v
    else:
        C = np.linalg.inv(np.linalg.cholesky(B))
        Z = K_b @ C.T
        svm = SVC(C=1 / (2 * l), kernel="linear", tol=1e-8).fit(Z[labeled], s)
        expected = svm.decision_function(Z)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)
    everything = method(landmarks=60, **settings).fit(X, y, W)
    exact = method(**settings).fit(X, y, W)
    np.testing.assert_allclose(everything.decision_function(X), exact.decision_function(X), atol=1e-9)


# --- limits


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
@pytest.mark.parametrize("gamma_A", [1e-3, 1e-1])
def test_without_the_graph_laprls_is_kernel_ridge_regression(kernel, shape, gamma_A):
    X, y, W = two_classes(*shape)
    labeled, options = y >= 0, {"gamma": 0.2} if kernel == "rbf" else {}
    model = LapRLS(kernel=kernel, theta=0.2, gamma_A=gamma_A, gamma_I=0.0).fit(X, y, W)
    ridge = KernelRidge(alpha=gamma_A * labeled.sum(), kernel=kernel, **options)
    expected = ridge.fit(X[labeled], 2.0 * y[labeled] - 1).predict(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
@pytest.mark.parametrize("gamma_A", [1e-3, 1e-1])
def test_without_the_graph_lapsvm_is_a_support_vector_machine(kernel, shape, gamma_A):
    X, y, W = two_classes(*shape)
    labeled = y >= 0
    model = LapSVM(kernel=kernel, theta=0.2, gamma_A=gamma_A, gamma_I=0.0).fit(X, y, W)
    svm = SVC(C=1 / (2 * gamma_A * labeled.sum()), kernel=kernel, gamma=0.2, tol=1e-8)
    expected = svm.fit(X[labeled], y[labeled]).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_lapsvm_beyond_the_exact_size_is_libsvm_on_the_deformed_kernel(monkeypatch):
    X, y, W = two_classes()
    exact = LapSVM(gamma_I=5.0).fit(X, y, W).decision_function(X)
    monkeypatch.setattr("embedding_core.margin.svm.EXACT_SIZE", 0)
    by_libsvm = LapSVM(gamma_I=5.0).fit(X, y, W).decision_function(X)
    assert 0 < np.abs(by_libsvm - exact).max() < 1e-2


@BOTH
def test_two_moons_with_two_labels(method):
    X, moon = make_moons(200, noise=0.05, random_state=0)
    y = np.full(200, -1)
    for k in (0, 1):
        y[np.flatnonzero(moon == k)[0]] = k
    plain, smooth = (method(theta=5.0, gamma_I=gamma_I).fit(X, y) for gamma_I in (0.0, 1e5))
    assert (plain.predict(X) == moon).mean() < 0.95
    assert (smooth.predict(X) == moon).all()
    again, moon = make_moons(100, noise=0.05, random_state=1)
    assert (smooth.predict(again) == moon).mean() > 0.98


def test_a_path_of_three_items_by_hand():
    # K = I, labels -1 and 1 at the ends: f = (-t, 0, t), t (1 + 2 gamma_A + 2 gamma_I / 9) = 1
    W = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    model = LapRLS(kernel="precomputed", gamma_A=0.1, gamma_I=0.9).fit(np.eye(3), [0, -1, 1], W)
    t = 1 / (1 + 0.2 + 0.2)
    np.testing.assert_allclose(model.decision_function(np.eye(3)), [-t, 0.0, t], atol=1e-12)


@BOTH
def test_very_smooth_decisions_are_constant_on_parts_of_the_graph(method):
    X, _, _ = two_classes()
    W, y = np.zeros((60, 60)), np.full(60, -1)
    parts = slice(0, 20), slice(20, 60)
    for k, part in enumerate(parts):
        W[part, part] = 1.0
        y[part.start] = k
    f = method(theta=0.5, gamma_A=1e-3, gamma_I=1e9).fit(X, y, W).decision_function(X)
    assert max(np.ptp(f[part]) for part in parts) < 1e-3
    assert f[0] < -0.1
    assert f[20] > 0.1


@BOTH
def test_auto_does_not_depend_on_the_scale_of_the_graph(method):
    X, y, W = two_classes()
    one, two = (method().fit(X, y, factor * W) for factor in (1.0, 1e4))
    np.testing.assert_allclose(two.decision_function(X), one.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(one.gamma_I_ / two.gamma_I_, 1e4)
    assert one.gamma_A_ == pytest.approx(0.05 / (y >= 0).sum())
    assert one.gamma_I_ == pytest.approx(one.gamma_A_ * 60**2 / W.sum(axis=1).mean())


# --- choices by cross-validation


@pytest.mark.slow
@BOTH
def test_cross_validation_takes_the_best_pair_by_refits(method, monkeypatch):
    ridges, factors = (0.05, 5.0), (1.0, 0.0, 100.0)
    monkeypatch.setattr("embedding_core.margin.manifold.RIDGES", ridges)
    monkeypatch.setattr("embedding_core.margin.manifold.SMOOTHNESS", factors)
    X, y = multi_label(60)[0], single_label(60)[1]
    y[::3] = -1
    W = build_knn_graph(X, 8)
    n, Y, unit = 60, as_indicator(y).Y, 60 / W.sum()
    scores = {}
    for ridge, factor in product(ridges, factors):
        found = []
        for _, test in stratified_folds(Y, 5, seed=0):
            hidden = y.copy()
            hidden[test] = -1
            gamma_A = ridge / (hidden >= 0).sum()
            model = method(gamma_A=gamma_A, gamma_I=factor * unit * gamma_A * n**2).fit(X, hidden, W)
            found.append((model.predict(X[test]) == y[test]).mean())
        scores[ridge, factor] = np.mean(found)
    assert len(set(scores.values())) > 3
    ridge, factor = max(scores, key=scores.get)
    chosen = method(gamma_A="cv", gamma_I="cv").fit(X, y, W)
    l = (y >= 0).sum()  # noqa: E741
    assert chosen.gamma_A_ == pytest.approx(ridge / l)
    assert chosen.gamma_I_ == pytest.approx(factor * unit * ridge / l * n**2)


@BOTH
def test_one_of_the_two_is_chosen_where_the_other_is_given(method):
    X, y, W = two_classes()
    l = (y >= 0).sum()  # noqa: E741
    by_norm = method(gamma_A="cv", gamma_I=3.0).fit(X, y, W)
    assert by_norm.gamma_I_ == pytest.approx(3.0)
    assert np.isclose(by_norm.gamma_A_ * l, RIDGES).any()
    by_graph = method(gamma_A=0.01, gamma_I="cv").fit(X, y, W)
    assert by_graph.gamma_A_ == pytest.approx(0.01)
    unit = 0.01 * 60**2 / W.sum(axis=1).mean()
    assert np.isclose(by_graph.gamma_I_ / unit, SMOOTHNESS).any()


@BOTH
def test_sigma_by_cross_validation_is_a_candidate(method):
    X, y, _ = two_classes()
    scale = method(n_neighbors=12).fit(X, y).sigma_
    chosen = method(n_neighbors=12, sigma="cv").fit(X, y)
    assert np.isclose(chosen.sigma_ / scale, [1 / 64, 1 / 16, 1 / 4, 1, 4]).any()
    fixed = method(n_neighbors=12, sigma=chosen.sigma_).fit(X, y)
    np.testing.assert_array_equal(fixed.coef_, chosen.coef_)


# --- the graph


@BOTH
@pytest.mark.parametrize("graph", ["knn", "gaussian", "kernel"])
def test_own_graph_is_the_one_of_the_graphs_module(method, graph):
    X, y, _ = two_classes()
    if graph == "gaussian":
        W = build_gaussian_graph(X, 3.0)
    elif graph == "knn":
        W = build_knn_graph(X, 12, sigma=3.0)
    else:
        W = build_knn_graph(X, 12, "binary").toarray() * rbf_kernel(X, gamma=0.1)
    own = method(graph=graph, n_neighbors=12, sigma=3.0, theta=0.1).fit(X, y)
    given = method(theta=0.1).fit(X, y, W)
    np.testing.assert_allclose(own.decision_function(X), given.decision_function(X), atol=1e-6)
    assert (own.sigma_, given.sigma_) == (None if graph == "kernel" else 3.0, None)


@BOTH
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_sparse_graphs_and_items_give_the_dense_result(method, form):
    X, y, _ = two_classes()
    X = np.where(X > 0, X, 0.0)
    W = build_knn_graph(X, 12)
    for kernel in ("rbf", "linear"):
        dense = method(kernel=kernel).fit(X, y, W.toarray()).decision_function(X)
        sparse = method(kernel=kernel).fit(form(X), y, form(W)).decision_function(form(X))
        np.testing.assert_allclose(sparse, dense, atol=1e-6)


@BOTH
def test_unlabeled_items_shape_the_decisions(method):
    X, y, _ = two_classes()
    moved = X.copy()
    moved[1::2] += np.random.default_rng(0).normal(size=(30, 7))
    fits = [method(theta=0.2).fit(items, y) for items in (X, moved)]
    assert np.abs(fits[0].decision_function(X) - fits[1].decision_function(X)).max() > 1e-2
