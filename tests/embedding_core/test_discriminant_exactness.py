"""MLDA, DLE and discriminative projections solve the papers' problems on odd data, in every form.

Residuals in matrices written out item by item, over dense and sparse, float32 and float64, p < n and p > n.
"""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from embedding_core import DLE, MLDA, MultiLabelDLE
from embedding_core.labels import LABEL_WEIGHTS, as_indicator, label_weights
from embedding_core.linalg import eigen, row_blocks
from embedding_core.linalg.eigen import fix_signs
from tests.literal_discriminant import connected_graph, inverse_root, jacobi, literal_dle, literal_label_graph
from tests.literal_projections import DP, columns, eigenvalues_in_range, paired_matrices
from tests.odd_data import FORMS, SHAPES, odd_data, over_all_data
from tests.synthetic import (
    literal_laplacian,
    literal_scatter,
    multi_label,
    positive_power,
    projector,
    single_label,
    sparse_items,
)


def assert_eigenpairs(M, V, values):
    """M V = V diag(values), and these are the largest eigenvalues of M, all that are not zero."""
    scale = np.abs(V * values).max()
    np.testing.assert_allclose(M @ V, V * values, atol=1e-6 * scale)
    expected = np.sort(np.linalg.eigvals(M).real)[::-1]
    np.testing.assert_allclose(values, expected[: len(values)], rtol=1e-5, atol=1e-9 * expected[0])
    assert expected[len(values)] < 1e-7 * expected[0]


@over_all_data
@pytest.mark.parametrize("weights", LABEL_WEIGHTS)
def test_mlda(kind, shape, dtype, form, weights):
    X, Y, _ = odd_data(kind, shape, dtype)
    model = MLDA(weights=weights, scaling="within").fit(FORMS[form](X), Y)
    labeled = Y[:, 0] >= 0
    S_b, S_w, S_t = literal_scatter(X[labeled].astype(float), label_weights(Y[labeled], weights))
    np.testing.assert_allclose(S_b + S_w, S_t, atol=1e-10 * np.abs(S_t).max())
    G = model.projection_
    assert_eigenpairs(positive_power(S_w, -1) @ S_b, G, model.eigenvalues_)
    np.testing.assert_allclose(G.T @ S_w @ G, np.eye(G.shape[1]), atol=1e-6)


@over_all_data
@pytest.mark.filterwarnings("ignore:The graph has 2 components")
def test_multi_label_dle(kind, shape, dtype, form):
    X, Y, W = odd_data(kind, shape, dtype)
    for beta in (0.0, "auto"):
        model = MultiLabelDLE(beta=beta).fit(FORMS[form](X), Y, FORMS[form](W))
        W_L, _ = literal_label_graph(X.astype(float), Y, "train")
        expected, values, M = literal_dle(
            X.astype(float), np.maximum(Y, 0).astype(float), W + model.beta_ * W_L
        )
        U, r = model.projection_, model.projection_.shape[1]
        np.testing.assert_allclose(model.eigenvalues_, values[:r], rtol=1e-5)
        assert (values[r:] < 1e-7 * values[0]).all()
        np.testing.assert_allclose(projector(U), projector(expected["u"][:, :r]), atol=1e-5)
        np.testing.assert_allclose(M @ U, U * model.eigenvalues_, atol=1e-5 * values[0])
        np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-7)


@pytest.mark.slow
@over_all_data
@pytest.mark.filterwarnings("ignore:The graph has 2 components")
def test_every_reading_of_dle(kind, shape, dtype, form):
    X, Y, W = odd_data(kind, shape, dtype)
    y = np.where(Y[:, 0] >= 0, Y.argmax(axis=1), -1)
    Z = np.where(y[:, None] == np.unique(y[y >= 0]), 1.0, 0.0)
    expected, values, _ = literal_dle(X.astype(float), Z, W)
    U = DLE().fit(FORMS[form](X), y, FORMS[form](W)).projection_
    turn = np.linalg.lstsq(expected["u"], U)[0]  # signs
    for projection in "ufg":
        model = DLE(projection=projection).fit(FORMS[form](X), y, FORMS[form](W))
        np.testing.assert_allclose(model.eigenvalues_, values[: U.shape[1]], rtol=1e-5)
        same = fix_signs(expected[projection] @ turn)
        np.testing.assert_allclose(model.projection_, same, atol=1e-5 * np.abs(same).max())
    model = DLE(objective="balanced").fit(FORMS[form](X), y, FORMS[form](W))
    S_b, S_w, _ = literal_scatter(X.astype(float), Z)
    A = X.T.astype(float) @ literal_laplacian(W) @ X
    B = S_w / np.trace(S_w) + A / np.trace(A)
    V = model.projection_
    assert_eigenpairs(positive_power(B, -1) @ S_b, V, model.eigenvalues_)
    np.testing.assert_allclose(V.T @ B @ V, np.eye(V.shape[1]), atol=1e-6)


@over_all_data
def test_discriminative_projections(kind, shape, dtype, form):
    X, Y, W = odd_data(kind, shape, dtype)
    model = DP(mu=0.3, scaling="natural", n_components=5).fit(FORMS[form](X), Y, FORMS[form](W))
    used = (Y == 1).any(axis=0)
    A, B, C = paired_matrices(X.astype(float), Y[:, used], W, 0.3)
    gamma = np.delete(columns(model), X.shape[1] + np.flatnonzero(~used), axis=0)
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues_in_range(A + C, B + C)[:5], atol=1e-7)
    np.testing.assert_allclose(gamma.T @ (B + C) @ gamma, np.eye(5), atol=1e-6)
    residual = (A + C) @ gamma - (B + C) @ gamma * model.eigenvalues_
    assert np.abs(residual).max() < 1e-6 * np.abs((B + C) @ gamma).max()


ONE_OF_EACH = [
    MLDA(),
    DLE(),
    DLE(objective="balanced"),
    DP(mu=0.3, n_components=3),
    DP(mu=0.0, n_components=2),
]


@pytest.mark.parametrize("ratio", [1.0, 1e4, 3e7, 1e10])
@pytest.mark.parametrize("model", ONE_OF_EACH, ids=repr)
def test_a_dependent_feature_removes_no_other_at_any_scale(model, ratio):
    # (c, 1 - c) is one coordinate, sqrt(2) c, of an orthonormal basis: nothing else changes
    X, y = single_label(60, 5)
    W = connected_graph(X)
    y[2::3] = -1
    X[:, 0] *= ratio
    c = X[:, 4] > 0
    plain = clone(model).fit(np.column_stack([X[:, :4], np.sqrt(2) * c]), y, W)
    wider = clone(model).fit(np.column_stack([X[:, :4], c, ~c]), y, W)
    np.testing.assert_allclose(wider.eigenvalues_, plain.eigenvalues_, rtol=1e-6)
    Q, expected = (m.embedding_ - m.embedding_.mean(axis=0) for m in (wider, plain))
    np.testing.assert_allclose(Q @ Q.T, expected @ expected.T, atol=1e-5 * np.abs(expected).max() ** 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ratio", [1.0, 1e4, 1e6, 1e8, 1e10])
def test_eq_2_of_dle_holds_for_features_of_very_different_scales(ratio, form):
    X, y = single_label(60, 4)
    X = (X - X.mean(axis=0)) * ratio ** np.array([1, 0, 2 / 3, 1 / 3])
    W = connected_graph(X)
    S_b, S_w, _ = (S.astype(np.longdouble) for S in literal_scatter(X, as_indicator(y).Y.astype(float)))
    S_root, A_root = inverse_root(S_w), inverse_root(X.T @ literal_laplacian(W) @ X)
    values, U = jacobi(A_root @ S_root @ S_b @ S_root @ A_root)
    for projection, root in (("u", np.eye(4)), ("f", A_root), ("g", S_root @ A_root)):
        model = DLE(projection=projection).fit(FORMS[form](X), y, FORMS[form](W))
        np.testing.assert_allclose(model.eigenvalues_, values[:3].astype(float), rtol=1e-6)
        expected = fix_signs((root @ U[:, :3]).astype(float))
        np.testing.assert_allclose(model.projection_, expected, atol=1e-6 * np.abs(expected).max())


def sparse_chain(n):
    i = np.arange(n - 1)
    half = sp.coo_array((np.ones(n - 1), (i, i + 1)), shape=(n, n))
    return sp.csr_array(half + half.T)


def peak_of(run):
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("model", [MLDA(), MultiLabelDLE(), DP(), DP(kernel="rbf", landmarks=8)], ids=repr)
def test_tall_items_need_no_n_by_n_matrix(model):
    n = 6000
    X, Y = multi_label(n, 5)
    model.fit(X[:80], Y[:80], sparse_chain(80))  # imports
    assert peak_of(lambda: model.fit(X, Y, sparse_chain(n))) < n * n / 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "matrices"), [({}, 3.7), ({"projection": "g"}, 4.7), ({"objective": "balanced"}, 5.5)]
)
def test_wide_items_need_few_n_by_n_matrices_and_no_p_by_p_one(monkeypatch, parameters, matrices):
    monkeypatch.setattr(
        row_blocks, "BLOCK_ROWS", 40
    )  # blocks that are small relative to the data, as in real use
    monkeypatch.setattr(eigen, "BLOCK_ROWS", 40)
    n, p = 500, 6000
    X, Y = sparse_items(n, p, density=0.02), multi_label(n)[1]
    model = MultiLabelDLE(beta=0.1, **parameters)
    model.fit(X[:80], Y[:80], sparse_chain(80))
    assert peak_of(lambda: model.fit(X, Y, sparse_chain(n))) < matrices * 8 * n * n


def class_graph(y):
    """1 / n_k between items of one class: its X^T L X is S_w."""
    same = (y[:, None] == y) & (y >= 0)
    return same / np.maximum(same.sum(axis=1, keepdims=True), 1)


@pytest.mark.parametrize("form", FORMS)
def test_on_the_graph_of_classes_balanced_dle_is_lda(form):
    X, y = single_label(80)
    _, S_w, S_t = literal_scatter(X, as_indicator(y).Y.astype(float))
    np.testing.assert_allclose(X.T @ literal_laplacian(class_graph(y)) @ X, S_w, atol=1e-10)
    G = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :3]
    for W in (class_graph(y), np.full((80, 80), 1 / 80)):  # the complete graph has A = S_t
        V = DLE(objective="balanced").fit(FORMS[form](X), y, W).projection_
        cosines = np.einsum("ij,ij->j", V, G) / (np.linalg.norm(V, axis=0) * np.linalg.norm(G, axis=0))
        np.testing.assert_allclose(np.abs(cosines), 1.0, atol=1e-9)
    np.testing.assert_allclose(X.T @ literal_laplacian(np.full((80, 80), 1 / 80)) @ X, S_t, atol=1e-10)


def test_on_white_items_and_the_complete_graph_dle_is_lda_of_unit_columns():
    # A = S_t = I: Eq. 2 is S_w^(-1/2) S_b S_w^(-1/2), and S_b, S_w = I - S_b commute
    X, y = single_label(80)
    S_t = literal_scatter(X, as_indicator(y).Y.astype(float))[2]
    X = (X - X.mean(axis=0)) @ positive_power(S_t, -0.5)
    G = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :3]
    for projection in "ufg":
        V = DLE(projection=projection).fit(X, y, np.full((80, 80), 1 / 80)).projection_
        cosines = np.einsum("ij,ij->j", V, G) / (np.linalg.norm(V, axis=0) * np.linalg.norm(G, axis=0))
        np.testing.assert_allclose(np.abs(cosines), 1.0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_a_disconnected_graph_removes_directions_of_wide_data_with_a_warning(form):
    X, y = single_label(24, 33)
    W = class_graph(y) - np.diag(np.diag(class_graph(y)))
    A = X.T @ literal_laplacian(W) @ X
    assert np.linalg.matrix_rank(A) == 24 - 4
    with pytest.warns(UserWarning, match=r"The graph has 4 components \(sizes .*\) and X 33 features for 24"):
        U = DLE().fit(FORMS[form](X), y, W).projection_
    np.testing.assert_allclose(positive_power(A, 0) @ U, U, atol=1e-8)
    DLE(objective="balanced").fit(FORMS[form](X), y, W)  # uses S_w in addition to A
    MultiLabelDLE(beta=1.0).fit(
        FORMS[form](X), np.column_stack([y == 0, y != 0, y < 9]), W
    )  # linked by labels
    W[0, y != y[0]] = W[y != y[0], 0] = 0.1
    assert np.linalg.matrix_rank(X.T @ literal_laplacian(W) @ X) == 24 - 1
    DLE().fit(FORMS[form](X), y, W)
    tall, y = single_label(80)
    DLE().fit(FORMS[form](tall), y, class_graph(y))  # A has full rank: nothing is lost


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e6, 1e9])
@pytest.mark.parametrize("columns", [[0], [0, 4], slice(None)], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", [*ONE_OF_EACH[:4], MultiLabelDLE(beta=0.5)], ids=repr)
def test_sparse_items_far_from_0_are_solved_like_dense_ones(model, shape, columns, offset):
    X, y = single_label(*shape)
    W = connected_graph(X)
    X[:, 1:4] = np.maximum(X[:, 1:4], 0)
    X[:, columns] += offset
    y[2::3] = -1
    sparse, dense = (clone(model).fit(form(X), y, form(W)) for form in (sp.csr_array, np.asarray))
    assert len(sparse.eigenvalues_) == 3  # K - 1
    # the differences of the items themselves have no more digits
    left = 1e-8 + 1e2 * eigen.EPS * offset
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=left, atol=left * 1e-3)
    np.testing.assert_allclose(projector(sparse.projection_), projector(dense.projection_), atol=10 * left)
    if isinstance(model, MLDA):
        np.testing.assert_allclose(sparse.mean_, dense.mean_, rtol=1e-12, atol=1e-12)
