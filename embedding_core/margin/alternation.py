"""The two steps of LPSSVM for one label, in the coordinates that solve the graph part (B = I, L = diag)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.linalg.kernel_space import Kernel
from embedding_core.margin.assembly import Span, span_items
from embedding_core.margin.locality import Locality, linked_items, solve_kernel_locality, solve_locality
from embedding_core.margin.machines import svm_trainer
from embedding_core.margin.rank_one import update_diagonal

Chooser = Callable[[NDArray[np.float64]], int]


@dataclass(frozen=True)
class Stage:
    """What all labels share: the graph part and the labeled items.

    `rows` (l, d) are the labeled items in the coordinates of `locality`, `features` (l, q) items whose inner
    products are the kernel, `weight` (l,) their weights in the loss, `volume` is tr(D).
    """

    locality: Locality
    rows: NDArray[np.float64]
    features: NDArray[np.float64]
    weight: NDArray[np.float64]
    volume: float

    def select(self, labeled: NDArray[np.intp]) -> "Stage":
        """The same with some of the labeled items only."""
        return Stage(
            self.locality, self.rows[labeled], self.features[labeled], self.weight[labeled], self.volume
        )


@dataclass(frozen=True)
class Rules:
    """gamma with its sign in front of the label term, C, number of iterations, tau, length of directions."""

    signed_gamma: float
    C: float
    max_iter: int
    tol: float
    scaling: str


@dataclass(frozen=True)
class Machine:
    """One label's subspace `directions` (d, r) and decision x -> `weight` (d,) . x + `bias`."""

    directions: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    weight: NDArray[np.float64]
    bias: float
    n_iter: int


def prepare_stage(
    X: Any, kernel: Kernel, W: Any, times: NDArray[np.float64], landmarks: Any, random_state: Any
) -> tuple[Stage, Span]:
    """Solve the graph part, in the features or in the span of linked items.

    `times` (n,) says how often an item counts in the loss, 0 for an unlabeled one.
    """
    L = GraphLaplacian(W)
    span = span_items(X, kernel, linked_items(L.degree), landmarks, random_state)
    locality = solve_locality(X, L) if span.coordinates is None else solve_kernel_locality(span.rows, L)
    labeled = times > 0
    features = span.take(labeled)
    rows = features @ locality.basis
    return Stage(locality, rows, features, times[labeled], float(L.degree.sum())), span


def alternate(stage: Stage, sign: NDArray[np.int8], rules: Rules, choose: Chooser) -> Machine:
    """Run the algorithm of Fig. 1 for one label; `choose` gives the dimension for ascending eigenvalues."""
    F, _ = svm_trainer(stage.features)(sign, rules.C, stage.weight)
    n_iter, change = 0, np.inf
    while n_iter < rules.max_iter and change >= rules.tol:
        n_iter += 1
        update = update_diagonal(stage.locality.values, stage.rows.T @ F, rules.signed_gamma / 2)
        r = choose(update.values)
        V = _scale(update.vectors(r), stage, rules.scaling)
        E = stage.rows @ V
        F_before = F
        F, bias = svm_trainer(E)(sign, rules.C, stage.weight)
        change = float(((F_before - F) ** 2).sum())
    return Machine(V, update.values[:r], V @ (E.T @ F), bias, n_iter)


def _scale(V: NDArray[np.float64], stage: Stage, scaling: str) -> NDArray[np.float64]:
    """Give directions with a^T X D X^T a = 1 the length that `scaling` asks for."""
    if scaling == "constraint":
        return V
    if scaling == "spread":
        return V * np.sqrt(stage.volume)
    return V / np.linalg.norm(stage.locality.basis @ V, axis=0)


def energy_dimension(values: NDArray[np.float64], energy: float, energy_of: str) -> int:
    """Smallest number of eigenvalues, ascending, that hold the share `energy` of the total.

    The energy of an eigenvalue is its similarity 1 - lambda, cut to [0, 1], or lambda itself.
    """
    held = np.clip(1.0 - values, 0.0, 1.0) if energy_of == "similarity" else np.maximum(values, 0.0)
    share = np.cumsum(held)
    if not share[-1] > 0:
        return 1
    return int(np.searchsorted(share, energy * share[-1] * (1 - 1e-12))) + 1


def fit_columns(signs: NDArray[np.int8], fit: Callable[[NDArray[np.int8]], Machine]) -> list[Machine | float]:
    """One machine a column of signs (l, J); a column that is all one sign is answered by that sign."""
    return [
        float(sign[0]) if (sign == sign[0]).all() else fit(np.ascontiguousarray(sign)) for sign in signs.T
    ]


def decide_rows(machines: Sequence[Machine | float], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Decisions (m, J) for items in the coordinates of the machines."""
    return np.column_stack(
        [
            np.full(len(rows), machine)
            if isinstance(machine, float)
            else rows @ machine.weight + machine.bias
            for machine in machines
        ]
    )
