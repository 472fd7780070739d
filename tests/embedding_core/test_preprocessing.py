"""Preparation of feature blocks: balance, fillings, TF-IDF, and no look at rows outside the fit."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from embedding_core.annotator import Annotator
from embedding_core.blocks import FeatureBlock
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import predict_fold
from embedding_core.preprocessing import Preprocessor
from embedding_core.registry import METHODS
from embedding_core.scaling import Scaler

pytestmark = pytest.mark.usefixtures("small_forests")

RNG = np.random.default_rng(0)


def blocks_of(*blocks: FeatureBlock) -> list[dict[str, Any]]:
    return [block.to_json() for block in blocks]


def total_variance(rows: np.ndarray) -> float:
    return float(rows.var(axis=0).sum())


@pytest.mark.parametrize("scale", ["none", "zscore", "unit"])
def test_every_block_contributes_its_weight_whatever_its_width_and_unit(scale: str) -> None:
    X = np.hstack([RNG.normal(3, 100, (50, 40)), RNG.normal(0, 0.01, (50, 2))])
    blocks = blocks_of(FeatureBlock("wide", 40, scale), FeatureBlock("narrow", 2, scale, weight=3.0))
    prepared = Preprocessor(blocks).fit_transform(X)
    narrow, wide = total_variance(prepared[:, 40:]), total_variance(prepared[:, :40])
    assert narrow / wide == pytest.approx(9.0)
    assert wide == pytest.approx(42 / 2)


@pytest.mark.parametrize("scale", ["none", "zscore", "unit"])
def test_a_single_block_is_scaled_as_by_a_scaler(scale: str) -> None:
    X = RNG.normal(3, 2, (30, 4)).astype(np.float32)
    prepared = Preprocessor(blocks_of(FeatureBlock("one", 4, scale, weight=5.0))).fit_transform(X)
    np.testing.assert_array_equal(prepared, Scaler(scale).fit_transform(X))
    assert prepared.dtype == np.float32


@pytest.mark.parametrize(("fill", "middle"), [("mean", np.mean), ("median", np.median)])
def test_gaps_are_filled_from_the_rows_of_the_fit(fill: Any, middle: Any) -> None:
    X = RNG.normal(size=(20, 3))
    X[2, 1] = np.nan
    fitted = Preprocessor(blocks_of(FeatureBlock("table", 3, fill=fill))).fit(X)
    new = np.array([[np.nan, np.nan, 7.0]])
    expected = [middle(X[:, 0]), middle(np.delete(X[:, 1], 2)), 7.0]
    np.testing.assert_allclose(fitted.transform(new), [expected])


def test_gaps_without_a_filling_are_refused_with_the_setting() -> None:
    X = RNG.normal(size=(20, 3))
    X[2, 1] = np.nan
    with pytest.raises(InvalidInput, match=r"table: 1 rows have missing values.*features\.fill"):
        Preprocessor(blocks_of(FeatureBlock("table", 3))).fit(X)
    X[:, 1] = np.nan
    with pytest.warns(UserWarning, match="1 columns have no value in the training rows"):
        fitted = Preprocessor(blocks_of(FeatureBlock("table", 3, fill="mean"))).fit(X)
    assert fitted.fillings_[0][1] == 0
    with pytest.raises(InvalidInput, match="no row of the fit has any value"):
        Preprocessor(blocks_of(FeatureBlock("table", 3, fill="mean"))).fit(np.full((4, 3), np.nan))


def test_a_block_beside_terms_is_filled_and_centered() -> None:
    counts = RNG.poisson(0.5, (30, 6)).astype(np.float64)
    counts[:, 0] += 1
    numbers = RNG.normal(100, 1, (30, 2))
    numbers[3, 1] = np.nan
    blocks = blocks_of(
        FeatureBlock("words", 6, terms="tfidf"), FeatureBlock("numbers", 2, "zscore", fill="mean")
    )
    joined = sp.hstack([sp.csr_array(counts), sp.csr_array(numbers)], format="csr")
    prepared = Preprocessor(blocks).fit(joined).transform(joined).toarray()
    np.testing.assert_allclose(prepared[:, -2:].mean(axis=0), 0, atol=1e-8)
    dense = Preprocessor(blocks).fit(np.hstack([counts, numbers])).transform(np.hstack([counts, numbers]))
    np.testing.assert_allclose(prepared, dense, atol=1e-8)


def test_sparse_features_have_nothing_to_fill() -> None:
    X = sp.csr_array(RNG.poisson(0.5, (20, 5)).astype(np.float64))
    blocks = blocks_of(FeatureBlock("given", 5, fill="mean"))
    np.testing.assert_allclose(Preprocessor(blocks).fit(X).transform(X).toarray(), X.toarray())


def test_tfidf_agrees_with_scikit_learn_on_terms_of_the_fit() -> None:
    counts = sp.csr_array(RNG.poisson(0.4, (30, 12)).astype(np.float32))
    fitted = Preprocessor(blocks_of(FeatureBlock("words", 12, terms="tfidf"))).fit(counts[:20])
    reference = TfidfTransformer().fit(counts[:20])
    np.testing.assert_allclose(
        fitted.transform(counts[20:]).toarray(), reference.transform(counts[20:]).toarray(), rtol=1e-5
    )


def test_terms_outside_the_fit_are_dropped() -> None:
    counts = sp.csr_array(np.array([[0.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 9.0]]))
    fitted = Preprocessor(blocks_of(FeatureBlock("words", 3, terms="tfidf"))).fit(counts[:2])
    np.testing.assert_array_equal(fitted.terms_[0], [1])
    np.testing.assert_allclose(fitted.transform(counts[2:]).toarray(), [[1.0]])


def test_rows_without_any_term_are_refused() -> None:
    empty = sp.csr_array((3, 5))
    with pytest.raises(InvalidInput, match=r"words: no row of the fit contains a term"):
        Preprocessor(blocks_of(FeatureBlock("words", 5, terms="tfidf"))).fit(empty)


def test_sparse_and_dense_joined_rows_are_prepared_alike() -> None:
    X = RNG.poisson(0.5, (40, 9)).astype(np.float64)
    blocks = blocks_of(FeatureBlock("words", 6, terms="tfidf"), FeatureBlock("counts", 3, "unit"))
    dense = Preprocessor(blocks).fit_transform(X)
    sparse = Preprocessor(blocks).fit_transform(sp.csr_array(X))
    assert sp.issparse(sparse)
    np.testing.assert_allclose(sparse.toarray(), dense, rtol=1e-12)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"name": "a", "width": 0}, "at least one column"),
        ({"name": "a", "width": 3, "weight": 0.0}, "weight=0.0"),
        ({"name": "a", "width": 3, "weight": float("inf")}, "weight=inf"),
        ({"name": "a", "width": 3, "fill": "zero"}, "fill='zero'"),
        ({"name": "a", "width": 2}, "the blocks have 2 columns in all, X has 3"),
        ({"name": "a", "width": 3, "scale": "huge"}, "'huge' is not known"),
    ],
)
def test_bad_blocks_are_refused(block: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Preprocessor([block]).fit(np.ones((4, 3)))


def two_blocks(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A narrow block that tells the labels, beside a wide one of noise."""
    Y = (RNG.random((n, 2)) < 0.5).astype(np.int8)
    return np.hstack([RNG.normal(size=(n, 60)), Y + RNG.normal(0, 0.2, (n, 2))]), Y


@pytest.mark.slow
@pytest.mark.parametrize("method", ["1nn", "1nn_zscore", "svm", "rbf_svc", "kernel_dle", "lpssvm"])
def test_a_wide_block_of_noise_does_not_drown_a_narrow_one(method: str) -> None:
    X, Y = two_blocks(80)
    train, test = np.arange(50), np.arange(50, 80)
    blocks = blocks_of(FeatureBlock("noise", 60, "zscore"), FeatureBlock("signal", 2, "zscore", weight=4.0))
    right = [
        float((predict_fold(method, None, X, Y, train, test, blocks=given)[0].labels == Y[test]).mean())
        for given in (None, blocks)
    ]
    assert right[1] > 0.9
    assert right[1] > right[0]


@pytest.mark.parametrize("method", ["svm", "kernel_dle", "random_forest", "kernel_dle_forest"])
def test_a_method_with_its_own_scaling_sees_the_prepared_rows(method: str) -> None:
    X, Y = two_blocks()
    blocks = blocks_of(FeatureBlock("noise", 60, "zscore"), FeatureBlock("signal", 2, "zscore", weight=4.0))
    joined = Annotator(method, blocks=blocks).fit(X, Y)
    prepared = Preprocessor(blocks).fit(X)
    alone = METHODS[method].build(**METHODS[method].unscaled()).fit(prepared.transform(X), Y)
    np.testing.assert_allclose(joined.predict_scores(X), alone.predict_scores(prepared.transform(X)))


def test_test_rows_do_not_reach_the_preparation() -> None:
    X, Y = two_blocks()
    X[3, 5] = np.nan
    blocks = blocks_of(FeatureBlock("noise", 60, "zscore", fill="mean"), FeatureBlock("signal", 2, "zscore"))
    train, test = np.arange(40), np.arange(40, 60)
    before = predict_fold("svm", None, X, Y, train, test, blocks=blocks)[0].scores
    X[test[1:]] *= 1000
    after = predict_fold("svm", None, X, Y, train, test, blocks=blocks)[0].scores
    np.testing.assert_array_equal(before[0], after[0])


def test_kept_columns_name_the_origin_of_every_prepared_column():
    rng = np.random.default_rng(0)
    counts = np.zeros((30, 6))
    counts[:, [1, 4]] = rng.integers(1, 5, size=(30, 2))
    spaces = rng.normal(size=(30, 4))
    Y = (spaces[:, 2:3] > 0).astype(np.int8)
    X = np.hstack([counts, spaces, rng.normal(size=(30, 3))])
    blocks = [
        FeatureBlock("terms", 6, terms="tfidf").to_json(),
        FeatureBlock("colors", 4, alternatives=2).to_json(),
        FeatureBlock("plain", 3).to_json(),
    ]
    fitted = Preprocessor(blocks).fit(X, Y)
    kept = fitted.kept_columns()
    assert [one.tolist() for one in kept] == [[1, 4], [8, 9], [10, 11, 12]]
    assert fitted.transform(X).shape[1] == sum(map(len, kept))
