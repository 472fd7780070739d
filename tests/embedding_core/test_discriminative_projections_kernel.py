"""Discriminative projections with a kernel: linear and printed problem, new items, landmarks (Nyström)."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from embedding_core.discriminant import discriminative_projections
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.linalg import kernel_space
from tests.literal_discriminant import connected_graph
from tests.literal_projections import (
    DP,
    FORMS,
    SHAPES,
    distances,
    eigenvalues_in_range,
    partly_labeled,
    printed_matrices,
)
from tests.synthetic import literal_laplacian, single_label


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
def test_rbf_transform_of_the_fitted_items_equals_the_embedding(form, dtype):
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


def test_rbf_separates_classes_that_no_linear_map_separates():
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, 200), np.arange(200) % 2
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + 2 * y)[:, None] + rng.normal(0, 0.1, (200, 2))
    hidden = np.where(np.arange(200) < 100, y, -1)
    model = DP(kernel="rbf", ridge=1e-4).fit(X, hidden)
    to_labels = distances(np.vstack([model.embedding_, model.label_projection_]))[:200, 200:]
    assert (to_labels.argmin(axis=1) == y)[100:].mean() > 0.97


def test_refit_with_another_kernel_removes_old_attributes():
    X, y, _ = partly_labeled()
    model = DP(kernel="rbf").fit(X, y)
    model.set_params(kernel="linear").fit(X, y)
    assert not hasattr(model, "dual_coef_")
    model.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(model, "projection_")


def problem(n=60):
    X, y = single_label(n)
    y[1::3] = -1
    return X, y, connected_graph(X)


def test_landmarks_that_span_all_items_give_the_exact_form():
    X, y, _ = problem()
    X, y = np.vstack([X, X[:20]]), np.concatenate([y, y[:20]])  # repeated items do not enlarge the span
    W = connected_graph(X)
    for parameters in ({"ridge": 1e-3}, {"ridge": 1e-3, "scaling": "natural"}):
        exact = DP(kernel="rbf", gamma=0.5, n_components=5, **parameters).fit(X, y, W)
        model = DP(kernel="rbf", gamma=0.5, n_components=5, landmarks=range(60), **parameters).fit(X, y, W)
        assert model.dual_coef_.shape == (60, 5)
        np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-8)
        np.testing.assert_allclose(distances(model.embedding_), distances(exact.embedding_), atol=1e-6)
        new = X[:9] + 0.3
        np.testing.assert_allclose(
            distances(np.vstack([model.transform(new), model.label_projection_])),
            distances(np.vstack([exact.transform(new), exact.label_projection_])),
            atol=1e-5,
        )


@pytest.mark.parametrize("landmarks", [12, [0, 3, 7, 20, 21, 22, 40, 41, 59]])
def test_a_kernel_of_low_rank_needs_few_landmarks(landmarks):
    X, y, W = problem()
    linear = DP(n_components=5, scaling="natural").fit(X, y, W)
    model = DP(n_components=5, scaling="natural", kernel="precomputed", landmarks=landmarks)
    model.fit(X @ X.T, y, W)
    assert len(model.landmarks_) == 7
    np.testing.assert_allclose(model.eigenvalues_, linear.eigenvalues_, atol=1e-9)
    signs = np.sign((model.embedding_ * linear.embedding_).sum(axis=0))
    new = np.random.default_rng(0).normal(size=(5, 7))
    for K_new in (new @ X.T, sp.csr_array(new @ X.T)):
        np.testing.assert_allclose(model.transform(K_new) * signs, linear.transform(new), atol=1e-7)
    np.testing.assert_allclose(model.label_projection_ * signs, linear.label_projection_, atol=1e-7)


def test_columns_solve_the_printed_problem_with_the_landmarks_kernel_values_for_items():
    X, y, W = problem()
    model = DP(mu=0.3, kernel="rbf", gamma=0.5, landmarks=15, scaling="natural", n_components=6).fit(X, y, W)
    assert len(model.landmarks_) == 15
    np.testing.assert_array_equal(model.X_fit_, X[model.landmarks_])
    A, B, C = printed_matrices(rbf_kernel(X, X[model.landmarks_], gamma=0.5), y, W, 0.3)
    gamma = np.vstack([model.dual_coef_, model.label_projection_])
    np.testing.assert_allclose(gamma.T @ (B + C) @ gamma, np.eye(6), atol=1e-7)
    np.testing.assert_allclose(
        (A + C) @ gamma, (B + C) @ gamma * model.eigenvalues_, atol=1e-7 * np.abs((B + C) @ gamma).max()
    )
    np.testing.assert_allclose(model.eigenvalues_, scipy.linalg.eigh(A + C, B + C)[0][:6], atol=1e-7)


def test_more_landmarks_lower_the_cost_and_all_items_give_the_minimum():
    # f from a larger space: every eigenvalue of the smaller one lies above (Poincaré)
    X, y, W = problem()
    rows = np.random.default_rng(0).permutation(60)
    costs = [
        DP(kernel="rbf", gamma=0.5, n_components=5, landmarks=rows[:m]).fit(X, y, W).eigenvalues_
        for m in (6, 12, 25, 50, 60)
    ]
    for fewer, more in pairwise(costs):
        assert (more <= fewer + 1e-9).all()
    assert costs[0][0] > costs[-1][0] + 1e-3


def test_unit_columns_have_length_one_in_feature_space():
    X, y, W = problem()
    model = DP(kernel="rbf", gamma=0.5, landmarks=15, n_components=4).fit(X, y, W)
    K = rbf_kernel(model.X_fit_, gamma=0.5)
    np.testing.assert_allclose(np.einsum("ij,ik,kj->j", model.dual_coef_, K, model.dual_coef_), 1, atol=1e-7)


def test_decisions_agree_with_the_exact_form():
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, 600), np.arange(600) % 2
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + 2 * y)[:, None] + rng.normal(0, 0.2, (600, 2))
    hidden, W = np.where(np.arange(600) < 100, y, -1), build_knn_graph(X, 10)
    nearest = []
    for landmarks in (None, 60):
        model = DP(kernel="rbf", ridge=1e-4, landmarks=landmarks).fit(X, hidden, W)
        to_labels = (model.embedding_[:, None] - model.transform_labels([0, 1])) ** 2
        nearest.append(to_labels.sum(axis=2).argmin(axis=1))
    assert (nearest[0] == nearest[1]).mean() > 0.97
    assert (nearest[1] == y)[100:].mean() > 0.97


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_of_the_fitted_items_equals_the_embedding(form, dtype):
    X, y, W = problem()
    items = FORMS[form](np.maximum(X, 0).astype(dtype))
    model = DP(kernel="rbf", landmarks=20, ridge=1e-3).fit(items, y, W)
    np.testing.assert_array_equal(model.transform(items), model.embedding_)
    np.testing.assert_allclose(model.transform(items[:7]), model.embedding_[:7], atol=1e-10)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(items), model.embedding_)


def test_kernel_values_are_computed_one_block_at_a_time(monkeypatch):
    X, y, W = problem()
    model = DP(kernel="rbf", landmarks=20).fit(X, y, W)
    monkeypatch.setattr(kernel_space, "BLOCK_VALUES", 20 * 7)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12)


class InBlocks:
    """Items that are read one block of rows at a time."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def iter_blocks(self):
        for start in range(0, len(self.X), 17):
            yield start, self.X[start : start + 17]


@pytest.mark.parametrize("landmarks", [None, 20])
def test_new_items_may_come_in_blocks_but_not_those_of_fit(landmarks):
    X, y, W = problem()
    model = DP(kernel="rbf", landmarks=landmarks).fit(X, y, W)
    np.testing.assert_allclose(model.transform(InBlocks(X)), model.embedding_, atol=1e-12)
    with pytest.raises(InvalidInput, match=r"InBlocks; with a kernel, .* needs the items in memory"):
        DP(kernel="rbf", landmarks=landmarks).fit(InBlocks(X), y, W)


def test_landmarks_are_drawn_by_the_random_state_and_not_used_without_a_kernel():
    X, y, W = problem()
    one, same, other = (
        DP(kernel="rbf", landmarks=10, random_state=seed).fit(X, y, W).landmarks_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert set(one) != set(other)
    for landmarks in (10, "auto"):
        linear = DP(landmarks=landmarks).fit(X, y, W)
        np.testing.assert_array_equal(linear.projection_, DP().fit(X, y, W).projection_)
    auto = DP(kernel="rbf", landmarks="auto").fit(X, y, W)  # all items up to 2,000 of them
    np.testing.assert_array_equal(auto.embedding_, DP(kernel="rbf").fit(X, y, W).embedding_)


def test_sigma_is_chosen_with_landmarks():
    X, y, _ = partly_labeled()
    chosen = DP(sigma="cv", n_neighbors=5, kernel="rbf", landmarks=20).fit(X, y)
    fixed = DP(sigma=chosen.sigma_, n_neighbors=5, kernel="rbf", landmarks=20).fit(X, y)
    np.testing.assert_array_equal(fixed.embedding_, chosen.embedding_)


def test_over_the_budget_the_error_suggests_landmarks_which_then_work(monkeypatch):
    X, y, W = problem()
    monkeypatch.setattr(discriminative_projections, "MEMORY_BUDGET_BYTES", 1e5)
    with pytest.raises(InvalidInput, match=r"60 items needs .* GB; pass landmarks \(for example 500\)"):
        DP(kernel="rbf").fit(X, y, W)
    assert DP(kernel="rbf", landmarks=20).fit(X, y, W).embedding_.shape == (60, 3)


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        (0, "landmarks=0 is not legal; give a number of items"),
        (61, "landmarks=61 with 60 items"),
        ("many", "landmarks='many' is not legal"),
        ([0, 60], "landmarks contains rows 0 to 60; use rows 0 to 59"),
        ([0.5], "is not legal"),
    ],
)
def test_bad_landmarks_raise_clear_errors(landmarks, message):
    X, y, W = problem()
    with pytest.raises(InvalidInput, match=message):
        DP(kernel="rbf", landmarks=landmarks).fit(X, y, W)


def test_a_component_without_labels_warns_only_in_the_kernel_form():
    X, y, W = problem()
    W[:20, 20:], W[20:, :20] = 0, 0
    y[:20] = -1
    for landmarks in (None, 30):
        with pytest.warns(
            UserWarning, match=r"components \(sizes 40, 20\); 1 of them \(20 items\) contain no"
        ):
            DP(kernel="rbf", landmarks=landmarks).fit(X, y, W)
    DP().fit(X, y, W)  # a linear map places all items
    y[3] = 1
    DP(kernel="rbf").fit(X, y, W)
