"""Labels: one form for all inputs, the correlation C, the weights Z."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.labels import (
    LABEL_WEIGHTS,
    as_indicator,
    label_correlation,
    label_shares,
    label_weights,
    one_label_each,
    rows_without_one_label,
)
from tests.synthetic import multi_label, single_label


def test_classes_become_columns_in_sorted_order():
    target = as_indicator([3, -1, 1, 3])
    assert target.classes.tolist() == [1, 3]
    assert target.Y.tolist() == [[0, 1], [-1, -1], [1, 0], [0, 1]]
    assert target.labeled.tolist() == [True, False, True, True]
    assert target.Y.dtype == np.int8


@pytest.mark.parametrize(
    ("y", "classes", "labeled"),
    [
        (np.array(["b", "a", "b"]), ["a", "b"], [True, True, True]),
        (np.array(["b", None, "a", -1], dtype=object), ["a", "b"], [True, False, True, False]),
        (np.array([2, 1, -1], dtype=object), [1, 2], [True, True, False]),
        (np.array([2.0, -1.0, 1.0]), [1.0, 2.0], [True, False, True]),
        (np.array([True, False]), [False, True], [True, True]),
        (np.array([2, 0, 1], dtype=np.uint8), [0, 1, 2], [True, True, True]),
    ],
)
def test_kinds_of_classes(y, classes, labeled):
    target = as_indicator(y)
    assert target.classes.tolist() == classes
    assert target.labeled.tolist() == labeled
    assert target.classes.dtype != object


@pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame, sp.csr_array, lambda Y: Y.astype(float), list])
def test_columns_pass_unchanged(convert):
    Y = np.array([[1, 0, 1], [-1, -1, -1], [0, 0, 0]])
    target = as_indicator(convert(Y))
    np.testing.assert_array_equal(target.Y, Y)
    assert target.labeled.tolist() == [True, False, True]
    assert target.classes.tolist() == [0, 1, 2]


def test_names_of_the_columns_of_a_frame_are_the_classes():
    Y = pd.DataFrame({"sun": [1, -1, 0], "beach": [0, -1, 1]})
    assert as_indicator(Y).classes.tolist() == ["sun", "beach"]
    assert as_indicator(Y).Y.tolist() == Y.to_numpy().tolist()
    assert as_indicator(Y.rename(columns={"sun": 7})).classes.tolist() == [0, 1]


def test_labels_are_found_by_name_in_any_order_of_the_columns():
    classes = np.array(["sun", "beach", "forest"])
    assert label_shares(["beach", "sun", "beach"], classes).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    Y = pd.DataFrame([[1, 0, 1]], columns=classes)
    assert label_shares(Y, classes).tolist() == label_shares([[1, 0, 1]], classes).tolist() == [[0.5, 0, 0.5]]
    with pytest.raises(InvalidInput, match="Column 0 of y is 'beach' where fit had 'sun'"):
        label_shares(Y[["beach", "sun", "forest"]], classes)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (pd.DataFrame([[1, 0, 1]], columns=["a", "b", "a"]), "two columns named 'a'"),
        (None, "requires y to be passed, but the target y is None"),
        ([-1, -1], "All 2 items are unlabeled"),
        ([[-1, -1]], "All 1 items are unlabeled"),
        ([[1, 0], [0, -1]], r"Row 1 of y mixes -1 with 0/1: \[0, -1\]"),
        ([[1, 0], [0, 2]], r"y\[1, 1\] = 2 is not a label"),
        ([[1, 0], [0.5, 1]], r"y\[1, 0\] = 0.5 is not a label"),
        ([[1, 257], [0, 1]], r"y\[0, 1\] = 257 is not a label"),
        ([1.0, np.nan], "y contains NaN in row 1"),
        ([[1.0, 0], [np.inf, 0]], "y contains infinity in row 1"),
        ([0.5, 1.5], "Unknown label type"),
        (np.array(["a", 1], dtype=object), "Unknown label type: y contains int, str"),
        (np.array(["a", np.nan], dtype=object), "Unknown label type"),
        ([["a", "b"]], "expected numbers 0, 1 and -1"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.array([1j, 2]), "Complex data not supported"),
    ],
)
def test_bad_labels_raise_clear_errors(y, message):
    with pytest.raises(InvalidInput, match=message):
        as_indicator(y)


def test_hide_makes_rows_unlabeled_and_leaves_the_original():
    target = as_indicator([0, 1, 0])
    hidden = target.hide(np.array([1]))
    assert hidden.Y.tolist() == [[1, 0], [-1, -1], [1, 0]]
    assert hidden.labeled.tolist() == [True, False, True]
    assert target.labeled.all()


def test_correlation_is_the_cosine_of_the_label_columns():
    _, Y = multi_label()
    expected = [[(a @ b) / np.sqrt((a @ a) * (b @ b)) for b in Y.T.astype(float)] for a in Y.T.astype(float)]
    np.testing.assert_allclose(label_correlation(Y), expected, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_correlation_is_symmetric_positive_semidefinite_with_unit_diagonal(seed):
    Y = (np.random.default_rng(seed).random((20, 6)) < 0.3).astype(np.int8)
    Y[:, 2], Y[:, 4], Y[:, 5] = 0, 1, Y[:, 0]
    C = label_correlation(Y)
    np.testing.assert_array_equal(C, C.T)
    np.testing.assert_array_equal(np.diag(C), 1.0)
    assert np.linalg.eigvalsh(C).min() > -1e-14
    np.testing.assert_array_equal(C[2], np.eye(6)[2])
    assert C.min() >= 0
    assert C.max() <= 1


def test_correlation_of_classes_is_the_identity():
    _, y = single_label()
    np.testing.assert_array_equal(label_correlation(as_indicator(y).Y), np.eye(4))


def test_correlation_leaves_unlabeled_rows_out():
    _, Y = multi_label()
    hidden = np.vstack([Y, -np.ones((5, 4), dtype=np.int8)])
    np.testing.assert_array_equal(label_correlation(hidden), label_correlation(Y))


def test_correlation_weight_counts_copies():
    _, Y = multi_label(n=12)
    weight = np.arange(12) % 4
    np.testing.assert_allclose(label_correlation(Y, weight), label_correlation(np.repeat(Y, weight, axis=0)))


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
def test_weights_follow_the_formulas(kind):
    _, Y = multi_label()
    C = label_correlation(Y)
    for y, z in zip(Y.astype(float), label_weights(Y, kind), strict=True):
        expected = {
            "binary": y,
            "correlated": y @ C,
            "l1": y @ C / y.sum(),
            "l1_correlated": y @ C / (y @ C).sum(),
        }[kind]
        np.testing.assert_allclose(z, expected, rtol=1e-14)


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
def test_weights_of_classes_are_the_indicator(kind):
    _, y = single_label()
    Y = as_indicator(y).Y
    np.testing.assert_array_equal(label_weights(Y, kind), Y)


def test_row_sums_of_eq_15_are_at_least_one_and_of_eq_16_one():
    _, Y = multi_label()
    assert label_weights(Y, "l1").sum(axis=1).min() >= 1
    np.testing.assert_allclose(label_weights(Y, "l1_correlated").sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
def test_rows_without_labels_have_zero_weight(kind):
    _, Y = multi_label()
    Y[3], Y[5], Y[:, 2] = 0, -1, np.where(Y[:, 2] == -1, -1, 0)
    Z = label_weights(Y, kind)
    np.testing.assert_array_equal(Z[[3, 5]], 0.0)
    assert np.isfinite(Z).all()


def test_unknown_weights_raise_clear_errors():
    with pytest.raises(InvalidInput, match="weights='cosine' is not legal; choose one of binary"):
        label_weights(np.eye(2), "cosine")


@pytest.mark.parametrize(
    ("rows", "single"),
    [
        ([[1, 0], [0, 1]], True),
        ([[1, 0], [-1, -1]], True),
        ([[1, 0], [0, 0]], False),
        ([[1, 0], [1, 1], [-1, -1]], False),
        ([[-1, -1]], True),
    ],
)
def test_one_label_each_ignores_unlabeled_rows(rows, single):
    assert one_label_each(np.array(rows, dtype=np.int8)) is single


def test_rows_without_one_label_are_those_with_none_or_several():
    Y = np.array([[1, 0], [0, 0], [-1, -1], [1, 1]], dtype=np.int8)
    assert rows_without_one_label(Y).tolist() == [1, 3]
