"""Scaling: dense, sparse, constant columns, and a fit that is not the data."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from embedding_core.errors import InvalidInput
from embedding_core.scaling import SCALINGS, Scaler, as_features


def draw(n=50, p=6, seed=0):
    return np.random.default_rng(seed).normal(3.0, 5.0, (n, p)) * np.arange(1, p + 1)


def test_zscore_equals_scikit_learn_on_new_rows():
    X, new = draw(), draw(seed=1)
    expected = StandardScaler().fit(X).transform(new)
    np.testing.assert_allclose(Scaler("zscore").fit(X).transform(new), expected)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_zscore_divides_without_filling(form):
    X = sp.random_array(
        (40, 8), density=0.3, rng=np.random.default_rng(0), data_sampler=np.random.default_rng(1).normal
    )
    scaled = Scaler("zscore").fit(form(X)).transform(form(X))
    assert scaled.nnz == X.nnz
    np.testing.assert_allclose(scaled.toarray(), X.toarray() / X.toarray().std(axis=0))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_unit_rows_have_length_one_and_zero_rows_stay(form):
    X = draw()
    X[4] = 0
    scaled = Scaler("unit").fit_transform(form(X))
    dense = scaled.toarray() if sp.issparse(scaled) else scaled
    lengths = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 4), 1)
    assert lengths[4] == 0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e9, 1e-12])
def test_constant_columns_become_zero_without_a_warning(value):
    X = draw(n=333)
    X[:, 2] = value
    np.testing.assert_allclose(Scaler("zscore").fit_transform(X)[:, 2], 0, atol=1e-6)


def test_none_returns_the_features_untouched():
    X = draw()
    assert Scaler("none").fit(X).transform(X) is X


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_float32_stays_float32(kind, form):
    X = form(draw().astype(np.float32))
    assert Scaler(kind).fit_transform(X).dtype == np.float32


def test_float32_with_a_large_offset_is_scaled_in_double_precision():
    X = (draw() + 1e5).astype(np.float32)
    expected = StandardScaler().fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(Scaler("zscore").fit_transform(X), expected, atol=1e-5)


@pytest.mark.parametrize("kind", SCALINGS)
def test_the_input_is_not_modified(kind):
    X = draw()
    before = X.copy()
    Scaler(kind).fit_transform(X)
    np.testing.assert_array_equal(X, before)


def test_integers_and_frames_become_floats():
    assert as_features([[1, 2], [3, 4]]).dtype == np.float64
    assert as_features(sp.csr_array(np.eye(2, dtype=np.int32))).dtype == np.float64
    np.testing.assert_array_equal(as_features(pd.DataFrame({"a": [1], "b": [2.5]})), [[1, 2.5]])


def test_parameters_survive_clone():
    assert clone(Scaler("unit")).kind == "unit"


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[np.inf, 1.0]], "1 NaN or infinite"),
        (sp.csr_array([[np.nan, 1.0]]), "1 NaN or infinite"),
        ([1.0, 2.0], r"shape \(2,\)"),
        (np.zeros((0, 3)), "at least one"),
        ([["a", "b"]], "not an array of numbers"),
        ([[1.0], [1.0, 2.0]], "not an array of numbers"),
    ],
)
def test_bad_features_raise_clear_errors(X, message):
    with pytest.raises(InvalidInput, match=message):
        Scaler("zscore").fit(X)


def test_input_that_does_not_match_the_fit_is_refused():
    with pytest.raises(InvalidInput, match="choose one of none, zscore, unit"):
        Scaler("minmax").fit(draw())
    fitted = Scaler("zscore").fit(draw())
    with pytest.raises(InvalidInput, match="X has 5 features, the model was fitted with 6"):
        fitted.transform(draw(p=5))
    with pytest.raises(InvalidInput, match="fitted on dense rows"):
        fitted.transform(sp.csr_array(draw()))
