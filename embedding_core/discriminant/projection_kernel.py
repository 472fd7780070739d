"""Kernels of discriminative projections: coordinates of items in the space a kernel, or landmarks, span.

For a centered K = T T^T the rows of T are the items, around their mean, in an orthonormal basis of the span
of their differences in feature space. A linear method that a shift of the items does not change is its own
kernel form on T, and the kernel x^T z gives the linear method on X.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput, check_memory
from embedding_core.linalg.eigen import RowSpace, positive_part
from embedding_core.linalg.kernel_space import Kernel, choose_landmarks, kernel_coordinates, kernel_rounding

MEMORY_BUDGET_BYTES = 4e9
_DENSE_MATRICES = 8


def check_size(n: int) -> None:
    """Raise where the kernel form of n items would not fit into the memory budget."""
    needed = _DENSE_MATRICES * 8 * float(n) ** 2
    advice = "pass landmarks (500, say), or use the linear form"
    check_memory(f"The kernel form of {n} items", needed, MEMORY_BUDGET_BYTES, advice)


@dataclass(frozen=True)
class KernelSpan:
    """`space` of the directions f that a kernel offers; `rows` (h,): the items whose phi they are made of.

    `space.lift` gives coefficients of these items.
    """

    space: RowSpace
    rows: NDArray[np.intp]


def kernel_span(kernel: Kernel, X: Any, landmarks: Any, random_state: Any) -> KernelSpan:
    """The span of all items, exact, or of landmarks (Nyström), see `embedding_core.linalg.kernel_space`.

    Parameters
    ----------
    kernel : Kernel
        "rbf" or "precomputed".
    X : ndarray or CSR matrix of shape (n, p), or the kernel of all pairs (n, n), checked
    landmarks : int, sequence of int, "auto" or None
        How many, or which rows; None, and all rows, give the exact form.
    random_state : int, RandomState or None
        Draws the landmarks.
    """
    n = X.shape[0]
    chosen = choose_landmarks(landmarks, n, np.ones(n, dtype=bool), random_state)
    if len(chosen) < n:
        nystrom = kernel_coordinates(kernel, X, chosen)
        return KernelSpan(RowSpace(nystrom.rows, nystrom.expand), nystrom.heads)
    check_size(n)
    K = X if kernel.name == "precomputed" else kernel.columns(X, X)
    return KernelSpan(centered_space(K), chosen)


def centered_space(K: NDArray[Any]) -> RowSpace:
    """Coordinates T = E s^(1/2) of the items around their mean, for the centered K = E diag(s) E^T.

    Eigenvalues s that are zero up to rounding are left out. `lift` turns a direction a in these coordinates
    into coefficients on the items, of sum zero: f = sum_i lift(a)_i phi(x_i) with |f| = |a|, and f^T phi(x)
    is k(x, items) @ lift(a).
    """
    means = K.mean(axis=0, dtype=np.float64)
    part = positive_part(K - means - means[:, None] + means.mean())
    total = float(part.values.sum())
    negative = total - float(np.trace(K, dtype=np.float64) - means.sum())
    if negative > kernel_rounding(K) * total:
        raise InvalidInput(
            f"The kernel is not positive semidefinite: once centered, its negative eigenvalues sum to "
            f"{-negative:.3g}, its positive ones to {total:.3g}. Pass a kernel of inner products, for "
            "instance with its negative eigenvalues set to zero."
        )
    keep = part.values > len(K) * np.finfo(K.dtype).eps * np.max(part.values, initial=0.0)
    E, root = part.vectors[:, keep], np.sqrt(part.values[keep])
    return RowSpace(E * root, lambda a: E @ (a / root[:, None]))
