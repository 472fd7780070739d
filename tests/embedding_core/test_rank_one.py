"""Rank-one updates of a diagonal matrix against dense decompositions."""

import numpy as np
import pytest
import scipy.linalg

from embedding_core.margin.lpssvm_solver import update_diagonal


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


def test_z_is_computed_again_from_the_roots(monkeypatch):
    # roots with an error of 1e-9, as of a looser solver: with the given z the vectors z / (d - mu) would lose
    # orthogonality by as much, with Löwner's z they are exact for a matrix nearby
    true = scipy.linalg.lapack.dlasd4

    def off(i, d, z, rho):
        delta, sigma, work, info = true(i, d, z, rho)
        shift = 1e-9 * np.abs(delta).min()
        return delta - shift, sigma + shift, work + shift, info

    rng = np.random.default_rng(0)
    d, z = np.cumsum(0.1 + rng.random(12)), rng.normal(size=12)
    monkeypatch.setattr("scipy.linalg.lapack.dlasd4", off)
    update = update_diagonal(d, z, 0.7)
    V = update.vectors(12)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=1e-13)
    literal = z[:, None] / update._gaps
    literal /= np.linalg.norm(literal, axis=0)
    assert np.abs(literal.T @ literal - np.eye(12)).max() > 1e-11
    S = np.diag(d) + 0.7 * np.outer(z, z)
    np.testing.assert_allclose(S @ V, V * update.values, atol=1e-7)
