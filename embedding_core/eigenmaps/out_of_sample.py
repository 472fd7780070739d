"""Maps that place new items in an eigenmap, whose eigenvectors exist for the items of the fit alone.

The first open problem of the SLE-ML paper (Sect. 5: "simulate the mapping linearly or nonlinearly"); nothing
here is in the paper. All maps are learnt from items X (n, p) and their coordinates Z (n, r).
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from embedding_core.eigen import row_space, whitening
from embedding_core.neighbors import nearest_rows

LANDMARKS = 2000
"""Items that carry the kernel map; with more items than that, every (n / LANDMARKS)-th."""

_BLOCK_ROWS = 2048
Map = tuple[NDArray[np.float64], NDArray[np.float64]]


def fit_linear_map(X: Any, Z: NDArray[np.float64], alpha: float) -> Map:
    """Ridge regression of the coordinates on the features.

    Minimises sum_i |z_i - P^T x_i - b|² + alpha s |P|², with s the mean squared distance of an item from the
    mean, so that alpha does not depend on the scale of X. alpha = 0 gives the shortest least-squares
    solution.

    Returns
    -------
    projection : ndarray of shape (p, r)
    intercept : ndarray of shape (r,)
    """
    space = row_space(X)
    T, offset = space.coordinates, Z.mean(axis=0)
    n, d = T.shape
    centre = _mean_row(T)
    G, B = np.zeros((d, d)), np.zeros((d, Z.shape[1]))
    for rows, block in _dense_blocks(T):
        block = block - centre
        G += block.T @ block
        B += block.T @ (Z[rows] - offset)
    G[np.diag_indices(d)] += alpha * np.trace(G) / n
    inverse_root = whitening(G)
    projection = space.lift(inverse_root.unwhiten(inverse_root.whiten(B)))
    return projection, offset - _mean_row(X) @ projection


def place_by_neighbors(
    items: Any, Z: NDArray[np.float64], eigenvalues: NDArray[np.float64], n_neighbors: int, X: Any
) -> NDArray[np.float64]:
    """Nyström extension: z(x) = mean of the z_j of the nearest items, over 1 - μ.

    It is the equation of the eigenproblem, sum_j w_j (z - z_j) = μ sum_j w_j z, for a new node that is linked
    to its nearest items and has no labels.
    """
    if sp.issparse(items) != sp.issparse(X):
        X = sp.csr_array(X) if sp.issparse(items) else X.toarray()
    k = min(n_neighbors, items.shape[0])
    _, nearest = nearest_rows(items, X, k)
    mean = sp.csr_array(
        (np.full(nearest.size, 1 / k), nearest.ravel(), np.arange(0, nearest.size + 1, k)),
        shape=(X.shape[0], items.shape[0]),
    )
    return (mean @ Z) / (1.0 - eigenvalues)


def choose_landmarks(X: Any) -> Any:
    """The items that carry the kernel map, as an array or CSR matrix."""
    n = X.shape[0]
    return X if n <= LANDMARKS else X[np.linspace(0, n - 1, LANDMARKS).round().astype(np.intp)]


def default_gamma(X: Any) -> float:
    """One over the mean squared distance of two items; 1 where all coincide."""
    centre = _mean_row(X)
    total = sum(float(((block - centre) ** 2).sum()) for _, block in _dense_blocks(X))
    return X.shape[0] / (2 * total) if total > 0 else 1.0


def fit_kernel_map(X: Any, Z: NDArray[np.float64], landmarks: Any, gamma: float, alpha: float) -> Map:
    """Ridge regression in the space of the kernel exp(-gamma |x - x'|²) around the landmarks.

    Minimises sum_i |z_i - f(x_i) - b|² + alpha |f|² over f = sum_m k(., x_m) a_m; with all items as landmarks
    that is kernel ridge regression.

    Returns
    -------
    coefficients : ndarray of shape (m, r)
    intercept : ndarray of shape (r,)
    """
    offset = Z.mean(axis=0)
    K = _kernel(landmarks, landmarks, gamma)
    if landmarks.shape[0] == X.shape[0] and alpha > 0:
        K[np.diag_indices(len(K))] += alpha
        return scipy.linalg.solve(K, Z - offset, assume_a="pos", check_finite=False), offset
    A, B = alpha * K, np.zeros((len(K), Z.shape[1]))
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        K_b = _kernel(X[rows], landmarks, gamma)
        A += K_b.T @ K_b
        B += K_b.T @ (Z[rows] - offset)
    inverse_root = whitening(A, scale_free=False)
    return inverse_root.unwhiten(inverse_root.whiten(B)), offset


def place_by_kernel(
    landmarks: Any, coefficients: NDArray[np.float64], intercept: NDArray[np.float64], gamma: float, X: Any
) -> NDArray[np.float64]:
    """Evaluate the kernel map, some rows at a time."""
    Z = np.empty((X.shape[0], len(intercept)))
    for start in range(0, len(Z), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        Z[rows] = _kernel(X[rows], landmarks, gamma) @ coefficients + intercept
    return Z


def _kernel(A: Any, B: Any, gamma: float) -> NDArray[np.float64]:
    A, B = A.astype(np.float64), B.astype(np.float64)
    if not (sp.issparse(A) or sp.issparse(B)):
        # far from the origin |x|² + |z|² - 2 x.z loses the distance
        centre = B.mean(axis=0)
        A, B = A - centre, B - centre
    return rbf_kernel(A, B, gamma=gamma)


def _mean_row(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()


def _dense_blocks(X: Any) -> Any:
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        block = X[rows]
        yield rows, (block.toarray() if sp.issparse(block) else block).astype(np.float64)
