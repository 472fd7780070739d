"""Compiled L1 distances between rows, dense or CSR, and the L1 part of a gradient.

The pairs of a block of rows are one call without the interpreter's lock, so that several threads share the
rows. What a pair gives depends on the two rows alone, not on how the rows were cut.
"""

from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.compiled import compile_kernel

_ROWS = numba.types.Array(numba.types.float64, 2, "C", readonly=True)
_VALUES = numba.types.Array(numba.types.float64, 1, "C", readonly=True)
_INDICES = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
_RESULT = numba.types.Array(numba.types.float64, 2, "C")
_TILE = 32


def l1_distances(A: Any, B: Any) -> NDArray[np.float64]:
    """Sums of absolute differences (n, m) between all rows of A and of B, both dense or both CSR."""
    result = np.empty((A.shape[0], B.shape[0]))
    if sp.issparse(B):
        indptr, indices = B.indptr.astype(np.int64), B.indices.astype(np.int64)
        _sparse_distances(np.ascontiguousarray(A.toarray()), B.data, indices, indptr, result)
    else:
        _dense_distances(np.ascontiguousarray(A), np.ascontiguousarray(B), result)
    return result


def l1_gradients(
    rows: NDArray[np.float64], items: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sums over items b of weights[a, b] sign(rows[a] - items[b]), of the shape (n, p) of `rows`."""
    result = np.zeros(rows.shape)
    rows, items, weights = (np.ascontiguousarray(given) for given in (rows, items, weights))
    _signed_sums(rows, items, weights, result)
    return result


@compile_kernel(_ROWS, _ROWS, _RESULT, reorder_sums=True)
def _dense_distances(A: Any, B: Any, result: Any) -> None:
    """Four rows of B at a time: each number of A is fetched once for them; a tile of B stays in the cache."""
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
    """|a - b| = |a| + sum over the entries of b of |a_k - b_k| - |a_k|: the zeros of b cost nothing."""
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


@compile_kernel(_ROWS, _ROWS, _ROWS, _RESULT)
def _signed_sums(rows: Any, items: Any, weights: Any, result: Any) -> None:
    for i in range(rows.shape[0]):
        for j in range(items.shape[0]):
            for k in range(rows.shape[1]):
                difference = rows[i, k] - items[j, k]
                if difference > 0:
                    result[i, k] += weights[i, j]
                elif difference < 0:
                    result[i, k] -= weights[i, j]
