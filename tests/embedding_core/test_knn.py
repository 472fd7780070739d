"""Nearest neighbors: exact, with ties broken by the lower index."""

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from embedding_core.graph import knn
from embedding_core.graph.knn import nearest_others


def literal(X, k):
    """Sort all other items by distance, then by index."""
    chosen = []
    for i, x in enumerate(X):
        squared = ((X - x) ** 2).sum(axis=1)
        others = [j for j in np.argsort(squared, kind="stable") if j != i]
        chosen.append(others[:k])
    return np.array(chosen)


def grid(seed, n=300):
    """Integers: many distances are equal and many items coincide."""
    return np.random.default_rng(seed).integers(0, 3, (n, 4)).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("k", [1, 5, 299])
def test_ties_are_broken_by_the_lower_index(form, k):
    for seed in range(3):
        X = grid(seed)
        np.testing.assert_array_equal(nearest_others(form(X), k), literal(X, k))


def test_different_distances_are_sorted():
    X = np.random.default_rng(0).normal(size=(200, 30)) + 1e4
    np.testing.assert_array_equal(nearest_others(X, 7), literal(X, 7))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_search_itself_finds_neighbors_far_from_0(form, monkeypatch):
    monkeypatch.setattr(knn, "_MOST_WORK", 0.0)  # ties are not resolved afterwards
    X = np.random.default_rng(0).normal(size=(200, 30)) + 2.0**26
    np.testing.assert_array_equal(nearest_others(form(X), 7), literal(X, 7))


def test_items_that_all_coincide():
    X = np.full((50, 3), 0.1)
    np.testing.assert_array_equal(nearest_others(X, 4), literal(X, 4))


@pytest.mark.slow
def test_the_number_of_threads_does_not_matter():
    X = np.random.default_rng(1).integers(0, 3, (3000, 20)).astype(float)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(nearest_others(X, 10))
    np.testing.assert_array_equal(*found)
