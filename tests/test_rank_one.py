"""Rank-one updates of a diagonal matrix against dense decompositions."""

import numpy as np
import pytest

from embedding_core.margin.rank_one import update_diagonal


@pytest.mark.parametrize("rho", [1.0, -1.0, 0.0, 1e3, -1e-6])
@pytest.mark.parametrize("spectrum", ["distinct", "ties", "one", "constant"])
def test_rank_one_update_is_the_dense_decomposition(rho, spectrum):
    rng = np.random.default_rng(0)
    d = {
        "distinct": np.sort(rng.random(40)),
        "ties": np.sort(rng.integers(0, 4, 40) / 2.0),
        "one": np.array([0.3]),
        "constant": np.full(5, 0.7),
    }[spectrum]
    z = rng.normal(size=len(d)) * 10.0 ** rng.integers(-9, 2, len(d))
    z[1::7] = 0.0
    S = np.diag(d) + rho * np.outer(z, z)
    update = update_diagonal(d, z, rho)
    V, scale = update.vectors(len(d)), max(np.abs(S).max(), 1.0)
    np.testing.assert_allclose(update.values, np.linalg.eigvalsh(S), atol=1e-11 * scale)
    np.testing.assert_allclose(V.T @ V, np.eye(len(d)), atol=1e-11)
    np.testing.assert_allclose(S @ V, V * update.values, atol=1e-11 * scale)
    np.testing.assert_array_equal(update.vectors(1), V[:, :1])


def test_rank_one_update_of_close_values_stays_orthogonal():
    d = 0.5 + 1e-13 * np.arange(30)
    update = update_diagonal(d, np.ones(30), 1e-9)
    V = update.vectors(30)
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-12)
