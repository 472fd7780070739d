"""Items around their mean, in as few coordinates as they need."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.linalg.eigen import row_space
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.linalg.scatter import class_scatter
from embedding_core.scaling import Features


@dataclass(frozen=True)
class CenteredItems:
    """X - 1 m^T in d <= min(n, p) coordinates of an orthonormal basis, never formed as a whole.

    `coordinates` are (n, d), the features themselves for p <= n (`are_features`); `mean` is theirs (d,);
    `scatter` is S_t = X_c^T X_c (d, d). `lift` maps coordinates (d, k) of directions to features (p, k).
    """

    coordinates: Any
    are_features: bool
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of rows of X_c in float64."""
        sparse = sp.issparse(self.coordinates)
        for rows, block in row_blocks(self.coordinates):
            dense: Any = block
            yield rows, (dense.toarray() if sparse else dense) - self.mean

    def moments(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """X_c^T A, of shape (d, k)."""
        total = np.zeros((len(self.mean), A.shape[1]))
        for rows, block in self.blocks():
            total += block.T @ A[rows]
        return total

    def project(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """X_c G, of shape (n, k)."""
        return np.vstack([block @ G for _, block in self.blocks()])


def center_items(X: Features) -> CenteredItems:
    """Center X (n, p): no p x p matrix for p > n, no dense n x p one for sparse X."""
    space = row_space(X)
    total = class_scatter(space.coordinates, np.ones((X.shape[0], 1)))
    return CenteredItems(space.coordinates, space.are_features, total.mean, total.within, space.lift)
