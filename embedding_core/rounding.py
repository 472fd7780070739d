"""What rounding leaves in sums over items, and a move of sparse items that keeps it small.

A sum of squared differences is off by eps squared of the items; a difference of sums of squares, which sparse
items need because centring would fill them, by eps of the sums.
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
    X = sp.csr_array(X, dtype=np.float64)
    n, p = X.shape
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    full = np.bincount(X.indices, minlength=p) == n
    if n == 0 or not full.any():
        return X, np.zeros(p)
    data, entries = X.data.copy(), np.flatnonzero(full[X.indices])
    columns = X.indices[entries]
    first = np.where(full, X[[0]].toarray()[0], 0.0)  # a constant feature becomes 0 to the last digit
    data[entries] -= first[columns]
    mean = np.bincount(columns, data[entries], minlength=p) / n
    data[entries] -= mean[columns]
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape), first + mean
