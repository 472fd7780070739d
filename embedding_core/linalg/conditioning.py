"""What rounding leaves in sums over items, and a move of sparse items that keeps it small.

A sum of squared differences is off by eps squared of the items; a difference of sums of squares, which sparse
items need because centering would fill them, by eps of the sums.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

EPS = float(np.finfo(np.float64).eps)


def rounding_of_differences(times: Any, items: Any) -> Any:
    """What `times` squared differences of `items` that are equal may add up to."""
    return times * (16 * EPS * items) ** 2


def rounding_of_sums(n: int, sums: Any) -> Any:
    """What may be left where `sums` of n squares each cancel."""
    return 16 * np.sqrt(n) * EPS * sums


def rounding_of_forms(sums: Any, terms: int) -> Any:
    """What may be left where `sums`, forms of a graph, cancel, in an eigenvalue of so many terms."""
    return max(64, terms) * EPS * sums


def move_full_columns(X: Any) -> tuple[Any, NDArray[np.float64]]:
    """Move sparse items towards 0 in the columns without a single zero, which no move can fill.

    Sums of squares of items far from 0 lose their digits; what is made of differences of items does not
    change with the move.

    Parameters
    ----------
    X : CSR matrix of shape (n, p)

    Returns
    -------
    moved : csr_array of shape (n, p), float64
    move : ndarray of shape (p,)
        X is `moved` plus this in every row; 0 in the other columns.
    """
    X = _canonical(sp.csr_array(X, dtype=np.float64))
    n, p = X.shape
    full = _full_columns(X)
    if n == 0 or not full.any():
        return X, np.zeros(p)
    first = np.where(full, X[[0]].toarray()[0], 0.0)
    moved = subtract_move(X, first)  # a constant feature becomes 0 to the last digit
    mean = np.where(full, np.asarray(moved.mean(axis=0)).ravel(), 0.0)
    return subtract_move(moved, mean), first + mean


def move_items(X: Any) -> Any:
    """Items, dense or CSR, near 0 in float64; |x|² + |z|² - 2 x.z of items far from it loses the distance."""
    return move_full_columns(X)[0] if sp.issparse(X) else X - X.mean(axis=0, dtype=np.float64)


def common_move(items: Any, others: Any) -> NDArray[np.float64]:
    """What to subtract from two sets of items, dense or CSR: distances between them then keep their digits.

    The mean (p,) of `items`; 0 in columns where one of the sets is sparse and has a zero.
    """
    full = _full_columns(items) & _full_columns(others)
    return np.where(full, np.asarray(items.mean(axis=0, dtype=np.float64)).ravel(), 0.0)


def subtract_move(X: Any, move: NDArray[np.float64]) -> Any:
    """X - move in every row, in float64; `move` is 0 in all columns in which a sparse X has zeros.

    Sparse X comes back as it is where nothing is moved.
    """
    if not sp.issparse(X):
        return X - move
    if not move.any():
        return X
    X = _canonical(X)
    return sp.csr_array((X.data - move[X.indices], X.indices, X.indptr), shape=X.shape)


def _canonical(X: Any) -> Any:
    """CSR X with every entry stored once, or a copy that has it so."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _full_columns(X: Any) -> NDArray[np.bool_]:
    """Columns (p,) that a move fills no zeros of."""
    n, p = X.shape
    if not sp.issparse(X):
        return np.ones(p, dtype=bool)
    return np.bincount(_canonical(X).indices, minlength=p) == n
