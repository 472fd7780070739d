"""Class-wise scatter matrices, Eq. 6-9 and 17-19 of MLDA (Eq. 12-15 of DLE), and centered items.

With Z (n, K) non-negative weights, l_i = sum_k Z_ik and w_k = sum_i Z_ik:

    S_b = H H^T,  column k of H = sqrt(w_k) (m_k - m)          p x K, rank at most K - 1
    S_w = R^T R,  R = (I - B B^T)^(1/2) L^(1/2) (X - 1 m^T),   B = L^(-1/2) Z W^(-1/2)
    S_t = S_b + S_w

S_w is summed over blocks of rows of R. It is positive semidefinite by construction and avoids the
cancellation of S_t - S_b. No n x n matrix and no copy of X is formed: dense X is read twice, and only blocks
of X, Z and R are converted to float64. For one label per item R is x_i - m_k. A feature that is constant
within classes, up to rounding, gets exact zeros in S_w; a constant feature also in H.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.linalg.conditioning import (
    EPS,
    rounding_of_differences,
    rounding_of_sums,
    shift_full_columns,
)
from embedding_core.linalg.eigen import check_square_budget, row_space
from embedding_core.linalg.row_blocks import RowBlocks, row_blocks
from embedding_core.scaling import Features


class ClassWeights(Protocol):
    """Z (n, K) that returns rows on demand: an ndarray or `labels.LabelWeights`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of items and classes."""
        ...

    def __getitem__(self, rows: Any, /) -> NDArray[np.float64]: ...


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


def class_scatter(X: Any, Z: ClassWeights, coordinates: bool = False) -> Scatter:
    """Compute the scatter of `X` under class weights `Z`.

    Parameters
    ----------
    X : ndarray, RowBlocks or CSR matrix of shape (n, p)
        float32 input is summed in float64.
    Z : ndarray or LabelWeights of shape (n, K)
        Non-negative weights, see `labels.label_weights`. An item or a class whose weights are all zero
        contributes nothing.
    coordinates : bool
        The columns are coordinates of one space rather than features with their own scales: the rounding
        error of the largest column applies to all.

    Returns
    -------
    Scatter
    """
    if len(Z.shape) != 2 or Z.shape[0] != X.shape[0]:
        raise InvalidInput(f"Z has shape {Z.shape}; expected one row for each of the {X.shape[0]} items.")
    check_square_budget(X.shape[1])
    if sp.issparse(X):
        X, Z, shift = _sparse_items(X, np.asarray(Z[:]))
        sums = _sum_rows(Z, X.T @ Z, shift)
    else:
        sums = _sum_blocks(X, Z)
    if sums.weight.sum() == 0:
        raise InvalidInput("All class weights are zero: no item has a label; label some items.")
    root_w = np.sqrt(sums.weight)
    center = sums.items.sum(axis=1) / sums.weight.sum()
    # sqrt(w_k) (m_k - m), in a form in which an empty class gives a column of zeros
    H = sums.items / np.where(root_w > 0, root_w, 1.0) - np.outer(center, root_w)
    mean = sums.shift + center
    within, noise = (
        _within_sparse(X, np.asarray(Z), center, H) if sp.issparse(X) else _within_dense(X, Z, sums, mean, H)
    )
    spread = np.diag(within) + (H**2).sum(axis=1)
    # a difference of items has an error of some eps of the items
    rounding = rounding_of_differences(sums.weight.sum(), mean)
    if coordinates:
        noise = np.full_like(noise, noise.max(initial=0.0))
        rounding = np.maximum(rounding.max(initial=0.0), noise)
    H[spread <= rounding] = 0.0
    still = np.diag(within) <= np.maximum(noise, rounding)
    within[still], within[:, still] = 0.0, 0.0
    return Scatter(mean, H, within)


@dataclass(frozen=True)
class _Sums:
    """Sums over items: `weight` w (K,), `items` X_c^T Z (p, K) around `shift`, `overlap` Z^T L^(-1) Z."""

    weight: NDArray[np.float64]
    items: NDArray[np.float64]
    overlap: NDArray[np.float64]
    shift: NDArray[np.float64]


def _sum_rows(Z: NDArray[np.float64], items: NDArray[np.float64], shift: NDArray[np.float64]) -> _Sums:
    if not (np.isfinite(Z).all() and (Z >= 0).all()):
        raise InvalidInput(
            "Z contains negative or non-finite weights; class weights must be finite and >= 0."
        )
    l = Z.sum(axis=1)  # noqa: E741
    part = np.divide(Z, l[:, None], out=np.zeros_like(Z), where=l[:, None] > 0)
    return _Sums(Z.sum(axis=0), items, Z.T @ part, shift)


def _sum_blocks(X: NDArray[Any] | RowBlocks, Z: ClassWeights) -> _Sums:
    """Sum around the mean of the first rows, which stays accurate for data far from 0."""
    p, K = X.shape[1], Z.shape[1]
    weight, items, overlap = np.zeros(K), np.zeros((p, K)), np.zeros((K, K))
    shift = None
    for block, Z_b in _weighted_blocks(X, Z):
        shift = block.mean(axis=0, dtype=np.float64) if shift is None else shift
        part = _sum_rows(Z_b, (block - shift).T @ Z_b, shift)
        weight += part.weight
        items += part.items
        overlap += part.overlap
    return _Sums(weight, items, overlap, np.zeros(p) if shift is None else shift)


def _weighted_blocks(
    X: NDArray[Any] | RowBlocks, Z: ClassWeights
) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Yield blocks of items with their weights, without the items whose weights are all zero."""
    for rows, block in row_blocks(X):
        Z_b = Z[rows]
        used = Z_b.any(axis=1)
        if used.all():
            yield block, Z_b
        elif used.any():
            yield block[used], Z_b[used]


def _within_dense(
    X: NDArray[Any] | RowBlocks,
    Z: ClassWeights,
    sums: _Sums,
    mean: NDArray[np.float64],
    H: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return S_w and a bound on the rounding errors of its diagonal."""
    scale = np.divide(1.0, np.sqrt(sums.weight), out=np.zeros_like(sums.weight), where=sums.weight > 0)
    # B M H^T = L^(-1/2) Z (W^(-1/2) M H^T)
    map_H = scale[:, None] * (residual_map(scale[:, None] * sums.overlap * scale) @ H.T)
    S_w = np.zeros((X.shape[1], X.shape[1]))
    for block, Z_b in _weighted_blocks(X, Z):
        root_l = np.sqrt(Z_b.sum(axis=1, keepdims=True))
        R = block - mean
        R *= root_l
        R -= (Z_b / root_l) @ map_H
        S_w += R.T @ R
    # entries of R have an error of some eps of the spread, so their squares of eps squared
    return S_w, rounding_of_differences(X.shape[0], np.sqrt(np.diag(S_w) + (H**2).sum(axis=1)))


def normalized_weights(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return B = L^(-1/2) Z W^(-1/2); zero rows and columns stay zero."""
    scale = np.sqrt(np.outer(Z.sum(axis=1), Z.sum(axis=0)))
    return np.divide(Z, scale, out=np.zeros_like(Z), where=scale > 0)


def residual_map(overlap: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return M (K, K) with (I - B B^T)^(1/2) = I - B M B^T, from `overlap` B^T B.

    For B^T B = Q diag(s) Q^T, M = Q diag(1 / (1 + sqrt(1 - s))) Q^T. All s lie in [0, 1]; those equal to 1 up
    to rounding are set to 1, because the square root would turn an error of 1e-16 into 1e-8.
    """
    s, Q = np.linalg.eigh(overlap)
    rest = 1.0 - s
    rest[rest < 64 * EPS * len(s)] = 0.0
    M: NDArray[np.float64] = (Q / (1.0 + np.sqrt(rest))) @ Q.T
    return M


def _sparse_items(X: Any, Z: NDArray[np.float64]) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
    """Return the weighted items, shifted towards 0 in columns without zeros, their weights, and the shift."""
    used = Z.any(axis=1)
    X, shift = shift_full_columns(X if used.all() else X[used])
    return X, Z[used], shift


def _within_sparse(
    X: Any, Z: NDArray[np.float64], mean: NDArray[np.float64], H: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # Centering would make X dense. S_w = X^T L X - (sum l) m m^T - H H^T needs only sparse products.
    l = Z.sum(axis=1)  # noqa: E741
    moment = (X.T @ X.multiply(l[:, None]).tocsr()).toarray()
    S_w = moment - l.sum() * np.outer(mean, mean) - H @ H.T
    # a difference of sums has an error of some eps of the sums, and may even be negative
    return (S_w + S_w.T) / 2, rounding_of_sums(X.shape[0], np.diag(moment))


@dataclass(frozen=True)
class CenteredItems:
    """X - 1 m^T in d <= min(n, p) coordinates of an orthonormal basis, never formed as a whole.

    `coordinates` are (n, d), the features themselves for p <= n (`are_features`); `mean` is their mean (d,);
    `scatter` is S_t = X_c^T X_c (d, d). `lift` maps directions in coordinates (d, k) to features (p, k).
    """

    coordinates: Any
    are_features: bool
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield blocks of rows of X_c in float64."""
        sparse = sp.issparse(self.coordinates)
        for rows, block in row_blocks(self.coordinates):
            dense: Any = block
            yield rows, (dense.toarray() if sparse else dense) - self.mean

    def moments(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X_c^T A, of shape (d, k)."""
        total = np.zeros((len(self.mean), A.shape[1]))
        for rows, block in self.blocks():
            total += block.T @ A[rows]
        return total

    def project(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X_c G, of shape (n, k)."""
        return np.vstack([block @ G for _, block in self.blocks()])


def center_items(X: Features) -> CenteredItems:
    """Center X (n, p) without a p x p matrix for p > n and without a dense n x p matrix for sparse X."""
    space = row_space(X)
    total = class_scatter(space.coordinates, np.ones((X.shape[0], 1)))
    return CenteredItems(space.coordinates, space.are_features, total.mean, total.within, space.lift)
