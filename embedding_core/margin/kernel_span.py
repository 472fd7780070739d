"""Coordinates of a kernel's feature space, and the kernel deformed by a graph.

`KernelSpan` holds the items as rows R (n, d) whose inner products are the kernel. The deformed kernel uses
the norm |f|² + c f^T L f instead of |f|². For f(x) = w^T r(x) this norm is w^T B w with B = I + c R^T L R.
With the Cholesky factorization B = U^T U, the rows Z = R U^(-1) have the deformed kernel [1]_ as inner
products,

    Z Z^T = K - K (I + c L K)^(-1) c L K,

so a method for the kernel K, applied to Z, becomes its manifold-regularized form. One factorization serves
all labels.

References
----------
.. [1] V. Sindhwani, P. Niyogi, M. Belkin, "Beyond the Point Cloud: from Transductive to Semi-supervised
   Learning", ICML 2005, 824-831, Eq. 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.linalg.kernel_space import (
    Kernel,
    KernelCoordinates,
    KernelMap,
    choose_landmarks,
    kernel_coordinates,
)


@dataclass(frozen=True)
class KernelSpan:
    """All items in coordinates `rows` (n, d) whose inner products are the kernel.

    If `coordinates` is None, the rows are the features themselves and may be sparse.
    """

    rows: Any
    kernel: KernelMap
    coordinates: KernelCoordinates | None

    def take(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the chosen rows as a dense array."""
        rows = self.rows[chosen]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)

    def basis_items(self, X: Any) -> Any:
        """Return the items whose kernel values map new items; None for the linear kernel."""
        if self.coordinates is None or self.kernel.name == "linear":
            return None
        return self.kernel.take(X, self.coordinates.heads)

    def lift(self, X: Any, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert directions A (d, r) to coefficients (h, r) of the features or of the kernel values."""
        if self.coordinates is None:
            return A
        v = self.coordinates.expand(A)
        if self.kernel.name != "linear":
            return v
        return np.asarray(self.kernel.take(X, self.coordinates.heads).T @ v)


def works_in_features(kernel: Kernel, X: Any) -> bool:
    """Return whether the linear form is the smaller one; for p > n the kernel form is smaller."""
    return kernel.name == "linear" and X.shape[1] <= X.shape[0]


def span_items(
    X: Any, kernel: Kernel, usable: NDArray[np.bool_], landmarks: Any, random_state: Any
) -> KernelSpan:
    """Return the span of all `usable` items, or of landmarks among them."""
    if works_in_features(kernel, X):
        return KernelSpan(X, kernel, None)
    coordinates = kernel_coordinates(kernel, X, choose_landmarks(landmarks, X.shape[0], usable, random_state))
    return KernelSpan(coordinates.rows, kernel, coordinates)


@dataclass(frozen=True)
class Deformation:
    """Labeled items as `rows` (l, d) whose inner products are the deformed kernel.

    `restore` converts weights (d, J) of these rows to weights of the original coordinates.
    """

    rows: NDArray[np.float64]
    restore: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def deform_kernel(
    span: KernelSpan, labeled: NDArray[np.bool_], L: GraphLaplacian
) -> Callable[[float], Deformation]:
    """Compute R^T L R once; return a function that deforms the kernel for any c by one factorization."""
    return deform_rows(span.take(labeled), L.quadratic(span.rows), "gamma_I / gamma_A", "gamma_I")


def deform_rows(
    rows: NDArray[np.float64], smoothness: NDArray[np.float64], ratio: str, weight: str
) -> Callable[[float], Deformation]:
    """Return a function that deforms `rows` for any c; `smoothness` is R^T L R.

    `ratio` and `weight` are used in the error message: the user's name for c, and the parameter to lower.
    """

    def deform(c: float) -> Deformation:
        B = c * smoothness
        B[np.diag_indices(len(B))] += 1.0
        try:
            U = scipy.linalg.cholesky(B, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError as error:
            raise InvalidInput(
                f"{ratio} weighs the graph {c:.0e} times as much as the kernel, which is then lost in double "
                f"precision; lower {weight}."
            ) from error
        deformed = scipy.linalg.solve_triangular(U, rows.T, trans=1, check_finite=False).T
        return Deformation(
            np.ascontiguousarray(deformed),
            lambda V: scipy.linalg.solve_triangular(U, V, check_finite=False),
        )

    return deform
