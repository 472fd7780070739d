"""Principal axes of items, from p x p sums or n x n inner products, whichever is smaller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.linalg.conditioning import shift_full_columns
from embedding_core.linalg.eigen import check_square_budget, gram_matrix, positive_part
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.linalg.scatter import class_scatter


@dataclass(frozen=True)
class PrincipalSpace:
    """SVD of centered or uncentered items: X - 1 mean^T = U S V^T, without zeros of S.

    `values` S² (r,) are descending, `total` is the sum of all values, `mean` (p,) is zero if the items are
    not centered. `lift(g)` is V g (p, .), `sums(Y)` is V^T X^T Y (r, K); if the items are centered, the
    columns of Y must sum to 0.
    """

    mean: NDArray[np.float64]
    values: NDArray[np.float64]
    total: float
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    sums: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    @property
    def rank(self) -> int:
        """Number of axes r."""
        return len(self.values)

    def axes(self, r: int) -> NDArray[np.float64]:
        """Return the first r columns of V."""
        return self.lift(np.eye(self.rank, r))


def principal_space(X: Any, center: bool = True) -> PrincipalSpace:
    """Decompose X (n, p), dense, CSR or RowBlocks.

    A squared singular value counts as zero if it is at most min(n, p) eps times the largest.
    """
    n, p = X.shape
    if p > n:
        return _space_of_items(X, center)
    scatter = class_scatter(X, np.ones((n, 1)))
    moment, mean = scatter.within, scatter.mean
    if not center:
        moment, mean = moment + n * np.outer(mean, mean), np.zeros(p)
    part = positive_part(moment)
    return PrincipalSpace(
        mean,
        part.values,
        float(part.values.sum()),
        lift=lambda g: part.vectors @ g,
        sums=lambda Y: part.vectors.T @ label_sums(X, Y),
    )


def _space_of_items(X: Any, center: bool) -> PrincipalSpace:
    shift = np.zeros(X.shape[1])
    if sp.issparse(X) and center:
        X, shift = shift_full_columns(X)
    part = positive_part(inner_products(X, center))
    U, root = part.vectors, np.sqrt(part.values)[:, None]
    mean = mean_item(X) if center else np.zeros(X.shape[1])
    return PrincipalSpace(
        shift + mean,
        part.values,
        float(part.values.sum()),
        lift=lambda g: _combine(X, mean, U @ (g / root)),
        sums=lambda Y: root * (U.T @ Y),
    )


def _combine(X: Any, mean: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (X - 1 mean^T)^T W (p, k).

    Columns of W sum to 0 only up to rounding, which a large mean would amplify.
    """
    if sp.issparse(X):  # already shifted
        return np.asarray(X.T @ W)
    total = np.zeros((X.shape[1], W.shape[1]))
    for rows, block in row_blocks(X):
        total += (block - mean).T @ W[rows]
    return total


def inner_products(X: Any, center: bool) -> NDArray[np.float64]:
    """Return X X^T (n, n) of centered or uncentered items in float64."""
    check_square_budget(X.shape[0])
    if not sp.issparse(X):
        # centered first: far from the origin inner products lose small differences
        items = X - mean_item(X) if center else np.asarray(X, dtype=np.float64)
        return items @ items.T
    K = gram_matrix(X)
    if not center:
        return K
    means = K.mean(axis=0)
    centered: NDArray[np.float64] = K - means - means[:, None] + means.mean()
    return centered


def label_sums(X: Any, Y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X^T Y (p, K) for X dense, CSR or RowBlocks.

    If the columns of Y sum to 0, the result does not depend on the origin of X.
    """
    if sp.issparse(X):
        return np.asarray(X.T @ Y)
    sums = np.zeros((X.shape[1], Y.shape[1]))
    for rows, block in row_blocks(X):
        sums += block.T @ Y[rows]
    return sums


def squared_spread(X: Any) -> float:
    """Return the sum of the squared distances of all items from their mean; X is dense, CSR or RowBlocks."""
    if not sp.issparse(X):
        mean = mean_item(X)
        return sum(float(((block - mean) ** 2).sum()) for _, block in row_blocks(X))
    shifted, _ = shift_full_columns(X)
    mean = mean_item(shifted)
    return max(float(np.square(shifted.data).sum() - X.shape[0] * (mean @ mean)), 0.0)


def mean_item(X: Any) -> NDArray[np.float64]:
    """Return the mean of the rows (p,) in float64; X is dense, CSR or RowBlocks."""
    if sp.issparse(X):
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    total = sum(block.sum(axis=0, dtype=np.float64) for _, block in row_blocks(X))
    mean: NDArray[np.float64] = total / X.shape[0]
    return mean
