"""The eigenproblem of discriminative projections, (A + C) gamma = lambda (B + C) gamma, in closed form.

Rows are items: l labeled items of c labels, m their mean, x~ = x - m, y a row of Y (l, c), s_k the k-th unit
vector, n_k the number of items with label k. The three terms of the cost are

    M = sum_i sum_k Y_ik |f^T x_i - g^T s_k|^2                      gamma^T A gamma
    N = sum_i sum_k      |f^T x_i - g^T s_k|^2                      gamma^T B gamma
    L = mu f^T X^T (D - W) X f                                      gamma^T C gamma

None of them changes if all items are shifted by t and all rows of g by f^T t. Around m, with g~ = g - 1 m^T
f,

    A + C = | S_Y + C_X   -H |     B + C = | c S + C_X    0  |     S   = sum_i       x~_i x~_i^T
            |    -H^T      N |             |     0       l I |     S_Y = sum_i |y_i| x~_i x~_i^T

where H = X~^T Y, N = diag(n_k) and C_X = mu X^T (D - W) X: p x p and p x c matrices, and no n x n matrix. B +
C is block diagonal, so its range is determined by its first block. Sample weights multiply the terms of the
sums over i; m is then the weighted mean, and n_k and l are sums of weights.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.labels import LabelWeights, one_label_each
from embedding_core.linalg.conditioning import rounding_of_differences, rounding_of_sums, shift_full_columns
from embedding_core.linalg.eigen import whitening
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.linalg.scatter import class_scatter

_TIED = 1e-9
"""Eigenvalues in [0, 1] that differ by at most this count as equal."""

_UNLINKED = 1e-10
"""A label direction is unrelated to the items if R, with entries of order 1, is below this value on it."""


@dataclass(frozen=True)
class JointQuotient:
    """Blocks of A + C and B + C around the mean of the labeled items.

    `near` S_Y + C_X and `spread` c S + C_X are (p, p), `cross` H is (p, c), `counts` n_k is (c,). `n_labeled`
    is l, or the sum of the sample weights.
    """

    near: NDArray[np.float64]
    spread: NDArray[np.float64]
    cross: NDArray[np.float64]
    counts: NDArray[np.float64]
    n_labeled: float


@dataclass(frozen=True)
class JointSolution:
    """Columns gamma = (f, g~), smallest eigenvalue first, (B + C)-orthonormal. `rank` is that of `spread`."""

    f: NDArray[np.float64]
    g: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    rank: int


def resolve_mu(mu: float | str, n_labeled: float, W: Any) -> float:
    """Return the weight of the graph; "auto" is l/s (section 4), with s the sum of all entries of W."""
    if not isinstance(mu, str):
        return float(mu)
    s = float(W.sum())
    if not s > 0:
        raise InvalidInput(
            'The graph has no edge, so mu="auto" (labeled items over the sum of W) is undefined; give an '
            "affinity with edges, a larger sigma or n_neighbors, or mu=0 to ignore the graph."
        )
    return n_labeled / s


def joint_quotient(
    T: Any,
    Y: NDArray[np.int8],
    weight: NDArray[np.float64],
    L: GraphLaplacian,
    mu: float,
    ridge: float = 0.0,
) -> JointQuotient:
    """Build the blocks.

    Parameters
    ----------
    T : ndarray, CSR matrix or RowBlocks of shape (n, p)
        All items.
    Y : ndarray of shape (n, c)
        0/1 labels; every label has an item of positive weight.
    weight : ndarray of shape (n,)
        Weight of each item, 0 for unlabeled items.
    L : GraphLaplacian
        Of all items.
    mu : float
        Weight of the graph.
    ridge : float
        Adds ridge tr(c S + C_X) |f|^2 to numerator and denominator, as C does.
    """
    c = Y.shape[1]
    counts = np.sum([weight[rows] @ np.maximum(block, 0) for rows, block in row_blocks(Y)], axis=0)
    S, S_Y, H = _scatter_blocks(T, Y, weight, counts)
    C_X = mu * L.quadratic(T) if mu > 0 else np.zeros_like(S)
    spread, near = c * S + C_X, S_Y + C_X
    still = np.diag(spread) <= _rounding(T, c * weight + 2 * mu * L.degree)
    for block in (spread, near):
        block[still], block[:, still] = 0.0, 0.0
    if ridge > 0:
        added = ridge * np.trace(spread)
        spread.flat[:: len(S) + 1] += added
        near.flat[:: len(S) + 1] += added
    return JointQuotient(near, spread, H, counts, float(weight.sum()))


def solve_joint(problem: JointQuotient, n_columns: int, scale_free: bool) -> JointSolution:
    """Find the `n_columns` smallest eigenpairs (fewer if the rank is less) in the range of B + C.

    Outside the range, numerator and denominator are both zero. Eigenvectors with f = 0 map all items to one
    point and are also omitted (for classes of equal size (0, 1) is one of them). Columns with equal
    eigenvalues are rotated so that the f are orthogonal, longest first. With `scale_free` the rank does not
    depend on the scales of the features.
    """
    T = whitening(problem.spread, scale_free)
    root_l = np.sqrt(problem.n_labeled)
    P = T.whiten(T.whiten(problem.near).T)
    R = T.whiten(problem.cross) / root_l
    V, shares = _linked_labels(R, problem.counts)
    corner = -R @ V
    matrix = np.block([[(P + P.T) / 2, corner], [corner.T, np.diag(shares / problem.n_labeled)]])
    last = min(n_columns, T.rank) - 1
    if last < 0:
        c = len(problem.counts)
        return JointSolution(np.zeros((len(problem.near), 0)), np.zeros((c, 0)), np.zeros(0), T.rank)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(0, last), check_finite=False)
    f, g = T.unwhiten(vectors[: T.rank]), V @ vectors[T.rank :] / root_l
    f, g = _settle_ties(values, f, g)
    # 0 <= M <= N: values outside [0, 1] are rounding errors
    return JointSolution(f, g, np.clip(values, 0.0, 1.0), T.rank)


def _scatter_blocks(
    T: Any, Y: NDArray[np.int8], weight: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return S, S_Y and H around the mean of the labeled items."""
    scatter = class_scatter(T, LabelWeights(Y, "binary", np.eye(len(counts)), weight))
    H = scatter.factor * np.sqrt(counts)
    total = scatter.total
    if one_label_each(Y[weight > 0]):
        return total, total, H
    plain = class_scatter(T, weight[:, None])
    shift = scatter.mean - plain.mean  # the factor is centered at the mean weighted by label counts
    S_Y = total + counts.sum() * np.outer(shift, shift)
    return plain.within, S_Y, H + np.outer(shift, counts)


def _rounding(T: Any, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound on the rounding error on the diagonal of c S + C_X for a constant feature.

    `times` (n,) is the weight of each item in these sums.
    """
    if sp.issparse(T):
        shifted, shift = shift_full_columns(T)
        sums = rounding_of_sums(T.shape[0], times @ shifted.power(2))
        bound: NDArray[np.float64] = np.maximum(sums, rounding_of_differences(times.sum(), shift))
        return bound
    largest = np.zeros(T.shape[1])
    for _, block in row_blocks(T):
        np.maximum(largest, np.maximum(block.max(axis=0), -block.min(axis=0)), out=largest)
    return np.asarray(rounding_of_differences(times.sum(), largest))


def _linked_labels(
    R: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return orthonormal label directions V (c, v) and their n_k (v,), without those that solve with f = 0.

    (0, v) is an eigenvector if N v = n v and R v = 0: v combines labels with equal counts and R maps it to
    zero.
    """
    columns, shares = [np.zeros((len(counts), 0))], [np.zeros(0)]
    order = np.argsort(counts, kind="stable")
    # sums of weights that are mathematically equal may differ in the last digit
    apart = np.diff(counts[order]) > _TIED * counts.sum()
    for group in np.split(order, np.flatnonzero(apart) + 1):
        count = counts[group].mean()
        _, s, vectors = np.linalg.svd(R[:, group], full_matrices=False)
        V = np.zeros((len(counts), int((s > _UNLINKED).sum())))
        V[group] = vectors[s > _UNLINKED].T
        columns.append(V)
        shares.append(np.full(V.shape[1], count))
    return np.hstack(columns), np.concatenate(shares)


def _settle_ties(
    values: NDArray[np.float64], f: NDArray[np.float64], g: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fix the columns of equal eigenvalues, which the eigenproblem determines only up to rotation."""
    f, g = f.copy(), g.copy()
    for tied in np.split(np.arange(len(values)), np.flatnonzero(np.diff(values) > _TIED) + 1):
        if len(tied) > 1:
            turn = np.linalg.svd(f[:, tied], full_matrices=False)[2].T
            f[:, tied], g[:, tied] = f[:, tied] @ turn, g[:, tied] @ turn
    return f, g
