"""Affinity graphs against literal ones, degenerate input, and errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import (
    SIGMA_FACTORS,
    build_gaussian_graph,
    build_intersection_graph,
    build_knn_graph,
    choose_sigma,
    graph_family,
)
from embedding_core.graph.components import graph_components


def items(n: int = 40, p: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, p))


def literal_knn(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Adjacency of the union k-nearest-neighbor graph and all squared distances."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    linked = np.zeros(squared.shape, dtype=bool)
    for i in range(len(X)):
        others = [j for j in np.argsort(squared[i]) if j != i]
        linked[i, others[:k]] = True
    return linked | linked.T, squared


@pytest.mark.parametrize("weights", ["gaussian", "heat", "binary"])
@pytest.mark.parametrize("sigma", ["auto", 0.7])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("p", [3, 30])
def test_knn_graph_is_the_literal_one(weights, sigma, form, p):
    X = items(p=p)
    linked, squared = literal_knn(X, 4)
    s = squared[linked].mean() if sigma == "auto" else sigma
    expected = {"gaussian": np.exp(-squared / (2 * s)), "heat": np.exp(-squared / s), "binary": squared**0}
    W = build_knn_graph(form(X), 4, weights, sigma)
    np.testing.assert_allclose(W.toarray(), np.where(linked, expected[weights], 0.0), rtol=1e-12)
    np.testing.assert_array_equal(W.toarray(), W.toarray().T)
    assert W.format == "csr"


def histograms(n: int = 40, p: int = 12, seed: int = 0) -> np.ndarray:
    """Counts, some of them 0, whose sums are exact."""
    return np.random.default_rng(seed).poisson(1.5, size=(n, p)).astype(float)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("budget", [2e9, 24.0 * 40 * 3, 1.0])
def test_intersection_graph_is_the_literal_one(form, budget):
    """Also in blocks of three rows and of one, and with ties, which the lower index decides."""
    X = histograms()
    K = np.minimum(X[:, None], X[None]).sum(axis=2)
    linked = np.zeros(K.shape, dtype=bool)
    for i in range(len(X)):
        others = sorted((j for j in range(len(X)) if j != i), key=lambda j: (-K[i, j], j))
        linked[i, others[:4]] = True
    W = build_intersection_graph(form(X), 4, budget)
    np.testing.assert_array_equal(W.toarray(), np.where(linked | linked.T, K, 0.0))
    assert W.format == "csr"


def test_intersection_graph_has_no_sigma_and_needs_histograms():
    X = histograms()
    expected = build_intersection_graph(X, 4).toarray()
    for sigma in ("auto", 0.1, 7.0):
        np.testing.assert_array_equal(build_knn_graph(X, 4, "intersection", sigma).toarray(), expected)
    np.testing.assert_array_equal(build_intersection_graph(3 * X, 4).toarray(), 3 * expected)
    with pytest.raises(InvalidInput, match=r"not negative.*features\.scale=none"):
        build_intersection_graph(X - 1.0, 4)


def test_histograms_without_a_common_bin_are_not_linked():
    W = build_intersection_graph(np.kron(np.eye(2), np.ones((3, 2))), 4)
    np.testing.assert_array_equal(W.toarray(), np.kron(np.eye(2), 2 * (np.ones((3, 3)) - np.eye(3))))


def test_far_from_the_origin_the_graph_is_the_same():
    X = (items(p=30) * 1024).round() / 1024
    near, far = build_knn_graph(X), build_knn_graph(X + 2.0**30)
    np.testing.assert_allclose(far.toarray(), near.toarray(), rtol=1e-9)
    np.testing.assert_allclose(
        build_gaussian_graph(X + 2.0**30, 3.0), build_gaussian_graph(X, 3.0), rtol=1e-9
    )


def test_duplicates_are_linked_with_weight_one():
    X = np.repeat(items(5), 4, axis=0)
    W = build_knn_graph(X, 3).toarray()
    np.testing.assert_array_equal(W, np.kron(np.eye(5), np.ones((4, 4))) - np.eye(20))
    np.testing.assert_array_equal(build_knn_graph(np.ones((6, 2)), 2, sigma="auto").data, 1.0)


def test_underflowing_edges_vanish_and_leave_isolated_nodes():
    X = np.array([[0.0], [0.1], [0.2], [1e6]])
    W = build_knn_graph(X, 1, sigma=1.0)
    assert W.nnz == 4
    components = graph_components(W)
    assert sorted(components.sizes.tolist()) == [1, 3]


def test_too_many_neighbors_link_all_pairs_with_a_warning():
    with pytest.warns(UserWarning, match="only 4 other items for each of the 5 items: all pairs are linked"):
        W = build_knn_graph(items(5), 10, "binary")
    np.testing.assert_array_equal(W.toarray(), 1 - np.eye(5))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("sigma", ["auto", 2.5])
def test_gaussian_graph_follows_eq_17(form, sigma):
    X = items()
    squared = literal_knn(X, 1)[1]
    s = squared.sum() / (40 * 39) if sigma == "auto" else sigma
    np.testing.assert_allclose(
        build_gaussian_graph(form(X), sigma), np.exp(-squared / (2 * s)) - np.eye(40), atol=1e-13
    )


def test_gaussian_graph_is_refused_beyond_the_budget():
    with pytest.raises(
        InvalidInput, match=r"40 items needs 0.0 GB, the budget is 0.0 GB; use build_knn_graph, or raise mem"
    ):
        build_gaussian_graph(items(), 1.0, memory_budget_bytes=2 * 8 * 40 * 40 - 1)
    build_gaussian_graph(items(), 1.0, memory_budget_bytes=2 * 8 * 40 * 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
        ({"n_neighbors": 2.5}, "n_neighbors=2.5 is not legal"),
        ({"weights": "cosine"}, "weights='cosine' is not legal; choose one of gaussian"),
        ({"sigma": 0.0}, "sigma=0.0 is not a positive number"),
        ({"sigma": "wide"}, "sigma='wide' is not a positive number"),
        ({"sigma": np.nan}, "not a positive number"),
    ],
)
def test_bad_parameters_raise_clear_errors(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        build_knn_graph(items(), **arguments)


def test_bad_items_raise_clear_errors():
    X = items()
    X[3, 2] = np.nan
    with pytest.raises(InvalidInput, match="contains NaN"):
        build_knn_graph(X)
    with pytest.raises(InvalidInput, match="two or more items"):
        build_knn_graph(X[:1])


def test_components_of_separate_blocks():
    W = sp.block_diag([sp.coo_array(np.ones((3, 3))), np.ones((2, 2)), [[0]]], format="csr")
    components = graph_components(W)
    assert components.labels.tolist() == [0, 0, 0, 1, 1, 2]
    assert components.sizes.tolist() == [3, 2, 1]


@pytest.mark.parametrize("graph", ["knn", "gaussian"])
def test_family_returns_the_graph_of_every_sigma(graph):
    X = items()
    family = graph_family(X, graph, 4)
    build = (
        build_gaussian_graph if graph == "gaussian" else lambda X, sigma: build_knn_graph(X, 4, sigma=sigma)
    )
    for sigma in (0.5, 2.0):
        difference = family.weigh(sigma) - build(X, sigma)
        assert abs(difference).max() == 0
    assert abs(family.weigh(family.scale) - build(X, "auto")).max() == 0


def test_sigma_is_chosen_by_the_score_of_its_graph():
    family = graph_family(items(), "knn", 4)
    assert choose_sigma(family, 3, lambda W: 0.0) == 3.0
    assert choose_sigma(family, "auto", lambda W: 0.0) == family.scale
    largest = choose_sigma(family, "cv", lambda W: float(W.sum()))
    assert largest == max(SIGMA_FACTORS) * family.scale
    assert choose_sigma(family, "cv", lambda W: -float(W.sum())) == min(SIGMA_FACTORS) * family.scale
    assert choose_sigma(family, "cv", lambda W: 1.0) == family.scale
