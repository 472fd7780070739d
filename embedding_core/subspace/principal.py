"""Principal axes of items, from p x p sums or n x n inner products, whichever are fewer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.linalg.conditioning import move_full_columns
from embedding_core.linalg.eigen import check_square_budget, gram_matrix, positive_part
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.linalg.scatter import class_scatter


@dataclass(frozen=True)
class PrincipalSpace:
    """Items around their mean, or around the origin: X - 1 mean^T = U S V^T, zeros of S left out.

    `values` S² (r,) are descending, `total` is the sum of all there are, `mean` (p,) is zero around the
    origin. `lift(g)` is V g (p, .), `sums(Y)` is V^T X^T Y (r, K), for columns of Y of sum 0 where the items
    are around their mean.
    """

    mean: NDArray[np.float64]
    values: NDArray[np.float64]
    total: float
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    sums: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    @property
    def rank(self) -> int:
        """Number r of axes."""
        return len(self.values)

    def axes(self, r: int) -> NDArray[np.float64]:
        """The first r columns of V."""
        return self.lift(np.eye(self.rank, r))


def principal_space(X: Any, center: bool = True) -> PrincipalSpace:
    """Decompose X (n, p), dense, CSR or RowBlocks.

    A squared singular value counts as zero at or below min(n, p) eps times the largest.
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
    move = np.zeros(X.shape[1])
    if sp.issparse(X) and center:
        X, move = move_full_columns(X)
    part = positive_part(inner_products(X, center))
    U, root = part.vectors, np.sqrt(part.values)[:, None]
    mean = mean_item(X) if center else np.zeros(X.shape[1])
    return PrincipalSpace(
        move + mean,
        part.values,
        float(part.values.sum()),
        lift=lambda g: _combine(X, mean, U @ (g / root)),
        sums=lambda Y: root * (U.T @ Y),
    )


def _combine(X: Any, mean: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """(X - 1 mean^T)^T W (p, k). Columns of W sum to 0 up to rounding, which the mean would multiply."""
    if sp.issparse(X):  # moved
        return np.asarray(X.T @ W)
    total = np.zeros((X.shape[1], W.shape[1]))
    for rows, block in row_blocks(X):
        total += (block - mean).T @ W[rows]
    return total


def inner_products(X: Any, center: bool) -> NDArray[np.float64]:
    """X X^T (n, n) of items around their mean or the origin, in float64."""
    check_square_budget(X.shape[0])
    if not sp.issparse(X):
        # far from the origin inner products lose the differences
        moved = X - mean_item(X) if center else np.asarray(X, dtype=np.float64)
        return moved @ moved.T
    K = gram_matrix(X)
    if not center:
        return K
    means = K.mean(axis=0)
    return K - means - means[:, None] + means.mean()


def label_sums(X: Any, Y: NDArray[np.float64]) -> NDArray[np.float64]:
    """X^T Y (p, K), for X dense, CSR or RowBlocks; where the columns of Y sum to 0, of X around any point."""
    if sp.issparse(X):
        return np.asarray(X.T @ Y)
    sums = np.zeros((X.shape[1], Y.shape[1]))
    for rows, block in row_blocks(X):
        sums += block.T @ Y[rows]
    return sums


def squared_spread(X: Any) -> float:
    """Sum of the squared distances of all items from their mean; X is dense, CSR or RowBlocks."""
    if not sp.issparse(X):
        mean = mean_item(X)
        return sum(float(((block - mean) ** 2).sum()) for _, block in row_blocks(X))
    moved, _ = move_full_columns(X)
    mean = mean_item(moved)
    return max(float(np.square(moved.data).sum() - X.shape[0] * (mean @ mean)), 0.0)


def mean_item(X: Any) -> NDArray[np.float64]:
    """Mean of the rows (p,), in float64; X is dense, CSR or RowBlocks."""
    if sp.issparse(X):
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    return sum(block.sum(axis=0, dtype=np.float64) for _, block in row_blocks(X)) / X.shape[0]
