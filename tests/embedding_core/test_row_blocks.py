"""Blocks of rows: any block size gives the same bytes, streams equal arrays, bad sources raise errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from embedding_core import DLE, MLDA, DiscriminativeProjections, MultiLabelDLE
from embedding_core.discriminant import dle
from embedding_core.discriminant.dle import nearest_labels
from embedding_core.errors import InvalidInput
from embedding_core.graph import laplacian as laplacian_module
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.laplacian import GraphLaplacian, label_affinity
from embedding_core.labels import LABEL_WEIGHTS, LabelWeights, as_indicator, label_correlation, label_weights
from embedding_core.linalg import row_blocks as row_blocks_module
from embedding_core.linalg.row_blocks import RowBlocks, load_rows, project_rows, row_blocks
from embedding_core.linalg.scatter import class_scatter
from tests.synthetic import literal_laplacian, literal_scatter, multi_label, single_label

pytestmark = pytest.mark.filterwarnings("ignore:.* no link to any other")

METHODS = [DLE, MultiLabelDLE, MLDA, DiscriminativeProjections]


class Cut:
    """An array that is read in blocks of `step` rows and counts the passes."""

    def __init__(self, X, step, shape=None):
        self.X, self.step, self.passes = X, step, 0
        self.shape, self.dtype = shape or X.shape, X.dtype

    def iter_blocks(self):
        self.passes += 1
        for start in range(0, len(self.X), self.step):
            yield start, self.X[start : start + self.step]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 16 rows and panels of 3 columns, so that small problems have several."""
    monkeypatch.setattr(laplacian_module, "_BLOCK_COLUMNS", 3)
    monkeypatch.setattr(row_blocks_module, "BLOCK_ROWS", 16)
    monkeypatch.setattr(dle, "CHUNK_ROWS", 10)


def problem(method, n=100, dtype=np.float64):
    """Items far from the origin, partly hidden labels, a graph with a hub and an isolated item."""
    X, y = (single_label if method is DLE else multi_label)(n, 7)
    W = build_knn_graph(X, 4).tolil()
    W[0, 1:], W[1:, 0] = 0.1, 0.1
    W[5], W[:, 5] = 0.0, 0.0
    y[::4] = -1
    return (X + 30).astype(dtype), y, sp.csr_array(W.tocsr())


@pytest.mark.parametrize("step", [1, 5, 16, 33, 200])
@pytest.mark.parametrize("size", [1, 8, 60, 100])
def test_blocks_are_realigned(step, size):
    X = np.arange(120.0).reshape(60, 2)
    found = [(rows, block.copy()) for rows, block in row_blocks(Cut(X, step), size)]
    expected = list(row_blocks(X, size))
    assert [rows for rows, _ in found] == [rows for rows, _ in expected]
    for (rows, block), (_, same) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(block, same)
        np.testing.assert_array_equal(block, X[rows])


def test_rows_are_loaded_and_projected():
    X, _ = multi_label(50)
    rows = np.arange(50) % 3 == 0
    np.testing.assert_array_equal(load_rows(Cut(X, 7)), X)
    np.testing.assert_array_equal(load_rows(Cut(X, 7), rows), X[rows])
    V = np.random.default_rng(0).normal(size=(7, 2))
    for form in (X, Cut(X, 7), sp.csr_array(X)):
        np.testing.assert_allclose(project_rows(form, V), X @ V, atol=1e-13)
    assert isinstance(Cut(X, 7), RowBlocks)
    assert not isinstance(X, RowBlocks)
    assert not isinstance(sp.csr_array(X), RowBlocks)


@pytest.mark.parametrize("kind", LABEL_WEIGHTS)
@pytest.mark.parametrize("form", ["array", "blocks"])
def test_scatter_of_blocks_is_the_literal_one(small_blocks, kind, form):
    X, Y = multi_label(75)
    Y[:20], Y[30:33] = -1, 0  # a whole first block without weights
    s = np.random.default_rng(1).random(75)
    C = label_correlation(Y, s)
    weights = LabelWeights(Y, kind, C, s)
    Z = label_weights(Y, kind, C) * s[:, None]
    np.testing.assert_allclose(weights[:], Z)
    scatter = class_scatter(X if form == "array" else Cut(X, 7), weights)
    S_b, S_w, _ = literal_scatter(X, Z)
    np.testing.assert_allclose(scatter.between, S_b, atol=1e-11)
    np.testing.assert_allclose(scatter.within, S_w, atol=1e-11)
    np.testing.assert_allclose(scatter.mean, Z.sum(axis=1) @ X / Z.sum())


def test_correlation_is_summed_over_blocks(monkeypatch):
    monkeypatch.setattr(row_blocks_module, "BLOCK_ROWS", 7)
    _, Y = multi_label()
    Y[3:9], Y[:, 2] = -1, np.where(Y[:, 2] < 0, -1, 0)
    Y[3:9] = -1
    s, labels = np.random.default_rng(0).random(60), np.maximum(Y, 0)
    for weight in (np.ones(60), s):
        counts = (labels * weight[:, None]).T @ labels
        length = np.sqrt(np.maximum(np.diag(counts), 1e-300))
        np.testing.assert_allclose(
            label_correlation(Y, weight),
            counts / np.outer(length, length) + np.diag(np.diag(counts) == 0),
            atol=1e-15,
        )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [1, 9, 16, 500])
@pytest.mark.parametrize("graph", ["sparse", "dense"])
@pytest.mark.parametrize("piece", [1, 50, 10**6])
def test_quadratic_form_of_blocks_is_the_literal_one(small_blocks, monkeypatch, dtype, step, graph, piece):
    monkeypatch.setattr("embedding_core.graph.laplacian.PIECE_VALUES", piece)
    X, Y, W = problem(MultiLabelDLE, dtype=dtype)
    Y = np.maximum(Y, 0)
    labels = label_affinity(Y, label_correlation(Y))
    unit = Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1)
    full = W.toarray() + np.diag(np.arange(100.0))  # the diagonal does not matter
    A = literal_laplacian(full + 0.3 * unit @ labels.correlation @ unit.T)
    X64 = X.astype(np.float64) - 30
    expected = X64.T @ A @ X64
    L = GraphLaplacian(sp.csr_array(full) if graph == "sparse" else full, labels, 0.3)
    for items in (X, Cut(X, step)):
        found = L.quadratic(items)
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [1, 11, 16, 64, 1000])
def test_streams_give_what_arrays_give(small_blocks, method, dtype, step):
    X, y, W = problem(method, dtype=dtype)
    whole, streamed = method().fit(X, y, W), method().fit(Cut(X, step), y, W)
    np.testing.assert_allclose(streamed.projection_, whole.projection_, atol=1e-8)
    np.testing.assert_allclose(streamed.eigenvalues_, whole.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(streamed.embedding_, whole.embedding_, atol=1e-8)
    np.testing.assert_array_equal(streamed.transform(Cut(X, 3)), streamed.embedding_)
    assert streamed.n_features_in_ == 7


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_block_size_of_a_stream_changes_no_byte(small_blocks, method):
    X, y, W = problem(method, dtype=np.float32)
    results = {method().fit(Cut(X, step), y, W).embedding_.tobytes() for step in (1, 11, 16, 64, 1000)}
    assert len(results) == 1


@pytest.mark.parametrize("method", METHODS)
def test_float32_loses_nothing_to_float64(small_blocks, method):
    X, y, W = problem(method, dtype=np.float32)
    single, double = method().fit(X, y, W), method().fit(X.astype(np.float64), y, W)
    np.testing.assert_allclose(single.projection_, double.projection_, atol=1e-10)


def test_number_of_passes_does_not_depend_on_n(small_blocks):
    # passes: first block; sums, S_w; first block, first columns, three panels; embedding
    for n in (100, 200):
        X, y, W = problem(DLE, n)
        source = Cut(X, 10)
        DLE().fit(source, y, W)
        assert source.passes == 1 + 2 + 1 + 1 + 3 + 1


def test_wide_streams_are_loaded_into_memory():
    X, y = single_label(30, 45)
    np.testing.assert_array_equal(MLDA().fit(Cut(X, 7), y).projection_, MLDA().fit(X, y).projection_)
    X, y = single_label(60, 20)
    y[15:] = -1  # fewer labeled items than features
    np.testing.assert_array_equal(MLDA().fit(Cut(X, 7), y).projection_, MLDA().fit(X, y).projection_)


@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_initial_labels_are_those_of_the_nearest_labeled_item(monkeypatch, chunk):
    monkeypatch.setattr(dle, "CHUNK_ROWS", chunk)
    X, Y = multi_label()
    X[7], X[8], Y[7], Y[8] = X[9], X[9], 0, 1  # ties are broken by the first item
    Y[9::3] = -1
    labeled = Y[:, 0] >= 0
    expected = Y.copy()
    for i in np.flatnonzero(~labeled):
        nearest = min(np.flatnonzero(labeled), key=lambda j: ((X[i] - X[j]) ** 2).sum())
        expected[i] = Y[nearest]
    for items in (X, Cut(X, 7), sp.csr_array(X)):
        np.testing.assert_array_equal(nearest_labels(items, as_indicator(Y)), expected)


@pytest.mark.parametrize("method", [DLE, MultiLabelDLE, DiscriminativeProjections])
def test_a_stream_needs_a_graph(method):
    X, y, _ = problem(method)
    with pytest.raises(InvalidInput, match="no affinity is given; finding the neighbors of 100 items"):
        method().fit(Cut(X, 10), y)


def test_a_refit_on_a_stream_drops_the_column_names_of_a_frame():
    import pandas as pd

    X, y, _ = problem(MLDA)
    model = MLDA().fit(pd.DataFrame(X, columns=list("abcdefg")), y)
    assert not hasattr(clone(model).fit(Cut(X, 10), y), "feature_names_in_")
    assert not hasattr(model.fit(Cut(X, 10), y), "feature_names_in_")


def test_bad_sources_raise_clear_errors():
    X, y, _ = problem(MLDA)
    with pytest.raises(InvalidInput, match="blocks contain 100 rows, but their shape says 120"):
        MLDA().fit(Cut(X, 10, (120, 7)), np.resize(np.arange(3), 120))
    with pytest.raises(InvalidInput, match=r"A block of shape \(10, 7\) starts at row 90"):
        MLDA().fit(Cut(X, 10, (95, 7)), y[:95])
    with pytest.raises(InvalidInput, match="inconsistent numbers of samples"):
        MLDA().fit(Cut(X, 10), y[:-1])
    with pytest.raises(InvalidInput, match="blocks of X contain int64; use float32 or float64"):
        MLDA().fit(Cut(X.astype(np.int64), 10), y)
    with pytest.raises(InvalidInput, match="expecting 7 features"):
        MLDA().fit(X, y).transform(Cut(X[:, :5], 10))
    source = Cut(X, 10)
    source.dtype = np.dtype(np.float32)
    with pytest.raises(InvalidInput, match="has dtype float64, but the source says float32"):
        MLDA().fit(source, y)
    X[77, 2] = np.nan
    with pytest.raises(InvalidInput, match="contains NaN or infinity in row 77"):
        MLDA().fit(Cut(X, 10), y)
    X[77, 2], X[78, 1] = 1e308, 1e308  # large but finite: not reported as infinity
    for step in (10, 100):
        with pytest.raises(
            InvalidInput, match=r"X contains 1e\+308.*; squares of numbers beyond 4e\+151 overflow"
        ):
            MLDA().fit(Cut(X, step), y)
    with pytest.raises(InvalidInput, match=r"X contains 1e\+308 in row 77"):
        load_rows(Cut(X, 10))


def test_a_source_may_yield_empty_blocks():
    X, y, _ = problem(MLDA)

    class Gaps(Cut):
        def iter_blocks(self):
            for start, block in super().iter_blocks():
                yield start, block[:0]
                yield start, block

    model = MLDA().fit(Gaps(X, 10), y)
    np.testing.assert_array_equal(model.projection_, MLDA().fit(X, y).projection_)
    np.testing.assert_array_equal(model.transform(Gaps(X, 10)), model.embedding_)
    with pytest.raises(InvalidInput, match="0 sample"):
        MLDA().fit(Cut(X[:0], 10, (100, 7)), y)
