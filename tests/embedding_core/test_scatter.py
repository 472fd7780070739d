"""Scatter matrices: the theorems of MLDA, and the fast sums against the literal ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.labels import LABEL_WEIGHTS, as_indicator, label_weights
from embedding_core.linalg import row_blocks
from embedding_core.linalg.scatter import class_scatter
from tests.synthetic import literal_scatter, multi_label, single_label

SHAPES = [(60, 7), (25, 40)]


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_scatter_matches_the_definitions_and_adds_up(kind, shape, form):
    X, Y = multi_label(*shape)
    Y[:3] = 0
    Z = label_weights(Y, kind)
    S_b, S_w, S_t = literal_scatter(X, Z)
    scatter = class_scatter(X if form == "dense" else sp.csr_array(X), Z)
    scale = np.abs(S_t).max()
    np.testing.assert_allclose(scatter.between, S_b, atol=1e-12 * scale)
    np.testing.assert_allclose(scatter.within, S_w, atol=1e-12 * scale)
    # Theorem 2: S_t = S_b + S_w
    np.testing.assert_allclose(scatter.total, S_t, atol=1e-12 * scale)


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
def test_matrix_form_of_eq_17_to_19(kind):
    X, Y = multi_label()
    Z = label_weights(Y, kind)
    w, l = Z.sum(axis=0), Z.sum(axis=1)  # noqa: E741
    X_c = (X - (l @ X) / l.sum()).T
    scatter = class_scatter(X, Z)
    np.testing.assert_allclose(scatter.between, X_c @ Z @ np.diag(1 / w) @ Z.T @ X_c.T, atol=1e-11)
    np.testing.assert_allclose(scatter.total, X_c @ np.diag(l) @ X_c.T, atol=1e-11)
    np.testing.assert_allclose(scatter.mean, (l @ X) / l.sum())


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
def test_classes_give_classical_scatter(kind):
    # Theorem 1: Eq. 2-4
    X, y = single_label()
    scatter = class_scatter(X, label_weights(as_indicator(y).Y, kind))
    residual = X - np.stack([X[y == k].mean(axis=0) for k in range(4)])[y]
    np.testing.assert_allclose(scatter.within, residual.T @ residual, atol=1e-11)
    np.testing.assert_allclose(scatter.total, (X - X.mean(axis=0)).T @ (X - X.mean(axis=0)), atol=1e-11)


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_between_has_rank_below_k_and_within_is_positive_semidefinite(kind, shape):
    X, Y = multi_label(*shape)
    scatter = class_scatter(X, label_weights(Y, kind))
    assert np.linalg.matrix_rank(scatter.factor, tol=1e-10) <= Y.shape[1] - 1
    values = np.linalg.eigvalsh(scatter.within)
    assert values.min() > -1e-13 * values.max()


def test_blocks_of_rows_add_up(monkeypatch):
    X, Y = multi_label()
    Z = label_weights(Y, "l1")
    whole = class_scatter(X, Z)
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 7 * 7 + 3)
    np.testing.assert_allclose(class_scatter(X, Z).within, whole.within, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(class_scatter(X, Z).factor, whole.factor, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_far_from_the_origin_stay_accurate(dtype):
    X, Y = multi_label()
    X = (X * 64).round() / 64  # exact in float32 also after the shift
    Z = label_weights(Y, "l1")
    near, far = class_scatter(X, Z), class_scatter((X + 2.0**14).astype(dtype), Z)
    np.testing.assert_allclose(far.within, near.within, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(far.factor, near.factor, rtol=1e-9, atol=1e-9)


def test_within_survives_classes_far_apart():
    # S_t - S_b would lose all digits of S_w here
    X, y = single_label()
    Z = label_weights(as_indicator(y).Y, "binary")
    apart = class_scatter(X + 1e8 * y[:, None], Z).within
    np.testing.assert_allclose(apart, class_scatter(X, Z).within, atol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_feature_constant_within_classes_has_exactly_zero_within_scatter(form):
    X, y = single_label()
    X[:, 3] = np.array([0.1, 1 / 3, 7.7, 2**0.5])[y]
    within = class_scatter(form(X), label_weights(as_indicator(y).Y, "l1")).within
    np.testing.assert_array_equal(within[3], 0.0)
    assert (np.delete(np.diag(within), 3) > 1).all()


def test_empty_and_full_label_columns_and_constant_features():
    X, Y = multi_label()
    Y[:, 1], Y[:, 3], X[:, 2] = 0, 1, 5.0
    Z = label_weights(Y, "l1")
    scatter = class_scatter(X, Z)
    S_b, S_w, _ = literal_scatter(X, Z)
    np.testing.assert_allclose(scatter.between, S_b, atol=1e-11)
    np.testing.assert_allclose(scatter.within, S_w, atol=1e-11)
    np.testing.assert_allclose(scatter.within[2], 0.0, atol=1e-20)


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.ones((3, 2)), r"Z has shape \(3, 2\); expected one row for each of the 60"),
        (-np.ones((60, 2)), "negative or non-finite"),
        (np.full((60, 2), np.nan), "negative or non-finite"),
        (np.zeros((60, 2)), "no item has a label"),
    ],
)
def test_bad_weights_raise_clear_errors(Z, message):
    with pytest.raises(InvalidInput, match=message):
        class_scatter(multi_label()[0], Z)
