"""The histogram intersection kernel, alone and as a kernel of the estimators."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core import LPP, LPPSVM, LPSSVM, MDDM, DiscriminativeProjections, KernelDLE, LapRLS, LapSVM
from embedding_core.errors import InvalidInput
from embedding_core.linalg.l1 import intersection_kernel
from tests.synthetic import single_label


def histograms(n: int, p: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, p)) * (rng.random((n, p)) < 0.3)
    X[:, 0] += 0.1
    return X / X.sum(axis=1, keepdims=True)


def literal(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.array([[np.minimum(x, z).sum() for z in Z] for x in X])


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (37, 70, 9), (64, 33, 130)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("form_of_others", [np.asarray, sp.csr_array])
def test_it_is_the_sum_of_minima(shape, form, form_of_others):
    n, m, p = shape
    X, Z = histograms(n, p), histograms(m, p, seed=1)
    found = intersection_kernel(form(X), form_of_others(Z))
    np.testing.assert_allclose(found, literal(X, Z), rtol=1e-12, atol=1e-14)


def test_of_one_set_it_is_symmetric_and_positive_semidefinite_with_the_lengths_on_the_diagonal():
    X = histograms(80, 30)
    K = intersection_kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K.diagonal(), 1.0, rtol=1e-15)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert K.min() >= 0


def test_values_do_not_depend_on_the_blocks(monkeypatch):
    X = histograms(60, 20)
    expected = intersection_kernel(X)
    monkeypatch.setattr("embedding_core.threads.BLOCK_PAIRS", 60)
    np.testing.assert_array_equal(intersection_kernel(X), expected)
    np.testing.assert_array_equal(intersection_kernel(X[7:9], X), expected[7:9])


@pytest.mark.parametrize(
    ("X", "Z", "message"),
    [
        ([[0.5, -0.5]], None, "not negative, but found -0.5; pass histograms, and set input_scale"),
        ([[0.5, np.nan]], None, "not negative, but found nan"),
        ([[0.5, 0.5]], [[1.0]], "histograms of 2 and 1 bins"),
        ([0.5, 0.5], None, r"histograms have shape \(2,\)"),
    ],
)
def test_other_input_is_refused(X, Z, message):
    with pytest.raises(InvalidInput, match=message):
        intersection_kernel(X, Z)


def test_the_memory_budget_is_kept():
    with pytest.raises(InvalidInput, match=r"kernel of 50 x 50 items needs .* budget .*; use landmarks"):
        intersection_kernel(histograms(50, 3), memory_budget=19_000)


ESTIMATORS = [
    LPSSVM(n_components=3),
    LapSVM(),
    LapRLS(),
    LPPSVM(n_components=3),
    KernelDLE(few_labels=False),
    KernelDLE(few_labels=True),
    LPP(n_components=3),
    MDDM(),
    DiscriminativeProjections(),
]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_an_estimator_gives_what_it_gives_for_the_precomputed_kernel(estimator, form):
    from sklearn.base import clone

    X, y = single_label(n=60, p=12)
    X = np.abs(X)
    y = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    new = np.abs(single_label(n=20, p=12, seed=1)[0])
    W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 10)  # the same graph for both
    own = clone(estimator).set_params(kernel="intersection").fit(form(X), y, affinity=W)
    given = clone(estimator).set_params(kernel="precomputed").fit(intersection_kernel(X), y, affinity=W)
    method = "decision_function" if hasattr(own, "decision_function") else "transform"
    found = getattr(own, method)(form(new))
    expected = getattr(given, method)(intersection_kernel(new, X))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_kernel_graph_has_intersections_as_weights(form):
    X, y = single_label(n=40, p=12)
    X = np.abs(X)
    model = LapRLS(kernel="intersection", graph="kernel", n_neighbors=39).fit(form(X), y)
    given = LapRLS(kernel="intersection").fit(form(X), y, affinity=literal(X, X) * (1 - np.eye(40)))
    np.testing.assert_allclose(model.decision_function(form(X)), given.decision_function(form(X)), rtol=1e-6)


def test_scaled_features_are_refused_with_the_setting_to_change():
    X, y = single_label()
    with pytest.raises(InvalidInput, match='input_scale="none"'):
        LPSSVM(kernel="intersection", input_scale="zscore").fit(np.abs(X), y)
