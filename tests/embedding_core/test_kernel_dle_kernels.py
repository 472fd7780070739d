"""The parts of kernel DLE: distances, kernels, metrics, graph, calibration, votes, thresholds."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression

from embedding_core.kernel_dle import classifier, kernels
from embedding_core.kernel_dle.classifier import fit_calibration, fit_votes
from embedding_core.kernel_dle.estimator import mean_squared_gradient
from embedding_core.kernel_dle.kernels import (
    fit_kernel,
    l1_gradients,
    multi_scale,
    sensitivity_metric,
    whitening_metric,
)
from embedding_core.kernel_dle.solution import Problem, local_graph, local_kernel_graph, smoothness, solve
from embedding_core.linalg.l1 import l1_distances
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.threshold_tuning import TARGETS, tune_thresholds
from embedding_core.threads import for_row_blocks
from tests.literal_kernel_dle import literal_kernel, literal_laplacian
from tests.synthetic import multi_label, single_label, sparse_items

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (37, 70, 9), (64, 33, 130)])
def test_l1_distances_are_scipy_s(shape):
    n, m, p = shape
    A, B = RNG.normal(size=(n, p)), RNG.normal(size=(m, p))
    np.testing.assert_allclose(l1_distances(A, B), cdist(A, B, "cityblock"), rtol=1e-13)
    np.testing.assert_allclose(l1_distances(A[:, ::-1], B[:, ::-1]), cdist(A, B, "cityblock"), rtol=1e-13)
    sparse = sp.csr_array(A * (A > 0)), sp.csr_array(B * (B > 0))
    np.testing.assert_allclose(
        l1_distances(*sparse), cdist(A * (A > 0), B * (B > 0), "cityblock"), rtol=1e-12, atol=1e-12
    )


def test_l1_gradients_are_sums_of_signs():
    A, B, weights = RNG.normal(size=(6, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(6, 5))
    expected = np.einsum("ab,abk->ak", weights, np.sign(A[:, None] - B[None]))
    np.testing.assert_allclose(l1_gradients(A, B, weights), expected, atol=1e-13)
    assert not l1_gradients(A, A[:1], np.ones((6, 1)))[0].any()


@pytest.mark.parametrize("threads", [1, 3, None])
def test_blocks_cover_all_rows_once(threads):
    seen, lock = np.zeros(1000, dtype=int), threading.Lock()

    def work(rows):
        with lock:
            seen[rows] += 1

    for_row_blocks(1000, 2**15, work, threads)
    assert (seen == 1).all()

    def fail(rows):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        for_row_blocks(1000, 2**15, fail, threads)


def test_powers_of_one_exponential_are_the_five_widths():
    d = RNG.exponential(size=(30, 20)) * 3
    expected = np.mean([np.exp(-s * d / 1.7) for s in (1 / 4, 1 / 2, 1, 2, 4)], axis=0)
    np.testing.assert_allclose(multi_scale(d.copy(), 1.7), expected, rtol=1e-13)


def test_the_mixture_is_the_printed_one():
    X = RNG.normal(size=(50, 6)) * [1, 10, 100, 1, 1, 0.1] + 5
    kernel = fit_kernel("mixture", X[:40], 0)
    K = kernel.columns(X, kernel.take(X, np.arange(40)))
    np.testing.assert_allclose(K, literal_kernel(X, np.arange(40))[:, :40], atol=1e-12)
    np.testing.assert_allclose(np.diag(K[:40]), 1.0, atol=1e-12)
    assert np.linalg.eigvalsh(K[:40]).min() > 0


@pytest.mark.parametrize("kind", ["sparse", "text"])
def test_kernels_of_sparse_rows_are_the_printed_ones(kind):
    X = sparse_items(40, 30, density=0.3).toarray()
    C = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    pairs = np.triu_indices(40, 1)

    def spread(distances):
        median = np.median(distances[pairs])
        return np.mean([np.exp(-s * distances / median) for s in (1 / 4, 1 / 2, 1, 2, 4)], axis=0)

    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    parts = [spread(cdist(C, C, "sqeuclidean")), C @ C.T / (C**2).sum(axis=1).mean()]
    if kind == "sparse":
        parts += [spread(cdist(Z, Z, "sqeuclidean")), spread(cdist(Z, Z, "cityblock"))]
    expected = np.mean(parts, axis=0)
    for rows in (X, sp.csr_array(X)):
        kernel = fit_kernel(kind, rows, 0)
        np.testing.assert_allclose(kernel.columns(rows, rows), expected, atol=1e-10)


def test_medians_of_many_rows_are_those_of_a_sample(monkeypatch):
    X = RNG.normal(size=(400, 3))
    exact = fit_kernel("mixture", X, 0)
    monkeypatch.setattr(kernels, "MEDIAN_ROWS", 300)
    drawn = fit_kernel("mixture", X, 1)
    np.testing.assert_allclose(drawn.medians, exact.medians, rtol=0.1)
    assert drawn.medians == fit_kernel("mixture", X, 1).medians
    assert drawn.medians != fit_kernel("mixture", X, 2).medians


def test_equal_rows_have_a_width():
    kernel = fit_kernel("mixture", np.ones((5, 2)), 0)
    assert kernel.medians == (1.0, 1.0)
    mostly = np.zeros((9, 1))
    mostly[0] = 3.0
    assert all(median > 0 for median in fit_kernel("mixture", mostly, 0).medians)


@pytest.mark.parametrize("shape", [(60, 7), (20, 45)])
def test_whitening_is_the_inverse_root_of_the_shrunk_scatter(shape):
    X, y = single_label(*shape)
    Y = np.eye(4, dtype=np.int8)[y]
    metric = whitening_metric(X, Y)
    deviations = X - np.stack([X[y == c].mean(axis=0) for c in range(4)])[y]
    S_w, _ = ledoit_wolf(deviations, assume_centered=True)
    root = metric.apply(np.eye(shape[1]))
    np.testing.assert_allclose(root @ S_w @ root, np.eye(shape[1]), atol=1e-9)


def test_whitening_needs_rows_that_deviate_and_takes_rows_without_a_label():
    X, Y = multi_label(30)
    assert whitening_metric(X[:4], np.eye(4, dtype=np.int8)) is None
    Y[3:9] = 0
    assert np.isfinite(whitening_metric(X, Y).apply(X)).all()


def test_the_weights_of_features_follow_their_slopes():
    np.testing.assert_allclose(
        sensitivity_metric(np.array([0.0, 2.0, 4.0])).weights, np.sqrt([0.1, 1.0, 1.9])
    )
    np.testing.assert_allclose(sensitivity_metric(np.zeros(3)).weights, 1.0)


def test_gradients_are_those_of_the_scores():
    X, Y = multi_label(40, 5)
    kernel = fit_kernel("mixture", X, 0)
    everything = np.ones(40, dtype=bool)
    (fit,) = solve(Problem(X, kernel, everything, Y, None, None, 0), {0.0: [0.1]})
    at, step = X[:8] + 0.01, 1e-6
    slopes = np.zeros(5)
    for j in range(5):
        move = np.zeros(5)
        move[j] = step * kernel.scaler.scale_[j]
        change = (fit.machine.scores(at + move) - fit.machine.scores(at - move)) / (2 * step)
        slopes[j] = (change**2).sum(axis=1).mean()
    np.testing.assert_allclose(mean_squared_gradient(fit.machine, at), slopes, rtol=1e-5)


def test_the_graph_is_the_printed_one():
    X = RNG.normal(size=(60, 4))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    L, R = literal_laplacian(X), RNG.normal(size=(60, 5))
    W = local_graph(Z)
    np.testing.assert_allclose(smoothness(W, R), R.T @ L @ R, atol=1e-10)
    np.testing.assert_allclose(smoothness(W, sp.csr_array(R)), R.T @ L @ R, atol=1e-10)
    np.testing.assert_allclose(local_kernel_graph(Z @ Z.T).toarray(), W.toarray(), atol=1e-10)


def test_copies_and_lonely_rows_do_not_harm_the_graph():
    X = np.vstack([np.zeros((15, 2)), RNG.normal(size=(20, 2))])
    W = local_graph(X)
    assert np.isfinite(W.data).all()
    alone = sp.csr_array(np.diag([0.0, 0.0, 0.0]))
    assert not smoothness(alone, np.ones((3, 2))).any()


def test_calibration_is_a_logistic_regression_on_unit_spread():
    Y = (RNG.random((200, 3)) < [0.3, 0.5, 0.8]).astype(np.int8)
    scores = Y * 0.2 + RNG.normal(size=Y.shape) * 0.1
    probabilities = fit_calibration(scores, Y).apply(scores)
    for k in range(3):
        unit = scores[:, [k]] / scores[:, k].std()
        plain = LogisticRegression(C=1.0).fit(unit, Y[:, k]).predict_proba(unit)[:, 1]
        np.testing.assert_allclose(probabilities[:, k], plain, atol=1e-12)
    Y[:, 0], Y[:, 1] = 1, 0
    fixed = fit_calibration(scores, Y).apply(scores)
    assert (fixed[:, 0] == 1).all()
    assert (fixed[:, 1] == 0).all()


def test_votes_leave_the_row_itself_out():
    Z = RNG.normal(size=(40, 2))
    Y = (RNG.random((40, 3)) < 0.4).astype(np.int8)
    model, left_out = fit_votes(Z, Y, 0)
    for row in (0, 17, 39):
        others = np.delete(np.arange(40), row)
        distances = np.linalg.norm(Z[others] - Z[row], axis=1)
        near = np.argsort(distances)[: model.k]
        weights = 1 / distances[near]
        expected = weights @ Y[others][near] / weights.sum()
        np.testing.assert_allclose(left_out[row], expected, atol=1e-12)
    assert model.scores(Z[:3]).tolist() == Y[:3].tolist()  # a new row on the spot takes all the weight


def test_of_many_rows_a_sample_votes(monkeypatch):
    monkeypatch.setattr(classifier, "MOST_ROWS", 25)
    Z = RNG.normal(size=(60, 2))
    Y = (Z > 0).astype(np.int8)
    model, left_out = fit_votes(Z, Y, 0)
    assert len(model.Z) == 25
    assert left_out.shape == Y.shape
    asked = [int(np.flatnonzero((row == Z).all(axis=1))[0]) for row in model.Z]
    same = [np.array_equal(left_out[row], Y[row]) for row in asked]
    assert not all(same)  # an asked row does not answer for itself


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "metric"), [("micro_f1", "micro_f1"), ("label_f1", "macro_f1")])
def test_thresholds_have_the_best_f1_on_their_rows(rule, metric):
    rng = np.random.default_rng(1)
    Y = (rng.random((80, 3)) < 0.3).astype(np.int8)
    scores = (Y * 0.3 + rng.random(Y.shape) * 0.6) * [0.3, 1.0, 0.9]  # labels of different levels

    def f1(thresholds):
        return multilabel_metrics(Y, (scores > thresholds).astype(int), scores)[metric]

    tuned = tune_thresholds(scores, Y, rule)
    tried = [np.full(3, t) for t in np.linspace(0, 1, 101)]
    assert f1(tuned) >= max(map(f1, tried))
    assert f1(tuned) > f1(np.full(3, 0.5))
    assert (len(set(tuned)) == 1) == (metric == "micro_f1")


def test_labels_that_no_item_has_are_never_predicted():
    Y = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 1]], dtype=np.int8)
    for metric in TARGETS:
        assert tune_thresholds(Y * 0.5, Y, metric)[1:].tolist() == [np.inf, -np.inf]
