"""Solvers: pseudo-inverses, thin SVD, row space, signs."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.linalg.conditioning import EPS
from embedding_core.linalg.eigen import (
    compress_factor,
    fix_signs,
    pivoted_cholesky,
    positive_part,
    row_space,
    thin_svd,
    whitening,
)
from tests.synthetic import positive_power, sparse_items


def random_psd(d: int, rank: int, seed: int = 0) -> np.ndarray:
    B = np.random.default_rng(seed).normal(size=(d, rank))
    return B @ B.T


@pytest.mark.parametrize("rank", [3, 8])
def test_positive_part_gives_rank_root_and_pseudo_inverse(rank):
    S = random_psd(8, rank)
    part = positive_part(S)
    assert part.rank == rank
    assert (np.diff(part.values) <= 0).all()
    root = part.inverse_root(np.eye(8))
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    np.testing.assert_allclose(root @ root, np.linalg.pinv(S, rcond=1e-10), atol=1e-9)
    np.testing.assert_allclose(
        part.whiten(np.eye(8)) @ S @ part.unwhiten(np.eye(rank)), np.eye(rank), atol=1e-10
    )


def test_positive_part_of_zero_is_empty():
    assert positive_part(np.zeros((4, 4))).rank == 0
    assert whitening(np.zeros((4, 4))).rank == 0
    assert whitening(np.zeros((4, 4))).unwhiten(np.zeros((0, 0))).shape == (4, 0)
    assert positive_part(np.zeros((0, 0))).rank == 0


@pytest.mark.parametrize("rank", [3, 8])
@pytest.mark.parametrize("scale_free", [True, False])
def test_whitening_is_a_root_of_the_pseudo_inverse(rank, scale_free):
    S = random_psd(8, rank)
    before = S.copy()
    white = whitening(S, scale_free)
    assert white.rank == rank
    T = white.unwhiten(np.eye(rank))
    np.testing.assert_allclose(T @ T.T, np.linalg.pinv(S, rcond=1e-10), atol=1e-9)
    np.testing.assert_allclose(T.T @ S @ T, np.eye(rank), atol=1e-10)
    np.testing.assert_allclose(white.whiten(np.eye(8)), T.T, atol=1e-12)
    np.testing.assert_array_equal(S, before)


def test_whitening_keeps_features_of_very_different_scales_and_drops_constant_ones():
    S = random_psd(6, 6)
    S[2], S[:, 2] = 0, 0
    d = 10.0 ** np.array([-9, -6, 0, 3, 6, 9])
    white = whitening(S * np.outer(d, d))
    assert white.rank == 5
    T = d[:, None] * white.unwhiten(np.eye(5))
    np.testing.assert_allclose(T @ T.T, np.linalg.pinv(S, rcond=1e-10), atol=1e-8)


def exact_pseudo_inverse(B):
    """(B B^T)^+ = N N^T, N = B (B^T B)^(-1), in rational numbers, for B (d, r) of full column rank."""
    B = [[Fraction(x) for x in row] for row in B.tolist()]
    r = len(B[0])
    rows = [[sum(b[i] * b[j] for b in B) for j in range(r)] + [b[i] for b in B] for i in range(r)]
    for i in range(r):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in set(range(r)) - {i}:
            rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    N = [row[r:] for row in rows]
    return np.array([[float(sum(n[i] * n[j] for n in N)) for j in range(len(B))] for i in range(len(B))])


@pytest.mark.parametrize("rank", [4, 6])
@pytest.mark.parametrize("exponent", [0, 10, 20, 30, 40])
def test_whitening_of_features_of_very_different_scales_is_accurate(rank, exponent):
    # Rounding the large rows of a factor of dependent features moves the small ones.
    accuracy = 1e-9 if rank == 6 else max(1e-9, 100 * EPS * 2.0**exponent)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        B = np.tril(rng.integers(-3, 4, (6, rank)), -1) + np.eye(6, rank)
        B[rank:] = B[rng.permutation(rank)[: 6 - rank]] - B[: 6 - rank]
        B *= 2.0 ** rng.permutation(np.linspace(0, exponent, 6).round())[:, None]
        white = whitening(B @ B.T)  # without rounding: integers, powers of 2
        assert white.rank == rank
        unit = np.linalg.norm(B, axis=1)
        expected = exact_pseudo_inverse(B) * np.outer(unit, unit)
        for T in (white.unwhiten(np.eye(rank)), white.whiten(np.eye(6)).T):
            np.testing.assert_allclose(
                np.outer(unit, unit) * (T @ T.T), expected, atol=accuracy * expected.max()
            )


@pytest.mark.parametrize("rank", [4, 6])
@pytest.mark.parametrize("exponent", [0, 10, 30, 40])
def test_positive_part_of_features_of_very_different_scales_keeps_all(rank, exponent):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        scale = 2.0 ** rng.permutation(np.linspace(0, exponent, 7).round())
        S = random_psd(7, rank, seed) * np.outer(scale, scale)
        S[3], S[:, 3] = 0, 0
        unit = np.sqrt(np.diag(S))
        part = positive_part(S.copy(), overwrite=True, unit=unit)
        assert part.rank == rank
        assert (np.diff(part.values) <= 0).all()
        E = part.vectors
        np.testing.assert_allclose(E.T @ E, np.eye(rank), atol=1e-13)
        np.testing.assert_allclose(E[3], 0, atol=1e-12)
        same, length = (E * part.values) @ E.T, np.where(unit > 0, unit, 1)  # relative to the scales
        np.testing.assert_allclose((same - S) / np.outer(length, length), 0, atol=1e-7)
        assert positive_part(S, unit=unit, least=10 * S.max()).rank == 0


@pytest.mark.parametrize("rank", [0, 3, 8])
def test_pivoted_cholesky_reveals_the_rank(rank):
    S = random_psd(8, rank)
    C, order = pivoted_cholesky(S.copy())
    assert C.shape == (8, rank)
    np.testing.assert_allclose(C @ C.T, S[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_array_equal(np.triu(C, 1), 0.0)


def test_thin_svd_gives_the_eigenpairs_of_the_square():
    N = np.random.default_rng(0).normal(size=(9, 2)) @ np.random.default_rng(1).normal(size=(2, 4))
    U, values = thin_svd(N)
    assert U.shape == (9, 2)
    np.testing.assert_allclose(N @ N.T @ U, U * values, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(2), atol=1e-14)
    assert thin_svd(np.zeros((3, 2)))[0].shape == (3, 0)
    assert thin_svd(np.zeros((0, 2)))[0].shape == (0, 0)
    assert thin_svd(np.full((3, 1), 1e-13), floor=1e-11)[0].shape == (3, 0)


def test_compressed_factor_has_full_rank_and_the_same_square():
    rng = np.random.default_rng(0)
    H = rng.normal(size=(7, 2)) @ rng.normal(size=(2, 5))
    compressed = compress_factor(H, np.eye(7))
    assert compressed.shape == (7, 2)
    np.testing.assert_allclose(compressed @ compressed.T, H @ H.T, atol=1e-12)


def test_rounding_errors_are_not_a_class_difference():
    H = np.random.default_rng(0).normal(size=(7, 2)) * 1e-14
    assert compress_factor(H, np.eye(7)).shape == (7, 0)


def test_k_centered_class_means_have_rank_k_minus_1_despite_rounding():
    H = np.random.default_rng(0).normal(size=(7, 4))
    H[:, 3] = -H[:, 1] - H[:, 2] + 1e-9 * H[:, 3]  # above the threshold for rounding errors
    H[:, 0] = 0  # a class without items
    assert compress_factor(H, np.eye(7)).shape == (7, 2)
    assert compress_factor(np.zeros((7, 3)), np.eye(7)).shape == (7, 0)


def test_signs_are_fixed_by_the_largest_entry():
    V = np.array([[0.1, 2.0], [-3.0, 1.0]])
    np.testing.assert_array_equal(fix_signs(V), [[-0.1, 2.0], [3.0, 1.0]])
    np.testing.assert_array_equal(fix_signs(-V), fix_signs(V))


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("duplicates", [False, True])
def test_row_space_keeps_differences(form, dtype, duplicates):
    X = sparse_items(15, 60).astype(dtype)
    if duplicates:
        X = sp.csr_array(sp.vstack([X, X[:4], 0 * X[:1]]))
    dense = X.toarray().astype(np.float64)
    space = row_space(X if form == "sparse" else X.toarray())
    T = space.coordinates
    assert T.shape[1] <= X.shape[0]
    V = space.lift(np.eye(T.shape[1]))
    np.testing.assert_allclose(V.T @ V, np.eye(T.shape[1]), atol=1e-9)
    np.testing.assert_allclose((T - T[0]) @ V.T, dense - dense[0], atol=1e-9)


def test_row_space_of_tall_data_is_the_data():
    X = np.random.default_rng(0).normal(size=(9, 3))
    assert row_space(X).coordinates is X
    assert row_space(X).lift(X) is X


def test_row_space_gives_powers_of_matrices_built_from_differences():
    X = np.random.default_rng(0).normal(size=(10, 25)) + 3
    X_c = X - X.mean(axis=0)
    space = row_space(X)
    T_c = space.coordinates - space.coordinates.mean(axis=0)
    V = space.lift(np.eye(10))
    np.testing.assert_allclose(
        V @ positive_power(T_c.T @ T_c, -0.5) @ V.T, positive_power(X_c.T @ X_c, -0.5), atol=1e-11
    )
