"""LPSSVM on odd data, its invariances, its memory, and what bad input gets."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_gaussian_graph, build_knn_graph
from embedding_core.linalg.kernel_space import AUTO_EXACT, AUTO_LANDMARKS, choose_landmarks
from embedding_core.margin.lpssvm import LPSSVM
from embedding_core.scaling import Scaler
from tests.literal_margin import two_classes
from tests.synthetic import multi_label, single_label

# --- odd data, invariances, bytes


@pytest.mark.filterwarnings("ignore:.* no link to any other")
def test_graph_in_parts_warns_once_and_isolated_items_are_placed():
    X, y, _ = two_classes()
    X, y = np.vstack([X, X[:10], X[:1] + 50]), np.r_[y, y[:10], 1]
    X[:, 3] = 2.0
    W = build_knn_graph(X, 4, sigma=3.0).toarray()
    W[60:64] = W[:, 60:64] = 0.0
    W[:30, 30:] = W[30:, :30] = 0.0
    for kernel in ("rbf", "precomputed"):
        items = X if kernel == "rbf" else rbf_kernel(X)
        with pytest.warns(
            UserWarning, match=r"The graph has \d+ components \(sizes .*separates them"
        ) as seen:
            model = LPSSVM(kernel=kernel).fit(items, y, W)
        assert sum("components" in str(one.message) for one in seen) == 1
        assert sum("no link to any other" in str(one.message) for one in seen) == 1
        assert np.isfinite(model.embedding_).all()
        assert np.isfinite(model.decision_function(items)).all()
    for form in (np.asarray, sp.csr_array):
        model = LPSSVM(kernel="linear").fit(form(X), y, W)
        assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
def test_sparse_and_float32_items(kernel, shape):
    X, y, W = two_classes(*shape)
    X = np.where(X > 0, X, 0.0)
    model = LPSSVM(kernel=kernel, n_components=3).fit(X, y, W)
    sparse = LPSSVM(kernel=kernel, n_components=3).fit(sp.csr_array(X), y, W)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)), model.decision_function(X), atol=1e-5
    )
    X32 = X.astype(np.float32)
    single, double = (LPSSVM(kernel=kernel, n_components=3).fit(Z, y, W) for Z in (X32, X32.astype(float)))
    np.testing.assert_allclose(single.decision_function(X32), double.decision_function(X32), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("update_sign", ["printed", "gradient"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_order_of_rows_and_rotation_do_not_matter(kernel, update_sign, C):
    # all three iterations, each of which amplifies what the one before left open
    X, y, W = two_classes()
    model = LPSSVM(kernel=kernel, update_sign=update_sign, C=C, tol=0.0)
    decisions = clone(model).fit(X, y, W).decision_function(X)
    rows = np.random.default_rng(0).permutation(60)
    shuffled = clone(model).fit(X[rows], y[rows], W[np.ix_(rows, rows)])
    assert shuffled.n_iter_ == 3
    np.testing.assert_allclose(shuffled.decision_function(X), decisions, atol=1e-6)
    R = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    np.testing.assert_allclose(clone(model).fit(X @ R, y, W).decision_function(X @ R), decisions, atol=1e-6)


def test_machines_beyond_the_exact_size_do_not_depend_on_the_order_either(monkeypatch):
    # the first machine, on all dimensions, is unique; the later ones have fewer than fifty
    X, y, W = two_classes()
    exact = LPSSVM(n_components=3).fit(X, y, W).decision_function(X)
    monkeypatch.setattr("embedding_core.margin.svm.EXACT_SIZE", 25)
    rows = np.random.default_rng(0).permutation(60)
    for order in (np.arange(60), rows):
        model = LPSSVM(n_components=3).fit(X[order], y[order], W[np.ix_(order, order)])
        np.testing.assert_allclose(model.decision_function(X), exact, atol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_input_scale_is_a_scaler_in_front(kernel, form):
    X, y, _ = two_classes()
    X = form(np.where(X > 0, X * np.arange(1, 8), 0.0))
    new = X[:20] * 1.5
    for scale in ("zscore", "unit"):
        scaler = Scaler(scale).fit(X)
        inside = LPSSVM(kernel=kernel, n_components=3, n_neighbors=20, input_scale=scale).fit(X, y)
        outside = LPSSVM(kernel=kernel, n_components=3, n_neighbors=20).fit(scaler.transform(X), y)
        np.testing.assert_allclose(inside.embedding_, outside.embedding_, atol=1e-12)
        answers = outside.decision_function(scaler.transform(new))
        np.testing.assert_allclose(inside.decision_function(new), answers, atol=1e-12)


def test_rbf_far_from_the_origin():
    X, y, W = two_classes()
    near, far = LPSSVM(n_components=3).fit(X, y, W), LPSSVM(n_components=3).fit(X + 1e6, y, W)
    np.testing.assert_allclose(far.decision_function(X + 1e6), near.decision_function(X), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_same_input_same_bytes_and_threads_agree(kernel):
    X, y = single_label(150, 40, K=3)
    X, y = X / 2, np.where(np.arange(150) % 3 == 1, -1, y)
    W = build_gaussian_graph(X)
    fit = lambda: LPSSVM(kernel=kernel, theta=0.5, n_components=4).fit(X, y, W)  # noqa: E731
    with threadpool_limits(1):
        one, again = fit(), fit()
    with threadpool_limits(2):
        two = fit()
    assert one.n_iter_ > 1
    assert one.embedding_.tobytes() == again.embedding_.tobytes()
    assert one.coef_.tobytes() == again.coef_.tobytes()
    np.testing.assert_allclose(two.embedding_, one.embedding_, atol=1e-10 * np.abs(one.embedding_).max())
    np.testing.assert_allclose(two.decision_function(X), one.decision_function(X), atol=1e-8)


def test_landmarks_are_drawn_by_random_state():
    usable = np.arange(50) % 5 > 0
    drawn = choose_landmarks(10, 50, usable, 0)
    np.testing.assert_array_equal(drawn, choose_landmarks(10, 50, usable, 0))
    assert (drawn != choose_landmarks(10, 50, usable, 1)).any()
    assert usable[drawn].all()
    assert len(np.unique(drawn)) == 10
    np.testing.assert_array_equal(choose_landmarks(45, 50, usable, 0), np.flatnonzero(usable))
    np.testing.assert_array_equal(choose_landmarks([3, 0, 1], 50, usable, 0), [1, 3])
    for n, found in ((AUTO_EXACT, AUTO_EXACT), (AUTO_EXACT + 1, AUTO_LANDMARKS)):
        assert len(choose_landmarks("auto", n, np.ones(n, dtype=bool), 0)) == found


@pytest.mark.slow
def test_linear_form_makes_no_n_by_n_matrix():
    n = 6000
    X, y = single_label(n, 5)
    y[20:] = -1
    i = np.arange(n - 1)
    W = sp.coo_array((np.ones(n - 1), (i, i + 1)), shape=(n, n))
    W = sp.csr_array(W + W.T)
    LPSSVM(kernel="linear").fit(X[:50], single_label(50, 5)[1])  # imports
    tracemalloc.start()
    LPSSVM(kernel="linear").fit(X, y, W)
    linear = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    LPSSVM(landmarks=50, theta=1.0).fit(X, y, W)
    nystrom = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(linear, nystrom) < n * n / 2


# --- errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"kernel": "poly"},
            "kernel='poly' is not legal; choose one of linear, rbf, intersection, precomputed",
        ),
        ({"theta": 0}, "theta=0 is not legal; give a positive number or"),
        ({"gamma": -1.0}, "gamma=-1.0 is not legal; give a number >= 0"),
        ({"gamma": np.nan}, "gamma=nan is not legal"),
        ({"C": 0.0}, "C=0.0 is not legal"),
        ({"C": "best"}, "C='best' is not legal"),
        ({"energy": -0.1}, "energy=-0.1 is not legal; give a number from 0 to 1"),
        ({"energy": 1.1}, "energy=1.1 is not legal"),
        ({"energy_of": "variance"}, "energy_of='variance' is not legal"),
        ({"update_sign": "+"}, r"update_sign='\+' is not legal; choose one of printed, gradient"),
        ({"scaling": "none"}, "scaling='none' is not legal"),
        ({"max_iter": 0}, "max_iter=0 is not legal"),
        ({"max_iter": 2.0}, "max_iter=2.0 is not legal; give an integer >= 1"),
        ({"input_scale": "max"}, "input_scale='max' is not legal; choose one of none, zscore, unit"),
        ({"tol": -1}, "tol=-1 is not legal"),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": "auto"}, "n_components='auto' is not legal"),
        ({"n_components": 8, "kernel": "linear"}, "n_components=8 exceeds the 7 dimensions"),
        ({"n_components": 11, "landmarks": 10}, "n_components=11 exceeds the 10 dimensions"),
        ({"landmarks": 61}, "landmarks=61 with 60 items; choose from 1 to 60"),
        ({"landmarks": "all"}, "landmarks='all' is not legal"),
        ({"landmarks": [3, 60]}, "landmarks contains rows 3 to 60; use rows 0 to 59"),
        ({"graph": "ring"}, "graph='ring' is not legal; choose one of knn, gaussian, kernel"),
        ({"sigma": -1.0}, "sigma=-1.0 is not a positive number"),
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
        ({"graph": "kernel", "kernel": "linear"}, 'graph="kernel" needs kernel values >= 0'),
    ],
)
@pytest.mark.filterwarnings("ignore:The graph has")
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        LPSSVM(**parameters).fit(*multi_label())


@pytest.mark.filterwarnings("ignore:.* no link to any other")
def test_bad_data_are_named():
    X, y, W = two_classes()
    with pytest.raises(InvalidInput, match="labeled items have one class, 5"):
        LPSSVM().fit(X, np.full(60, 5))
    with pytest.raises(InvalidInput, match="no label on which they differ"):
        LPSSVM().fit(X, np.ones((60, 2)))
    with pytest.raises(InvalidInput, match="All 60 items are unlabeled"):
        LPSSVM().fit(X, np.full(60, -1))
    with pytest.raises(InvalidInput, match="contains NaN"):
        LPSSVM().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(InvalidInput, match="contains infinity"):
        LPSSVM().fit(np.where(X > 1, np.inf, X), y)
    with pytest.raises(InvalidInput, match=r"y\[0, 0\] = 2 is not a label; expected 0, 1"):
        LPSSVM().fit(X, np.full((60, 2), 2))
    with pytest.raises(InvalidInput, match="X has 60 rows and Y has 59"):
        LPSSVM().fit(X, y[:-1])
    with pytest.raises(InvalidInput, match="links no two items"):
        LPSSVM().fit(X, y, np.zeros((60, 60)))
    with pytest.raises(InvalidInput, match="not symmetric"):
        LPSSVM().fit(X, y, np.triu(W))
    with pytest.raises(InvalidInput, match="is negative"):
        LPSSVM().fit(X, y, -W)
    for equal in (np.zeros((60, 3)), np.full((60, 3), 0.1), sp.csr_array(np.ones((60, 3)))):
        for kernel in ("linear", "rbf"):
            with pytest.raises(InvalidInput, match=r"All 60 items are equal, .* give features that vary"):
                LPSSVM(kernel=kernel).fit(equal, y, W)
    alone = np.where(np.arange(60)[:, None] == 59, X, 0.0)
    links = W.copy()
    links[59] = links[:, 59] = 0.0
    with pytest.raises(InvalidInput, match="all linked items are zero"):
        LPSSVM(kernel="linear").fit(alone, y, links)
    with pytest.raises(InvalidInput, match="None of the 1 landmarks is linked"):
        alone = W.copy()
        alone[0] = alone[:, 0] = 0.0
        with pytest.warns(UserWarning, match="1 of 60 items have no link"):
            LPSSVM(landmarks=[0]).fit(X, y, alone)


def test_bad_kernels_are_named():
    X, y, W = two_classes()
    K = rbf_kernel(X)
    fit = LPSSVM(kernel="precomputed").fit
    with pytest.raises(InvalidInput, match=r"shape \(60, 7\); it should be a square matrix"):
        fit(X, y, W)
    with pytest.raises(InvalidInput, match=r"kernel is not symmetric: \["):
        fit(np.triu(K), y, W)
    with pytest.raises(InvalidInput, match="not distances"):
        fit(1 - K, y, W)
    with pytest.raises(InvalidInput, match=r"pass X\.toarray"):
        fit(sp.csr_array(K), y, W)
    with pytest.raises(InvalidInput, match="input_scale='zscore' scales features, but the kernel is precomp"):
        LPSSVM(kernel="precomputed", input_scale="zscore").fit(K, y, W)
    values, vectors = np.linalg.eigh(K)
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        fit((vectors * (values - values.mean())) @ vectors.T, y, W)
    indefinite = np.eye(60)
    indefinite[:3, :3] = [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
    with pytest.raises(InvalidInput, match="a squared length is -"):
        fit(indefinite, y, W)
    with pytest.raises(InvalidInput, match=r"n_neighbors=0 is not legal"):
        LPSSVM(kernel="precomputed", n_neighbors=0).fit(K, y)
    with pytest.warns(UserWarning, match="n_neighbors=99, but there are only 59 other"):
        LPSSVM(kernel="precomputed", n_neighbors=99).fit(K, y)


def test_exact_form_beyond_the_budget_asks_for_landmarks(monkeypatch):
    X, y, W = two_classes()
    monkeypatch.setattr("embedding_core.linalg.kernel_space.MEMORY_BUDGET_BYTES", 8 * 5 * 60 * 20)
    with pytest.raises(InvalidInput, match="pass landmarks=20 or fewer"):
        LPSSVM().fit(X, y, W)
    LPSSVM(landmarks=20).fit(X, y, W)
