"""Scores as probabilities: one logistic function a label (Platt)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

PENALTY = 1.0


@dataclass(frozen=True)
class Calibration:
    """1 / (1 + exp(-(slope s + offset))) of the score s of each label; slopes and offsets (K,)."""

    slopes: NDArray[np.float64]
    offsets: NDArray[np.float64]

    def apply(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (m, K)."""
        return expit(scores * self.slopes + self.offsets)


def fit_calibration(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> Calibration:
    """Fit scores (l, K) of rows that their own labels did not decide to labels Y (l, K).

    The penalty C = 1 of the slope holds for scores of unit spread. A label that all rows have, or none, stays
    as it was seen.
    """
    K = Y.shape[1]
    slopes, offsets = np.zeros(K), np.where(Y[0] == 1, np.inf, -np.inf)
    for k in np.flatnonzero(Y.min(axis=0) != Y.max(axis=0)):
        spread = float(scores[:, k].std()) or 1.0
        model = LogisticRegression(C=PENALTY).fit(scores[:, [k]] / spread, Y[:, k])
        slopes[k], offsets[k] = model.coef_[0, 0] / spread, model.intercept_[0]
    return Calibration(slopes, offsets)
