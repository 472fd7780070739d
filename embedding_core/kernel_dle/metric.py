"""Linear maps of z-scored rows, in front of a kernel: whitened by S_w, or weighted by feature."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage

from embedding_core.linalg.conditioning import EPS


@dataclass(frozen=True)
class Metric:
    """x -> weights x + basis diag(factors) basis^T x, with `weights` (p,), `basis` (p, r), `factors` (r,)."""

    weights: NDArray[np.float64]
    basis: NDArray[np.float64]
    factors: NDArray[np.float64]

    def apply(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map rows (m, p)."""
        mapped = Z * self.weights
        if len(self.factors):
            mapped += ((Z @ self.basis) * self.factors) @ self.basis.T
        return mapped


def whitening_metric(Z: NDArray[np.float64], Y: NDArray[np.int8]) -> Metric | None:
    """S_w^(-1/2) of labeled rows, with the Ledoit-Wolf shrinkage of S_w towards the mean variance.

    Parameters
    ----------
    Z : ndarray of shape (l, p)
    Y : ndarray of shape (l, K)
        A row of several labels deviates from the mean of their classes' means; one of none stands for a class
        of its own.

    Returns
    -------
    Metric or None
        None where no row deviates from its class.

    Notes
    -----
    S_w is never formed: with its eigenpairs s, V from the thin SVD of the deviations, the root is
    c I + V ((1 - a) s + a m)^(-1/2) V^T - c V V^T, c = (a m)^(-1/2), a the shrinkage, m the mean variance.
    """
    shares = np.column_stack([Y, Y.sum(axis=1) == 0]).astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    size = shares.sum(axis=0)
    means = (shares.T @ Z) / np.where(size > 0, size, 1.0)[:, None]
    deviations = Z - shares @ means
    _, lengths, V = scipy.linalg.svd(deviations, full_matrices=False, check_finite=False)
    kept = lengths > max(Z.shape) * EPS * max(lengths[0], np.abs(Z).max())
    if not kept.any():
        return None
    values = lengths[kept] ** 2 / len(Z)
    mean = float(values.sum()) / Z.shape[1]
    # without shrinkage directions in which no row deviates would have no length at all
    shrinkage = max(float(ledoit_wolf_shrinkage(deviations, assume_centered=True)), 1e-3)
    outside = (shrinkage * mean) ** -0.5
    factors = ((1 - shrinkage) * values + shrinkage * mean) ** -0.5 - outside
    return Metric(np.full(Z.shape[1], outside), np.ascontiguousarray(V[kept].T), factors)


def sensitivity_metric(gradients: NDArray[np.float64]) -> Metric:
    """sqrt(0.9 diag(G) / mean + 0.1) of each feature; `gradients` (p,) is the diagonal of G."""
    mean = float(gradients.mean())
    share = gradients / mean if mean > 0 else np.ones_like(gradients)
    p = len(gradients)
    return Metric(np.sqrt(0.9 * share + 0.1), np.zeros((p, 0)), np.zeros(0))
