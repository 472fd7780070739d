"""Calibration: scores of any scale become probabilities, with one increasing function per label.

A score is comparable between labels and between fits only after calibration: a support vector machine with
C = 1 may put the items of a rare label at -0.9 and all others at -1, one with C = 100 at +0.8 and -1. Both
rank the items equally well, but no common threshold serves both.

Platt's logistic function [1]_ is fitted to out-of-fold scores, so that the model that is calibrated has not
seen the labels of the rows. Labels with few items borrow from the others: the two parameters of a label are
shrunk towards those of one function fitted to all labels together. `SHRINKAGE` was confirmed inside training
parts of mediamill_reduced, corel5k, yahoo_science and digits: weights from 0.3 to 3 cannot be distinguished,
see `tasks/reproduce/RESULTS.md`.

References
----------
.. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.inner_choice import ScoreOptions, rate_scores

FEWEST_ITEMS = 2
"""Labels with fewer scored items use the function of all labels together."""
LEAST_SLOPE = 0.1
"""Lower limit of a label's slope, as a fraction of the common slope: the order of the items never changes."""
SHRINKAGE = 1.0
"""Weight of the common function; an item at the boundary has the weight 1 / 4."""
_STEPS = 50
_SMALLEST = 1e-3  # slope per standard deviation of scores that do not separate the labels at all


@dataclass(frozen=True)
class Calibration:
    """Platt scaling: 1 / (1 + exp(-(slope s + offset))) of the score s of each label; parameters (K,)."""

    slopes: NDArray[np.float64]
    offsets: NDArray[np.float64]

    def apply(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities (m, K); infinite scores become 0 and 1."""
        probabilities: NDArray[np.float64] = expit(scores * self.slopes + self.offsets)
        return probabilities


FitCalibration = Callable[[NDArray[np.float64], NDArray[np.int8]], Calibration]
"""Fits a calibration to out-of-fold scores (l, K) and labels (l, K)."""


@dataclass(frozen=True)
class CalibratedChoice:
    """The chosen option, its calibration, and its calibrated out-of-fold scores (n, K) if there are any."""

    option: int
    calibration: Calibration
    left_out: NDArray[np.float64] | None


def logistic_link(n_labels: int) -> Calibration:
    """Return 1 / (1 + exp(-s)): for scores that are log-odds, or that are not to be calibrated."""
    return Calibration(np.ones(n_labels), np.zeros(n_labels))


def choose_calibrated(
    Y: NDArray[np.int8],
    n_options: int,
    score_options: ScoreOptions,
    n_splits: int = 3,
    seed: int = 0,
    calibrate: bool = True,
    fit: FitCalibration | None = None,
) -> CalibratedChoice:
    """Calibrate the out-of-fold scores of every option and choose the best by `rate_scores`.

    The first option wins ties. With fewer than two rows the first option is returned uncalibrated.

    Parameters
    ----------
    Y : (n, K) array of 0/1
    n_options : int
    score_options : callable
        As in `choose_scored`, with scores of any scale. A label that is the same in all training rows has the
        score inf or -inf.
    n_splits, seed
        Number and seed of the folds; there are at most as many folds as rows.
    calibrate : bool, default=True
        False applies the logistic function to the scores as they are.
    fit : callable, optional
        Fits a calibration to out-of-fold scores and labels; `calibrate_shared` if not given.
    """
    if len(Y) < 2:
        return CalibratedChoice(0, logistic_link(Y.shape[1]), None)
    gathered = np.zeros((n_options, *Y.shape))
    for train, test in stratified_folds(Y, min(n_splits, len(Y)), seed):
        for option, scores in enumerate(score_options(train, test)):
            gathered[option, test] = scores
    fit = fit or calibrate_shared
    links = [fit(one, Y) if calibrate else logistic_link(Y.shape[1]) for one in gathered]
    calibrated = [link.apply(one) for link, one in zip(links, gathered, strict=True)]
    ratings = [rate_scores(Y, one) for one in calibrated]
    best = max(range(n_options), key=lambda option: (*ratings[option], -option))
    return CalibratedChoice(best, links[best], calibrated[best])


def calibrate_shared(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> Calibration:
    """Fit increasing functions to out-of-fold scores (l, K) and labels Y (l, K); see the module.

    Parameters
    ----------
    scores : ndarray of shape (l, K)
        Infinite and NaN scores are ignored: they belong to folds in which a label could not be trained.
    Y : ndarray of shape (l, K)
        0/1 labels.

    Returns
    -------
    Calibration
        Slopes are positive. A label that no row has, or every row has, is calibrated like the others and
        should be predicted as its constant.

    Notes
    -----
    In units of the standard deviation of all scores, with the common parameters (a_0, b_0), a label minimizes
    its log loss + SHRINKAGE ((a - a_0)² + (b - b_0)²) / 2. As in [1]_ the targets are (n_+ + 1) / (n_+ + 2)
    and 1 / (n_- + 2) instead of 1 and 0, where n_+ and n_- count the scored items with and without the label.
    """
    known = np.isfinite(scores)
    K = scores.shape[1]
    if not known.any():
        return Calibration(np.ones(K), np.zeros(K))
    targets = _smooth_targets(Y, known)
    spread, common = _common_function(scores, known, targets)
    s = np.where(known, scores, 0.0) / spread
    start = np.tile(common[:, None], (1, K))
    fitted = _fit_logistic(s, targets, known, start, SHRINKAGE)
    flat = fitted[0] < LEAST_SLOPE * common[0]
    if flat.any():
        start[0, flat] = LEAST_SLOPE * common[0]
        fitted[:, flat] = _fit_logistic(
            s[:, flat], targets[:, flat], known[:, flat], start[:, flat], SHRINKAGE, fixed_slope=True
        )
    rare = ((Y == 1) & known).sum(axis=0) < FEWEST_ITEMS
    fitted[:, rare] = common[:, None]
    return Calibration(fitted[0] / spread, fitted[1])


def calibrate_together(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> Calibration:
    """Fit one increasing function for all labels, as Platt does for one; parameters of `calibrate_shared`.

    Neither the labels of an item nor the items of a label change their order. A label that no row has, or
    every row has, keeps the score 0 or 1.

    >>> found = calibrate_together(np.array([[0.9, 0.4], [0.1, 0.6]]), np.array([[1, 0], [0, 1]]))
    >>> bool(found.slopes[0] == found.slopes[1]), bool(found.offsets[0] == found.offsets[1])
    (True, True)
    """
    known, K = np.isfinite(scores), scores.shape[1]
    constant = np.select([Y.min(axis=0) == 1, Y.max(axis=0) == 0], [np.inf, -np.inf], 0.0)
    known[:, constant != 0] = False
    targets = _smooth_targets(Y, known, axis=None)
    spread, (slope, offset) = _common_function(scores, known, targets) if known.any() else (1.0, (1.0, 0.0))
    return Calibration(np.full(K, slope / spread), np.where(constant == 0, offset, constant))


def _common_function(
    scores: NDArray[np.float64], known: NDArray[np.bool_], targets: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the spread of the known scores, and in units of it slope and offset (2,) for all labels."""
    spread = float(scores[known].std()) or 1.0
    s = np.where(known, scores, 0.0) / spread
    together = _fit_logistic(
        s.reshape(-1, 1), targets.reshape(-1, 1), known.reshape(-1, 1), np.zeros((2, 1)), 1e-6
    )
    return spread, np.array([max(together[0, 0], _SMALLEST), together[1, 0]])


def _smooth_targets(
    Y: NDArray[np.int8], known: NDArray[np.bool_], axis: int | None = 0
) -> NDArray[np.float64]:
    """Return Platt's targets (l, K): less sure than 0 and 1, by the counts of each label, or of all."""
    positives = ((Y == 1) & known).sum(axis=axis)
    negatives = ((Y == 0) & known).sum(axis=axis)
    targets: NDArray[np.float64] = np.where(Y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    return targets


def _fit_logistic(
    s: NDArray[np.float64],
    targets: NDArray[np.float64],
    known: NDArray[np.bool_],
    prior: NDArray[np.float64],
    weight: float,
    fixed_slope: bool = False,
) -> NDArray[np.float64]:
    """Return slope and offset (2, k) of k independent logistic fits by damped Newton steps from the prior."""

    def loss(found: NDArray[np.float64]) -> NDArray[np.float64]:
        f = s * found[0] + found[1]
        errors = np.where(known, np.logaddexp(0, f) - targets * f, 0.0).sum(axis=0)
        total: NDArray[np.float64] = errors + weight * ((found - prior) ** 2).sum(axis=0) / 2
        return total

    found, free = prior.copy(), np.array([[0.0 if fixed_slope else 1.0], [1.0]])
    now = loss(found)
    for _ in range(_STEPS):
        step = _newton_step(s, targets, known, found, prior, weight, free)
        size = np.ones(found.shape[1])
        for _ in range(30):
            worse = loss(found - size * step) > now
            if not worse.any():
                break
            size[worse] /= 2
        size[worse] = 0.0
        found = found - size * step
        now = loss(found)
        if np.abs(size * step).max() < 1e-10:
            break
    return found


def _newton_step(
    s: NDArray[np.float64],
    targets: NDArray[np.float64],
    known: NDArray[np.bool_],
    found: NDArray[np.float64],
    prior: NDArray[np.float64],
    weight: float,
    free: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the Newton step (2, k); parameters with free=0 do not move."""
    p = expit(s * found[0] + found[1])
    error, curve = np.where(known, p - targets, 0.0), np.where(known, p * (1 - p), 0.0)
    gradient = free * (np.array([(error * s).sum(axis=0), error.sum(axis=0)]) + weight * (found - prior))
    aa = (curve * s * s).sum(axis=0) + weight
    ab = (curve * s).sum(axis=0) * free[0]
    bb = curve.sum(axis=0) + weight
    determinant = aa * bb - ab * ab
    step: NDArray[np.float64] = (
        np.array([bb * gradient[0] - ab * gradient[1], aa * gradient[1] - ab * gradient[0]]) / determinant
    )
    return step
