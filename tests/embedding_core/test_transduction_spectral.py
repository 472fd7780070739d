"""The spectral graph transducer, the correlated Green's function and KL: eigenvectors, equations, limits."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.labels import label_correlation
from embedding_core.model_selection.inner_choice import labeled_folds
from embedding_core.transduction.graph_solvers import graph_modes
from embedding_core.transduction.kmeans_laplacian import KMeansLaplacian, leading_pairs
from embedding_core.transduction.mcgf import MCGF, green_modes
from embedding_core.transduction.score_rules import balanced_cuts
from embedding_core.transduction.spectral_transducer import SpectralGraphTransducer, minimize_on_sphere
from tests.synthetic import literal_laplacian, multi_label, projector, single_label


def partly(n=60, single=False):
    X, y = (single_label if single else multi_label)(n)
    hidden = y.copy()
    hidden[np.arange(n) % 3 > 0] = -1
    return X, hidden, np.arange(n) % 3 == 0


def in_pieces(n=30):
    """A graph of two components and an item without links."""
    W = build_knn_graph(np.random.default_rng(0).normal(size=(n, 2)) + 9 * (np.arange(n) % 2)[:, None], 4)
    W = W.toarray()
    W[-1] = W[:, -1] = 0
    return W


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_plain_modes_are_eigenvectors_of_the_laplacian(form):
    W = build_knn_graph(multi_label()[0]).toarray()
    modes = graph_modes(form(W), 6, normalized=False)
    V, L = modes.vectors, literal_laplacian(W)
    np.testing.assert_allclose(L @ V, V * modes.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(modes.eigenvalues, np.linalg.eigvalsh(L)[1:7], rtol=1e-8)
    np.testing.assert_allclose(V.sum(axis=0), 0, atol=1e-9)


def test_normalized_modes_leave_items_without_links_out():
    W = in_pieces()
    modes = graph_modes(W, 5, normalized=True, after_zeros=True)
    V, d = modes.vectors, W.sum(axis=1)
    assert modes.n_zero == 1
    assert V.shape == (30, 6)
    np.testing.assert_allclose(literal_laplacian(W) @ V, d[:, None] * V * modes.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(V.T @ (d[:, None] * V), d.mean() * np.eye(6), atol=1e-9)
    np.testing.assert_array_equal(V[-1], 0)


def test_the_graph_must_have_links():
    with pytest.raises(InvalidInput, match="links no two items"):
        graph_modes(np.zeros((4, 4)), 2, normalized=True)


@pytest.mark.parametrize("seed", range(5))
def test_the_sphere_problem_is_solved_by_the_papers_eigenvalue(seed):
    # λ is the smallest eigenvalue of [[G, -I], [-b b^T / n, G]]
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 6))
    G, b, n = A @ A.T, rng.normal(size=6), 10.0 ** rng.integers(-2, 3)
    w = minimize_on_sphere(G, b, n)
    matrix = np.block([[G, -np.eye(6)], [-np.outer(b, b) / n, G]])
    shift = min(np.linalg.eigvals(matrix), key=lambda value: value.real).real
    np.testing.assert_allclose(w, np.linalg.solve(G - shift * np.eye(6), b), rtol=1e-5)
    np.testing.assert_allclose(w @ w, n, rtol=1e-12)
    others = rng.normal(size=(200, 6))
    others *= np.sqrt(n / (others**2).sum(axis=1, keepdims=True))
    values = np.einsum("si,ij,sj->s", others, G, others) - 2 * others @ b
    assert w @ G @ w - 2 * b @ w <= values.min()


def test_the_sphere_problem_without_a_part_along_the_lowest_vector():
    G, b = np.diag([1.0, 2.0, 5.0]), np.array([0.0, 1.0, 0.0])
    w = minimize_on_sphere(G, b, 9.0)  # |b / (g - 1)| = 1 is too short: the rest lies along the first axis
    np.testing.assert_allclose(w, [np.sqrt(8), 1.0, 0.0])
    np.testing.assert_allclose(minimize_on_sphere(G, 0 * b, 4.0), [2.0, 0, 0])
    np.testing.assert_allclose(minimize_on_sphere(G, b, 0.25), [0, 0.5, 0])  # long enough: λ = 0


@pytest.mark.parametrize("spectrum", ["squares", "graph"])
@pytest.mark.parametrize("laplacian", ["plain", "normalized"])
def test_the_cut_fulfils_the_constraints_and_stationarity(spectrum, laplacian):
    X, y, labeled = partly(single=True)
    options = {"spectrum": spectrum, "laplacian": laplacian, "c": 10.0}
    model = SpectralGraphTransducer(n_components=59, **options).fit(X, y)
    W = build_knn_graph(X).toarray()
    weight = W.sum(axis=1) if laplacian == "normalized" else np.ones(60)
    for k, z in enumerate(model.label_distributions_.T):
        np.testing.assert_allclose(weight @ z, 0, atol=1e-8)
        np.testing.assert_allclose(weight @ z**2, weight.sum())
        if spectrum == "graph":
            all_, plus = labeled.sum(), (y == k).sum()
            minus = all_ - plus
            gamma = np.where(y == k, np.sqrt(minus / plus), -np.sqrt(plus / minus)) * labeled
            C = np.where(y == k, all_ / (2 * plus), all_ / (2 * minus)) * labeled
            L = literal_laplacian(W) / (W.sum() / 60 if laplacian == "normalized" else 1.0)
            # gradient = a multiple of z plus one of 1, by the two constraints
            gradient = L @ z + 10 * C * (z - gamma)
            basis = np.column_stack([weight * z, weight])
            left = gradient - basis @ np.linalg.lstsq(basis, gradient)[0]
            np.testing.assert_allclose(left, 0, atol=1e-7 * abs(gradient).max())


def test_two_clusters_follow_one_label_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + np.where(np.arange(40) < 25, 0, 8)[:, None]
    y = np.full(40, -1)
    y[[3, 30]] = 0, 1
    for laplacian in ("plain", "normalized"):
        model = SpectralGraphTransducer(n_neighbors=8, laplacian=laplacian).fit(X, y)
        np.testing.assert_array_equal(model.transduction_, np.arange(40) >= 25)


def test_the_transducer_decides_at_the_middle_of_the_targets():
    X, Y, labeled = partly()
    model = SpectralGraphTransducer(n_components=10).fit(X, Y)
    q = Y[labeled].mean(axis=0)
    middle = (np.sqrt((1 - q) / q) - np.sqrt(q / (1 - q))) / 2
    np.testing.assert_array_equal(model.transduction_, model.label_distributions_ > middle)


def test_a_label_without_two_sides_has_no_cut():
    X, Y, labeled = partly()
    Y = np.column_stack([Y, np.where(labeled, 1, -1), np.where(labeled, 0, -1)])
    for model in (SpectralGraphTransducer().fit(X, Y), MCGF().fit(X, Y)):
        np.testing.assert_array_equal(model.transduction_scores_[:, 4:], np.tile([1.0, 0.0], (60, 1)))
        assert np.isfinite(model.label_distributions_).all()


def test_the_greens_function_is_the_pseudo_inverse():
    W = build_knn_graph(multi_label()[0]).toarray()
    V, weights = green_modes(W, None, normalized=False)
    np.testing.assert_allclose((V * weights) @ V.T, np.linalg.pinv(literal_laplacian(W)), atol=1e-9)


def test_contrasts_of_components_have_half_the_smallest_positive_eigenvalue():
    V, weights = green_modes(in_pieces(), 4, normalized=True)
    assert V.shape == (30, 5)
    assert weights[0] == 2 * weights[1] > 2 * weights[2]


def test_mcgf_solves_its_equation():
    X, Y, labeled = partly()
    model = MCGF(alpha=0.4, n_components=None, laplacian="plain").fit(X, Y)
    C = label_correlation(Y)
    sources = np.where(labeled[:, None], 2.0 * Y - 1, 0) @ (np.eye(4) + 0.4 * C)
    L_F = literal_laplacian(build_knn_graph(X).toarray()) @ model.label_distributions_
    np.testing.assert_allclose(L_F, sources - sources.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=0), 0, atol=1e-8)
    np.testing.assert_array_equal(model.correlation_, C)


def test_normalized_mcgf_solves_its_equation():
    X, Y, labeled = partly()
    model = MCGF(alpha=0, n_components=None).fit(X, Y)
    W = build_knn_graph(X).toarray()
    d, sources = W.sum(axis=1), np.where(labeled[:, None], 2.0 * Y - 1, 0)
    expected = d.mean() * (sources - np.outer(d / d.sum(), sources.sum(axis=0)))
    np.testing.assert_allclose(literal_laplacian(W) @ model.label_distributions_, expected, atol=1e-8)


def test_few_modes_are_near_all_of_them():
    X, Y, _ = partly(120)
    few, all_ = (MCGF(n_components=r).fit(X, Y).label_distributions_ for r in (40, None))
    assert np.corrcoef(few.ravel(), all_.ravel())[0, 1] > 0.95
    assert abs(few - all_).max() > 1e-3


def test_mcgf_decides_at_its_boundaries_and_tells_components_apart():
    X, Y, _ = partly()
    model = MCGF().fit(X, Y)
    np.testing.assert_array_equal(model.transduction_, model.label_distributions_ > model.boundaries_)
    W = np.kron(np.eye(2), np.ones((8, 8)) - np.eye(8))  # each component of one class
    y = np.repeat([0, 1], 8)
    hidden = np.where(np.arange(16) % 8 < 4, y, -1)
    np.testing.assert_array_equal(MCGF().fit(np.zeros((16, 1)), hidden, affinity=W).transduction_, y)


def test_mcgf_boundaries_are_those_of_hidden_sources_scaled_to_all_sources():
    X, Y, _ = partly()
    model = MCGF(alpha=0.4, n_components=None).fit(X, Y)
    V, weights = green_modes(build_knn_graph(X, 10), None, normalized=True)
    G = (V * weights) @ V.T
    labeled = np.flatnonzero((Y >= 0).all(axis=1))
    sources = (2.0 * Y[labeled] - 1) @ (np.eye(Y.shape[1]) + 0.4 * label_correlation(Y))
    hidden = np.empty(sources.shape)
    for train, test in labeled_folds(Y[labeled]):
        whole = np.zeros_like(sources)
        whole[train] = sources[train] * len(labeled) / len(train)  # as strong as all sources together
        hidden[test] = (G[np.ix_(labeled, labeled)] @ whole)[test]
    cuts = balanced_cuts(hidden, Y[labeled])
    assert np.isfinite(cuts).all()
    np.testing.assert_allclose(model.boundaries_, cuts, rtol=1e-8)
    logits = (model.label_distributions_ - cuts) / hidden.std(axis=0)
    np.testing.assert_allclose(model.transduction_scores_, 1 / (1 + np.exp(-logits)), rtol=1e-7)


def combined_matrix(X, W, balance):
    """The matrix of KL, entry by entry."""
    d = W.sum(axis=1)
    A = np.sqrt(d)[:, None] * (X - d @ X / d.sum())
    return (1 - balance) * W / np.sqrt(np.outer(d, d)) + balance * A @ A.T / np.linalg.norm(A, 2) ** 2


@pytest.mark.parametrize("balance", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(60, 7), (70, 90)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_kl_solves_its_eigenproblem(balance, shape, form):
    X, Y = multi_label(*shape)
    W = build_knn_graph(X)
    model = KMeansLaplacian(balance=balance, n_components=3).fit(form(X), Y, affinity=W)
    W = W.toarray()
    Z, d, theta = model.embedding_, W.sum(axis=1), model.eigenvalues_
    M = combined_matrix(X, W, balance)
    Q = np.sqrt(d)[:, None] * Z
    np.testing.assert_allclose(M @ Q, Q * theta, atol=1e-9)
    np.testing.assert_allclose(Z.T @ (d[:, None] * Z), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(d @ Z, 0, atol=1e-8)
    trivial = np.sqrt(d / d.sum())
    others = np.linalg.eigvalsh(M - 9 * np.outer(trivial, trivial))
    np.testing.assert_allclose(theta, others[::-1][:3], atol=1e-9)


def test_kl_of_features_alone_is_pca_on_a_regular_graph():
    X, Y = multi_label()
    ring = np.roll(np.eye(60), 1, axis=1) + np.roll(np.eye(60), -1, axis=1)
    Z = KMeansLaplacian(balance=1, n_components=2).fit(X, Y, affinity=ring).embedding_
    U = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0][:, :2]
    np.testing.assert_allclose(projector(Z), projector(U), atol=1e-9)


def test_kl_of_the_graph_alone_tells_its_components_apart():
    W = np.kron(np.eye(3), np.ones((6, 6)) - np.eye(6))
    Z = KMeansLaplacian(balance=0).fit(np.zeros((18, 1)), np.arange(18) % 3, affinity=W).embedding_
    assert Z.shape == (18, 2)
    np.testing.assert_allclose(Z, np.repeat(Z[::6], 6, axis=0), atol=1e-9)
    assert np.linalg.matrix_rank(np.column_stack([Z[::6], np.ones(3)])) == 3


@pytest.mark.slow
def test_the_block_solver_misses_none_of_repeated_eigenvalues():
    rng = np.random.default_rng(0)
    blocks = [build_knn_graph(rng.normal(size=(50, 3)), 6).toarray() for _ in range(12)]
    W = scipy.linalg.block_diag(*blocks)
    d = W.sum(axis=1)
    S = W / np.sqrt(np.outer(d, d))
    trivial = np.sqrt(d / d.sum())
    values, Q = leading_pairs(lambda V: S @ V, trivial, 14)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(S)[::-1][1:15], atol=1e-9)
    np.testing.assert_allclose(S @ Q, Q * values, atol=1e-6)
    np.testing.assert_allclose(trivial @ Q, 0, atol=1e-8)


def test_kl_places_items_without_links_by_their_features():
    X, Y = multi_label()
    W = build_knn_graph(X).toarray()
    W[7] = W[:, 7] = 0
    with pytest.warns(UserWarning, match="1 of 60 items have no link"):
        model = KMeansLaplacian(n_components=2).fit(X, Y, affinity=W)
    d, Z = W.sum(axis=1), model.embedding_
    centered = X - d @ X / d.sum()
    scale = np.linalg.norm(np.sqrt(d)[:, None] * centered, 2) ** 2
    by_features = 0.5 * centered @ (centered.T @ (d[:, None] * Z)) / scale
    by_graph = np.divide(0.5 * W @ Z, d[:, None], out=np.zeros_like(Z), where=d[:, None] > 0)
    np.testing.assert_allclose(Z * model.eigenvalues_, by_features + by_graph, atol=1e-9)


def test_kl_places_an_item_on_weak_links_where_its_equation_asks():
    X, y = single_label()
    W = build_knn_graph(X).toarray()
    W[5] *= 1e-30
    W[:, 5] = W[5]
    model = KMeansLaplacian(balance=0.3).fit(X, y, affinity=W)
    Z, d = model.embedding_, W.sum(axis=1)
    centered = X - d @ X / d.sum()
    A = np.sqrt(d)[:, None] * centered
    by_features = centered[5] @ (A.T @ (np.sqrt(d)[:, None] * Z)) / np.linalg.norm(A, 2) ** 2
    expected = (0.7 * W[5] @ Z / d[5] + 0.3 * by_features) / model.eigenvalues_
    np.testing.assert_allclose(Z[5], expected, rtol=1e-6, atol=1e-9)


def test_kl_rejects_more_dimensions_than_there_are():
    X, Y = multi_label(20)
    with pytest.raises(InvalidInput, match="20 dimensions requested, but the 20 items with links have 19"):
        KMeansLaplacian(n_components=20, n_neighbors=5).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(InvalidInput, match="0 items with links"):
            KMeansLaplacian().fit(X, Y, affinity=np.zeros((20, 20)))
