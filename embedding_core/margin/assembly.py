"""From items and a graph to what all labels share, and from fitted machines back to maps of new items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.eigen import fix_signs
from embedding_core.laplacian import GraphLaplacian
from embedding_core.margin.alternation import Machine, Stage
from embedding_core.margin.locality import linked_items, solve_kernel_locality, solve_locality
from embedding_core.margin.nystrom import Kernel, KernelCoordinates, choose_landmarks, kernel_coordinates


@dataclass(frozen=True)
class Maps:
    """`directions` (h, r) and `coef` (h, J) on features or on kernel values with `items`.

    `items` is None where the features are used themselves.
    """

    directions: NDArray[np.float64]
    coef: NDArray[np.float64]
    items: Any


def works_in_features(kernel: Kernel, X: Any) -> bool:
    """Whether the linear form (Eq. 9) is the smaller one; for p > n the kernel form is."""
    return kernel.name == "linear" and X.shape[1] <= X.shape[0]


def prepare_stage(
    X: Any, kernel: Kernel, W: Any, labelled: NDArray[np.bool_], landmarks: Any, random_state: Any
) -> tuple[Stage, KernelCoordinates | None]:
    """Solve the graph part; the coordinates are None in the linear form."""
    L = GraphLaplacian(W)
    if works_in_features(kernel, X):
        span, rows, locality = None, X, solve_locality(X, L)
    else:
        chosen = choose_landmarks(landmarks, X.shape[0], linked_items(L.degree), random_state)
        span = kernel_coordinates(kernel, X, chosen)
        rows, locality = span.rows, solve_kernel_locality(span.rows, L)
    features = rows[labelled]
    features = np.asarray(features.toarray() if sp.issparse(features) else features, dtype=np.float64)
    return Stage(locality, features @ locality.basis, features, float(L.degree.sum())), span


def assemble_maps(
    X: Any, kernel: Kernel, stage: Stage, span: KernelCoordinates | None, machines: Sequence[Machine | float]
) -> Maps:
    """Put the subspaces of all machines side by side, and their decisions."""
    basis = stage.locality.basis
    found = [machine for machine in machines if isinstance(machine, Machine)]
    A = fix_signs(basis @ np.hstack([machine.directions for machine in found]))
    none = np.zeros(basis.shape[1])
    coef = basis @ np.column_stack([m.weight if isinstance(m, Machine) else none for m in machines])
    if span is None:
        return Maps(A, coef, None)
    A, coef, items = span.expand(A), span.expand(coef), kernel.take(X, span.heads)
    if kernel.name == "linear":
        return Maps(fix_signs(np.asarray(items.T @ A)), np.asarray(items.T @ coef), None)
    return Maps(A, coef, items)
