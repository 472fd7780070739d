"""L1 distances between rows, and the histogram intersection kernel that follows from them.

The pairs of a block of rows are computed in one compiled call without the interpreter lock, so that several
threads share the rows. The value of a pair depends only on its two rows.
"""

from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.compiled import compile_kernel
from embedding_core.errors import InvalidInput, check_memory
from embedding_core.threads import for_row_blocks

_ROWS = numba.types.Array(numba.types.float64, 2, "C", readonly=True)
_VALUES = numba.types.Array(numba.types.float64, 1, "C", readonly=True)
_INDICES = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
_RESULT = numba.types.Array(numba.types.float64, 2, "C")
_TILE = 32

MEMORY_BUDGET_BYTES = 4e9


def l1_distances(A: Any, B: Any) -> NDArray[np.float64]:
    """Return L1 distances (n, m) between all rows of A and B, both dense or both CSR."""
    result = np.empty((A.shape[0], B.shape[0]))
    if sp.issparse(B):
        indptr, indices = B.indptr.astype(np.int64), B.indices.astype(np.int64)
        _sparse_distances(np.ascontiguousarray(A.toarray()), B.data, indices, indptr, result)
    else:
        _dense_distances(np.ascontiguousarray(A), np.ascontiguousarray(B), result)
    return result


@compile_kernel(_ROWS, _ROWS, _RESULT, reorder_sums=True)
def _dense_distances(A: Any, B: Any, result: Any) -> None:
    """Process four rows of B at a time: each value of A is loaded once; a tile of B stays in the cache."""
    n, m, p = A.shape[0], B.shape[0], A.shape[1]
    for start in range(0, m, _TILE):
        end = min(start + _TILE, m)
        for i in range(n):
            j = start
            while j + 4 <= end:
                first = second = third = fourth = 0.0
                for k in range(p):
                    x = A[i, k]
                    first += abs(x - B[j, k])
                    second += abs(x - B[j + 1, k])
                    third += abs(x - B[j + 2, k])
                    fourth += abs(x - B[j + 3, k])
                result[i, j], result[i, j + 1], result[i, j + 2], result[i, j + 3] = (
                    first,
                    second,
                    third,
                    fourth,
                )
                j += 4
            while j < end:
                total = 0.0
                for k in range(p):
                    total += abs(A[i, k] - B[j, k])
                result[i, j] = total
                j += 1


@compile_kernel(_ROWS, _VALUES, _INDICES, _INDICES, _RESULT)
def _sparse_distances(A: Any, data: Any, indices: Any, indptr: Any, result: Any) -> None:
    """Use |a - b| = |a| + sum over the entries of b of |a_k - b_k| - |a_k|, which skips the zeros of b."""
    for i in range(A.shape[0]):
        length = 0.0
        for k in range(A.shape[1]):
            length += abs(A[i, k])
        for j in range(len(indptr) - 1):
            change = 0.0
            for e in range(indptr[j], indptr[j + 1]):
                x = A[i, indices[e]]
                change += abs(x - data[e]) - abs(x)
            result[i, j] = length + change


def intersection_kernel(
    X: Any, Z: Any = None, memory_budget: float = MEMORY_BUDGET_BYTES
) -> NDArray[np.float64]:
    """Return the histogram intersection K(x, z) = sum_k min(x_k, z_k) of all pairs of rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
        Histograms: no value is negative.
    Z : array or CSR matrix of shape (m, p), optional
        Other histograms; X itself if None.
    memory_budget : float
        Bytes that the result and the blocks in work may take.

    Returns
    -------
    ndarray of shape (n, m)
        Positive semidefinite if Z is X [1]_. For rows that sum to 1 the values lie in [0, 1].

    Raises
    ------
    InvalidInput
        A value is negative, the rows differ in length, or the result exceeds the budget.

    Notes
    -----
    min(a, b) = (a + b - |a - b|) / 2, so the kernel is (|x|_1 + |z|_1 - |x - z|_1) / 2 and shares the
    compiled distances of Kernel DLE. It differs from a sum of minima by rounding (below 1e-12, relative to
    |x|_1). Sparse rows cost their entries. All cores share the rows, a block at a time; a block of sparse
    rows is made dense for its turn only.

    With the weighted histograms of a spatial pyramid as rows, this is the pyramid match kernel [2]_.

    References
    ----------
    .. [1] M. Swain, D. Ballard, "Color Indexing", IJCV 7, 1991; positive definite: F. Odone, A. Barla,
       A. Verri, "Building Kernels from Binary Strings for Image Matching", IEEE TIP 14, 2005.
    .. [2] S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features", CVPR 2006, Eq. 3.

    Examples
    --------
    >>> intersection_kernel([[1.0, 0.0], [0.5, 0.5]]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    rows = _histograms(X)
    others = rows if Z is None or Z is X else _histograms(Z)
    if rows.shape[1] != others.shape[1]:
        raise InvalidInput(
            f"histograms of {rows.shape[1]} and {others.shape[1]} bins cannot be compared; compute both with "
            "the same extractor and codebook."
        )
    if sp.issparse(rows) != sp.issparse(others):
        rows, others = sp.csr_array(rows), sp.csr_array(others)
    n, m = rows.shape[0], others.shape[0]
    check_memory(
        f"The intersection kernel of {n} x {m} items",
        8.0 * n * m,
        memory_budget,
        "use landmarks, or compute it for fewer rows at a time",
    )
    K = np.empty((n, m))
    lengths, other_lengths = (np.asarray(given.sum(axis=1)).ravel() for given in (rows, others))

    def work(block: slice) -> None:
        np.add(lengths[block, np.newaxis], other_lengths, out=K[block])
        K[block] -= l1_distances(rows[block], others)
        K[block] /= 2

    for_row_blocks(n, m, work)
    return np.maximum(K, 0.0, out=K)


def _histograms(X: Any) -> Any:
    rows: Any = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if rows.ndim != 2:
        raise InvalidInput(f"histograms have shape {rows.shape}; expected one row per item.")
    values = rows.data if sp.issparse(rows) else rows
    if values.size and not values.min() >= 0:  # also for NaN
        raise InvalidInput(
            f"the intersection kernel needs values that are not negative, but found {values.min():.3g}; pass "
            'histograms, and set input_scale="none" or features.scale=none: z-scores have both signs.'
        )
    return rows
