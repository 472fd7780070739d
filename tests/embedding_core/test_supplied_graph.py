"""Supplied graphs: edge lists and affinity matrices are validated; a valid graph is not copied."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import (
    build_knn_graph,
)
from embedding_core.graph.supplied import check_affinity, check_given_graph, graph_edges, graph_from_edges
from tests.synthetic import multi_label


def items(n: int = 40, p: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, p))


def test_edges_are_symmetrized_and_repeated_ones_keep_the_largest_weight():
    W = graph_from_edges([0, 2, 1, 1, 3], [1, 1, 2, 0, 3], [1.0, 5.0, 2.0, 0.5, 9.0], 5)
    expected = np.zeros((5, 5))
    expected[0, 1] = expected[1, 0] = 1.0
    expected[1, 2] = expected[2, 1] = 5.0
    np.testing.assert_array_equal(W.toarray(), expected)
    np.testing.assert_array_equal(graph_from_edges([0], [1], None, 2).toarray(), [[0, 1], [1, 0]])
    assert graph_from_edges([], [], [], 3).nnz == 0


def test_edges_of_a_graph_rebuild_the_graph():
    W = build_knn_graph(items())
    i, j, w = graph_edges(W)
    assert (i < j).all()
    assert (i.dtype, w.dtype) == (np.int32, np.float64)
    np.testing.assert_array_equal(graph_from_edges(i, j, w, 40).toarray(), W.toarray())
    np.testing.assert_array_equal(graph_edges(W.toarray())[2], w)


@pytest.mark.parametrize(
    ("i", "j", "w", "message"),
    [
        ([0], [1], [-1.0], r"Edge 0 \(0, 1\) has weight -1.0"),
        ([0, 0], [1, 2], [1.0, np.nan], r"Edge 1 \(0, 2\) has weight nan"),
        ([0], [3], [1.0], r"j = 3 is outside 0..2"),
        ([-1], [0], [1.0], r"i = -1 is outside 0..2"),
        ([0.5], [1], [1.0], "expected integers"),
        ([0, 1], [1], [1.0], "2 starts, 1 ends and 1 weights"),
    ],
)
def test_bad_edges_raise_clear_errors(i, j, w, message):
    with pytest.raises(InvalidInput, match=message):
        graph_from_edges(i, j, w, 3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_check_affinity_drops_the_diagonal_of_a_copy(form):
    given = np.array([[7.0, 1, 0], [1, 7, 2], [0, 2, 7]])
    W = form(given.copy())
    checked = check_affinity(W, 3)
    expected = given - 7 * np.eye(3)
    np.testing.assert_array_equal(checked.toarray() if sp.issparse(checked) else checked, expected)
    np.testing.assert_array_equal(W.toarray() if sp.issparse(W) else W, given)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("W", "message"),
    [
        ([[0, 1.0], [2, 0]], r"not symmetric: \[0, 1\] = 1.0 but \[1, 0\] = 2.0; pass"),
        ([[0, -1.0], [-1, 0]], r"affinity\[0, 1\] = -1.0 is negative"),
        ([[0, np.nan], [np.nan, 0]], "affinity contains NaN"),
        (
            [[0, 1e300], [1e300, 0]],
            r"largest weight of the affinity is 1e\+300; expected 1e-200 to 1e\+200, .* Divide",
        ),
        ([[0, 1e-310], [1e-310, 0]], "largest weight of the affinity is 1e-310; expected"),
        ([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]], r"shape \(3, 3\); expected \(2, 2\)"),
    ],
)
def test_bad_affinities_raise_clear_errors(form, W, message):
    with pytest.raises(InvalidInput, match=message):
        check_affinity(form(np.array(W)), 2)


def graph():
    return build_knn_graph(multi_label()[0], 4)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
def test_a_valid_graph_is_not_copied(form):
    W = form(graph())
    assert np.shares_memory(check_given_graph(W, 60).data, W.data)
    assert isinstance(check_given_graph(W, 60), sp.csr_array)


@pytest.mark.parametrize("form", [np.asarray, sp.coo_array, sp.csc_array, np.float32, "diagonal", "twice"])
def test_other_legal_graphs_are_converted(form):
    W = graph()
    given = {
        "diagonal": sp.csr_array(W + sp.eye_array(60)),
        "twice": sp.csr_array((np.repeat(W.data / 2, 2), np.repeat(W.indices, 2), W.indptr * 2)),
    }.get(form if isinstance(form, str) else "", W)
    if not isinstance(form, str):
        given = W.toarray() if form is np.asarray else W.astype(form) if form is np.float32 else form(W)
    before = given.copy()
    found = check_given_graph(given, 60)
    expected = check_affinity(given, 60)
    dense = [M.toarray() if sp.issparse(M) else M for M in (found, expected, given, before)]
    np.testing.assert_array_equal(dense[0], dense[1])
    np.testing.assert_array_equal(dense[2], dense[3])
    np.testing.assert_array_equal(np.diag(dense[0]), 0.0)


def change(i, j, w):
    W = graph().tolil()
    W[i, j] = w
    return sp.csr_array(W.tocsr())


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (lambda: change(0, 1, 7.0), "not symmetric"),
        (
            lambda: graph() + change(0, 0, 0.0) * sp.random_array((60, 60), density=0.5, rng=0),
            "not symmetric",
        ),
        (lambda: change(3, 4, -1.0), "is negative"),
        (lambda: change(3, 4, np.nan), "NaN"),
        (lambda: change(3, 4, np.inf), "infinity"),
        (lambda: 1e307 * graph(), "largest weight of the affinity is"),
        (lambda: 1e-310 * graph(), "largest weight of the affinity is"),
        (lambda: graph()[:50, :50], r"shape \(50, 50\)"),
    ],
)
def test_invalid_graphs_raise_clear_errors(W, message):
    with pytest.raises(InvalidInput, match=message):
        check_given_graph(sp.csr_array(W()), 60)
