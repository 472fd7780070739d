"""Items in coordinates of the space that a kernel spans, and from there back to maps of new items."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.linalg.kernel_space import (
    Kernel,
    KernelCoordinates,
    KernelMap,
    choose_landmarks,
    kernel_coordinates,
)


@dataclass(frozen=True)
class Span:
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


def span_items(X: Any, kernel: Kernel, usable: NDArray[np.bool_], landmarks: Any, random_state: Any) -> Span:
    """The space of all `usable` items, or of landmarks among them."""
    if works_in_features(kernel, X):
        return Span(X, kernel, None)
    coordinates = kernel_coordinates(kernel, X, choose_landmarks(landmarks, X.shape[0], usable, random_state))
    return Span(coordinates.rows, kernel, coordinates)
