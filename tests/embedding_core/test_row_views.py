"""Views of scaled rows: the same numbers as a copy, and methods that read them give the same result."""

import tracemalloc

import numpy as np
import pytest

from embedding_core.annotator import Annotator
from embedding_core.errors import InvalidInput
from embedding_core.graph import cell_index
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.cell_index import CellIndex
from embedding_core.linalg import row_blocks
from embedding_core.linalg.row_blocks import RowView, mean_row, take_rows, view_rows
from embedding_core.registry import METHODS
from embedding_core.scaling import Scaler

BY_ROWS = sorted(name for name, method in METHODS.items() if method.by_rows)


def draw(n: int = 400, p: int = 9, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    chosen = rng.integers(0, classes, n)
    X = 3 * rng.normal(size=(n, p)) + 5
    X[:, :classes] += 4 * np.eye(classes)[chosen]
    Y = np.eye(classes, dtype=np.int8)[chosen]
    Y[rng.random(n) < 0.25] = -1
    return X.astype(np.float32), Y


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 32)


@pytest.mark.parametrize("kind", ["zscore", "unit", "none"])
def test_a_view_has_the_numbers_of_the_scaled_copy(kind, small_blocks):
    X, _ = draw()
    rows = np.random.default_rng(0).permutation(len(X))[:150]
    scaler = Scaler(kind).fit(X)
    view = scaler.transform(RowView(X).take(rows))
    copy = scaler.transform(X[rows])
    assert isinstance(view, RowView)
    assert view.shape == copy.shape and view.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(view), copy)
    np.testing.assert_array_equal(view[40:50], copy[40:50])
    mask = np.arange(150) % 3 == 0
    np.testing.assert_array_equal(view[mask], copy[mask])
    np.testing.assert_array_equal(np.asarray(take_rows(view, mask)), copy[mask])
    assert [start for start, _ in view.iter_blocks()] == [0, 32, 64, 96, 128]


def test_only_large_float32_matrices_are_viewed(monkeypatch):
    X, _ = draw()
    assert view_rows(X) is X
    monkeypatch.setattr(row_blocks, "MOST_COPIED", X.size - 1)
    assert isinstance(view_rows(X), RowView)
    double = X.astype(np.float64)
    assert view_rows(double) is double


def test_moments_of_many_rows_are_summed_in_blocks(monkeypatch, small_blocks):
    X, _ = draw()
    expected = Scaler("zscore").fit(X)
    monkeypatch.setattr("embedding_core.scaling.MOST_COPIED", 10)
    for items in (X, RowView(X)):
        found = Scaler("zscore").fit(items)
        np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-12)
        np.testing.assert_allclose(found.scale_, expected.scale_, rtol=1e-12)
    np.testing.assert_allclose(mean_row(RowView(X)), X.mean(axis=0, dtype=np.float64), rtol=1e-12)


def test_bad_values_are_counted_over_all_blocks(small_blocks):
    X, _ = draw()
    X[3, 0], X[200, 1], X[399, 2] = np.nan, np.inf, np.nan
    with pytest.raises(InvalidInput, match="contains 3 NaN or infinite"):
        Scaler("zscore").fit(X)


def test_scaling_in_place_gives_the_same_and_uses_the_given_memory():
    X, _ = draw()
    scaler = Scaler("zscore").fit(X)
    expected, given = scaler.transform(X), X.copy()
    found = scaler.transform(given, copy=False)
    assert found is given
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", BY_ROWS)
def test_a_method_fitted_on_a_view_scores_as_one_fitted_on_a_copy(name, monkeypatch):
    X, Y = draw()
    W = build_knn_graph(X, 6) if METHODS[name].uses_graph else None
    copied = Annotator(name, scale="zscore", n_neighbors=3).fit(X, Y, W)
    monkeypatch.setattr(row_blocks, "MOST_COPIED", 10)
    seen: list[type] = []
    build = Annotator._build

    def spy(self, method):
        model = build(self, method)
        fit = model.fit
        model.fit = lambda X, *rest, **more: seen.append(type(X)) or fit(X, *rest, **more)
        return model

    monkeypatch.setattr(Annotator, "_build", spy)
    viewed = Annotator(name, scale="zscore", n_neighbors=3).fit(X, Y, W)
    assert seen == [RowView]
    np.testing.assert_allclose(viewed.predict_scores(X), copied.predict_scores(X), atol=1e-9)


def test_a_method_that_builds_its_own_graph_gets_a_copy(monkeypatch):
    X, Y = draw()
    expected = Annotator("dle", scale="zscore").fit(X, Y).predict_scores(X)
    monkeypatch.setattr(row_blocks, "MOST_COPIED", 10)
    found = Annotator("dle", scale="zscore").fit(X, Y).predict_scores(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_kernel_of_discriminative_projections_loads_the_view(monkeypatch):
    X, Y = draw()
    W, params = build_knn_graph(X, 6), {"kernel": "rbf"}
    expected = Annotator("discriminative_projections", params, "zscore").fit(X, Y, W).predict_scores(X)
    monkeypatch.setattr(row_blocks, "MOST_COPIED", 10)
    found = Annotator("discriminative_projections", params, "zscore").fit(X, Y, W).predict_scores(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_an_index_of_a_view_finds_what_an_index_of_a_copy_finds(monkeypatch):
    monkeypatch.setattr(cell_index, "CELL_ROWS", 64)
    monkeypatch.setattr(cell_index, "_PORTION", 300)  # queries are ordered by cell
    X, _ = draw(3000)
    scaler = Scaler("zscore").fit(X)
    view = scaler.transform(RowView(X))
    copy = np.asarray(view)
    known, asked = np.arange(0, 2000), np.arange(2000, 3000)
    of_view = CellIndex(view.take(known)).search(view.take(asked), 5, recall=0.95)
    of_copy = CellIndex(copy[known]).search(copy[asked], 5, recall=0.95)
    np.testing.assert_array_equal(of_view.indices, of_copy.indices)
    np.testing.assert_array_equal(of_view.squared, of_copy.squared)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlda", "least_squares_svm"])
def test_a_fit_on_a_view_makes_no_copy_of_the_items(name, monkeypatch):
    """Neither scaled items nor those of the labeled rows exist as a whole; 1 would be one copy."""
    monkeypatch.setattr(row_blocks, "MOST_COPIED", 10)
    monkeypatch.setattr("embedding_core.scaling.MOST_COPIED", 10)
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 512)
    monkeypatch.setattr("embedding_core.classifiers.least_squares_svm._BLOCK_ROWS", 512)
    monkeypatch.setattr("embedding_core.classifiers.least_squares_svm._CALIBRATED_ROWS", 500)
    X, Y = draw(60_000, 96)
    tracemalloc.start()
    try:
        Annotator(name, scale="zscore").fit(X, Y)
        assert tracemalloc.get_traced_memory()[1] < 0.7 * X.nbytes
    finally:
        tracemalloc.stop()
