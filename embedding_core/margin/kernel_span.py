"""TODO."""

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
    """`rows` (n, d): all items in coordinates whose inner products are the kernel.

    They are the features themselves where `coordinates` is None, and may then be sparse.
    """

    rows: Any
    kernel: KernelMap
    coordinates: KernelCoordinates | None

    def take(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Some of the rows, dense."""
        rows = self.rows[chosen]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)

    def basis_items(self, X: Any) -> Any:
        """Items whose kernel values place new ones; None for the kernel x^T z, where the features do."""
        if self.coordinates is None or self.kernel.name == "linear":
            return None
        return self.kernel.take(X, self.coordinates.heads)

    def lift(self, X: Any, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """Directions A (d, r) as coefficients (h, r) of the features or of the basis items' kernel values."""
        if self.coordinates is None:
            return A
        v = self.coordinates.expand(A)
        if self.kernel.name != "linear":
            return v
        return np.asarray(self.kernel.take(X, self.coordinates.heads).T @ v)


def works_in_features(kernel: Kernel, X: Any) -> bool:
    """Whether the linear form is the smaller one; for p > n the kernel form is."""
    return kernel.name == "linear" and X.shape[1] <= X.shape[0]


def span_items(
    X: Any, kernel: Kernel, usable: NDArray[np.bool_], landmarks: Any, random_state: Any
) -> KernelSpan:
    """The space of all `usable` items, or of landmarks among them."""
    if works_in_features(kernel, X):
        return KernelSpan(X, kernel, None)
    coordinates = kernel_coordinates(kernel, X, choose_landmarks(landmarks, X.shape[0], usable, random_state))
    return KernelSpan(coordinates.rows, kernel, coordinates)


@dataclass(frozen=True)
class Deformation:
    """`rows` (l, d): the labeled items with the deformed kernel as inner products.

    `restore` turns weights (d, J) of these rows into weights of the coordinates they are made of.
    """

    rows: NDArray[np.float64]
    restore: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def deform_kernel(
    span: KernelSpan, labeled: NDArray[np.bool_], L: GraphLaplacian
) -> Callable[[float], Deformation]:
    """R^T L R once; the deformation for any c afterwards, at the cost of a factor of its size."""
    return deform_rows(span.take(labeled), L.quadratic(span.rows), "gamma_I / gamma_A", "gamma_I")


def deform_rows(
    rows: NDArray[np.float64], smoothness: NDArray[np.float64], ratio: str, weight: str
) -> Callable[[float], Deformation]:
    """The deformation of some rows for any c; `smoothness` is R^T L R.

    `ratio` and `weight` are what a user calls c and what to lower where it is too large.
    """

    def deform(c: float) -> Deformation:
        B = c * smoothness
        B[np.diag_indices(len(B))] += 1.0
        try:
            U = scipy.linalg.cholesky(B, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError as error:
            raise InvalidInput(
                f"{ratio} weighs the graph {c:.0e} times the kernel, of which double precision "
                f"keeps nothing; lower {weight}."
            ) from error
        deformed = scipy.linalg.solve_triangular(U, rows.T, trans=1, check_finite=False).T
        return Deformation(
            np.ascontiguousarray(deformed),
            lambda V: scipy.linalg.solve_triangular(U, V, check_finite=False),
        )

    return deform
