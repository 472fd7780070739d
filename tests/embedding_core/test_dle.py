"""DLE and multi-label DLE against literal versions, their theorems, readings and errors."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from embedding_core import DLE, MultiLabelDLE
from embedding_core.discriminant.dle import nearest_labels
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import SIGMA_FACTORS, build_gaussian_graph, build_knn_graph, graph_family
from embedding_core.labels import as_indicator
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.inner_choice import micro_f1_empty1
from tests.literal_discriminant import connected_graph, half_labeled, literal_dle, literal_label_graph
from tests.synthetic import (
    literal_laplacian,
    literal_scatter,
    multi_label,
    positive_power,
    projector,
    single_label,
    sparse_items,
)

SHAPES = [(60, 7), (30, 45)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reading", ["u", "f", "g"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_dle_is_the_literal_one(shape, reading, form):
    X, y, W = half_labeled(single_label, shape)
    expected, values, _ = literal_dle(X, np.maximum(as_indicator(y).Y, 0).astype(float), W)
    items, affinity = (X, W) if form == "dense" else (sp.csr_array(X), sp.csr_array(W))
    model = DLE(projection=reading).fit(items, y, affinity=affinity)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    # U U^T, F F^T, G G^T do not depend on the signs
    expected_metric = expected[reading] @ expected[reading].T
    scale = np.abs(expected_metric).max()
    np.testing.assert_allclose(model.projection_ @ model.projection_.T, expected_metric, atol=1e-6 * scale)
    np.testing.assert_allclose(model.embedding_, X @ model.projection_, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("correlation", ["train", "all"])
@pytest.mark.parametrize("beta", ["auto", 0.2])
def test_multi_label_dle_is_the_literal_one(shape, correlation, beta):
    X, Y, W_X = half_labeled(multi_label, shape)
    W_L, filled = literal_label_graph(X, Y, correlation)
    b = W_X.sum() / (W_L.sum() - np.trace(W_L)) if beta == "auto" else beta
    expected, values, _ = literal_dle(X, np.maximum(Y, 0).astype(float), W_X + b * W_L)
    model = MultiLabelDLE(beta=beta, correlation=correlation).fit(X, Y, affinity=W_X)
    np.testing.assert_allclose(model.beta_, b)
    np.testing.assert_array_equal(model.initial_labels_, filled)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    np.testing.assert_allclose(projector(model.projection_), projector(expected["u"]), atol=1e-7)


def test_multi_label_dle_without_label_graph_is_dle_on_classes():
    X, y, W = half_labeled(single_label, (60, 7))
    plain, multi = DLE().fit(X, y, W), MultiLabelDLE(beta=0.0).fit(X, y, W)
    np.testing.assert_array_equal(multi.projection_, plain.projection_)


@pytest.mark.parametrize("estimator", [DLE, MultiLabelDLE])
@pytest.mark.parametrize("shape", SHAPES)
def test_u_is_orthonormal_and_f_is_orthonormal_in_a(estimator, shape):
    X, y, W = half_labeled(single_label, shape)
    U = estimator(projection="u").fit(X, y, W).projection_
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-10)
    F = DLE(projection="f").fit(X, y, W).projection_
    A = X.T @ literal_laplacian(W) @ X
    np.testing.assert_allclose(F.T @ A @ F, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_balanced_objective_solves_the_generalized_problem(shape):
    X, y, W = half_labeled(single_label, shape)
    S_b, S_w, _ = literal_scatter(X, np.maximum(as_indicator(y).Y, 0).astype(float))
    A = X.T @ literal_laplacian(W) @ X
    B = S_w / np.trace(S_w) + A / np.trace(A)
    model = DLE(objective="balanced").fit(X, y, W)
    V, values = model.projection_, model.eigenvalues_
    np.testing.assert_allclose(
        positive_power(B, -1) @ S_b @ V, V * values, atol=1e-7 * np.abs(V * values).max()
    )
    np.testing.assert_allclose(V.T @ B @ V, np.eye(3), atol=1e-8)
    rescaled = DLE(objective="balanced").fit(X, y, 9 * W)
    np.testing.assert_allclose(rescaled.projection_, V, atol=1e-8 * np.abs(V).max())


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e7, 1e8, 1e10])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_feature_that_only_separates_components_removes_no_other(scale, form):
    """Every item occurs in two components: the number of the component is independent of everything else."""
    X, y = single_label(40, 4)
    W = np.kron(connected_graph(X), np.eye(2))
    X, y, piece = np.repeat(X, 2, axis=0), np.repeat(y, 2), np.arange(80) % 2
    wider = form(np.column_stack([X, scale * (piece + 1)]))
    for reading in ("u", "f", "g"):
        plain = DLE(projection=reading).fit(X, y, W)
        model = DLE(projection=reading).fit(wider, y, W)
        np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(model.projection_[:4], plain.projection_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(scale * model.projection_[4], 0, atol=1e-6)
    S_b, S_w, _ = literal_scatter(X, np.eye(4)[y])
    A = X.T @ literal_laplacian(W) @ X
    B = S_w / (np.trace(S_w) + scale**2 * 80 / 4) + A / np.trace(A)
    expected = scipy.linalg.eigh(S_b, B, eigvals_only=True)[::-1][:3]
    model = DLE(objective="balanced").fit(wider, y, W)
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-8)


def test_a_rescaled_graph_does_not_change_u():
    X, y, W = half_labeled(single_label, (60, 7))
    model, rescaled = DLE().fit(X, y, W), DLE().fit(X, y, 16 * W)
    np.testing.assert_allclose(rescaled.projection_, model.projection_, atol=1e-9)
    np.testing.assert_allclose(rescaled.eigenvalues_ * 16, model.eigenvalues_)


@pytest.mark.parametrize("estimator", [DLE, MultiLabelDLE])
def test_order_of_rows_translation_and_rotation(estimator):
    X, y, W = half_labeled(single_label, (60, 7))
    P = projector(estimator().fit(X, y, W).projection_)
    rows = np.random.default_rng(0).permutation(60)
    shuffled = estimator().fit(X[rows], y[rows], W[np.ix_(rows, rows)])
    np.testing.assert_allclose(projector(shuffled.projection_), P, atol=1e-8)
    R = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    moved = estimator().fit(X @ R + 20, y, W)
    np.testing.assert_allclose(R @ projector(moved.projection_) @ R.T, P, atol=1e-8)


@pytest.mark.parametrize("estimator", [DLE, MultiLabelDLE])
def test_unlabeled_items_shape_the_embedding(estimator):
    X, y, _ = half_labeled(single_label, (60, 7))
    model = estimator(n_neighbors=5).fit(X, y)
    X_moved = X.copy()
    X_moved[1::2] += np.random.default_rng(0).normal(size=(30, 7))
    assert np.abs(estimator(n_neighbors=5).fit(X_moved, y).projection_ - model.projection_).max() > 1e-3


@pytest.mark.parametrize("estimator", [DLE, MultiLabelDLE])
@pytest.mark.parametrize("graph", ["knn", "gaussian"])
@pytest.mark.parametrize("sigma", ["auto", 3.0])
def test_the_default_graph_is_that_of_the_affinity_module(estimator, graph, sigma):
    X, y, _ = half_labeled(single_label, (60, 7))
    W = build_knn_graph(X, 6, sigma=sigma) if graph == "knn" else build_gaussian_graph(X, sigma)
    own = estimator(graph=graph, n_neighbors=6, sigma=sigma).fit(X, y)
    given = estimator().fit(X, y, affinity=W)
    np.testing.assert_allclose(own.projection_, given.projection_, atol=1e-9)
    assert given.sigma_ is None
    assert own.sigma_ > 0


@pytest.mark.parametrize("estimator", [DLE, MultiLabelDLE])
def test_cross_validation_picks_the_best_candidate_by_labeled_items_only(estimator):
    X, y, _ = half_labeled(single_label, (60, 7))
    model = estimator(sigma="cv", n_neighbors=5).fit(X, y)
    scale = estimator(n_neighbors=5).fit(X, y).sigma_
    np.testing.assert_allclose(min(abs(model.sigma_ / scale - np.array(SIGMA_FACTORS))), 0, atol=1e-12)
    fixed = estimator(sigma=model.sigma_, n_neighbors=5).fit(X, y)
    np.testing.assert_array_equal(fixed.projection_, model.projection_)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cross_validation_picks_the_sigma_with_the_best_held_out_score(seed):
    X, y = single_label(seed=seed)
    X, y = X + np.random.default_rng(seed).normal(0, 4, X.shape), np.where(np.arange(60) % 2, -1, y)
    family = graph_family(X, "knn", 5)
    scores = {}
    for factor in sorted(SIGMA_FACTORS, key=lambda f: abs(np.log(f))):
        right = []
        for train, test in stratified_folds(as_indicator(y).Y, 5, seed=0):
            hidden = y.copy()
            hidden[test] = -1
            Q = DLE(n_components=2).fit(X, hidden, family.weigh(factor * family.scale)).embedding_
            nearest = [train[((Q[i] - Q[train]) ** 2).sum(axis=1).argmin()] for i in test]
            right.append(np.mean(y[nearest] == y[test]))
        scores[factor * family.scale] = np.mean(right)
    assert len(set(scores.values())) > 1
    assert DLE(n_components=2, sigma="cv", n_neighbors=5).fit(X, y).sigma_ == max(scores, key=scores.get)


def test_cross_validation_with_very_few_labels_uses_the_scale():
    X, _ = multi_label()
    y = np.r_[0, 0, 1, np.full(57, -1)]
    assert DLE(sigma="cv").fit(X, y).sigma_ == DLE().fit(X, y).sigma_


def test_micro_f1_is_the_accuracy_of_classes():
    Y, P = as_indicator([0, 1, 2, 1]).Y, as_indicator([0, 1, 1, 2]).Y
    assert micro_f1_empty1(Y, P) == 0.5
    assert micro_f1_empty1(np.array([[1, 1]]), np.array([[1, 0]])) == 2 / 3
    assert micro_f1_empty1(np.zeros((1, 2), dtype=int), np.zeros((1, 2), dtype=int)) == 1.0


def test_unlabeled_items_get_the_labels_of_the_nearest_labeled_item():
    Y = np.array([[1, 0], [-1, -1], [0, 1], [-1, -1]])
    X = np.array([[0.0], [1.0], [10.0], [7.0]])
    for items in (X, sp.csr_array(X)):
        assert nearest_labels(items, as_indicator(Y)).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


@pytest.mark.filterwarnings("ignore:.* no link to any other")
def test_disconnected_graph_isolated_nodes_duplicates_constant_features_empty_labels():
    X, Y = multi_label(60, 6)
    X[:, 3] = 2.0
    X, Y = np.vstack([X, X[:10], X[:1] + 1e4]), np.vstack([Y, Y[:10], -np.ones((1, 4), dtype=np.int8)])
    Y[:, 2] = np.where(Y[:, 2] < 0, -1, 0)
    W = build_knn_graph(X, 3, sigma=1.0)
    for reading in "ufg":
        for objective in ("quotient", "balanced"):
            model = MultiLabelDLE(projection=reading, objective=objective).fit(X, Y, W)
            assert np.isfinite(model.embedding_).all()
            assert 1 <= model.embedding_.shape[1] <= 2


@pytest.mark.parametrize("estimator", [DLE, MultiLabelDLE])
def test_wide_sparse_items(estimator):
    X = sparse_items(40, 150, density=0.3)
    _, y = single_label(40)
    y[1::2] = -1
    sparse, dense = estimator(n_neighbors=5).fit(X, y), estimator(n_neighbors=5).fit(X.toarray(), y)
    np.testing.assert_allclose(projector(sparse.projection_), projector(dense.projection_), atol=1e-6)


def test_same_input_same_bytes():
    X, Y, _ = half_labeled(multi_label, (60, 7))
    assert MultiLabelDLE().fit(X, Y).projection_.tobytes() == MultiLabelDLE().fit(X, Y).projection_.tobytes()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"projection": "v"}, "projection='v' is not legal; choose one of u, f, g"),
        ({"objective": "sum"}, "objective='sum' is not legal"),
        ({"graph": "ring"}, "graph='ring' is not legal; choose one of knn, gaussian"),
        ({"sigma": "wide"}, "sigma='wide' is not legal"),
        ({"sigma": -1.0}, "sigma=-1.0 is not a positive number"),
        ({"beta": -1.0}, "beta=-1.0 is not legal"),
        ({"beta": "big"}, "beta='big' is not legal"),
        ({"beta": np.inf}, "beta=inf is not legal"),
        ({"correlation": "test"}, "correlation='test' is not legal; choose one of train, all"),
        ({"n_components": 9}, "n_components=9 exceeds K-1=3 for MultiLabelDLE"),
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
    ],
)
def test_bad_parameters_raise_clear_errors(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        MultiLabelDLE(**parameters).fit(*multi_label())


def test_bad_data_raise_clear_errors():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match=r"DLE takes exactly one class per item. Use MultiLabelDLE"):
        DLE().fit(X, Y)
    with pytest.raises(InvalidInput, match=r"Row 2 of y has 0 labels \(1 such rows\)"):
        DLE().fit(X[:4], [[1, 0], [0, 1], [0, 0], [-1, -1]])
    with pytest.raises(InvalidInput, match="links no two different items"):
        DLE().fit(X, np.arange(60) % 3, affinity=np.zeros((60, 60)))
    with pytest.raises(InvalidInput, match="not symmetric"):
        DLE().fit(X, np.arange(60) % 3, affinity=np.triu(np.ones((60, 60))))
    with pytest.raises(InvalidInput, match=r"shape \(3, 3\); expected \(60, 60\)"):
        MultiLabelDLE().fit(X, Y, affinity=np.ones((3, 3)))
