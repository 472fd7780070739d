"""Class-wise scatter matrices, Eq. 6-9 and 17-19 of MLDA (Eq. 12-15 of DLE).

With Z (n, K) non-negative weights, l_i = sum_k Z_ik and w_k = sum_i Z_ik:

    S_b = H H^T,  column k of H = sqrt(w_k) (m_k - m)          p x K, rank at most K - 1
    S_w = R^T R,  R = (I - B B^T)^(1/2) L^(1/2) (X - 1 m^T),   B = L^(-1/2) Z W^(-1/2)
    S_t = S_b + S_w

S_w is summed over blocks of rows of R, so it is positive semidefinite by construction and loses nothing to
the difference S_t - S_b; no n x n matrix and no copy of X is made. For one label an item R is simply
x_i - m_k. A feature that does not vary within classes, up to rounding, gets exact zeros in S_w.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput

BLOCK_VALUES = 4_000_000
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Scatter:
    """Scatter of weighted classes: `mean` m (p,), `factor` H (p, K) of S_b, `within` S_w (p, p)."""

    mean: NDArray[np.float64]
    factor: NDArray[np.float64]
    within: NDArray[np.float64]

    @property
    def between(self) -> NDArray[np.float64]:
        """S_b as a p x p matrix (solvers use `factor`)."""
        return self.factor @ self.factor.T

    @property
    def total(self) -> NDArray[np.float64]:
        """S_t = S_b + S_w as a p x p matrix."""
        return self.between + self.within


def class_scatter(X: Any, Z: NDArray[np.float64]) -> Scatter:
    """Compute the scatter of `X` under class weights `Z`.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
        float32 input is summed in float64.
    Z : ndarray of shape (n, K)
        Non-negative weights, `labels.label_weights`. Rows and columns of zeros are allowed: such an item,
        such a class, adds nothing.

    Returns
    -------
    Scatter
    """
    if Z.ndim != 2 or len(Z) != X.shape[0]:
        raise InvalidInput(f"Z has shape {Z.shape}; expected one row for each of the {X.shape[0]} items.")
    if not (np.isfinite(Z).all() and (Z >= 0).all()):
        raise InvalidInput("Z holds negative or non-finite weights; class weights are >= 0.")
    if Z.sum() == 0:
        raise InvalidInput("All class weights are zero: no item carries a label; label some items.")
    shift = _shift(X)
    class_sums = _class_sums(X, Z, shift)
    w = Z.sum(axis=0)
    center = class_sums.sum(axis=1) / w.sum()
    root_w = np.sqrt(w)
    # sqrt(w_k) (m_k - m), written so that an empty class gives a column of zeros
    H = class_sums / np.where(w > 0, root_w, 1.0) - np.outer(center, root_w)
    mean = shift + center
    within, noise = _within_sparse(X, Z, mean, H) if sp.issparse(X) else _within_dense(X, Z, mean, H)
    still = np.diag(within) <= noise
    within[still], within[:, still] = 0.0, 0.0
    return Scatter(mean, H, within)


def _shift(X: Any) -> NDArray[np.float64]:
    """Pick a point inside the data: sums around it keep their digits when the data lie far from 0."""
    if sp.issparse(X):
        return np.zeros(X.shape[1])
    return np.asarray(X[next(_blocks(X))], dtype=np.float64).mean(axis=0)


def _blocks(X: NDArray[Any]) -> Iterator[slice]:
    n, p = X.shape
    step = max(1, BLOCK_VALUES // p)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _class_sums(X: Any, Z: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Column k is sum_i Z_ik (x_i - shift)."""
    if sp.issparse(X):
        return X.T @ Z
    sums = np.zeros((X.shape[1], Z.shape[1]))
    for rows in _blocks(X):
        sums += (np.asarray(X[rows], dtype=np.float64) - shift).T @ Z[rows]
    return sums


def _within_dense(
    X: NDArray[Any], Z: NDArray[np.float64], mean: NDArray[np.float64], H: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """S_w, and what rounding alone may leave on its diagonal."""
    root_l = np.sqrt(Z.sum(axis=1))
    B = _normalised_weights(Z, root_l)
    M_H = _residual_map(B) @ H.T
    S_w = np.zeros((X.shape[1], X.shape[1]))
    for rows in _blocks(X):
        R = (np.asarray(X[rows], dtype=np.float64) - mean) * root_l[rows, None] - B[rows] @ M_H
        S_w += R.T @ R
    # entries of R are off by some eps of the spread, so their squares by eps squared
    return S_w, len(X) * (16 * _EPS) ** 2 * (np.diag(S_w) + (H**2).sum(axis=1))


def _normalised_weights(Z: NDArray[np.float64], root_l: NDArray[np.float64]) -> NDArray[np.float64]:
    """B = L^(-1/2) Z W^(-1/2), zero rows and columns left zero."""
    scale = np.outer(root_l, np.sqrt(Z.sum(axis=0)))
    return np.divide(Z, scale, out=np.zeros_like(Z), where=scale > 0)


def _residual_map(B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return M (K, K) with (I - B B^T)^(1/2) = I - B M B^T.

    For B^T B = Q diag(s) Q^T that is Q diag(1 / (1 + sqrt(1 - s))) Q^T. All s lie in [0, 1]; those equal to 1
    up to rounding are set to 1, otherwise the square root would turn 1e-16 into 1e-8.
    """
    s, Q = np.linalg.eigh(B.T @ B)
    rest = 1.0 - s
    rest[rest < 64 * _EPS * len(s)] = 0.0
    return (Q / (1.0 + np.sqrt(rest))) @ Q.T


def _within_sparse(
    X: Any, Z: NDArray[np.float64], mean: NDArray[np.float64], H: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # Centring would fill X: S_w = X^T L X - (sum l) m m^T - H H^T, p x p products of sparse matrices only.
    l = Z.sum(axis=1)  # noqa: E741
    moment = (X.T @ X.multiply(l[:, None]).tocsr()).toarray()
    S_w = moment - l.sum() * np.outer(mean, mean) - H @ H.T
    # a difference of sums is off by some eps of the sums, and may even be negative
    return (S_w + S_w.T) / 2, 16 * np.sqrt(X.shape[0]) * _EPS * np.diag(moment)
