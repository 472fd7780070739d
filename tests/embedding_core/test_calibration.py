"""Calibration: increasing functions per label, fitted to out-of-fold scores, safe for rare labels."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from embedding_core.classifiers.baselines import ScaledSVM
from embedding_core.model_selection.calibration import (
    LEAST_SLOPE,
    SHRINKAGE,
    calibrate_shared,
    choose_calibrated,
)
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.threshold_tuning import tune_thresholds


def draw(n=400, seed=0):
    """Log-odds of three labels, the last of them rare, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=(n, 3)) * [2, 1, 1] - [0, 1, 3]
    return odds, (rng.random(odds.shape) < expit(odds)).astype(np.int8)


def literal(scores, Y):
    """Slopes and offsets by a general optimizer, label by label."""
    s = scores / scores.std()
    targets = np.where(Y == 1, (Y.sum(axis=0) + 1) / (Y.sum(axis=0) + 2), 1 / ((Y == 0).sum(axis=0) + 2))

    def solve(s, t, prior, weight):
        def loss(x):
            f = x[0] * s + x[1]
            return (np.logaddexp(0, f) - t * f).sum() + weight * ((x - prior) ** 2).sum() / 2

        return minimize(loss, prior, tol=1e-12).x

    common = solve(s.ravel(), targets.ravel(), np.zeros(2), 1e-6)
    found = np.array([solve(s[:, k], targets[:, k], common, SHRINKAGE) for k in range(Y.shape[1])])
    return found[:, 0] / scores.std(), found[:, 1]


def test_it_is_the_literal_optimum():
    odds, Y = draw()
    found = calibrate_shared(7 * odds, Y)
    slopes, offsets = literal(7 * odds, Y)
    np.testing.assert_allclose(found.slopes, slopes, rtol=1e-4)
    np.testing.assert_allclose(found.offsets, offsets, atol=1e-3)


def test_probabilities_are_recovered_from_scores_of_any_scale():
    odds, Y = draw(4000)
    for scale, shift in ((1, 0), (0.1, -1), (50, 20)):
        found = calibrate_shared(scale * odds + shift, Y).apply(scale * odds + shift)
        assert np.abs(found - expit(odds)).mean() < 0.02


def test_order_within_a_label_never_changes():
    odds, Y = draw()
    scores = odds * [1, -1, 1]  # the second label is ranked the wrong way round
    found = calibrate_shared(scores, Y)
    assert (found.slopes > 0).all()
    np.testing.assert_array_equal(np.argsort(found.apply(scores), axis=0), np.argsort(scores, axis=0))
    noise = np.random.default_rng(1).normal(size=Y.shape)
    assert (calibrate_shared(noise, Y).slopes > 0).all()
    assert (calibrate_shared(-odds, Y).slopes > 0).all()
    assert found.slopes[1] == pytest.approx(LEAST_SLOPE * found.slopes.max(), rel=1)


def test_a_label_with_one_scored_item_uses_the_function_of_all_labels():
    odds, Y = draw()
    Y[:, 2] = 0
    Y[5, 2] = 1
    rare = calibrate_shared(odds, Y)
    Y[5, 2] = 0
    without = calibrate_shared(odds, Y)
    np.testing.assert_allclose(without.slopes[2], rare.slopes[2], rtol=0.05)
    assert np.isfinite(rare.apply(odds)).all()


def test_scores_of_labels_that_could_not_be_trained_are_ignored():
    odds, Y = draw()
    holed = odds.copy()
    holed[:100, 1] = -np.inf
    found, short = calibrate_shared(holed, Y), calibrate_shared(np.where(holed > -np.inf, odds, np.nan), Y)
    np.testing.assert_array_equal(found.slopes, short.slopes)
    assert (found.apply(holed)[:100, 1] == 0).all()
    nothing = calibrate_shared(np.full((4, 2), -np.inf), np.zeros((4, 2), dtype=np.int8))
    assert (nothing.slopes == 1).all()


def motifs(n=200, K=12, seed=0):
    """Items with 0/1 features of which a few determine each label; most labels are rare."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, K + 1)
    Y = np.eye(K, dtype=np.int8)[rng.choice(K, n, p=share / share.sum())]
    Y[rng.random(n) < 0.2, rng.integers(K)] = 1
    return np.hstack([np.repeat(Y, 2, axis=1), rng.random((n, 60)) < 0.02]).astype(np.float64), Y


@pytest.mark.slow
def test_one_threshold_serves_fits_with_different_penalties_only_after_calibration():
    """Why machines were understated: thresholds of folds with one C were applied to a fold with another."""
    X, Y = motifs()
    folds = stratified_folds(Y, 4, seed=0)
    found = {True: np.zeros(Y.shape), False: np.zeros(Y.shape)}
    for number, (train, test) in enumerate(folds):
        model = ScaledSVM(C=0.1 if number == 0 else 100.0).fit(X[train], Y[train])

        def score(rows, asked, X=X[train], Y=Y[train], C=model.C):
            yield ScaledSVM(C=C).fit(X[rows], Y[rows]).decision_values(X[asked])

        for calibrate, scores in found.items():
            link = choose_calibrated(Y[train], 1, score, calibrate=calibrate).calibration
            scores[test] = link.apply(model.decision_values(X[test]))
    test, others = folds[0][1], folds[0][0]
    f1 = {}
    for calibrate, scores in found.items():
        decided = scores[test] > tune_thresholds(scores[others], Y[others], "micro_f1")
        f1[calibrate] = 2 * (decided & (Y[test] == 1)).sum() / (decided.sum() + Y[test].sum())
    assert f1[True] > 0.8
    assert f1[False] < 0.5
