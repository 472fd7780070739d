"""Regression tests of the estimators of the five papers and of those they are compared with."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import linear_kernel

from embedding_core import DLE, LPSSVM, MLDA, SLEML, DiscriminativeProjections, MultiLabelDLE
from embedding_core.eigenmaps.combined_graph import CombinedGraph
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.components import graph_components
from embedding_core.graph.knn import nearest_by_distance, nearest_others
from embedding_core.graph.spectral import smallest_eigenpairs
from embedding_core.labels import as_indicator
from embedding_core.transduction.consistency import LocalGlobalConsistency
from embedding_core.transduction.harmonic import HarmonicFunctions
from embedding_core.transduction.kmeans_laplacian import KMeansLaplacian
from embedding_core.transduction.mlgf import MLGF
from embedding_core.transduction.spectral_transducer import SpectralGraphTransducer, minimize_on_sphere
from tests.core_estimators import NAMES, fresh, outputs, partly_labeled
from tests.synthetic import multi_label, single_label


def shuffled(n, seed=3):
    return np.random.default_rng(seed).permutation(n)


def test_weights_of_equal_sums_give_no_column_of_rounding_errors():
    X, y = single_label(60, 5, K=3)
    weight = np.random.default_rng(0).permutation(np.repeat([0.1, 0.2, 0.3, 0.4, 0.7], 4))
    weight = np.concatenate([weight[np.argsort(shuffled(20, k))] for k in range(3)])
    y = np.repeat([0, 1, 2], 20)
    W = build_knn_graph(X, 8)
    order = shuffled(60)
    models = [
        DiscriminativeProjections(n_components=4).fit(X[rows], y[rows], W[rows][:, rows], weight[rows])
        for rows in (np.arange(60), order)
    ]
    np.testing.assert_allclose(models[0].eigenvalues_, models[1].eigenvalues_, atol=1e-9)
    assert np.abs(models[0].label_projection_).max() < 1e6


@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_class_names_may_contain_unlabeled_items(name):
    X, y = partly_labeled()
    given = [-1 if c < 0 else "abcd"[c] for c in y]
    plain = fresh(name).fit(X, np.array(given, dtype=object))
    assert list(fresh(name).fit(X, given).classes_) == list(plain.classes_) == list("abcd")


def test_the_string_minus_one_is_refused():
    with pytest.raises(InvalidInput, match='the string "-1"'):
        as_indicator(np.array(["cat", "-1", "dog"]))
    with pytest.raises(InvalidInput, match="y is not an array"):
        as_indicator([[0, 1], [1]])


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale", [0.1, 1e-30])
def test_neighbors_of_single_precision_are_those_of_double(form, scale):
    X = (np.random.default_rng(0).integers(0, 20, (800, 3)) * scale).astype(np.float32)
    found, expected = nearest_others(form(X), 10), nearest_others(X.astype(np.float64), 10)
    np.testing.assert_array_equal(found, expected)


def test_ties_of_precomputed_distances_are_broken_as_for_items():
    X = np.random.default_rng(2).integers(0, 3, (200, 4)).astype(float)
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    expected = np.sort(nearest_others(X, 6), axis=1)
    np.testing.assert_array_equal(nearest_by_distance(squared, 6), expected)
    y = np.arange(200) % 3
    plain = DiscriminativeProjections(kernel="linear", n_neighbors=6).fit(X, y)
    by_kernel = DiscriminativeProjections(kernel="precomputed", n_neighbors=6).fit(linear_kernel(X), y)
    np.testing.assert_allclose(by_kernel.sigma_, plain.sigma_)


def test_many_components_need_memory_only_for_the_requested_columns():
    n = 4000
    i = np.arange(0, n, 2)
    W = sp.csr_array((np.ones(n), (np.r_[i, i + 1], np.r_[i + 1, i])), shape=(n, n))
    graph = CombinedGraph(W)
    components = graph_components(W)
    tracemalloc.start()
    found = smallest_eigenpairs(graph, 2, components)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    np.testing.assert_allclose(found.coordinates.T @ (graph.degree[:, None] * found.coordinates), np.eye(2))


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_signs_of_a_kernel_embedding_do_not_depend_on_the_order_or_form_of_rows(form):
    X, y = partly_labeled(70)
    W = build_knn_graph(X, 8)
    plain = LPSSVM(n_components=6, max_iter=1).fit(X, y, W)
    for seed in range(5):
        rows = shuffled(70, seed)
        turned = LPSSVM(n_components=6, max_iter=1).fit(form(X[rows]), y[rows], W[rows][:, rows])
        np.testing.assert_allclose(turned.embedding_, plain.embedding_[rows], atol=1e-7)
        np.testing.assert_allclose(turned.transform(form(X)), plain.embedding_, atol=1e-7)


@pytest.mark.parametrize("model", [MLDA(), MultiLabelDLE(), DiscriminativeProjections(n_components=1)])
def test_the_first_of_the_largest_entries_is_positive(model):
    rng = np.random.default_rng(0)
    c = rng.normal(size=60)
    X, y = np.column_stack([c, 1 - c]), (c > 0).astype(int)
    for seed in range(6):
        rows = shuffled(60, seed)
        found = clone(model).fit(X[rows], y[rows]).projection_
        assert found[0, 0] > 0


def test_weight_zero_is_unlabeled_also_in_the_correlation():
    X, Y = multi_label(80)
    weight = np.where(np.arange(80) < 30, 0.0, 1.0)
    hidden = Y.copy()
    hidden[:30] = -1
    W = build_knn_graph(X, 8)
    for correlation in ("train", "all"):
        weighed = MultiLabelDLE(correlation=correlation).fit(X, Y, W, weight)
        plain = MultiLabelDLE(correlation=correlation).fit(X, hidden, W)
        np.testing.assert_allclose(weighed.correlation_, plain.correlation_)
        np.testing.assert_allclose(weighed.projection_, plain.projection_, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_whose_squares_overflow_are_refused(name):
    X, y = partly_labeled()
    with pytest.raises(InvalidInput, match=r"X contains .*e\+154; squares of numbers beyond"):
        fresh(name).fit(X * (1e154 / np.abs(X).max()), y)
    model = fresh(name).fit(X, y)
    with pytest.raises(InvalidInput, match="squares of numbers beyond"):
        model.transform(X * 1e200)


def test_a_sigma_without_links_is_a_bad_candidate_not_an_error():
    rng = np.random.default_rng(0)
    X = np.vstack([np.repeat(rng.normal(size=(8, 3)) * 10, 12, axis=0), rng.normal(size=(6, 3)) * 10])
    y = np.arange(len(X)) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(DLE(n_neighbors=3, sigma="cv").fit(X, y).embedding_).all()


@pytest.mark.parametrize("name", ["DLE", "MultiLabelDLE", "DiscriminativeProjections", "LPSSVM-linear"])
def test_items_without_a_link_are_counted(name):
    X, y = partly_labeled()
    W = build_knn_graph(X, 8).toarray()
    W[:5] = W[:, :5] = 0.0
    with pytest.warns(
        UserWarning, match=r"5 of 60 items have no link to any other item \(the first is row 0\)"
    ):
        fresh(name).fit(X, y, W)


def test_invalid_arrays_landmarks_and_seeds_raise_clear_errors():
    X, y = partly_labeled()
    with pytest.raises(InvalidInput, match="X is a dict; give an array"):
        MLDA().fit({"a": 1}, y)
    for landmarks in ("many", -3, [[1], [2, 3]]):
        with pytest.raises(InvalidInput, match="is not legal; give a number of items"):
            DiscriminativeProjections(landmarks=landmarks).fit(X, y)
    with pytest.raises(InvalidInput, match="random_state='x' is not legal"):
        LPSSVM(landmarks=5, random_state="x").fit(X, y)
    with pytest.raises(InvalidInput, match="y contains no class"):
        DiscriminativeProjections().fit(X, y).transform_labels([-1])


def test_single_precision_eigenmap_on_a_grid():
    X = (np.random.default_rng(1).integers(0, 20, (300, 3)) * 0.1).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SLEML(n_neighbors=10).fit(X, np.arange(300) % 3)
    assert np.isfinite(model.embedding_).all()


def test_a_class_that_no_unlabeled_item_leans_to_is_found_as_zero():
    X, y = load_iris(return_X_y=True)
    y = y.copy()
    y[(y > 0) & (np.arange(150) % 3 > 0)] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = HarmonicFunctions().fit(X, y).transduction_
    assert set(found[y < 0]) <= {1, 2}


def test_labels_that_always_occur_together():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 4))
        Y = np.zeros((60, 3), dtype=int)
        Y[:, 0] = Y[:, 1] = X[:, 0] > 0
        Y[:, 2] = 1 - Y[:, 0]
        Y[::2] = -1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.isfinite(MLGF().fit(X, Y).transduction_scores_).all()


def test_the_minimum_on_a_sphere_lies_on_the_side_of_b():
    assert minimize_on_sphere(np.array([[2.0]]), np.array([-1.0]), 4.0).tolist() == [-2.0]
    rng = np.random.default_rng(0)
    for _ in range(200):
        A = rng.normal(size=(4, 4))
        G = A @ A.T
        lowest = np.linalg.eigh(G)[1][:, 0]
        b = -lowest + 1e-17 * rng.normal(size=4)
        w = minimize_on_sphere(G, b, 3.0)
        np.testing.assert_allclose(w @ w, 3.0)
        best = w @ G @ w - 2 * b @ w
        assert best <= (-w) @ G @ (-w) + 2 * b @ w + 1e-9


def test_the_transducer_gives_items_without_a_link_the_proportions():
    X, y = single_label(40, 3, K=2)
    W = build_knn_graph(X, 6).toarray()
    W[7] = W[:, 7] = 0.0
    hidden = np.where(np.arange(40) % 2, -1, y)
    with pytest.warns(UserWarning, match="No label reaches 1 of 40"):
        model = SpectralGraphTransducer().fit(X, hidden, affinity=W)
    seen = hidden[hidden >= 0]
    np.testing.assert_allclose(model.transduction_scores_[7], [(seen == k).mean() for k in (0, 1)])


def test_a_class_without_unlabeled_mass_keeps_its_share():
    W = np.zeros((5, 5))
    W[0, 1] = W[1, 0] = 1.0  # a component with only labeled items
    W[2, 3] = W[3, 2] = W[3, 4] = W[4, 3] = 1.0
    y = np.array([0, 1, 1, -1, -1])
    model = LocalGlobalConsistency(alpha=0.5).fit(np.zeros((5, 1)), y, affinity=W)
    assert model.transduction_[:2].tolist() == [0, 1]


def test_features_that_have_too_few_dimensions_raise_clear_errors():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInput, match="only the features place the items, and they have 4"):
        KMeansLaplacian(balance=1.0, n_components=6).fit(X, y)


@pytest.mark.parametrize(
    "name", ["DLE", "DLE-balanced", "DiscriminativeProjections", "LPP", "LPP-rbf", "LapSVM"]
)
@pytest.mark.parametrize("factor", [1e-199, 1e199])
def test_edge_weights_of_any_legal_size_give_the_same_embedding(name, factor):
    X, y = partly_labeled()
    W = build_knn_graph(X, 8)
    W = W / W.max()
    plain, scaled = (outputs(fresh(name).fit(X, y, given), X) for given in (W, factor * W))
    shown = "decision_function" if "decision_function" in plain else "embedding"
    unit = np.abs(scaled[shown]).max() / np.abs(plain[shown]).max()
    np.testing.assert_allclose(scaled[shown], unit * plain[shown], atol=1e-6 * np.abs(scaled[shown]).max())
