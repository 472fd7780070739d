"""LPSSVM against literal versions of its equations, its reductions, readings, odd data and errors."""

import tracemalloc

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.special import expit
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from embedding_core.errors import InvalidInput
from embedding_core.folds import stratified_folds
from embedding_core.graphs import build_gaussian_graph, build_knn_graph
from embedding_core.labels import as_indicator
from embedding_core.margin.alternation import energy_dimension
from embedding_core.margin.lpssvm import LPSSVM
from embedding_core.margin.nystrom import (
    AUTO_EXACT,
    AUTO_LANDMARKS,
    Kernel,
    choose_landmarks,
    kernel_coordinates,
)
from embedding_core.margin.selection import decide, dimension_candidates
from tests.synthetic import literal_laplacian, multi_label, projector, single_label

SIGNS = {"printed": 1.0, "gradient": -1.0}


def two_classes(n=60, p=7):
    """Items of two classes, every second label hidden, and a connected graph."""
    X, y = single_label(n, p, K=2)
    for k in (0, 1):
        X[y == k] -= 0.6 * X[y == k].mean(axis=0)  # nearer to each other: kNN graphs link them
    hidden = y.copy()
    hidden[1::2] = -1
    return X, hidden, build_gaussian_graph(X)


def literal_lpssvm(K, W, y, r, gamma=1.0, sign=1.0, C=1.0, max_iter=1, basis=None):
    """Fig. 1 with Eq. 11 and 12 as n x n matrices, for n x m kernel columns `basis` where given."""
    labelled, K_b = y >= 0, K if basis is None else K[:, basis]
    D, L = np.diag(W.sum(axis=1)), literal_laplacian(W)
    s = np.where(y[labelled] == 1, 1, -1)
    train = lambda G: SVC(C=C, kernel="precomputed").fit(G, s)  # noqa: E731
    multipliers = lambda svm: np.bincount(svm.support_, svm.dual_coef_[0], labelled.sum())  # noqa: E731
    K_m = K if basis is None else K_b @ np.linalg.inv(K[np.ix_(basis, basis)]) @ K_b.T
    svm = train(K_m[np.ix_(labelled, labelled)])
    for _ in range(max_iter):
        F = multipliers(svm)
        z = K_b[labelled].T @ F
        values, v = scipy.linalg.eigh(
            K_b.T @ L @ K_b + sign * gamma / 2 * np.outer(z, z), K_b.T @ D @ K_b, subset_by_index=[0, r - 1]
        )
        E = K_b @ v
        svm = train(E[labelled] @ E[labelled].T)
    return values, E, E @ (E[labelled].T @ multipliers(svm)) + svm.intercept_


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
@pytest.mark.parametrize("max_iter", [1, 3])
@pytest.mark.parametrize("gamma", [1.0, 30.0])
def test_kernel_form_is_the_literal_one(update_sign, max_iter, gamma):
    X, y, W = two_classes()
    K = rbf_kernel(X, gamma=0.2)
    values, E, decisions = literal_lpssvm(K, W, y, 5, gamma, SIGNS[update_sign], 50.0, max_iter)
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
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        model.embedding_ @ model.embedding_.T, E @ E.T, atol=1e-5 * np.abs(E @ E.T).max()
    )
    np.testing.assert_allclose(model.decision_function(X), decisions, atol=1e-4)


@pytest.mark.parametrize("update_sign", SIGNS)
def test_linear_form_is_the_literal_one(update_sign):
    # Eq. 9 with p x p matrices
    X, y, W = two_classes()
    labelled, s = y >= 0, np.where(y[y >= 0] == 1, 1, -1)
    svm = SVC(C=1.0, kernel="linear").fit(X[labelled], s)
    q = X[labelled].T @ np.bincount(svm.support_, svm.dual_coef_[0], labelled.sum())
    values, A = scipy.linalg.eigh(
        X.T @ literal_laplacian(W) @ X + SIGNS[update_sign] / 2 * np.outer(q, q),
        X.T @ np.diag(W.sum(axis=1)) @ X,
    )
    svm = SVC(C=1.0, kernel="linear").fit(X[labelled] @ A[:, :3], s)
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


def test_kernel_graph_weighs_neighbours_by_the_kernel():
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


# --- classes and labels


def test_every_label_has_the_machine_it_would_have_alone():
    X, Y = multi_label()
    Y[1::3] = -1
    W = build_gaussian_graph(X)
    together = LPSSVM(n_components=5).fit(X, Y, W)
    assert together.decision_function(X).shape == (60, 4)
    assert together.embedding_.shape == (60, 20)
    for k in range(4):
        alone = LPSSVM(n_components=5).fit(X, Y[:, [k]], W)
        np.testing.assert_allclose(
            together.decision_function(X)[:, [k]], alone.decision_function(X), atol=1e-9
        )
        np.testing.assert_allclose(together.embedding_[:, 5 * k : 5 * k + 5], alone.embedding_, atol=1e-9)


def test_classes_are_one_against_the_rest_and_the_largest_decision_wins():
    X, y = single_label()
    hidden = np.where(np.arange(60) % 3 == 1, -1, y)
    W = build_gaussian_graph(X)
    names = np.array(["ant", "bee", "cow", "dog"])
    classes = LPSSVM(n_components=6).fit(X, hidden, W)
    columns = LPSSVM(n_components=6).fit(X, as_indicator(hidden).Y, W)
    np.testing.assert_array_equal(classes.decision_function(X), columns.decision_function(X))
    np.testing.assert_array_equal(classes.predict(X), classes.decision_function(X).argmax(axis=1))
    labels = np.array([None if c < 0 else names[c] for c in hidden], dtype=object)
    named = LPSSVM(n_components=6).fit(X, labels, W)
    np.testing.assert_array_equal(named.predict(X), names[classes.predict(X)])
    assert (classes.predict(X) == y).mean() > 0.7


def test_two_classes_have_one_machine_and_mirrored_columns():
    X, y, W = two_classes()
    one = LPSSVM(n_components=4).fit(X, y, W)
    both = LPSSVM(n_components=4).fit(X, as_indicator(y).Y, W)
    assert one.decision_function(X).shape == (60,)
    np.testing.assert_allclose(both.decision_function(X)[:, 1], one.decision_function(X))
    np.testing.assert_allclose(both.decision_function(X)[:, 0], -one.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(one.predict_scores(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(one.predict(X), (one.decision_function(X) > 0).astype(int))


def test_scores_are_logistic_in_the_decision():
    X, Y = multi_label()
    model = LPSSVM(kernel="linear").fit(X, Y)
    scores = model.predict_scores(X)
    np.testing.assert_allclose(scores, expit(model.decision_function(X)))
    np.testing.assert_array_equal(model.predict(X), scores > 0.5)
    assert scores.shape == (60, 4)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_labels_that_all_or_none_carry_are_answered_so():
    X, Y = multi_label()
    Y[:, 1], Y[:, 3] = 0, 1
    Y[::2] = -1
    model = LPSSVM(kernel="linear", n_components=2).fit(X, Y)
    decisions = model.decision_function(X)
    assert (decisions[:, 1] == -1).all()
    assert (decisions[:, 3] == 1).all()
    assert model.n_components_.tolist() == [2, 0, 2, 0]
    assert model.embedding_.shape == (60, 4)
    assert model.predict(X)[:, [1, 3]].tolist() == [[0, 1]] * 60


def test_unlabelled_items_shape_the_subspace():
    X, y, _ = two_classes()
    moved = X.copy()
    moved[1::2] += np.random.default_rng(0).normal(size=(30, 7))
    fit = lambda items: LPSSVM(kernel="linear", n_components=2).fit(items, y, build_gaussian_graph(items))  # noqa: E731
    gap = np.abs(projector(fit(X).projection_) - projector(fit(moved).projection_)).max()
    assert gap > 1e-3


# --- choices by cross-validation


def test_dimension_by_cross_validation_is_the_best_candidate_by_refits():
    X, y, W = two_classes()
    model = LPSSVM(kernel="linear", n_components="cv", C=10.0).fit(X, y, W)
    scores = {}
    for r in (1, 2, 4, 7):
        found = []
        for _, test in stratified_folds(as_indicator(y).Y, 5, seed=0):
            hidden = y.copy()
            hidden[test] = -1
            refit = LPSSVM(kernel="linear", n_components=r, C=10.0).fit(X, hidden, W)
            found.append((refit.predict(X[test]) == y[test]).mean())
        scores[r] = np.mean(found)
        plain = LPSSVM(kernel="linear", n_components=r, C=10.0).fit(X, y, W)
        np.testing.assert_allclose(plain._graph_score(X, as_indicator(y), W), scores[r])
    best = max(scores, key=scores.get)
    assert model.n_components_.tolist() == [best]
    fixed = LPSSVM(kernel="linear", n_components=best, C=10.0).fit(X, y, W)
    np.testing.assert_array_equal(model.decision_function(X), fixed.decision_function(X))


def test_c_and_sigma_by_cross_validation():
    X, Y = multi_label()
    Y[::3] = -1
    model = LPSSVM(kernel="linear", C="cv", n_components="cv").fit(X, Y, build_gaussian_graph(X))
    assert model.C_ in (0.1, 1.0, 10.0, 100.0)
    assert len(set(model.n_components_)) == 1
    X, y, _ = two_classes()
    chosen = LPSSVM(kernel="linear", sigma="cv", n_neighbors=12).fit(X, y)
    scale = LPSSVM(kernel="linear", n_neighbors=12).fit(X, y).sigma_
    assert np.isclose(chosen.sigma_ / scale, [1 / 64, 1 / 16, 1 / 4, 1, 4]).any()
    fixed = LPSSVM(kernel="linear", sigma=chosen.sigma_, n_neighbors=12).fit(X, y)
    np.testing.assert_array_equal(fixed.projection_, chosen.projection_)


def test_cross_validation_with_two_labelled_items():
    X, _, W = two_classes()
    y = np.r_[0, 1, np.full(58, -1)]
    assert np.isfinite(LPSSVM(n_components="cv", C="cv").fit(X, y, W).decision_function(X)).all()


def test_candidates_and_decisions():
    assert dimension_candidates(1) == [1]
    assert dimension_candidates(8) == [1, 2, 4, 8]
    assert dimension_candidates(11) == [1, 2, 4, 8, 11]
    f = np.array([[-1.0, -2.0], [0.0, 3.0]])
    assert decide(f, multi_label=True).tolist() == [[0, 0], [0, 1]]
    assert decide(f, multi_label=False).tolist() == [[1, 0], [0, 1]]
    assert decide(np.array([[0.5], [-0.5]]), multi_label=False).tolist() == [[0, 1], [1, 0]]


# --- odd data, invariances, bytes


def test_graph_in_parts_warns_once_and_isolated_items_are_placed():
    X, y, _ = two_classes()
    X, y = np.vstack([X, X[:10], X[:1] + 50]), np.r_[y, y[:10], 1]
    X[:, 3] = 2.0
    W = build_knn_graph(X, 4, sigma=3.0).toarray()
    W[60:64] = W[:, 60:64] = 0.0
    for kernel in ("rbf", "precomputed"):
        items = X if kernel == "rbf" else rbf_kernel(X)
        with pytest.warns(
            UserWarning, match=r"The graph has \d+ components \(sizes .*separates them"
        ) as seen:
            model = LPSSVM(kernel=kernel).fit(items, y, W)
        assert len(seen) == 1
        assert np.isfinite(model.embedding_).all()
        assert np.isfinite(model.decision_function(items)).all()
    for form in (np.asarray, sp.csr_array):
        model = LPSSVM(kernel="linear").fit(form(X), y, W)
        assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
def test_sparse_and_float32_items(kernel, shape):
    X, y, W = two_classes(*shape)
    X = np.where(X > 0, X, 0.0)
    model = LPSSVM(kernel=kernel, n_components=3).fit(X, y, W)
    sparse = LPSSVM(kernel=kernel, n_components=3).fit(sp.csr_array(X), y, W)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)), model.decision_function(X), atol=1e-5
    )
    X32 = X.astype(np.float32)
    single, double = (LPSSVM(kernel=kernel, n_components=3).fit(Z, y, W) for Z in (X32, X32.astype(float)))
    np.testing.assert_allclose(single.decision_function(X32), double.decision_function(X32), atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_order_of_rows_and_rotation(kernel):
    # one iteration: beyond it the multipliers are not unique
    X, y, W = two_classes()
    fit = lambda X, y, W: LPSSVM(kernel=kernel, n_components=3, max_iter=1).fit(X, y, W)  # noqa: E731
    decisions = fit(X, y, W).decision_function(X)
    rows = np.random.default_rng(0).permutation(60)
    shuffled = fit(X[rows], y[rows], W[np.ix_(rows, rows)])
    np.testing.assert_allclose(shuffled.decision_function(X), decisions, atol=1e-3)
    R = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    np.testing.assert_allclose(fit(X @ R, y, W).decision_function(X @ R), decisions, atol=1e-3)


def test_rbf_far_from_the_origin():
    X, y, W = two_classes()
    near, far = LPSSVM(n_components=3).fit(X, y, W), LPSSVM(n_components=3).fit(X + 1e6, y, W)
    np.testing.assert_allclose(far.decision_function(X + 1e6), near.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_same_input_same_bytes_and_threads_agree(kernel):
    X, y = single_label(120, 20, K=3)
    X, y = X / 2, np.where(np.arange(120) % 3 == 1, -1, y)
    W = build_gaussian_graph(X)
    fit = lambda: LPSSVM(kernel=kernel, theta=0.5, n_components=4, max_iter=1).fit(X, y, W)  # noqa: E731
    with threadpool_limits(1):
        one, again = fit(), fit()
    with threadpool_limits(2):
        two = fit()
    assert one.embedding_.tobytes() == again.embedding_.tobytes()
    assert one.coef_.tobytes() == again.coef_.tobytes()
    np.testing.assert_allclose(two.embedding_, one.embedding_, atol=1e-10 * np.abs(one.embedding_).max())


def test_landmarks_are_drawn_by_random_state():
    usable = np.arange(50) % 5 > 0
    drawn = choose_landmarks(10, 50, usable, 0)
    np.testing.assert_array_equal(drawn, choose_landmarks(10, 50, usable, 0))
    assert (drawn != choose_landmarks(10, 50, usable, 1)).any()
    assert usable[drawn].all()
    assert len(np.unique(drawn)) == 10
    np.testing.assert_array_equal(choose_landmarks(45, 50, usable, 0), np.flatnonzero(usable))
    np.testing.assert_array_equal(choose_landmarks([3, 0, 1], 50, usable, 0), [1, 3])
    for n, found in ((AUTO_EXACT, AUTO_EXACT), (AUTO_EXACT + 1, AUTO_LANDMARKS)):
        assert len(choose_landmarks("auto", n, np.ones(n, dtype=bool), 0)) == found


def test_linear_form_makes_no_n_by_n_matrix():
    n = 6000
    X, y = single_label(n, 5)
    y[20:] = -1
    i = np.arange(n - 1)
    W = sp.coo_array((np.ones(n - 1), (i, i + 1)), shape=(n, n))
    W = sp.csr_array(W + W.T)
    LPSSVM(kernel="linear").fit(X[:50], single_label(50, 5)[1])  # imports
    tracemalloc.start()
    LPSSVM(kernel="linear").fit(X, y, W)
    linear = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    LPSSVM(landmarks=50, theta=1.0).fit(X, y, W)
    nystrom = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(linear, nystrom) < n * n / 2


# --- errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "poly"}, "kernel='poly' is not legal; choose one of linear, rbf, precomputed"),
        ({"theta": 0}, "theta=0 is not legal; give a positive number or"),
        ({"gamma": -1.0}, "gamma=-1.0 is not legal; give a number >= 0"),
        ({"gamma": np.nan}, "gamma=nan is not legal"),
        ({"C": 0.0}, "C=0.0 is not legal"),
        ({"C": "best"}, "C='best' is not legal"),
        ({"energy": 0.0}, "energy=0.0 is not legal; give a share above 0"),
        ({"energy": 1.1}, "energy=1.1 is not legal"),
        ({"energy_of": "variance"}, "energy_of='variance' is not legal"),
        ({"update_sign": "+"}, r"update_sign='\+' is not legal; choose one of printed, gradient"),
        ({"scaling": "none"}, "scaling='none' is not legal"),
        ({"max_iter": 0}, "max_iter=0 is not legal"),
        ({"tol": -1}, "tol=-1 is not legal"),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": "auto"}, "n_components='auto' is not legal"),
        ({"n_components": 8, "kernel": "linear"}, "n_components=8 exceeds the 7 dimensions"),
        ({"n_components": 11, "landmarks": 10}, "n_components=11 exceeds the 10 dimensions"),
        ({"landmarks": 61}, "landmarks=61 with 60 items; choose from 1 to 60"),
        ({"landmarks": "all"}, "landmarks='all' is not legal"),
        ({"landmarks": [3, 60]}, "landmarks name rows 3 to 60; there are rows 0 to 59"),
        ({"graph": "ring"}, "graph='ring' is not legal; choose one of knn, gaussian, kernel"),
        ({"sigma": -1.0}, "sigma=-1.0 is not a positive number"),
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
        ({"graph": "kernel", "kernel": "linear"}, 'graph="kernel" needs values >= 0'),
    ],
)
@pytest.mark.filterwarnings("ignore:The graph has")
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        LPSSVM(**parameters).fit(*multi_label())


def test_bad_data_are_named():
    X, y, W = two_classes()
    with pytest.raises(InvalidInput, match="labelled items have one class, 5"):
        LPSSVM().fit(X, np.full(60, 5))
    with pytest.raises(InvalidInput, match="no label on which they differ"):
        LPSSVM().fit(X, np.ones((60, 2)))
    with pytest.raises(InvalidInput, match="All 60 items are unlabelled"):
        LPSSVM().fit(X, np.full(60, -1))
    with pytest.raises(InvalidInput, match="contains NaN"):
        LPSSVM().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(InvalidInput, match="links no two items"):
        LPSSVM().fit(X, y, np.zeros((60, 60)))
    with pytest.raises(InvalidInput, match="not symmetric"):
        LPSSVM().fit(X, y, np.triu(W))
    with pytest.raises(InvalidInput, match="is negative"):
        LPSSVM().fit(X, y, -W)
    with pytest.raises(InvalidInput, match="All linked items are zero"):
        LPSSVM(kernel="linear").fit(np.zeros((60, 3)), y, W)
    with pytest.raises(InvalidInput, match="kernel is zero for all items"):
        LPSSVM(kernel="precomputed").fit(np.zeros((60, 60)), y, W)
    with pytest.raises(InvalidInput, match="None of the 1 landmarks is linked"):
        alone = W.copy()
        alone[0] = alone[:, 0] = 0.0
        with pytest.warns(UserWarning, match="2 components"):
            LPSSVM(landmarks=[0]).fit(X, y, alone)


def test_bad_kernels_are_named():
    X, y, W = two_classes()
    K = rbf_kernel(X)
    fit = LPSSVM(kernel="precomputed").fit
    with pytest.raises(InvalidInput, match=r"shape \(60, 7\); it should be a square matrix"):
        fit(X, y, W)
    with pytest.raises(InvalidInput, match=r"kernel is not symmetric: \["):
        fit(np.triu(K), y, W)
    with pytest.raises(InvalidInput, match="not distances"):
        fit(1 - K, y, W)
    with pytest.raises(InvalidInput, match=r"pass X\.toarray"):
        fit(sp.csr_array(K), y, W)
    values, vectors = np.linalg.eigh(K)
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        fit((vectors * (values - values.mean())) @ vectors.T, y, W)
    indefinite = np.eye(60)
    indefinite[:3, :3] = [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
    with pytest.raises(InvalidInput, match="a squared length comes out as -"):
        fit(indefinite, y, W)
    with pytest.raises(InvalidInput, match=r"n_neighbors=0 is not legal"):
        LPSSVM(kernel="precomputed", n_neighbors=0).fit(K, y)
    with pytest.warns(UserWarning, match="n_neighbors=99 but each of the 60 items has 59"):
        LPSSVM(kernel="precomputed", n_neighbors=99).fit(K, y)


def test_exact_form_beyond_the_budget_asks_for_landmarks(monkeypatch):
    X, y, W = two_classes()
    monkeypatch.setattr("embedding_core.margin.nystrom.MEMORY_BUDGET_BYTES", 8 * 5 * 60 * 20)
    with pytest.raises(InvalidInput, match="pass landmarks=20 or fewer"):
        LPSSVM().fit(X, y, W)
    LPSSVM(landmarks=20).fit(X, y, W)
