"""LPSSVM against literal versions of its equations, its reductions and its readings."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from embedding_core.graph.affinity import build_gaussian_graph, build_knn_graph
from embedding_core.linalg.kernel_space import Kernel, kernel_coordinates
from embedding_core.margin.lpssvm import LPSSVM
from embedding_core.margin.lpssvm_solver import energy_dimension
from tests.literal_margin import SIGNS, central_svm, literal_lpssvm, literal_svm, two_classes
from tests.synthetic import literal_laplacian, projector, single_label

# --- reductions and literal versions


@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("update_sign", SIGNS)
def test_without_margin_it_is_lpp(shape, form, update_sign):
    # Eq. 3: X L X^T a = lambda X D X^T a, smallest first
    X, y, W = two_classes(*shape)
    model = LPSSVM(kernel="linear", gamma=0.0, n_components=3, scaling="constraint", update_sign=update_sign)
    A = model.fit(form(X), y, W).projection_
    M, B = X.T @ literal_laplacian(W) @ X, X.T @ np.diag(W.sum(axis=1)) @ X
    Q = np.linalg.qr(X.T)[0]  # a lies in the span of the items
    values, vectors = scipy.linalg.eigh(Q.T @ M @ Q, Q.T @ B @ Q)
    expected = Q @ vectors[:, :3]
    np.testing.assert_allclose(model.eigenvalues_, values[:3], atol=1e-9)
    np.testing.assert_allclose(A @ A.T, expected @ expected.T, atol=1e-7 * np.abs(A @ A.T).max())
    np.testing.assert_allclose(M @ A, B @ A * model.eigenvalues_, atol=1e-8 * np.abs(M).max())
    np.testing.assert_allclose(A.T @ B @ A, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(model.embedding_, X @ A, atol=1e-10)


@pytest.mark.parametrize("update_sign", SIGNS)
@pytest.mark.parametrize(("max_iter", "gamma"), [(1, 1.0), (1, 30.0), (3, 1.0), (3, 30.0)])
def test_kernel_form_is_the_literal_one(update_sign, max_iter, gamma):
    # from the second iteration on the multipliers may not be unique: the literal version then shares a solver
    X, y, W = two_classes()
    K, sign = rbf_kernel(X, gamma=0.2), SIGNS[update_sign]
    svm = literal_svm if max_iter == 1 else central_svm
    values, E, decisions = literal_lpssvm(K, W, y, 5, gamma, sign, 50.0, max_iter, svm=svm)
    model = LPSSVM(
        theta=0.2,
        gamma=gamma,
        C=50.0,
        n_components=5,
        update_sign=update_sign,
        scaling="constraint",
        max_iter=max_iter,
        tol=0.0,
    ).fit(X, y, W)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        model.embedding_ @ model.embedding_.T, E @ E.T, atol=1e-6 * np.abs(E @ E.T).max()
    )
    np.testing.assert_allclose(model.decision_function(X), decisions, atol=1e-6)


@pytest.mark.parametrize("update_sign", SIGNS)
def test_linear_form_is_the_literal_one(update_sign):
    # Eq. 9 with p x p matrices
    X, y, W = two_classes()
    labeled, s = y >= 0, np.where(y[y >= 0] == 1, 1, -1)
    q = X[labeled].T @ literal_svm(X[labeled] @ X[labeled].T, s)[0]
    values, A = scipy.linalg.eigh(
        X.T @ literal_laplacian(W) @ X + SIGNS[update_sign] / 2 * np.outer(q, q),
        X.T @ np.diag(W.sum(axis=1)) @ X,
    )
    svm = SVC(C=1.0, kernel="linear", tol=1e-8).fit(X[labeled] @ A[:, :3], s)
    model = LPSSVM(
        kernel="linear", n_components=3, scaling="constraint", max_iter=1, update_sign=update_sign
    ).fit(X, y, W)
    np.testing.assert_allclose(model.eigenvalues_, values[:3], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(projector(model.projection_), projector(A[:, :3]), atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), svm.decision_function(X @ A[:, :3]), atol=1e-3)


@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
@pytest.mark.parametrize("graph", ["knn", "gaussian"])
def test_linear_kernel_is_the_linear_form(shape, graph):
    X, y, _ = two_classes(*shape)
    settings = {"n_components": 4, "graph": graph, "n_neighbors": 12, "max_iter": 2}
    linear = LPSSVM(kernel="linear", **settings).fit(X, y)
    kernel = LPSSVM(kernel="precomputed", **settings).fit(X @ X.T, y)
    np.testing.assert_allclose(linear.sigma_, kernel.sigma_, rtol=1e-8)
    np.testing.assert_allclose(linear.eigenvalues_, kernel.eigenvalues_, atol=1e-6)
    P, Q = linear.embedding_, kernel.embedding_
    np.testing.assert_allclose(P @ P.T, Q @ Q.T, atol=1e-6 * np.abs(P @ P.T).max())
    new = single_label(20, shape[1], K=2, seed=5)[0]
    np.testing.assert_allclose(linear.decision_function(new), kernel.decision_function(new @ X.T), atol=1e-4)


@pytest.mark.parametrize("update_sign", SIGNS)
@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_ridge_adds_the_norm_to_both_sides(update_sign, ridge):
    X, y, W = two_classes()
    K = rbf_kernel(X, gamma=0.2)
    values, E, decisions = literal_lpssvm(K, W, y, 4, 5.0, SIGNS[update_sign], 200.0, ridge=ridge)
    settings = {"gamma": 5.0, "C": 200.0, "n_components": 4, "scaling": "constraint", "max_iter": 1}
    model = LPSSVM(theta=0.2, update_sign=update_sign, ridge=ridge, **settings).fit(X, y, W)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        model.embedding_ @ model.embedding_.T, E @ E.T, atol=1e-6 * np.abs(E @ E.T).max()
    )
    np.testing.assert_allclose(model.decision_function(X), decisions, atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
def test_ridge_of_a_linear_kernel_is_that_of_the_features(shape):
    X, y, W = two_classes(*shape)
    settings = {"n_components": 4, "max_iter": 1, "ridge": 0.7}
    linear = LPSSVM(kernel="linear", **settings).fit(X, y, W)
    kernel = LPSSVM(kernel="precomputed", **settings).fit(X @ X.T, y, W)
    np.testing.assert_allclose(linear.eigenvalues_, kernel.eigenvalues_, atol=1e-6)
    P, Q = linear.embedding_, kernel.embedding_
    np.testing.assert_allclose(P @ P.T, Q @ Q.T, atol=1e-6 * np.abs(P @ P.T).max())


def test_a_kernel_of_full_rank_cancels_without_a_ridge():
    """The place of the items of the fit then follows from the graph and the multipliers alone."""
    X, y, W = two_classes()
    settings = {"kernel": "precomputed", "gamma": 0.0, "n_components": 4, "scaling": "constraint"}
    kernels = [rbf_kernel(X, gamma=theta) for theta in (0.3, 3.0)]
    (first, second), (third, fourth) = (
        [LPSSVM(ridge=ridge, **settings).fit(K, y, W).embedding_ for K in kernels] for ridge in (0.0, 1.0)
    )
    np.testing.assert_allclose(projector(first), projector(second), atol=1e-6)
    assert np.abs(projector(third) - projector(fourth)).max() > 0.01


@pytest.mark.parametrize("scaling", ["spread", "constraint", "unit"])
def test_precomputed_kernel_is_the_computed_one(scaling):
    X, y, W = two_classes()
    new = single_label(20, 7, K=2, seed=5)[0]
    settings = {"n_components": 6, "scaling": scaling}
    for graph in ({"affinity": W}, {}):
        computed = LPSSVM(graph="kernel", theta=0.1, **settings).fit(X, y, **graph)
        given = LPSSVM(graph="kernel", kernel="precomputed", **settings).fit(
            rbf_kernel(X, gamma=0.1), y, **graph
        )
        K_new = rbf_kernel(new, X, gamma=0.1)
        np.testing.assert_allclose(given.decision_function(K_new), computed.decision_function(new), atol=1e-5)
        np.testing.assert_allclose(
            given.transform(K_new), computed.transform(new), atol=1e-6 * np.abs(computed.embedding_).max()
        )


def test_all_items_as_landmarks_are_the_exact_form():
    X, y, W = two_classes()
    exact = LPSSVM(n_components=5).fit(X, y, W)
    rows = np.random.default_rng(0).permutation(60)
    for landmarks in (60, rows.tolist()):
        model = LPSSVM(n_components=5, landmarks=landmarks).fit(X, y, W)
        np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-8)
        np.testing.assert_allclose(model.embedding_, exact.embedding_, atol=1e-8)


@pytest.mark.parametrize("update_sign", SIGNS)
def test_landmarks_are_the_literal_nystrom_form(update_sign):
    X, y, W = two_classes()
    rows = np.arange(0, 60, 4)
    values, E, decisions = literal_lpssvm(
        rbf_kernel(X, gamma=0.2), W, y, 4, 5.0, SIGNS[update_sign], 20.0, basis=rows
    )
    model = LPSSVM(
        theta=0.2,
        gamma=5.0,
        C=20.0,
        n_components=4,
        scaling="constraint",
        max_iter=1,
        update_sign=update_sign,
        landmarks=rows,
    ).fit(X, y, W)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-4)
    np.testing.assert_allclose(
        model.embedding_ @ model.embedding_.T, E @ E.T, atol=1e-4 * np.abs(E @ E.T).max()
    )
    np.testing.assert_allclose(model.decision_function(X), decisions, atol=1e-3)


def test_coordinates_have_the_inner_products_of_the_kernel():
    X, _, _ = two_classes()
    span = kernel_coordinates(Kernel("rbf", 0.1), X, np.arange(60))
    np.testing.assert_allclose(span.rows @ span.rows.T, rbf_kernel(X, gamma=0.1), atol=1e-7)
    v = span.expand(np.eye(span.rows.shape[1]))
    np.testing.assert_allclose(rbf_kernel(X, X[span.heads], gamma=0.1) @ v, span.rows, atol=1e-7)


def test_a_kernel_of_full_rank_drops_out():
    X, y, W = two_classes()
    one, two = (LPSSVM(gamma=0.0, theta=theta, n_components=4).fit(X, y, W) for theta in (0.2, 1.0))
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, atol=1e-7)
    np.testing.assert_allclose(projector(one.embedding_), projector(two.embedding_), atol=1e-6)


# --- readings


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_printed_sign_raises_eigenvalues_and_the_gradient_lowers_them(kernel):
    X, y, W = two_classes()
    fit = lambda **more: LPSSVM(kernel=kernel, n_components=5, max_iter=1, **more).fit(X, y, W).eigenvalues_  # noqa: E731
    lpp, printed, gradient = fit(gamma=0.0), fit(gamma=5.0), fit(gamma=5.0, update_sign="gradient")
    assert (printed >= lpp - 1e-12).all()
    assert (gradient <= lpp + 1e-12).all()
    assert printed.sum() > lpp.sum() > gradient.sum()


def test_directions_have_the_length_that_scaling_asks_for():
    X, y, W = two_classes()
    D = W.sum(axis=1)
    fit = lambda scaling: LPSSVM(kernel="linear", n_components=3, scaling=scaling).fit(X, y, W)  # noqa: E731
    E = fit("spread").embedding_
    np.testing.assert_allclose(E.T @ (D[:, None] * E), D.sum() * np.eye(3), atol=1e-6 * D.sum())
    E = fit("constraint").embedding_
    np.testing.assert_allclose(E.T @ (D[:, None] * E), np.eye(3), atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(fit("unit").projection_, axis=0), 1.0)
    K, model = rbf_kernel(X, gamma=0.1), LPSSVM(theta=0.1, n_components=3, scaling="unit").fit(X, y, W)
    v = np.zeros((60, 3))
    v[[np.flatnonzero((item == X).all(axis=1))[0] for item in model.basis_items_]] = model.expansion_
    np.testing.assert_allclose(np.diag(v.T @ K @ v), 1.0, rtol=1e-6)


def test_printed_constraint_with_small_c_saturates_all_multipliers_but_not_with_spread():
    # why "spread" is the default: rare labels would never be predicted
    X, y = single_label(80, 7, K=2)
    keep = np.sort(np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:6]])
    X, y = X[keep], y[keep]
    W = build_gaussian_graph(X)
    printed = LPSSVM(n_components=10, scaling="constraint").fit(X, y[:, None], W)
    assert printed.predict(X).sum() == 0
    assert LPSSVM(n_components=10).fit(X, y[:, None], W).predict(X).sum() > 0


@pytest.mark.parametrize(
    ("energy", "energy_of", "dimension"),
    [
        (0.5, "similarity", 1),  # 1, 0.8, 0.2, 0, 0 of 2
        (0.51, "similarity", 2),
        (0.9, "similarity", 2),
        (0.91, "similarity", 3),
        (1.0, "similarity", 3),
        (0.01, "similarity", 1),
        (0.5, "laplacian", 4),  # 0, 0.2, 0.8, 1.2, 1.8 of 4
        (0.55, "laplacian", 4),
        (1.0, "laplacian", 5),
        (0.05, "laplacian", 2),
    ],
)
def test_energy_keeps_the_smallest_number_that_holds_the_share(energy, energy_of, dimension):
    assert energy_dimension(np.array([0.0, 0.2, 0.8, 1.2, 1.8]), energy, energy_of) == dimension


def test_energy_of_odd_spectra():
    assert energy_dimension(np.array([1.5, 1.7]), 0.5, "similarity") == 1
    assert energy_dimension(np.zeros(3), 0.5, "laplacian") == 1
    # a lowered eigenvalue counts as similarity 1, not more
    assert energy_dimension(np.array([-100.0, 0.0, 0.0, 0.0]), 0.5, "similarity") == 2


def test_energy_decides_the_dimension():
    X, y, _ = two_classes()
    W = build_knn_graph(X, 12)
    dimensions = [LPSSVM(energy=e).fit(X, y, W).n_components_[0] for e in (0.1, 0.5, 0.9)]
    assert dimensions == sorted(set(dimensions))


def test_iterations_stop_by_tau_or_number():
    X, y, W = two_classes()
    assert LPSSVM(tol=1e9).fit(X, y, W).n_iter_ == 1
    assert LPSSVM(tol=0.0, max_iter=4).fit(X, y, W).n_iter_ == 4
    three, more = LPSSVM(C=10.0, tol=0.0).fit(X, y, W), LPSSVM(C=10.0, tol=0.0, max_iter=2).fit(X, y, W)
    assert three.n_iter_ == 3
    assert more.n_iter_ == 2


def test_kernel_graph_weighs_neighbors_by_the_kernel():
    X, y, _ = two_classes()
    K = rbf_kernel(X, gamma=0.1)
    W = build_knn_graph(X, 12, "binary").toarray() * K
    own = LPSSVM(graph="kernel", n_neighbors=12, theta=0.1, n_components=3).fit(X, y)
    given = LPSSVM(theta=0.1, n_components=3).fit(X, y, W)
    np.testing.assert_allclose(own.decision_function(X), given.decision_function(X), atol=1e-8)
    assert own.sigma_ is None
    positive = np.abs(X)
    W = build_knn_graph(positive, 12, "binary").toarray() * (positive @ positive.T)
    own = LPSSVM(graph="kernel", n_neighbors=12, kernel="linear").fit(positive, y)
    given = LPSSVM(kernel="linear").fit(positive, y, W)
    np.testing.assert_allclose(own.decision_function(X), given.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("graph", ["knn", "gaussian"])
def test_own_graph_is_the_one_of_the_graphs_module(graph):
    X, y, _ = two_classes()
    W = build_knn_graph(X, 12, sigma=3.0) if graph == "knn" else build_gaussian_graph(X, 3.0)
    own = LPSSVM(graph=graph, n_neighbors=12, sigma=3.0).fit(X, y)
    given = LPSSVM().fit(X, y, W)
    np.testing.assert_allclose(own.embedding_, given.embedding_, atol=1e-9)
    assert (own.sigma_, given.sigma_) == (3.0, None)
