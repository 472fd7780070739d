"""Label scores as a kernel expansion, with exact leave-one-out scores for many penalties at once.

In coordinates whose inner products are the kernel, deformed by the graph, the label scores are ridge
regression on the labeled rows: `RidgePath` gives all penalties and all leave-one-out scores from one
eigendecomposition.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.classifiers.ridge import RidgePath
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import kernel_distances, pairs_of
from embedding_core.graph.knn import nearest_by_distance, nearest_others, squared_lengths
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.graph.supplied import graph_from_edges
from embedding_core.linalg.kernel_space import (
    KernelMap,
    choose_landmarks,
    kernel_coordinates,
    place_by_kernel,
)
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.margin.kernel_span import Deformation, KernelSpan, deform_rows
from embedding_core.model_selection.inner_choice import rate_scores

NEIGHBORS = 10
_LEAST_RADIUS = 1e-3
_FAINT = 1e-12
"""Degrees below this fraction of the largest count as zero: dividing by them would lose all other rows."""

REGULARIZATIONS = tuple(float(power) for power in 10.0 ** np.arange(1.5, -4.1, -0.5))
"""Values of lambda tried by "loo"; the strongest wins ties."""
GRAPH_WEIGHTS = (0.0, 0.1, 1.0, 10.0)
"""Values of mu tried by "loo", and averaged over if labels are few."""
AUTO_EXACT, AUTO_LANDMARKS = 4000, 2000
"""`landmarks="auto"` takes all rows up to the first number, and the second number of landmarks above it."""


def local_graph(X: Any) -> Any:
    """Build the graph of the ten nearest neighbors, W_ij = exp(-d_ij² / (r_i r_j)).

    r_i is the distance from row i to its tenth neighbor, at least a thousandth of the mean distance.
    Otherwise rows with ten copies of themselves would have radius 0 and no link to other rows.

    Returns
    -------
    csr_array of shape (n, n)
    """
    nearest = nearest_others(X, min(NEIGHBORS, X.shape[0] - 1))
    i, j = pairs_of(nearest)
    rows = np.repeat(np.arange(len(nearest)), nearest.shape[1])
    reach = squared_lengths(X, rows, nearest.ravel()).reshape(nearest.shape)
    return _weigh(i, j, squared_lengths(X, i, j), reach.max(axis=1))


def local_kernel_graph(K: NDArray[np.float64]) -> Any:
    """Build `local_graph` in the feature space of a kernel matrix (n, n)."""
    squared = kernel_distances(K)
    nearest = nearest_by_distance(squared, min(NEIGHBORS, len(K) - 1))
    i, j = pairs_of(nearest)
    return _weigh(i, j, squared[i, j], np.take_along_axis(squared, nearest, axis=1).max(axis=1))


def smoothness(W: Any, rows: Any) -> NDArray[np.float64]:
    """Return R^T L R for L = I - D^(-1/2) W D^(-1/2) and coordinates R (n, d), dense or sparse.

    Rows without a link contribute nothing. Degrees below 1e-12 of the largest count as no link.
    """
    degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    linked = degree > _FAINT * degree.max(initial=0.0)
    root = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=linked)
    scaled = sp.csr_array(sp.diags_array(root) @ rows) if sp.issparse(rows) else rows * root[:, None]
    return GraphLaplacian(W).quadratic(scaled)


def _weigh(
    i: NDArray[np.intp], j: NDArray[np.intp], squared: NDArray[np.float64], reach: NDArray[np.float64]
) -> Any:
    radius = np.sqrt(reach)
    radius = np.maximum(radius, _LEAST_RADIUS * radius.mean() or 1.0)
    return graph_from_edges(i, j, np.exp(-squared / (radius[i] * radius[j])), len(radius))


@dataclass(frozen=True)
class KernelExpansion:
    """Scores f(x) = k(x, items) coef + intercept; x^T coef + intercept if `items` is None."""

    kernel: Any
    items: Any
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return label scores (m, K) of rows, or of kernel values if the kernel is precomputed."""
        if self.items is None:
            return project_rows(self.kernel.features(X), self.coef) + self.intercept
        return place_by_kernel(self.kernel, X, self.items, self.coef) + self.intercept


@dataclass(frozen=True)
class Fit:
    """A fitted kernel expansion and its scores for the rows of the fit.

    `fitted` (n, K) are the scores of all rows, `left_out` (l, K) the leave-one-out scores of the labeled rows
    (see `_about_one_mean`), and `explained` is T^T (F - mean) (K, K). `learned` means that the kernel itself
    was learned from the labels of all rows, so that `left_out` is too optimistic for new rows.
    """

    machine: KernelExpansion
    fitted: NDArray[np.float64]
    left_out: NDArray[np.float64]
    explained: NDArray[np.float64]
    graph_weight: float
    regularization: float
    quality: tuple[float, float]
    learned: bool = False


@dataclass(frozen=True)
class Problem:
    """Rows X (n, p), the kernel, a mask of the labeled rows, their labels Y (l, K), and solver settings.

    `W` is the graph of all rows; None if only the graph weight 0 is used. `landmarks` as in `KernelDLE`.
    """

    X: Any
    kernel: KernelMap
    labeled: NDArray[np.bool_]
    Y: NDArray[np.int8]
    W: Any
    landmarks: int | str | None
    random_state: Any


def span_problem(problem: Problem) -> KernelSpan:
    """Return coordinates of all rows: the features for a linear kernel with p <= n, else Nyström."""
    X, kernel, landmarks = problem.X, problem.kernel, problem.landmarks
    n = X.shape[0]
    if getattr(kernel, "is_linear", False) and X.shape[1] <= n:
        return KernelSpan(kernel.features(X), kernel, None)  # type: ignore[attr-defined]  # of linear kernels
    if landmarks == "auto":
        landmarks = None if n <= AUTO_EXACT else AUTO_LANDMARKS
    if isinstance(landmarks, Integral):
        landmarks = min(int(landmarks), n)
    chosen = choose_landmarks(landmarks, n, np.ones(n, dtype=bool), problem.random_state)
    coordinates = kernel_coordinates(kernel, X, chosen)
    return KernelSpan(coordinates.rows, kernel, coordinates)


def solve(problem: Problem, penalties: Mapping[float, Sequence[float]]) -> list[Fit]:
    """Return, for each graph weight, the fit with its best penalty; coordinates are computed once."""
    span = span_problem(problem)
    return [
        _best_fit(problem, span, deformation, weight, penalties[weight])
        for weight, deformation in _deformations(problem, span, penalties)
    ]


def choose_fit(problem: Problem, graph_weight: float | str, regularizations: Sequence[float]) -> Fit:
    """Return the fit with the given graph weight, or for "loo" the one with the best leave-one-out scores."""
    weights = GRAPH_WEIGHTS if isinstance(graph_weight, str) else (float(graph_weight),)
    return max(solve(problem, dict.fromkeys(weights, regularizations)), key=lambda fit: fit.quality)


def _deformations(
    problem: Problem, span: KernelSpan, graph_weights: Collection[float]
) -> Iterator[tuple[float, Deformation]]:
    """Yield the graph weights with their deformations.

    A weight that is too large for double precision is skipped if it comes from a grid; a single weight was
    set by the user and raises. Weight 0 always works.
    """
    rows, deform = span.take(problem.labeled), None
    for weight in graph_weights:
        if weight == 0:
            yield weight, Deformation(rows, lambda V: V)
            continue
        if deform is None:
            deform = deform_rows(rows, smoothness(problem.W, span.rows), "graph_weight", "it")
        try:
            deformed = deform(weight)
        except InvalidInput:
            if len(graph_weights) == 1:
                raise
            continue
        yield weight, deformed


def _best_fit(
    problem: Problem, span: KernelSpan, deformed: Deformation, weight: float, regularizations: Sequence[float]
) -> Fit:
    Y = problem.Y
    path = RidgePath(deformed.rows, Y)
    unit = path.total_variance / len(Y)  # lambda tau of the equations is l times the path's penalty
    if not unit > 0:
        raise InvalidInput(
            f"All {len(Y)} labeled items are equal under the kernel, so their labels cannot be separated; "
            "give features that vary."
        )
    fits = path.fit([value * unit for value in regularizations])
    rated = [rate_scores(Y, ridge.left_out) for ridge in fits.values()]
    best = max(range(len(rated)), key=rated.__getitem__)
    ridge = list(fits.values())[best]
    A = path.lift(ridge.coef)
    intercept = Y.mean(axis=0) - deformed.rows.mean(axis=0) @ A
    weights = deformed.restore(A)
    machine = KernelExpansion(
        problem.kernel, _kept_items(problem, span), span.lift(problem.X, weights), intercept
    )
    return Fit(
        machine=machine,
        fitted=project_rows(span.rows, weights) + intercept,
        left_out=_about_one_mean(ridge.left_out, Y),
        explained=path.explain(ridge),
        graph_weight=weight,
        regularization=regularizations[best],
        quality=rated[best],
    )


def _about_one_mean(left_out: NDArray[np.float64], Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return leave-one-out scores about the mean of all rows instead of the mean of the other rows.

    The mean of the other rows is lower if the left-out row has the label. That is correct for rating scores.
    With a strong penalty, however, little else remains in the scores, and a model trained on them could read
    off each row's own labels.
    """
    scores: NDArray[np.float64] = left_out + (Y - Y.mean(axis=0)) / (len(Y) - 1)
    return scores


def _kept_items(problem: Problem, span: KernelSpan) -> Any:
    if span.coordinates is None:
        return None
    return problem.kernel.take(problem.X, span.coordinates.heads)
