"""The check of a given graph: a right one is passed through as it is, any other goes the long way."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.supplied import check_affinity, check_given_graph
from tests.synthetic import multi_label


def graph():
    return build_knn_graph(multi_label()[0], 4)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
def test_a_right_graph_is_not_copied(form):
    W = form(graph())
    assert np.shares_memory(check_given_graph(W, 60).data, W.data)
    assert isinstance(check_given_graph(W, 60), sp.csr_array)


@pytest.mark.parametrize("form", [np.asarray, sp.coo_array, sp.csc_array, np.float32, "diagonal", "twice"])
def test_any_other_legal_graph_is_brought_into_form(form):
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
def test_wrong_graphs_are_named(W, message):
    with pytest.raises(InvalidInput, match=message):
        check_given_graph(sp.csr_array(W()), 60)
