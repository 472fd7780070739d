"""Choose one of several alternative descriptions of the same items, by exact leave-one-out errors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform

# Rows that the choice looks at; its cost grows with their cube.
MAX_ROWS = 1_000
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)


def leave_one_out_error(X: NDArray[np.floating], Y: NDArray[np.int8]) -> float:
    """Smallest mean squared leave-one-out error of kernel ridge regression over a few penalties.

    Parameters
    ----------
    X : (n, p) array
    Y : (n, K) array in 0/1

    Notes
    -----
    The kernel is 1 + exp(-d² / m) with the squared distances d² and their mean m. With G = K + λ I the
    left-out residual of row i is (G⁻¹ Y)_i / (G⁻¹)_ii. The constant takes the place of an intercept, so no
    row influences its own prediction through the mean of the labels.
    """
    squared = pdist(X.astype(np.float64), "sqeuclidean")
    mean = float(squared.mean()) if len(squared) else 0.0
    values, vectors = eigh(1.0 + np.exp(-squareform(squared) / (mean or 1.0)))
    turned = vectors.T @ Y.astype(np.float64)
    return min(_error(np.maximum(values, 0.0) + penalty, vectors, turned) for penalty in PENALTIES)


def _error(values: NDArray[np.float64], vectors: NDArray[np.float64], turned: NDArray[np.float64]) -> float:
    residuals = (vectors / values) @ turned / ((vectors**2) @ (1.0 / values))[:, None]
    return float(np.mean(residuals**2))


def choose_alternative(parts: Sequence[NDArray[np.floating]], Y: NDArray[np.int8]) -> int:
    """Number of the alternative with the smallest leave-one-out error; the first one among equals.

    Parameters
    ----------
    parts : sequence of (n, p) arrays
        Alternative features of the same items, already scaled.
    Y : (n, K) array in 0/1, rows of -1 for unlabeled items
        Unlabeled rows are not used. With more than `MAX_ROWS` labeled rows, evenly spaced ones are.
    """
    labeled = np.flatnonzero((Y >= 0).all(axis=1))
    rows = labeled[np.linspace(0, len(labeled) - 1, min(len(labeled), MAX_ROWS)).astype(int)]
    if len(rows) < 2:
        return 0
    return int(np.argmin([leave_one_out_error(part[rows], Y[rows]) for part in parts]))
