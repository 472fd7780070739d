"""Kernel values: the same for all forms of items, exact where required."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.linalg.kernel_space import KERNELS, Kernel, place_by_kernel, rbf_values, resolve_gamma
from tests.synthetic import sparse_items

FORMS = [np.asarray, sp.csr_array]


def items(n=30, seed=0):
    return sparse_items(n, 6, density=0.5, seed=seed).toarray()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("form_of_items", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rbf_values_by_pairs(form, form_of_items, dtype):
    X, Z = items().astype(dtype), items(12, seed=1).astype(dtype)
    squared = ((X[:, None].astype(float) - Z) ** 2).sum(axis=2)
    found = rbf_values(form(X), form_of_items(Z), 0.3)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.exp(-0.3 * squared), atol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_rbf_of_an_item_with_itself_is_one(form):
    X = form(np.random.default_rng(0).normal(size=(300, 40)) * 10)
    K = rbf_values(X, X, 1e-3)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(K.diagonal(), 1.0)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("form_of_items", [np.asarray, sp.csr_array])
def test_rbf_values_far_from_the_origin(form, form_of_items):
    far = items() + 2.0**26
    far[:, 1] *= np.arange(len(far)) != 3  # one zero: this column of sparse items is not shifted
    far[:, 1] /= 2.0**26
    near = far - 2.0**26 * (np.arange(far.shape[1]) != 1)
    found = rbf_values(form(far), form_of_items(far[:9]), 0.3)
    np.testing.assert_allclose(found, rbf_values(near, near[:9], 0.3), atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_positions_are_sums_of_kernel_values_block_by_block(name, monkeypatch):
    kernel, X = Kernel(name, 0.3), np.abs(items())
    given = X @ X.T if name == "precomputed" else X
    rows = np.arange(0, 30, 3)
    support, a = kernel.take(given, rows), np.random.default_rng(0).normal(size=(10, 2))
    values = {
        "rbf": np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2)),
        "intersection": np.minimum(X[:, None], X).sum(axis=2),
    }.get(name, X @ X.T)
    expected = values[:, rows] @ a
    for block in (10**6, 40):
        monkeypatch.setattr("embedding_core.linalg.kernel_space.BLOCK_VALUES", block)
        np.testing.assert_allclose(place_by_kernel(kernel, given, support, a), expected, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gamma_scale_is_that_of_support_vector_machines(form):
    X = items()
    assert resolve_gamma(form(X), "scale") == pytest.approx(1 / (6 * X.var()))
    assert resolve_gamma(form(X), 2) == 2.0
    assert resolve_gamma(form(np.ones((4, 2))), "scale") == 1.0
