"""The kernel form of discriminative projections: linear and printed problem, new items, full rank."""

import pickle

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from tests.literal_projections import (
    DP,
    FORMS,
    SHAPES,
    distances,
    eigenvalues_in_range,
    partly_labeled,
    printed_matrices,
)
from tests.synthetic import literal_laplacian


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scaling", ["unit", "natural"])
@pytest.mark.parametrize("ridge", [0.0, 1e-2])
def test_the_kernel_of_inner_products_gives_the_linear_form(shape, scaling, ridge):
    X, y, _ = partly_labeled(shape=shape)
    linear = DP(scaling=scaling, n_components=5, ridge=ridge).fit(X, y)
    model = DP(scaling=scaling, n_components=5, ridge=ridge, kernel="precomputed").fit(X @ X.T, y)
    np.testing.assert_allclose(model.eigenvalues_, linear.eigenvalues_, atol=1e-8)
    np.testing.assert_allclose(distances(model.embedding_), distances(linear.embedding_), atol=1e-6)
    new = X[:9] + np.random.default_rng(0).normal(size=(9, shape[1]))
    signs = np.sign((model.embedding_ * linear.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.transform(new @ X.T) * signs, linear.transform(new), atol=1e-6)
    np.testing.assert_allclose(model.label_projection_ * signs, linear.label_projection_, atol=1e-6)
    assert not hasattr(model, "projection_")


@pytest.mark.parametrize("graph", ["knn", "gaussian"])
def test_a_sparse_kernel_is_the_dense_one_with_a_graph_of_its_own(graph):
    X, y, _ = partly_labeled()
    dense, sparse = (
        DP(kernel="precomputed", graph=graph).fit(K, y) for K in (X @ X.T, sp.csr_array(X @ X.T))
    )
    np.testing.assert_array_equal(sparse.embedding_, dense.embedding_)
    np.testing.assert_allclose(sparse.transform(sp.csr_array(X @ X.T)), dense.embedding_, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize("gamma", ["scale", 0.3])
def test_rbf_solves_the_printed_problem_with_kernel_rows_for_items(ridge, gamma):
    # f = sum_j alpha_j phi(x_j): f^T x_i becomes (K alpha)_i, |f|² alpha^T K alpha
    X, y, W = partly_labeled()
    g = 1 / (7 * X.var()) if gamma == "scale" else gamma
    K = rbf_kernel(X, gamma=g)
    A, B, C = printed_matrices(K, y, W, 0.3)
    model = DP(mu=0.3, kernel="rbf", gamma=gamma, ridge=ridge, scaling="natural").fit(X, y, W)
    np.testing.assert_allclose(model.gamma_, g)
    J = np.eye(60)[:, y >= 0]
    T = np.linalg.cholesky(K + 1e-14 * np.eye(60))
    centered = T - T[y >= 0].mean(axis=0)
    trace = 4 * (centered.T @ J * (centered.T @ J)).sum() + 0.3 * np.trace(T.T @ literal_laplacian(W) @ T)
    R = scipy.linalg.block_diag(ridge * trace * K, np.zeros((4, 4)))
    gamma_columns = np.vstack([model.dual_coef_, model.label_projection_])
    spread, near = B + C + R, A + C + R
    np.testing.assert_allclose(gamma_columns.T @ spread @ gamma_columns, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(gamma_columns.T @ near @ gamma_columns, np.diag(model.eigenvalues_), atol=1e-6)
    np.testing.assert_allclose(
        near @ gamma_columns, spread @ gamma_columns * model.eigenvalues_, atol=1e-6 * np.abs(spread).max()
    )
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues_in_range(near, spread, 1e-13)[:3], atol=1e-5)


def test_without_ridge_a_kernel_of_full_rank_drops_out():
    X, y, W = partly_labeled()
    narrow, wide = (
        DP(kernel="rbf", gamma=gamma, scaling="natural").fit(X, y, W).embedding_ for gamma in (0.5, 1.0)
    )
    np.testing.assert_allclose(distances(narrow), distances(wide), atol=1e-7)
    ridged = DP(kernel="rbf", gamma=0.5, scaling="natural", ridge=1e-2).fit(X, y, W).embedding_
    assert np.abs(distances(ridged) - distances(narrow)).max() > 1e-4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rbf_places_the_items_of_fit_where_fit_did(form, dtype):
    X, y, _ = partly_labeled()
    X = np.maximum(X, 0.0)
    items = FORMS[form](X.astype(dtype))
    model = DP(kernel="rbf", ridge=1e-4, n_neighbors=5).fit(items, y)
    np.testing.assert_array_equal(model.transform(items), model.embedding_)
    np.testing.assert_allclose(model.transform(items[:9]), model.embedding_[:9], atol=1e-9)
    assert model.embedding_.dtype == np.float64
    np.testing.assert_allclose(model.gamma_, 1 / (7 * X.var()), rtol=1e-6)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(items), model.transform(items))


def test_rbf_far_from_the_origin():
    X, y, W = partly_labeled()
    plain, moved = (DP(kernel="rbf", gamma=0.1, ridge=1e-3).fit(Z, y, W) for Z in (X, X + 1e5))
    np.testing.assert_allclose(moved.embedding_, plain.embedding_, atol=1e-6)
    np.testing.assert_allclose(moved.transform(X[:5] + 1e5), plain.transform(X[:5]), atol=1e-6)


def test_rbf_separates_what_no_linear_map_does():
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, 200), np.arange(200) % 2
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + 2 * y)[:, None] + rng.normal(0, 0.1, (200, 2))
    hidden = np.where(np.arange(200) < 100, y, -1)
    model = DP(kernel="rbf", ridge=1e-4).fit(X, hidden)
    to_labels = distances(np.vstack([model.embedding_, model.label_projection_]))[:200, 200:]
    assert (to_labels.argmin(axis=1) == y)[100:].mean() > 0.97


def test_refit_with_another_kernel_leaves_nothing_behind():
    X, y, _ = partly_labeled()
    model = DP(kernel="rbf").fit(X, y)
    model.set_params(kernel="linear").fit(X, y)
    assert not hasattr(model, "dual_coef_")
    model.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(model, "projection_")
