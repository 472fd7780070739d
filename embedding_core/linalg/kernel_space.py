"""Kernels as coordinates: the span of all items, or of landmarks (Nyström), in an orthonormal basis.

With m landmarks of kernel matrix K_mm = C C^T (pivoted Cholesky), an item has the coordinates
C^(-1) k(landmarks, x): inner products of coordinates are those of the items projected on the span of the
landmarks in feature space. If all items are landmarks, they are the kernel itself: the exact form is the
Nyström form with m = n.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state

from embedding_core.errors import InvalidInput, check_memory
from embedding_core.linalg.conditioning import common_shift, subtract_shift
from embedding_core.linalg.eigen import pivoted_cholesky
from embedding_core.linalg.row_blocks import BLOCK_VALUES, row_blocks

KERNELS = ("linear", "rbf", "intersection", "precomputed")

RANK_TOLERANCE = 1e-8
"""Fraction of the largest K_ii below which the part of an item outside the span of the others is rounding."""

AUTO_EXACT, AUTO_LANDMARKS = 2000, 500
"""`landmarks="auto"` uses all items up to the first number, and the second number of items beyond it."""

MEMORY_BUDGET_BYTES = 4e9
_MATRICES = 5  # K, its factor, the coordinates, and two for the eigenproblem


class KernelMap(Protocol):
    """Protocol of a kernel that can be turned into coordinates."""

    @property
    def name(self) -> str:
        """Kind of kernel."""
        ...

    def take(self, X: Any, rows: NDArray[np.intp]) -> Any:
        """Return what must be kept of fitted items to evaluate the kernel with them."""
        ...

    def columns(self, X: Any, items: Any) -> NDArray[np.float64]:
        """Return k between every row of X and the kept items."""
        ...


def rbf_values(X: Any, items: Any, theta: float) -> NDArray[np.float64]:
    """Return exp(-theta |x - z|²) of every row x of X (m, p) and z of items (h, p), dense or CSR.

    If `items` is X, the diagonal is exactly 1.
    """
    X64, items64 = X.astype(np.float64), items.astype(np.float64)
    # far from the origin |x|² + |z|² - 2 x.z suffers from cancellation
    shift = common_shift(items64, X64)
    X64, items64 = subtract_shift(X64, shift), subtract_shift(items64, shift)
    values: NDArray[np.float64] = rbf_kernel(X64, None if items is X else items64, gamma=theta)
    return values


@dataclass(frozen=True)
class Kernel:
    """k(x, z): `name` is one of KERNELS, `theta` that of exp(-theta |x - z|²)."""

    name: str
    theta: float = 1.0

    def take(self, X: Any, rows: NDArray[np.intp]) -> Any:
        """Return the items, or their row numbers if precomputed, needed to evaluate the kernel."""
        return rows.copy() if self.name == "precomputed" else X[rows].astype(np.float64)

    def columns(self, X: Any, items: Any) -> NDArray[np.float64]:
        """Return k between every row of X and the kept items; rows of a precomputed X are kernel values."""
        if self.name == "precomputed":
            return np.asarray(X[:, items], dtype=np.float64)
        if self.name == "rbf":
            return rbf_values(X, items, self.theta)
        if self.name == "intersection":
            # compiled kernels load only where they are needed
            from embedding_core.linalg.l1 import intersection_kernel

            return intersection_kernel(X, items)
        product = X.astype(np.float64) @ items.T
        return product.toarray() if sp.issparse(product) else np.asarray(product)


@dataclass(frozen=True)
class KernelCoordinates:
    """Coordinates `rows` (n, d) of all items of the fit; `heads` (d,) are the items that span them."""

    rows: NDArray[np.float64]
    heads: NDArray[np.intp]
    _factor: NDArray[np.float64]

    def expand(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return v of Eq. 10 of LPSSVM over the heads: directions A (d, r) are sum_i phi(x_i) v_i."""
        solution: NDArray[np.float64] = scipy.linalg.solve_triangular(
            self._factor, A, lower=True, trans=1, check_finite=False
        )
        return solution


def kernel_coordinates(kernel: KernelMap, X: Any, landmarks: NDArray[np.intp]) -> KernelCoordinates:
    """Span the landmarks (row numbers), omitting those that are linearly dependent on the others."""
    _check_memory(X.shape[0], len(landmarks))
    K_nm = kernel.columns(X, kernel.take(X, landmarks))
    K_mm = K_nm[landmarks]
    K_mm = (K_mm + K_mm.T) / 2
    diagonal = K_mm.diagonal().copy()
    C, order = pivoted_cholesky(K_mm)
    pivots = C.diagonal() ** 2
    rank = int((pivots > RANK_TOLERANCE * diagonal.max()).sum()) if diagonal.max() > 0 else 0
    if rank == 0:
        raise InvalidInput(
            "The kernel is zero for all items, so they span no space; pass features or kernel values that "
            "are not all zero."
        )
    residual = diagonal[order] - (C[:, :rank] ** 2).sum(axis=1)
    if residual.min() < -1e-6 * diagonal.max():
        raise InvalidInput(
            f"The kernel is not positive semidefinite (a squared length is {residual.min():.3g}); pass a "
            "positive semidefinite kernel, or add a multiple of the identity."
        )
    factor, head = np.ascontiguousarray(C[:rank, :rank]), order[:rank]
    rows = scipy.linalg.solve_triangular(factor, K_nm[:, head].T, lower=True, check_finite=False)
    return KernelCoordinates(np.ascontiguousarray(rows.T), landmarks[head], factor)


def place_by_kernel(
    kernel: KernelMap, X: Any, support: Any, coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return f^T phi(x) of the rows of X, one block of kernel values at a time.

    `support` comes from `Kernel.take`.
    """
    Q = np.empty((X.shape[0], coefficients.shape[1]))
    items: Any
    for rows, items in row_blocks(X, max(1, BLOCK_VALUES // len(coefficients))):
        dense = kernel.name == "precomputed" and sp.issparse(items)
        Q[rows] = kernel.columns(items.toarray() if dense else items, support) @ coefficients
    return Q


def check_landmarks(landmarks: Any) -> None:
    """Raise InvalidInput unless `landmarks` is a number of items, row numbers, "auto" or None."""
    if landmarks is None or (isinstance(landmarks, str) and landmarks == "auto"):
        return
    if isinstance(landmarks, Integral) and not isinstance(landmarks, bool):
        legal = int(landmarks) >= 1
    else:
        try:
            given = np.asarray(landmarks)
        except ValueError:
            given = np.zeros(0)
        legal = given.ndim == 1 and given.dtype.kind in "iu" and len(given) > 0
    if not legal:
        raise InvalidInput(
            f'landmarks={landmarks!r} is not legal; give a number of items, row numbers, "auto", or None.'
        )


def _random(random_state: Any) -> np.random.RandomState:
    try:
        generator: np.random.RandomState = check_random_state(random_state)
        return generator
    except ValueError as error:
        raise InvalidInput(f"random_state={random_state!r} is not legal; give an integer.") from error


def choose_landmarks(
    landmarks: Any, n: int, usable: NDArray[np.bool_], random_state: Any
) -> NDArray[np.intp]:
    """Return the row numbers of the landmarks among the `usable` rows; `landmarks` as for LPSSVM."""
    rows = np.flatnonzero(usable)
    if isinstance(landmarks, str) and landmarks == "auto":
        landmarks = None if n <= AUTO_EXACT else AUTO_LANDMARKS
    check_landmarks(landmarks)
    if landmarks is None:
        return rows
    if isinstance(landmarks, Integral) and not isinstance(landmarks, bool):
        m = int(landmarks)
        if not 1 <= m <= n:
            raise InvalidInput(f"landmarks={m} with {n} items; choose from 1 to {n}, or None for all.")
        if m >= len(rows):
            return rows
        return rows[np.sort(_random(random_state).choice(len(rows), size=m, replace=False))]
    given = np.asarray(landmarks)
    if given.min() < 0 or given.max() >= n:
        raise InvalidInput(f"landmarks contains rows {given.min()} to {given.max()}; use rows 0 to {n - 1}.")
    chosen = np.intersect1d(given, rows)
    if not len(chosen):
        raise InvalidInput(f"None of the {len(given)} landmarks is linked in the graph; choose others.")
    return chosen


def resolve_gamma(X: Any, gamma: float | str) -> float:
    """Return gamma of exp(-gamma d²); "scale" is 1 / (p Var(X)), as in scikit-learn's SVC."""
    if not isinstance(gamma, str):
        return float(gamma)
    X64 = X.astype(np.float64)
    mean = X64.mean()
    # the zeros of a sparse matrix are not stored
    squares = float(((X64.data - mean) ** 2).sum()) if sp.issparse(X) else float(((X64 - mean) ** 2).sum())
    if sp.issparse(X):
        squares += (X.shape[0] * X.shape[1] - X64.nnz) * mean**2
    return X.shape[0] / squares if squares > 0 else 1.0


def check_precomputed(K: Any) -> NDArray[Any]:
    """Return the kernel matrix of all items, dense, in its own precision.

    It must be square and symmetric, and no entry may exceed the product of the lengths of its two items.
    """
    K = K.toarray() if sp.issparse(K) else np.asarray(K)
    if K.shape[0] != K.shape[1]:
        raise InvalidInput(
            f"Precomputed kernel has shape {K.shape}; it should be a square matrix of all items of the fit."
        )
    rounding = kernel_rounding(K) * np.abs(K).max()
    gap = np.abs(K - K.T)
    if gap.max() > rounding:
        i, j = np.unravel_index(int(gap.argmax()), K.shape)
        raise InvalidInput(
            f"Precomputed kernel is not symmetric: [{i}, {j}] = {K[i, j]} but [{j}, {i}] = {K[j, i]}; "
            "pass (K + K.T) / 2."
        )
    length = np.sqrt(np.maximum(K.diagonal(), 0.0))
    excess = np.abs(K) - np.outer(length, length)
    if excess.max() > rounding:
        i, j = np.unravel_index(int(excess.argmax()), K.shape)
        raise InvalidInput(
            f"Precomputed kernel is not positive semidefinite: [{i}, {j}] = {K[i, j]}, but the diagonal "
            f"entries are {K[i, i]} and {K[j, j]}; pass inner products, not distances."
        )
    symmetric: NDArray[Any] = (K + K.T) / 2
    return symmetric


def kernel_rounding(K: NDArray[Any]) -> float:
    """Return the relative rounding error of a kernel in its own precision."""
    return max(1e-6, len(K) * float(np.finfo(K.dtype).eps))


def _check_memory(n: int, m: int) -> None:
    fitting = max(1, int(MEMORY_BUDGET_BYTES / (8 * _MATRICES * n)))
    check_memory(
        f"The kernel form of {n} items with {m} landmarks",
        8.0 * _MATRICES * n * m,
        MEMORY_BUDGET_BYTES,
        f"pass landmarks={fitting} or fewer",
    )
