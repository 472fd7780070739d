"""Label scores as a kernel expansion, with their leave-one-out answers, for many penalties at once.

With rows in coordinates whose inner products are the kernel, deformed by the graph, label scores are ridge
regression on the labeled ones: `RidgePath` gives all penalties and all leave-one-out answers from one
eigendecomposition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.classifiers.ridge import RidgePath
from embedding_core.errors import InvalidInput
from embedding_core.kernel_dle.graph import smoothness
from embedding_core.kernel_dle.kernels import MixedKernel
from embedding_core.linalg.kernel_space import (
    KernelMap,
    choose_landmarks,
    kernel_coordinates,
    place_by_kernel,
)
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.margin.assembly import Span
from embedding_core.margin.deformation import Deformation, deform_rows
from embedding_core.model_selection.inner_choice import rate_scores

REGULARISATIONS = tuple(float(power) for power in 10.0 ** np.arange(1.5, -4.1, -0.5))
"""lambda that "loo" tries, the strongest first among equals."""
GRAPH_WEIGHTS = (0.0, 0.1, 1.0, 10.0)
"""mu that "loo" tries, and that the form for few labels averages over."""

AUTO_EXACT, AUTO_LANDMARKS = 4000, 2000
"""`landmarks="auto"`: all rows up to the first number of them, beyond it the second number."""


@dataclass(frozen=True)
class Machine:
    """Scores f(x) = k(x, items) coef + intercept; of the features themselves where `items` is None."""

    kernel: Any
    items: Any
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Label scores (m, K) of rows; rows are kernel values if precomputed."""
        if self.items is None:
            return project_rows(self.kernel.features(X), self.coef) + self.intercept
        return place_by_kernel(self.kernel, X, self.items, self.coef) + self.intercept


@dataclass(frozen=True)
class Fit:
    """A machine, and what it says of the rows of its fit.

    `fitted` (n, K) are its scores of all rows, `left_out` (l, K) those of each labeled row without its
    labels, see `_about_one_mean`, `explained` is T^T (F - mean) (K, K). `learnt` says that the kernel itself
    was learnt from the labels of all rows: then `left_out` is not what a new row would get.
    """

    machine: Machine
    fitted: NDArray[np.float64]
    left_out: NDArray[np.float64]
    explained: NDArray[np.float64]
    graph_weight: float
    regularization: float
    quality: tuple[float, float]
    learnt: bool = False


@dataclass(frozen=True)
class Problem:
    """Rows X (n, p), a kernel, the labeled ones among them, their labels Y (l, K), how to be solved.

    `W` is the graph of all rows, None where no graph weight but 0 is asked for. `landmarks` as for the
    estimators.
    """

    X: Any
    kernel: KernelMap
    labeled: NDArray[np.bool_]
    Y: NDArray[np.int8]
    W: Any
    landmarks: int | str | None
    random_state: Any


def span_problem(problem: Problem) -> Span:
    """Coordinates of all rows: features for a linear kernel of fewer features than rows, else landmarks."""
    X, kernel, landmarks = problem.X, problem.kernel, problem.landmarks
    n = X.shape[0]
    if isinstance(kernel, MixedKernel) and kernel.is_linear and X.shape[1] <= n:
        return Span(kernel.features(X), kernel, None)
    if landmarks == "auto":
        landmarks = None if n <= AUTO_EXACT else AUTO_LANDMARKS
    if isinstance(landmarks, Integral):
        landmarks = min(int(landmarks), n)
    chosen = choose_landmarks(landmarks, n, np.ones(n, dtype=bool), problem.random_state)
    coordinates = kernel_coordinates(kernel, X, chosen)
    return Span(coordinates.rows, kernel, coordinates)


def solve(problem: Problem, penalties: Mapping[float, Sequence[float]]) -> list[Fit]:
    """For each graph weight the fit of the best among its penalties; the coordinates are found once."""
    span = span_problem(problem)
    return [
        _best_fit(problem, span, deformation, weight, penalties[weight])
        for weight, deformation in _deformations(problem, span, penalties)
    ]


def choose_fit(problem: Problem, graph_weight: float | str, regularizations: Sequence[float]) -> Fit:
    """The fit with the graph weight given, or for "loo" with that of the best leave-one-out answers."""
    weights = GRAPH_WEIGHTS if isinstance(graph_weight, str) else (float(graph_weight),)
    return max(solve(problem, dict.fromkeys(weights, regularizations)), key=lambda fit: fit.quality)


def _deformations(
    problem: Problem, span: Span, graph_weights: Iterable[float]
) -> Iterator[tuple[float, Deformation]]:
    rows, deform = span.take(problem.labeled), None
    for weight in graph_weights:
        if weight == 0:
            yield weight, Deformation(rows, lambda V: V)
            continue
        if deform is None:
            deform = deform_rows(rows, smoothness(problem.W, span.rows), "graph_weight", "it")
        yield weight, deform(weight)


def _best_fit(
    problem: Problem, span: Span, deformed: Deformation, weight: float, regularizations: Sequence[float]
) -> Fit:
    Y = problem.Y
    path = RidgePath(deformed.rows, Y)
    unit = path.total_variance / len(Y)  # lambda tau of the equations is l times the path's penalty
    if not unit > 0:
        raise InvalidInput(
            f"All {len(Y)} labeled items are equal to the kernel, so nothing tells their labels apart; give "
            "features that vary."
        )
    fits = path.fit([value * unit for value in regularizations])
    rated = [rate_scores(Y, ridge.left_out) for ridge in fits.values()]
    best = max(range(len(rated)), key=rated.__getitem__)
    ridge = list(fits.values())[best]
    A = path.lift(ridge.coef)
    intercept = Y.mean(axis=0) - deformed.rows.mean(axis=0) @ A
    weights = deformed.restore(A)
    machine = Machine(problem.kernel, _kept_items(problem, span), span.lift(problem.X, weights), intercept)
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
    """Leave-one-out answers with the mean of all rows in place of that of the others.

    The mean of the others is lower where the row has the label. To rate answers, that is as it should be;
    with a strong penalty, where little else is left of them, it would tell each row's own labels to whatever
    is trained on them.
    """
    return left_out + (Y - Y.mean(axis=0)) / (len(Y) - 1)


def _kept_items(problem: Problem, span: Span) -> Any:
    if span.coordinates is None:
        return None
    return problem.kernel.take(problem.X, span.coordinates.heads)
