"""Maps that place new items in an eigenmap, whose eigenvectors exist for the items of the fit alone.

The first open problem of the SLE-ML paper (Sect. 5: "simulate the mapping linearly or nonlinearly"); nothing
here is in the paper. All maps are learnt from items X (n, p) and their coordinates Z (n, r).
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import warn_caller
from embedding_core.knn_classifier import nearest_rows
from embedding_core.linalg.centered import center_items
from embedding_core.linalg.conditioning import move_full_columns
from embedding_core.linalg.eigen import whitening
from embedding_core.linalg.kernel_space import rbf_values
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.subspace.principal import mean_item, squared_spread

LANDMARKS = 2000
"""Items that carry the kernel map; with more items than that, every (n / LANDMARKS)-th."""

GRAM_SIZE = 4096
"""Largest matrix of features (or items) squared that the linear map forms for sparse items."""

_BLOCK_ROWS = 2048
_CG_TOLERANCE = 1e-9
_MAX_STEPS = 2000
Map = tuple[NDArray[np.float64], NDArray[np.float64]]


def fit_linear_map(X: Any, Z: NDArray[np.float64], alpha: float) -> Map:
    """Ridge regression of the coordinates on the features.

    Minimizes sum_i |z_i - P^T x_i - b|² + alpha s |P|², with s the mean squared distance of an item from the
    mean, so that alpha does not depend on the scale of X. alpha = 0 gives the shortest least-squares
    solution.

    Returns
    -------
    projection : ndarray of shape (p, r)
    intercept : ndarray of shape (r,)

    Notes
    -----
    By a matrix of min(n, p) squared; for sparse X with more than `GRAM_SIZE` of both items and features by
    conjugate gradients, which need products with X alone.
    """
    offset = Z.mean(axis=0)
    if sp.issparse(X) and min(X.shape) > GRAM_SIZE:
        projection = _solve_by_conjugate_gradients(X, Z - offset, alpha)
        return projection, offset - mean_item(X) @ projection
    items = center_items(X)
    G, B = items.scatter, items.moments(Z - offset)
    G[np.diag_indices_from(G)] += alpha * np.trace(G) / X.shape[0]
    inverse_root = whitening(G, scale_free=items.are_features)
    projection = items.lift(inverse_root.unwhiten(inverse_root.whiten(B)))
    return projection, offset - mean_item(X) @ projection


def _solve_by_conjugate_gradients(X: Any, Z: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Solve (X_c^T X_c + alpha s I) P = X^T Z, X_c the centered X, all columns of P at a time.

    Features of very different lengths make many steps, so these are scaled by the diagonal of the matrix;
    without a ridge they are not, and the solution is the shortest one.
    """
    X, _ = move_full_columns(X)  # changes no difference of items, which is all that counts
    n, center = X.shape[0], mean_item(X)
    spread = np.maximum(np.asarray(X.multiply(X).sum(axis=0)).ravel() - n * center**2, 0.0)
    ridge = alpha * spread.sum() / n
    scale = (spread + ridge)[:, None] if ridge > 0 else np.ones((X.shape[1], 1))
    R = X.T @ Z
    P, direction = np.zeros_like(R), R / scale
    length = goal = (R * direction).sum(axis=0)
    for _ in range(_MAX_STEPS):
        if (length <= _CG_TOLERANCE**2 * goal).all():
            return P
        image = X @ direction
        image = X.T @ (image - image.mean(axis=0)) + ridge * direction
        step = _ratio(length, (direction * image).sum(axis=0))
        P += step * direction
        R -= step * image
        former, length = length, (R * R / scale).sum(axis=0)
        direction = R / scale + _ratio(length, former) * direction
    warn_caller(
        f"The linear out-of-sample map is not exact after {_MAX_STEPS} steps; give a larger alpha, or choose "
        'out_of_sample="nystrom".',
    )
    return P


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def place_by_neighbors(
    items: Any,
    Z: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    width: float | None,
    n_neighbors: int,
    X: Any,
) -> NDArray[np.float64]:
    """Nyström extension: z(x) = weighted mean of the z_j of the nearest items, over 1 - μ.

    It is the equation of the eigenproblem, sum_j w_j (z - z_j) = μ sum_j w_j z, for a new node that is linked
    to its nearest items by weights exp(-d² / width), or equal ones where `width` is None, and has no labels.
    """
    if sp.issparse(items) != sp.issparse(X):
        X = sp.csr_array(X) if sp.issparse(items) else X.toarray()
    k = min(n_neighbors, items.shape[0])
    distances, nearest = nearest_rows(items, X, k)
    weights = np.ones(distances.shape)
    if width is not None:
        # relative to the nearest: far from all items every weight alone would underflow to 0
        weights = np.exp((distances[:, :1] ** 2 - distances**2) / width)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = sp.csr_array(
        (weights.ravel(), nearest.ravel(), np.arange(0, nearest.size + 1, k)),
        shape=(X.shape[0], items.shape[0]),
    )
    return (mean @ Z) / (1.0 - eigenvalues)


def spread_landmarks(X: Any) -> Any:
    """The items that carry the kernel map, as an array or CSR matrix."""
    n = X.shape[0]
    return X if n <= LANDMARKS else X[np.linspace(0, n - 1, LANDMARKS).round().astype(np.intp)]


def default_gamma(X: Any) -> float:
    """One over the mean squared distance of two items; 1 where all coincide."""
    total = squared_spread(X)
    return X.shape[0] / (2 * total) if total > 0 else 1.0


def fit_kernel_map(X: Any, Z: NDArray[np.float64], landmarks: Any, gamma: float, alpha: float) -> Map:
    """Ridge regression in the space of the kernel exp(-gamma |x - x'|²) around the landmarks.

    Minimizes sum_i |z_i - f(x_i) - b|² + alpha |f|² over f = sum_m k(., x_m) a_m; with all items as landmarks
    that is kernel ridge regression.

    Returns
    -------
    coefficients : ndarray of shape (m, r)
    intercept : ndarray of shape (r,)
    """
    offset = Z.mean(axis=0)
    K = rbf_values(landmarks, landmarks, gamma)
    if landmarks.shape[0] == X.shape[0] and alpha > 0:
        K[np.diag_indices(len(K))] += alpha
        return scipy.linalg.solve(K, Z - offset, assume_a="pos", check_finite=False), offset
    A, B = alpha * K, np.zeros((len(K), Z.shape[1]))
    for rows, items in row_blocks(X, _BLOCK_ROWS):
        K_b = rbf_values(items, landmarks, gamma)
        A += K_b.T @ K_b
        B += K_b.T @ (Z[rows] - offset)
    inverse_root = whitening(A, scale_free=False)
    return inverse_root.unwhiten(inverse_root.whiten(B)), offset
