"""Bandwidth-free kernels: means over several widths, with distances in units of their median.

Distances and gradients of a block of rows are computed in one call without the interpreter lock, so that
several threads share the rows. The value of a pair depends only on its two rows, not on how the rows are
split into blocks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.utils import check_random_state

from embedding_core.compiled import compile_kernel
from embedding_core.errors import InvalidInput
from embedding_core.graph.knn import squared_norms
from embedding_core.linalg.conditioning import EPS
from embedding_core.linalg.l1 import l1_distances
from embedding_core.scaling import Scaler, TfIdf
from embedding_core.threads import for_row_blocks

_ROWS = numba.types.Array(numba.types.float64, 2, "C", readonly=True)
_RESULT = numba.types.Array(numba.types.float64, 2, "C")

WIDTHS = (1 / 4, 1 / 2, 1, 2, 4)
"""Factors s of exp(-s d / median). Each is twice the previous one: `multi_scale` relies on it."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "mixture": ("z_rbf", "z_l1"),
    "linear": ("z_linear",),
    "sparse": ("z_rbf", "z_l1", "c_rbf", "c_linear"),
    "text": ("c_rbf", "c_linear"),
}
"""Parts that are averaged, by kernel; z: z-scored rows, c: rows of unit length."""
KERNELS = ("auto", "mixture", "linear", "intersection", "precomputed")
SPARSE_SHARE, TEXT_SHARE = 0.5, 0.9
"""Fractions of zeros above which "auto" treats rows as sparse, and non-negative rows as text."""
MEDIAN_ROWS = 2000


def l1_gradients(
    rows: NDArray[np.float64], items: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return sums over items b of weights[a, b] sign(rows[a] - items[b]), of the shape (n, p) of `rows`."""
    result = np.zeros(rows.shape)
    rows, items, weights = (np.ascontiguousarray(given) for given in (rows, items, weights))
    _signed_sums(rows, items, weights, result)
    return result


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


@dataclass(frozen=True)
class FeatureMetric:
    """Linear map x -> weights x + basis diag(factors) basis^T x of z-scored rows.

    `weights` (p,), `basis` (p, r) and `factors` (r,).
    """

    weights: NDArray[np.float64]
    basis: NDArray[np.float64]
    factors: NDArray[np.float64]

    def apply(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map rows (m, p)."""
        mapped = Z * self.weights
        if len(self.factors):
            mapped += ((Z @ self.basis) * self.factors) @ self.basis.T
        return mapped


def whitening_metric(Z: NDArray[np.float64], Y: NDArray[np.int8]) -> FeatureMetric | None:
    """Return S_w^(-1/2) of labeled rows, with Ledoit-Wolf shrinkage of S_w towards the mean variance.

    Parameters
    ----------
    Z : ndarray of shape (l, p)
    Y : ndarray of shape (l, K)
        Deviations of a row with several labels are taken from the average of their class means. Rows without
        labels form their own class.

    Returns
    -------
    FeatureMetric or None
        None if no row deviates from its class mean.

    Notes
    -----
    S_w is never formed. With its eigenpairs s, V from the thin SVD of the deviations, the root is
    c I + V ((1 - a) s + a m)^(-1/2) V^T - c V V^T with c = (a m)^(-1/2), shrinkage a and mean variance m.
    """
    shares = np.column_stack([Y, Y.sum(axis=1) == 0]).astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    size = shares.sum(axis=0)
    means = (shares.T @ Z) / np.where(size > 0, size, 1.0)[:, None]
    deviations = Z - shares @ means
    _, lengths, V = scipy.linalg.svd(deviations, full_matrices=False, check_finite=False)
    kept = lengths > max(Z.shape) * EPS * max(lengths[0], np.abs(Z).max())
    if not kept.any():
        return None
    values = lengths[kept] ** 2 / len(Z)
    mean = float(values.sum()) / Z.shape[1]
    # without shrinkage, directions in which no row deviates would have zero length
    shrinkage = max(float(ledoit_wolf_shrinkage(deviations, assume_centered=True)), 1e-3)
    outside = (shrinkage * mean) ** -0.5
    factors = ((1 - shrinkage) * values + shrinkage * mean) ** -0.5 - outside
    return FeatureMetric(np.full(Z.shape[1], outside), np.ascontiguousarray(V[kept].T), factors)


def sensitivity_metric(gradients: NDArray[np.float64]) -> FeatureMetric:
    """Return the feature weights sqrt(0.9 diag(G) / mean + 0.1); `gradients` (p,) is the diagonal of G."""
    mean = float(gradients.mean())
    share = gradients / mean if mean > 0 else np.ones_like(gradients)
    p = len(gradients)
    return FeatureMetric(np.sqrt(0.9 * share + 0.1), np.zeros((p, 0)), np.zeros(0))


def resolve_kernel(kernel: Any, X: Any) -> str:
    """Resolve "auto" by the fraction of zeros in X."""
    if kernel != "auto":
        return str(kernel)
    entries = X.data if sp.issparse(X) else X
    zeros = 1 - np.count_nonzero(entries) / (X.shape[0] * X.shape[1])
    if zeros <= SPARSE_SHARE:
        return "mixture"
    return "text" if zeros > TEXT_SHARE and entries.min(initial=0.0) >= 0 else "sparse"


def multi_scale(distances: NDArray[np.float64], median: float) -> NDArray[np.float64]:
    """Return the mean over s of exp(-s d / median), in place; costs one exponential and four squarings."""
    np.multiply(distances, -WIDTHS[0] / median, out=distances)
    power = np.exp(distances, out=distances)
    total = power.copy()
    for _ in WIDTHS[1:]:
        np.square(power, out=power)
        total += power
    total /= len(WIDTHS)
    return total


@dataclass(frozen=True)
class MixedKernel:
    """Mean of several kernels: `parts` from `PARTS`, each with its width in `medians`.

    A linear part is divided by the mean squared length of the rows. `scaler` z-scores the rows, and `metric`
    maps z-scored dense rows.
    """

    parts: tuple[str, ...]
    medians: tuple[float, ...]
    scaler: Scaler | TfIdf
    metric: FeatureMetric | None = None

    @property
    def name(self) -> str:
        """Kind of the kernel."""
        return "mixed"

    @property
    def is_linear(self) -> bool:
        """Whether the rows themselves, as `features`, are coordinates of the feature space."""
        return self.parts == PARTS["linear"]

    def take(self, X: Any, rows: NDArray[np.intp]) -> Any:
        """Return rows to keep for later kernel values with them."""
        return X[rows].astype(np.float64)

    def columns(self, X: Any, items: Any) -> NDArray[np.float64]:
        """Return k (m, h) between all rows of X and the kept items, using several threads."""
        views = self.views(X), self.views(items)
        result = np.zeros((X.shape[0], items.shape[0]))

        def work(rows: slice) -> None:
            for part, median in zip(self.parts, self.medians, strict=True):
                A, B = (view[part[0]] for view in views)
                result[rows] += part_values(part, A[rows], B, median)
            result[rows] /= len(self.parts)

        for_row_blocks(X.shape[0], items.shape[0], work)
        return result

    def features(self, X: Any) -> Any:
        """Return rows whose inner products are the linear kernel."""
        return self.views(X)["z"] / np.sqrt(self.medians[0])

    def views(self, X: Any) -> dict[str, Any]:
        """Return the rows as the parts need them, keyed by the first letter of a part."""
        return row_views(X.astype(np.float64), self.parts, self.scaler, self.metric)


def row_views(
    X: Any, parts: tuple[str, ...], scaler: Scaler | TfIdf, metric: FeatureMetric | None
) -> dict[str, Any]:
    """Return rows z-scored ("z") and of unit length ("c"), as far as the parts need them.

    If the scaler weighs counts by TF-IDF, which gives rows of unit length, both have these weights.
    """
    views = {}
    if any(part.startswith("z") for part in parts):
        Z = scaler.transform(X)
        views["z"] = Z if metric is None else metric.apply(Z)
    if any(part.startswith("c") for part in parts):
        unit = scaler if isinstance(scaler, TfIdf) else Scaler("unit").fit(X)
        views["c"] = unit.transform(X)
    return views


def part_values(part: str, A: Any, B: Any, median: float) -> NDArray[np.float64]:
    """Return one kernel between the rows of A and B."""
    if part.endswith("linear"):
        return _product(A, B) / median
    return multi_scale(part_distances(part, A, B), median)


def part_distances(part: str, A: Any, B: Any) -> NDArray[np.float64]:
    """Return L1 or squared L2 distances between the rows of A and B."""
    if part.endswith("l1"):
        return l1_distances(A, B)
    squared = _product(A, B)
    squared *= -2
    squared += squared_norms(A)[:, None]
    squared += squared_norms(B)
    return np.maximum(squared, 0.0, out=squared)


def fit_kernel(
    kind: str,
    X: Any,
    random_state: Any,
    metric: FeatureMetric | None = None,
    scaler: Scaler | TfIdf | None = None,
) -> MixedKernel:
    """Learn scaling and medians from the rows of X (n, p); medians use at most `MEDIAN_ROWS` rows."""
    X64 = X.astype(np.float64)
    scaler = Scaler("zscore").fit(X64) if scaler is None else scaler
    n = X.shape[0]
    if n > MEDIAN_ROWS:
        X64 = X64[np.sort(check_random_state(random_state).choice(n, MEDIAN_ROWS, replace=False))]
    views = row_views(X64, PARTS[kind], scaler, metric)
    medians = tuple(_median(part, views[part[0]]) for part in PARTS[kind])
    return MixedKernel(PARTS[kind], medians, scaler, metric)


def _median(part: str, rows: Any) -> float:
    """Return the median distance of pairs (their mean if it is 0), or the mean squared length if linear."""
    if part.endswith("linear"):
        return float(squared_norms(rows).mean()) or 1.0
    n = rows.shape[0]
    distances = np.empty((n, n))

    def work(block: slice) -> None:
        distances[block] = part_distances(part, rows[block], rows)

    for_row_blocks(n, n, work)
    pairs = distances[np.triu_indices(n, 1)]
    if not len(pairs):
        return 1.0
    return float(np.median(pairs)) or float(pairs.mean()) or 1.0


def _product(A: Any, B: Any) -> NDArray[np.float64]:
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


@dataclass(frozen=True)
class CallableKernel:
    """A kernel given as a function of rows (m, p) and (h, p) that returns values (m, h)."""

    function: Callable[[Any, Any], Any]
    name: str = "callable"

    def take(self, X: Any, rows: NDArray[np.intp]) -> Any:
        """Return rows to keep."""
        return X[rows].astype(np.float64)

    def columns(self, X: Any, items: Any) -> NDArray[np.float64]:
        """Return the values of the function after validating them."""
        values = self.function(X.astype(np.float64), items)
        dense = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
        expected = (X.shape[0], items.shape[0])
        if dense.shape != expected or not np.isfinite(dense).all():
            raise InvalidInput(
                f"The kernel function returned shape {dense.shape} for rows {expected}, or numbers that are "
                "not finite; return one finite value per pair of rows."
            )
        return dense
