"""The form for few labels: scores averaged over three metrics and four weights of the graph."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.kernel_dle.graph import local_graph
from embedding_core.kernel_dle.kernels import PARTS, WIDTHS, MixedKernel, fit_kernel, part_distances
from embedding_core.kernel_dle.l1 import l1_gradients
from embedding_core.kernel_dle.metric import Metric, sensitivity_metric, whitening_metric
from embedding_core.kernel_dle.solution import (
    GRAPH_WEIGHTS,
    Fit,
    Machine,
    Problem,
    solve,
)

FEW = 10
"""Labeled rows a label up to which `few_labels="auto"` takes this form."""


def labels_are_few(Y: NDArray[np.int8]) -> bool:
    """Whether the labels that occur have `FEW` rows or fewer on average; Y (l, K) of labeled rows."""
    positives = Y.sum(axis=0, dtype=np.int64)
    return bool(positives[positives > 0].mean() <= FEW) if positives.any() else True


def solve_few(problem: Problem, graph_given: bool, regularizations: Sequence[float]) -> list[Fit]:
    """Fits of all metrics and graph weights, whose scores are to be averaged.

    The first are those of the kernel given; the others have metrics that were learnt from the labels and are
    marked so. Each metric has a graph of its own, unless one was given. A kernel that is not a mixture of
    distances between z-scored dense rows has the one metric it brings.

    A learnt metric has seen the label of the row that is left out, so it takes the penalty that the kernel
    given chose with the same graph weight.
    """
    found = solve(problem, dict.fromkeys(GRAPH_WEIGHTS, regularizations))
    chosen = {fit.graph_weight: (fit.regularization,) for fit in found}
    for metric in _other_metrics(problem, found[0]):
        kernel = fit_kernel(
            "mixture",
            problem.X,
            problem.random_state,
            metric,
            problem.kernel.scaler,  # type: ignore[attr-defined]
        )
        W = problem.W if graph_given else local_graph(kernel.views(problem.X)["z"])
        fits = solve(replace(problem, kernel=kernel, W=W), chosen)
        found += [replace(fit, learnt=True) for fit in fits]
    return found


def _other_metrics(problem: Problem, first: Fit) -> Iterator[Metric]:
    """The metrics beside plain z-scores; `first` is the fit without a graph."""
    kernel = problem.kernel
    if not isinstance(kernel, MixedKernel) or kernel.parts != PARTS["mixture"] or sp.issparse(problem.X):
        return
    Z = kernel.views(problem.X[problem.labeled])["z"]
    whitened = whitening_metric(Z, problem.Y)
    if whitened is not None:
        yield whitened
    yield sensitivity_metric(mean_squared_gradient(first.machine, problem.X[problem.labeled]))


def mean_squared_gradient(machine: Machine, X: Any) -> NDArray[np.float64]:
    """Diagonal (p,) of G: the squared slope of the scores along each z-scored feature, summed over labels.

    The mean over the rows of X; for a machine with the kernel "mixture".
    """
    kernel = machine.kernel
    rows, items = kernel.views(X)["z"], kernel.views(machine.items)["z"]
    squared_part, l1_part = _slopes(kernel, rows, items)
    total = np.zeros(rows.shape[1])
    for coef in machine.coef.T:
        pull = squared_part * coef
        slope = 2 * (rows * pull.sum(axis=1, keepdims=True) - pull @ items)
        slope += l1_gradients(rows, items, l1_part * coef)
        total += (slope**2).mean(axis=0)
    return total


def _slopes(
    kernel: MixedKernel, rows: NDArray[np.float64], items: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Derivatives (m, h) of the kernel by the squared L2 and by the L1 distance of each pair."""
    found = []
    for part, median in zip(kernel.parts, kernel.medians, strict=True):
        ratio = part_distances(part, rows, items) / median
        slopes = np.mean([-s * np.exp(-s * ratio) for s in WIDTHS], axis=0)
        found.append(slopes / (len(kernel.parts) * median))
    return found[0], found[1]
