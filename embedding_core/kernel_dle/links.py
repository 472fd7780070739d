"""Kernels of items with links: of the attributes, of attributes propagated along the links, or their mean.

The propagated rows come from `embedding_core.graph.propagation`. Labels do not enter them, so leaving out a
label is exact for each of these kernels, and their leave-one-out scores can be compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.kernel_dle.solution import Fit, Problem, choose_fit
from embedding_core.linalg.kernel_space import KernelMap
from embedding_core.threads import for_row_blocks

LINKS = ("none", "only", "mean", "loo")
"""How links enter the kernel: not, by propagated attributes only, the mean of both, or the best of these."""
CHOICES = {"only": ("links",), "mean": ("mean",), "loo": ("attributes", "links", "mean")}
"""The kernels that are compared; the first one wins ties."""


@dataclass(frozen=True)
class LinkedRows:
    """Items as their attributes `X` (n, p) and their propagated rows `P` (n, q)."""

    X: Any
    P: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items, and of columns of both parts."""
        return self.P.shape[0], self.X.shape[1] + self.P.shape[1]

    def __getitem__(self, rows: Any) -> "LinkedRows":
        return LinkedRows(self.X[rows], self.P[rows])


@dataclass(frozen=True)
class PropagatedKernel:
    """Inner products of propagated rows, which are the mean kernel of several propagations."""

    name: str = "links"

    @property
    def is_linear(self) -> bool:
        """Whether the rows themselves are coordinates of the feature space."""
        return True

    def take(self, X: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return rows to keep for later kernel values with them."""
        return X[rows].astype(np.float64)

    def columns(self, X: NDArray[Any], items: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return k (m, h) between all rows and the kept items."""
        result = np.empty((len(X), len(items)))

        def work(rows: slice) -> None:
            np.matmul(X[rows].astype(np.float64), items.T, out=result[rows])

        for_row_blocks(len(X), len(items), work)
        return result

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return rows whose inner products are the kernel."""
        return X


@dataclass(frozen=True)
class MeanKernel:
    """Mean of a kernel of the attributes and of the kernel of the propagated rows, for `LinkedRows`."""

    attributes: KernelMap
    propagated: PropagatedKernel = PropagatedKernel()
    name: str = "mean"

    def take(self, X: LinkedRows, rows: NDArray[np.intp]) -> LinkedRows:
        """Return rows to keep for later kernel values with them."""
        return LinkedRows(self.attributes.take(X.X, rows), self.propagated.take(X.P, rows))

    def columns(self, X: LinkedRows, items: LinkedRows) -> NDArray[np.float64]:
        """Return k (m, h) between all rows and the kept items."""
        total: NDArray[np.float64] = self.attributes.columns(X.X, items.X)
        total += self.propagated.columns(X.P, items.P)
        total /= 2
        return total


def rows_of(choice: str, rows: LinkedRows) -> Any:
    """Return the rows that the kernel of a choice compares."""
    return {"attributes": rows.X, "links": rows.P, "mean": rows}[choice]


def _problems(
    problem: Problem, P: NDArray[Any], attributes: KernelMap, choices: Sequence[str]
) -> Iterator[tuple[str, Problem]]:
    both = LinkedRows(problem.X, P)
    kernels: dict[str, KernelMap] = {
        "attributes": attributes,
        "links": PropagatedKernel(),
        "mean": MeanKernel(attributes),
    }
    for choice in choices:
        yield choice, replace(problem, X=rows_of(choice, both), kernel=kernels[choice])


def choose_links(
    problem: Problem, P: NDArray[Any], links: str, regularizations: Sequence[float]
) -> tuple[str, Fit, dict[str, float]]:
    """Fit each kernel that `links` allows and return the one with the best leave-one-out scores.

    Parameters
    ----------
    problem : Problem
        The labeled items with their attributes, and the kernel of the attributes.
    P : ndarray of shape (l, q)
        Their propagated rows.
    links : {"only", "mean", "loo"}
    regularizations : sequence of float

    Returns
    -------
    choice : {"attributes", "links", "mean"}
    fit : Fit
    scores : dict of str to float
        Leave-one-out score of each kernel: accuracy, or LRAP if items have several labels.
    """
    found = {
        choice: choose_fit(one, 0.0, regularizations)
        for choice, one in _problems(problem, P, problem.kernel, CHOICES[links])
    }
    best = max(found, key=lambda choice: found[choice].quality)
    return best, found[best], {choice: fit.quality[0] for choice, fit in found.items()}
