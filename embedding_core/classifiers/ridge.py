"""Ridge regression of labels with leave-one-out predictions, for many penalties from one decomposition."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embedding_core.linalg.eigen import positive_part
from embedding_core.linalg.scatter import center_items
from embedding_core.scaling import Features

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Ridge:
    """Ridge regression with one penalty.

    `coef` (r, K) are coefficients of the principal components, and `left_out` (n, K) are the leave-one-out
    predictions.
    """

    coef: NDArray[np.float64]
    left_out: NDArray[np.float64]

    def replace_part(self, other: "Ridge", part: NDArray[np.float64]) -> "Ridge":
        """Use `other` for the label combinations in the range of the projector `part` (K, K)."""
        return Ridge(
            self.coef + (other.coef - self.coef) @ part,
            self.left_out + (other.left_out - self.left_out) @ part,
        )


class RidgePath:
    """Ridge regressions of labels Y (n, K) on X (n, p), with intercept.

    With X_c = X - 1 m^T, the coefficients for penalty lambda are (X_c^T X_c / n + lambda I)^(-1) X_c^T Y / n.
    The prediction for item i without item i, at the same total penalty n lambda, is
    y_i - (y_i - f_i) / (1 - h_i) with the prediction f_i of the fit on all items and the leverage h_i.
    """

    def __init__(self, X: Features, Y: NDArray[np.int8]) -> None:
        self._items, self._Y = center_items(X), Y
        principal = positive_part(self._items.scatter)
        self._basis, self._values = principal.vectors, principal.values
        self._mean = Y.mean(axis=0, dtype=np.float64)
        self._moments = self._basis.T @ self._items.moments(Y - self._mean)

    @property
    def mean_variance(self) -> float:
        """Mean variance of the components along which the items vary; 1 if all items are equal."""
        return float(self._values.mean()) / len(self._Y) if len(self._values) else 1.0

    @property
    def total_variance(self) -> float:
        """Sum of the variances of the components of the items."""
        return float(self._values.sum()) / len(self._Y)

    def explain(self, ridge: Ridge) -> NDArray[np.float64]:
        """Return Y_c^T F (K, K) with the predictions F for the items: symmetric, positive semidefinite."""
        product = self._moments.T @ ridge.coef
        return (product + product.T) / 2

    def fit(self, penalties: Iterable[float]) -> dict[float, Ridge]:
        """Fit all penalties in one pass over the items."""
        n = len(self._Y)
        shrunk = {penalty: n * penalty / (self._values + n * penalty) for penalty in penalties}
        fits = {
            penalty: Ridge(self._moments / (self._values + n * penalty)[:, None], np.empty(self._Y.shape))
            for penalty in shrunk
        }
        for rows, block in self._items.blocks():
            components = block @ self._basis
            dual, Y = components / self._values, self._Y[rows]
            leverages = components * dual
            # y - f and 1 - h are computed as sums of their parts outside and inside the span of X_c; as
            # differences they would be pure rounding error for p > n and a small penalty
            outside = 1 - 1 / n - leverages.sum(axis=1)
            error = Y - self._mean - dual @ self._moments
            inside = outside < _ROUNDING
            outside[inside], error[inside] = 0.0, 0.0
            for penalty, share in shrunk.items():
                rest = outside + leverages @ share
                left = (error + dual @ (share[:, None] * self._moments)) / rest[:, None]
                fits[penalty].left_out[rows] = Y - left
        return fits

    def lift(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert coefficients (r, k) of the components to coefficients (p, k) of the features."""
        return self._items.lift(self._basis @ coef)
