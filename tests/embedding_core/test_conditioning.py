"""Sparse items are shifted towards 0 without filling their zeros."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.linalg.conditioning import common_shift, shift_full_columns, subtract_shift


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_full_columns_are_centered_and_no_zero_is_filled(dtype):
    rng = np.random.default_rng(0)
    dense = (rng.random((9, 5)) * (rng.random((9, 5)) < 0.5)).astype(dtype)
    dense[:, 1], dense[:, 3] = 7 + rng.random(9), 1 / 3
    X = sp.csr_array(dense)
    moved, move = shift_full_columns(X)
    np.testing.assert_array_equal(X.toarray(), dense)
    assert moved.dtype == np.float64
    assert moved.nnz == X.nnz
    np.testing.assert_array_equal(move[[0, 2, 4]], 0)
    np.testing.assert_allclose(moved.toarray() + move, dense, atol=1e-15)
    np.testing.assert_allclose(moved.toarray()[:, 1].mean(), 0, atol=1e-15)
    np.testing.assert_array_equal(moved.toarray()[:, 3], 0)  # constant: exactly 0


def test_duplicate_entries_count_as_one_entry():
    # column 0 has a zero in the second row although it has as many stored entries as rows
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    moved, move = shift_full_columns(X)
    np.testing.assert_array_equal(move, 0)
    np.testing.assert_array_equal(moved.toarray(), [[3, 0], [0, 4]])
    assert X.nnz == 3


def test_items_without_full_columns_are_not_copied():
    X = sp.csr_array(np.diag([1.0, 2.0, 3.0]))
    assert np.shares_memory(shift_full_columns(X)[0].data, X.data)
    assert shift_full_columns(sp.csr_array((0, 3)))[0].shape == (0, 3)


def test_two_sets_of_items_get_the_same_shift_and_no_zero_is_filled():
    rng = np.random.default_rng(0)
    items, others = rng.random((5, 4)) + 7, rng.random((6, 4)) + 7
    items[1, 0] = others[2, 3] = 0
    mean = items.mean(axis=0)
    for pair, full in [
        ((items, others), [True, True, True, True]),
        ((sp.csr_array(items), others), [False, True, True, True]),
        ((items, sp.csr_array(others)), [True, True, True, False]),
        ((sp.csr_array(items), sp.csr_array(others)), [False, True, True, False]),
    ]:
        move = common_shift(*pair)
        np.testing.assert_allclose(move, np.where(full, mean, 0), rtol=1e-15)
        for X, dense in zip(pair, (items, others), strict=True):
            moved = subtract_shift(X, move)
            assert not sp.issparse(X) or moved.nnz == X.nnz
            np.testing.assert_allclose(
                moved.toarray() if sp.issparse(moved) else moved, dense - move, atol=1e-14
            )


def test_a_shift_is_subtracted_once_from_a_duplicate_entry():
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1))
    move = common_shift(X, X)
    np.testing.assert_array_equal(move, [3.5])
    np.testing.assert_array_equal(subtract_shift(X, move).toarray(), [[-0.5], [0.5]])
