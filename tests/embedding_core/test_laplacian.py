"""Laplacians as operators against n x n matrices; the label graph of multi-label DLE."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from embedding_core.graph import laplacian as laplacian_module
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.laplacian import GraphLaplacian, balance_beta, label_affinity
from embedding_core.labels import label_correlation
from embedding_core.linalg import row_blocks
from tests.synthetic import literal_laplacian, multi_label, sparse_items


def problem(n: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, Y = multi_label(n)
    Y[4] = 0
    return X, Y, label_correlation(Y)


def literal_label_graph(Y: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Eq. 18 of DLE, pair by pair; an item without labels has no links."""
    W = np.zeros((len(Y), len(Y)))
    for i, a in enumerate(Y.astype(float)):
        for j, b in enumerate(Y.astype(float)):
            if a.any() and b.any():
                W[i, j] = a @ C @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    return W


def test_label_affinity_is_eq_18():
    _, Y, C = problem()
    labels, W = label_affinity(Y, C), literal_label_graph(Y, C)
    V = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(labels.apply(V), W @ V, atol=1e-12)
    np.testing.assert_allclose(labels.degree, W.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(labels.off_diagonal_sum, W.sum() - np.trace(W))


def test_beta_balances_the_off_diagonal_sums():
    X, Y, C = problem()
    W_X, W_L = build_knn_graph(X), literal_label_graph(Y, C)
    beta = balance_beta(W_X, label_affinity(Y, C))
    np.testing.assert_allclose(beta * (W_L.sum() - np.trace(W_L)), W_X.sum())
    np.testing.assert_allclose(balance_beta(W_X.toarray() + np.eye(50), label_affinity(Y, C)), beta)
    assert balance_beta(W_X, label_affinity(np.zeros((50, 3)), np.eye(3))) == 0.0


@pytest.mark.parametrize("graph", ["sparse", "dense"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_operator_is_the_matrix(graph, beta):
    X, Y, C = problem()
    W = build_knn_graph(X)
    L = GraphLaplacian(W if graph == "sparse" else W.toarray(), label_affinity(Y, C), beta)
    expected = literal_laplacian(W.toarray() + beta * literal_label_graph(Y, C))
    np.testing.assert_allclose(L @ np.eye(50), expected, atol=1e-12)
    np.testing.assert_allclose(L @ X[:, 0], expected @ X[:, 0], atol=1e-11)
    np.testing.assert_allclose(L.T @ X, expected @ X, atol=1e-11)
    np.testing.assert_allclose(L @ np.ones(50), 0.0, atol=1e-12)
    largest = eigsh(L, k=1, return_eigenvectors=False)
    np.testing.assert_allclose(largest[0], np.linalg.eigvalsh(expected)[-1])


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sparse", "dense"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("form", ["dense", "float32", "csr_array", "csr_matrix"])
def test_quadratic_form_is_the_matrix_product(graph, beta, form):
    _, Y, C = problem()
    S = sparse_items(50, 9, density=0.4)
    dense = S.toarray()
    X = {
        "dense": dense,
        "float32": dense.astype(np.float32),
        "csr_array": S,
        "csr_matrix": sp.csr_matrix(S),
    }[form]
    W = build_knn_graph(dense)
    L = GraphLaplacian(W if graph == "sparse" else W.toarray(), label_affinity(Y, C), beta)
    expected = dense.T @ literal_laplacian(W.toarray() + beta * literal_label_graph(Y, C)) @ dense
    A = L.quadratic(X)
    np.testing.assert_allclose(A, expected, atol=1e-5 if form == "float32" else 1e-11)
    np.testing.assert_array_equal(A, A.T)


def test_quadratic_form_measures_the_linked_differences():
    # Eq. 6: q^T (D - W) q = 1/2 sum_ij W_ij (q_i - q_j)^2
    X, _, _ = problem()
    W = build_knn_graph(X).toarray()
    expected = sum(W[i, j] * np.outer(X[i] - X[j], X[i] - X[j]) for i in range(50) for j in range(50)) / 2
    np.testing.assert_allclose(GraphLaplacian(W).quadratic(X), expected, atol=1e-11)


def test_blocks_and_a_distant_origin_change_nothing(monkeypatch):
    X, Y, C = problem()
    X = (X * 64).round() / 64
    L = GraphLaplacian(build_knn_graph(X), label_affinity(Y, C), 0.3)
    whole = L.quadratic(X)
    np.testing.assert_allclose(L.quadratic(X + 2.0**36), whole, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 7)
    monkeypatch.setattr(laplacian_module, "_BLOCK_COLUMNS", 2)
    np.testing.assert_allclose(L.quadratic(X), whole, atol=1e-11)
