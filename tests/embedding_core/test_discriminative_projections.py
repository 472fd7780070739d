"""Discriminative projections against the printed matrices: theorem, reductions, invariances, labels."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestNeighbors

from embedding_core.graph.affinity import SIGMA_FACTORS, build_gaussian_graph, build_knn_graph, graph_family
from embedding_core.labels import as_indicator
from embedding_core.model_selection.folds import stratified_folds
from tests.literal_projections import (
    DP,
    FORMS,
    SHAPES,
    columns,
    distances,
    eigenvalues_in_range,
    paired_matrices,
    partly_labeled,
    printed_matrices,
)
from tests.synthetic import multi_label, projector, single_label


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mu", ["auto", 0.05, 20.0])
def test_columns_solve_the_printed_eigenproblem(shape, form, mu):
    X, y, W = partly_labeled(shape=shape)
    weight = (y >= 0).sum() / W.sum() if mu == "auto" else mu
    A, B, C = printed_matrices(X, y, W, weight)
    model = DP(mu=mu, scaling="natural", n_components=6).fit(FORMS[form](X), y, affinity=FORMS[form](W))
    gamma, values = columns(model), model.eigenvalues_
    np.testing.assert_allclose(model.mu_, weight)
    np.testing.assert_allclose(values, eigenvalues_in_range(A + C, B + C)[:6], atol=1e-8)
    np.testing.assert_allclose(gamma.T @ (B + C) @ gamma, np.eye(6), atol=1e-7)
    residual = (A + C) @ gamma - (B + C) @ gamma * values
    assert np.abs(residual).max() < 1e-8 * np.abs((B + C) @ gamma).max()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_several_labels_per_item_are_summed_pair_by_pair(shape, form):
    X, Y, W = partly_labeled(multi_label, shape)
    Y[3] = 0  # labeled, without any label
    A, B, C = paired_matrices(X, Y, W, 0.7)
    model = DP(mu=0.7, scaling="natural", n_components=6).fit(FORMS[form](X), Y, FORMS[form](W))
    gamma = columns(model)
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues_in_range(A + C, B + C)[:6], atol=1e-8)
    np.testing.assert_allclose(gamma.T @ (B + C) @ gamma, np.eye(6), atol=1e-7)
    np.testing.assert_allclose(gamma.T @ (A + C) @ gamma, np.diag(model.eigenvalues_), atol=1e-7)


def test_pairs_give_the_printed_matrices_for_one_label_per_item():
    X, y, W = partly_labeled()
    for printed, paired in zip(
        printed_matrices(X, y, W, 0.3), paired_matrices(X, as_indicator(y).Y, W, 0.3), strict=True
    ):
        np.testing.assert_allclose(paired, printed, atol=1e-9)


def test_theorem_1_no_other_orthonormal_columns_cost_less():
    X, y, W = partly_labeled()
    A, B, C = printed_matrices(X, y, W, 0.3)
    gamma = columns(DP(mu=0.3, scaling="natural", n_components=4).fit(X, y, W))
    best = np.trace(gamma.T @ (A + C) @ gamma)
    factor = np.linalg.inv(np.linalg.cholesky(B + C)).T
    rng = np.random.default_rng(0)
    for _ in range(200):
        step = rng.normal(size=gamma.shape) * 10.0 ** rng.uniform(-3, 0)
        Q = np.linalg.qr(np.linalg.solve(factor, gamma) + step)[0]
        other = factor @ Q
        assert np.trace(other.T @ (A + C) @ other) >= best - 1e-10


@pytest.mark.parametrize("make", [single_label, multi_label])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mu", [0.0, 1e-3, 1e3])
def test_eigenvalues_lie_between_0_and_1_and_ascend(make, shape, mu):
    X, Y, W = partly_labeled(make, shape)
    values = DP(mu=mu, n_components=7).fit(X, Y, W).eigenvalues_
    assert values.min() >= 0
    assert values.max() <= 1
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("make", [single_label, multi_label])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_a_shift_of_the_items_shifts_the_labels_too(make, shape, form):
    X, Y, W = partly_labeled(make, shape)
    t = np.random.default_rng(0).normal(size=shape[1]) * 30
    plain, moved = (DP(n_components=5).fit(FORMS[form](Z), Y, W) for Z in (X, X + t))
    np.testing.assert_allclose(moved.eigenvalues_, plain.eigenvalues_, atol=1e-9)
    np.testing.assert_allclose(moved.projection_, plain.projection_, atol=1e-6)
    expected = plain.label_projection_ + t @ plain.projection_
    np.testing.assert_allclose(moved.label_projection_, expected, atol=1e-4 * np.abs(expected).max())


def test_results_are_accurate_far_from_the_origin():
    X, y, W = partly_labeled()
    moved = DP(n_components=5).fit(X + 1e6, y, W)
    np.testing.assert_allclose(moved.projection_, DP(n_components=5).fit(X, y, W).projection_, atol=1e-6)


@pytest.mark.parametrize("make", [single_label, multi_label])
def test_order_of_rows_and_labels_and_rotation(make):
    X, Y, W = partly_labeled(make)
    model = DP(n_components=5).fit(X, Y, W)
    rng = np.random.default_rng(1)
    rows = rng.permutation(60)
    shuffled = DP(n_components=5).fit(X[rows], Y[rows], W[np.ix_(rows, rows)])
    np.testing.assert_allclose(shuffled.projection_, model.projection_, atol=1e-9)
    if Y.ndim == 2:
        order = rng.permutation(4)
        relabeled = DP(n_components=5).fit(X, Y[:, order], W)
        np.testing.assert_allclose(relabeled.projection_, model.projection_, atol=1e-9)
        np.testing.assert_allclose(relabeled.label_projection_, model.label_projection_[order], atol=1e-9)
    R = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    turned = DP(n_components=5).fit(X @ R, Y, W)
    np.testing.assert_allclose(distances(turned.embedding_), distances(model.embedding_), atol=1e-7)


def test_natural_columns_do_not_depend_on_the_scale_of_the_features():
    X, y, W = partly_labeled()
    d = 10.0 ** np.linspace(-8, 8, 7)
    plain = DP(scaling="natural", n_components=5).fit(X, y, W)
    scaled = DP(scaling="natural", n_components=5).fit(X * d, y, W)
    np.testing.assert_allclose(scaled.eigenvalues_, plain.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(distances(scaled.embedding_), distances(plain.embedding_), atol=1e-8)


def test_a_rescaled_graph_changes_nothing_with_mu_auto():
    X, y, W = partly_labeled()
    model, rescaled = DP().fit(X, y, W), DP().fit(X, y, 16 * W)
    np.testing.assert_allclose(rescaled.mu_ * 16, model.mu_)
    np.testing.assert_allclose(rescaled.projection_, model.projection_, atol=1e-9)


def test_without_graph_it_spans_the_space_of_lda():
    X, y = single_label()
    model = DP(mu=0.0).fit(X, y)
    G = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :3]
    np.testing.assert_allclose(projector(model.projection_), projector(G), atol=1e-8)


def test_without_graph_and_with_classes_of_one_size_its_columns_are_those_of_lda():
    X, _ = single_label()
    y = np.repeat([0, 1, 2], 20)
    X = X + y[:, None] * np.arange(7)
    F = DP(mu=0.0).fit(X, y).projection_
    G = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2]
    G = G / np.linalg.norm(G, axis=0)
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->j", F, G)), 1.0, atol=1e-8)


@pytest.mark.parametrize("n_components", [3, 5])
def test_solutions_that_map_all_items_to_one_point_are_omitted(n_components):
    X, _ = single_label()
    y = np.arange(60) % 4
    W = build_knn_graph(X, 4).toarray()
    A, B, C = printed_matrices(X, y, W, 0.3)
    trivial = np.concatenate([np.zeros(7), np.ones(4)])
    A_0, B_0, C_0 = printed_matrices(X - X.mean(axis=0), y, W, 0.3)
    np.testing.assert_allclose((A_0 + C_0) @ trivial, (B_0 + C_0) @ trivial / 4, atol=1e-12)
    values = list(eigenvalues_in_range(A + C, B + C))
    del values[int(np.abs(np.array(values) - 0.25).argmin())]
    model = DP(mu=0.3, n_components=n_components).fit(X, y, W)
    np.testing.assert_allclose(model.eigenvalues_, values[:n_components], atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(model.projection_, axis=0), 1.0)
    gamma = columns(DP(mu=0.3, n_components=n_components, scaling="natural").fit(X, y, W))
    np.testing.assert_allclose((A + C) @ gamma, (B + C) @ gamma * values[:n_components], atol=1e-8)


def test_unit_columns_are_the_natural_ones_rescaled():
    X, y, W = partly_labeled()
    unit, natural = (DP(scaling=scaling, n_components=5).fit(X, y, W) for scaling in ("unit", "natural"))
    length = np.linalg.norm(natural.projection_, axis=0)
    np.testing.assert_allclose(unit.projection_ * length, natural.projection_)
    np.testing.assert_allclose(unit.label_projection_ * length, natural.label_projection_)


def test_any_dimension_up_to_p_with_the_same_first_columns():
    X, y, W = partly_labeled()
    full, first = DP(n_components=7).fit(X, y, W), DP(n_components=2).fit(X, y, W)
    assert np.linalg.matrix_rank(full.projection_) == 7
    np.testing.assert_allclose(first.projection_, full.projection_[:, :2], atol=1e-9)
    assert DP().fit(X, y, W).projection_.shape == (7, 3)
    assert DP().fit(X[:, :2], y, W).projection_.shape == (2, 2)


def test_ridge_is_a_multiple_of_the_identity_in_c():
    X, y, W = partly_labeled()
    A, B, C = printed_matrices(X - X[y >= 0].mean(axis=0), y, W, 0.3)
    R = scipy.linalg.block_diag(0.1 * np.trace((B + C)[:7, :7]) * np.eye(7), np.zeros((4, 4)))
    model = DP(mu=0.3, ridge=0.1, n_components=5).fit(X, y, W)
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues_in_range(A + C + R, B + C + R)[:5], atol=1e-9)


@pytest.mark.parametrize("graph", ["knn", "gaussian"])
@pytest.mark.parametrize("sigma", ["auto", 3.0])
def test_the_default_graph_is_that_of_the_affinity_module(graph, sigma):
    X, y, _ = partly_labeled()
    W = build_knn_graph(X, 6, sigma=sigma) if graph == "knn" else build_gaussian_graph(X, sigma)
    own, given = DP(graph=graph, n_neighbors=6, sigma=sigma).fit(X, y), DP().fit(X, y, affinity=W)
    np.testing.assert_allclose(own.projection_, given.projection_, atol=1e-9)
    assert given.sigma_ is None
    assert own.sigma_ > 0


def test_unlabeled_items_shape_the_embedding_only_through_the_graph():
    X, y, _ = partly_labeled()
    X_moved = X.copy()
    X_moved[1::3] += np.random.default_rng(0).normal(size=(20, 7))
    for mu, shapes in (("auto", True), (0.0, False)):
        gap = (
            DP(mu=mu, n_neighbors=5).fit(X_moved, y).projection_
            - DP(mu=mu, n_neighbors=5).fit(X, y).projection_
        )
        assert (np.abs(gap).max() > 1e-3) == shapes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cross_validation_picks_the_sigma_with_the_best_held_out_score(seed):
    X, y, _ = partly_labeled(seed=seed)
    X += np.random.default_rng(seed).normal(0, 4, X.shape)
    target, family = as_indicator(y), graph_family(X, "knn", 5)
    scores = {}
    for sigma in family.scale * np.array(sorted(SIGMA_FACTORS, key=lambda f: abs(np.log(f)))):
        right = []
        for train, test in stratified_folds(target.Y, 5, seed=0):
            Q = DP(n_components=4, mu=5.0).fit(X, target.hide(test).Y, family.weigh(sigma)).embedding_
            nearest = [train[((Q[i] - Q[train]) ** 2).sum(axis=1).argmin()] for i in test]
            right.append(np.mean(y[nearest] == y[test]))
        scores[sigma] = np.mean(right)
    assert len(set(scores.values())) > 1
    chosen = DP(n_components=4, mu=5.0, sigma="cv", n_neighbors=5).fit(X, y)
    assert chosen.sigma_ == max(scores, key=scores.get)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_cross_validation_picks_a_candidate(kernel):
    X, y, _ = partly_labeled()
    chosen = DP(sigma="cv", n_neighbors=5, kernel=kernel).fit(X, y)
    scale = DP(n_neighbors=5).fit(X, y).sigma_
    assert np.isclose(chosen.sigma_ / scale, SIGMA_FACTORS).any()
    fixed = DP(sigma=chosen.sigma_, n_neighbors=5, kernel=kernel).fit(X, y)
    np.testing.assert_array_equal(fixed.embedding_, chosen.embedding_)


def test_labels_are_placed_by_g_and_sets_at_the_mean_of_their_labels():
    X, Y, W = partly_labeled(multi_label)
    model = DP(n_components=5).fit(X, Y, W)
    g = model.label_projection_
    np.testing.assert_allclose(model.transform_labels(np.eye(4, dtype=int)), g)
    np.testing.assert_allclose(model.transform_labels([[1, 0, 1, 0]]), (g[[0]] + g[[2]]) / 2)
    np.testing.assert_allclose(model.transform_labels([2, 0]), g[[2, 0]])
    names = np.array(["ant", "bee", "cow", "dog"])
    X, y, W = partly_labeled()
    named = DP().fit(X, np.where(y < 0, None, names[y]), W)
    np.testing.assert_array_equal(named.transform_labels(["dog", "ant"]), named.label_projection_[[3, 0]])
    np.testing.assert_array_equal(named.projection_, DP().fit(X, y, W).projection_)


def test_items_are_closer_to_their_own_label():
    X, y = single_label(200, seed=4)
    X *= 2
    hidden = np.where(np.arange(200) % 2, y, -1)
    model = DP().fit(X, hidden)
    to_labels = distances(np.vstack([model.embedding_, model.transform_labels([0, 1, 2, 3])]))[:200, 200:]
    assert (to_labels.argmin(axis=1) == y)[::2].mean() > 0.9


def test_classes_and_their_columns_are_the_same():
    X, y, W = partly_labeled()
    np.testing.assert_array_equal(
        DP().fit(X, y, W).projection_, DP().fit(X, as_indicator(y).Y, W).projection_
    )


def test_a_label_without_items_is_omitted():
    X, y, W = partly_labeled()
    Y = as_indicator(y).Y
    more = np.insert(Y, 2, np.where(Y[:, 0] < 0, -1, 0), axis=1)
    plain, model = DP().fit(X, Y, W), DP().fit(X, more, W)
    np.testing.assert_array_equal(model.projection_, plain.projection_)
    np.testing.assert_array_equal(model.label_projection_[[0, 1, 3, 4]], plain.label_projection_)
    np.testing.assert_allclose(model.label_projection_[2], model.embedding_[y >= 0].mean(axis=0))


@pytest.mark.slow
def test_usps_needs_unit_columns_in_many_dimensions(shared_data):
    # 9,298 digits as they are, 2,000 drawn with seed 0 labeled, 1NN among the other 7,298 (Fig. 3, K = 1)
    table = pq.read_table(shared_data / "usps" / "usps.parquet")
    X = np.column_stack([table[name].to_numpy() for name in table.column_names if name.startswith("f")])
    y = table["class"].to_numpy()
    order = np.random.default_rng(0).permutation(len(X))
    hidden, rest = np.where(np.isin(np.arange(len(X)), order[:2000]), y, -1), np.sort(order[2000:])
    W = build_knn_graph(X, 10)
    right = {}
    for scaling, d in [("unit", 9), ("unit", 100), ("natural", 100)]:
        Q = DP(n_components=d, scaling=scaling).fit(X, hidden, W).embedding_[rest]
        nearest = NearestNeighbors(n_neighbors=1).fit(Q).kneighbors(return_distance=False)[:, 0]
        right[scaling, d] = (y[rest][nearest] == y[rest]).mean()
    assert right == pytest.approx(
        {("unit", 9): 0.920, ("unit", 100): 0.958, ("natural", 100): 0.895}, abs=0.005
    )
