"""MLDA through the Gram matrix against p x p matrices, on data of less than full rank too."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core import MLDA
from embedding_core.discriminant.mlda import solve_by_gram
from embedding_core.labels import LABEL_WEIGHTS, as_indicator, label_weights
from embedding_core.linalg import row_blocks
from tests.synthetic import literal_scatter, multi_label, positive_power, single_label, sparse_items


def assert_solves(X, Z, rank):
    """S_w^+ S_b v = lambda v with v^T S_w v = 1, and no eigenvalue is missing."""
    solution = solve_by_gram(X, Z)
    G, values = solution.projection, solution.eigenvalues
    S_b, S_w, _ = literal_scatter(X.toarray().astype(np.float64), Z)
    M = positive_power(S_w, -1) @ S_b
    assert G.shape == (X.shape[1], rank)
    np.testing.assert_allclose(M @ G, G * values, atol=1e-7 * np.abs(G * values).max())
    np.testing.assert_allclose(G.T @ S_w @ G, np.eye(rank), atol=1e-7)
    np.testing.assert_allclose(values, np.sort(np.linalg.eigvals(M).real)[::-1][:rank], rtol=1e-6)


@pytest.mark.parametrize("weights", LABEL_WEIGHTS)
@pytest.mark.parametrize("p", [41, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_solves_the_eigenproblem(monkeypatch, weights, p, dtype):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 7)
    _, Y = multi_label(40)
    assert_solves(sparse_items(40, p, density=0.3).astype(dtype), label_weights(Y, weights), 3)


def test_single_labels_leave_s_w_the_rank_n_minus_k():
    _, y = single_label(40)
    assert_solves(sparse_items(40, 150, density=0.3), label_weights(as_indicator(y).Y), 3)


def test_repeated_rows_labels_alike_and_items_of_no_words():
    X = sparse_items(40, 150, density=0.3)
    _, Y = multi_label(40, K=5)
    Y[:, 4] = Y[:, 0]
    X = sp.csr_array(sp.vstack([X, X[:9], 0 * X[:2]]))
    assert_solves(X, label_weights(np.vstack([Y, Y[:9], Y[:2]]), "binary"), 3)


def test_items_in_few_dimensions():
    X = sp.csr_array(sparse_items(40, 3, density=0.8) @ sparse_items(3, 90, seed=1, density=0.5))
    assert_solves(X, label_weights(multi_label(40)[1]), 3)
    X = sp.csr_array(sparse_items(40, 2, density=0.8) @ sparse_items(2, 90, seed=1, density=0.5))
    assert_solves(X, label_weights(multi_label(40)[1]), 2)


@pytest.mark.parametrize("factor", [1.0, 1e-12, 1e12])
def test_no_scatter_within_classes_gives_no_direction(factor):
    X, y = sparse_items(4, 90, density=0.5) * factor, np.arange(4)
    assert solve_by_gram(X, label_weights(as_indicator(y).Y)).projection.shape == (90, 0)
    twice = sp.csr_array(sp.vstack([X, X]))
    assert solve_by_gram(twice, label_weights(as_indicator(np.r_[y, y]).Y)).projection.shape == (90, 0)


def test_weights_hidden_items_and_same_bytes():
    X, (_, Y) = sparse_items(60, 150, density=0.3), multi_label(60)
    Y[::5] = -1
    s = np.random.default_rng(0).integers(0, 3, 60)
    sparse = MLDA(scaling="within").fit(X, Y, sample_weight=s)
    dense = MLDA(scaling="within").fit(X.toarray(), Y, sample_weight=s)
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(sparse.projection_, dense.projection_, atol=1e-8)
    np.testing.assert_allclose(sparse.mean_, dense.mean_)
    again = MLDA(scaling="within").fit(X, Y, sample_weight=s)
    assert again.projection_.tobytes() == sparse.projection_.tobytes()


def test_no_p_by_p_matrix_is_made():
    p = 6000
    X, (_, Y) = sparse_items(50, p, density=0.01), multi_label(50)
    MLDA().fit(X, Y)  # imports
    tracemalloc.start()
    MLDA().fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < p * p / 8
