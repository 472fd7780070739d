"""Bounds on rounding errors of sums over items, and a shift of sparse items that keeps them small.

A sum of squared differences has an error of eps squared of the items. A difference of sums of squares, which
sparse items need because centering would make them dense, has an error of eps of the sums.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

EPS = float(np.finfo(np.float64).eps)


def rounding_of_differences(times: Any, items: Any) -> Any:
    """Bound on the sum of `times` squared differences of equal `items`."""
    return times * (16 * EPS * items) ** 2


def rounding_of_sums(n: int, sums: Any) -> Any:
    """Bound on the remainder where `sums` of n squares each cancel."""
    return 16 * np.sqrt(n) * EPS * sums


def rounding_of_forms(sums: Any, terms: int) -> Any:
    """Bound on an eigenvalue of `terms` terms where `sums`, quadratic forms of a graph, cancel."""
    return max(64, terms) * EPS * sums


def shift_full_columns(X: Any) -> tuple[Any, NDArray[np.float64]]:
    """Shift the columns of a sparse matrix that contain no zeros towards 0.

    Sums of squares of items far from 0 lose digits. A shift of columns without zeros keeps the matrix sparse,
    and everything computed from differences of items does not change.

    Parameters
    ----------
    X : CSR matrix of shape (n, p)

    Returns
    -------
    shifted : csr_array of shape (n, p), float64
    shift : ndarray of shape (p,)
        X is `shifted` plus `shift` in every row; 0 in the columns with zeros.
    """
    X = _canonical(sp.csr_array(X, dtype=np.float64))
    n, p = X.shape
    full = _full_columns(X)
    if n == 0 or not full.any():
        return X, np.zeros(p)
    first = np.where(full, X[[0]].toarray()[0], 0.0)
    shifted = subtract_shift(X, first)  # a constant feature becomes exactly 0
    mean = np.where(full, np.asarray(shifted.mean(axis=0)).ravel(), 0.0)
    return subtract_shift(shifted, mean), first + mean


def shift_items(X: Any) -> Any:
    """Return items, dense or CSR, shifted towards 0 in float64.

    Far from 0 the distance |x|² + |z|² - 2 x.z suffers from cancellation.
    """
    return shift_full_columns(X)[0] if sp.issparse(X) else X - X.mean(axis=0, dtype=np.float64)


def common_shift(items: Any, others: Any) -> NDArray[np.float64]:
    """Return a shift (p,) for two sets of items, dense or CSR, that keeps their distances accurate.

    It is the mean of `items`, and 0 in columns where one of the sets is sparse and has a zero.
    """
    full = _full_columns(items) & _full_columns(others)
    return np.where(full, np.asarray(items.mean(axis=0, dtype=np.float64)).ravel(), 0.0)


def subtract_shift(X: Any, shift: NDArray[np.float64]) -> Any:
    """Return X - shift in float64; `shift` must be 0 in all columns where a sparse X has zeros.

    A sparse X is returned as it is if the shift is zero.
    """
    if not sp.issparse(X):
        return X - shift
    if not shift.any():
        return X
    X = _canonical(X)
    return sp.csr_array((X.data - shift[X.indices], X.indices, X.indptr), shape=X.shape)


def _canonical(X: Any) -> Any:
    """Return CSR X with every entry stored once, copied if necessary."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _full_columns(X: Any) -> NDArray[np.bool_]:
    """Return which columns (p,) can be shifted without filling zeros."""
    n, p = X.shape
    if not sp.issparse(X):
        return np.ones(p, dtype=bool)
    full: NDArray[np.bool_] = np.bincount(_canonical(X).indices, minlength=p) == n
    return full
