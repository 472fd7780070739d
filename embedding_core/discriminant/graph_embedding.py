"""What the discriminant methods with a graph share: where it comes from, and how sigma is chosen."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.affinity import (
    GraphFamily,
    check_given_graph,
    check_sigma_choice,
    choose_sigma,
    graph_family,
    kernel_graph_family,
    warn_of_unlinked,
)
from embedding_core.base import LinearEmbedding
from embedding_core.checks import check_count
from embedding_core.errors import InvalidInput
from embedding_core.folds import stratified_folds
from embedding_core.labels import Indicator
from embedding_core.neighbors import nearest_rows
from embedding_core.row_blocks import RowBlocks

CV_FOLDS = 5


def micro_f1(Y: NDArray[np.int8], predicted: NDArray[np.int8]) -> float:
    """Micro-averaged F1; for one label an item it is the accuracy."""
    positives = int(Y.sum()) + int(predicted.sum())
    return 2 * int((Y & predicted).sum()) / positives if positives else 1.0


def fold_score(target: Indicator, place: Callable[[Indicator], NDArray[np.float64]]) -> float:
    """Mean micro-F1 of 1NN in the embedding, each fold of the labelled items hidden in turn.

    Parameters
    ----------
    target : Indicator
    place : callable
        Gives the embedding (n, r) of all items where only the labels handed to it are known.

    Returns
    -------
    float
        A fold without which the classes cannot be told apart scores 0.
    """
    n_splits = min(CV_FOLDS, int(target.labelled.sum()))
    scores = []
    for train, test in stratified_folds(target.Y, n_splits, seed=0):
        two_classes = (target.Y[train] == 1).any(axis=0).sum() > 1
        Q = place(target.hide(test)) if two_classes else np.zeros((len(target.Y), 0))
        scores.append(_neighbor_score(Q, target.Y, train, test))
    return float(np.mean(scores))


def _neighbor_score(
    Q: NDArray[np.float64], Y: NDArray[np.int8], train: NDArray[np.intp], test: NDArray[np.intp]
) -> float:
    if Q.shape[1] == 0:
        return 0.0
    _, nearest = nearest_rows(Q[train], Q[test], 1)
    return micro_f1(Y[test], Y[train][nearest[:, 0]])


class GraphEmbedding(LinearEmbedding):
    """Base of the methods that take an affinity or build a graph by `graph`, `n_neighbors` and `sigma`."""

    graph: str
    n_neighbors: int
    sigma: float | str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_neighbors", self.n_neighbors)
        check_sigma_choice(self.sigma)

    def _affinity(self, X: Any, affinity: Any, score: Callable[[Any], float]) -> Any:
        """W, given or built from X; `score` rates a graph for sigma="cv"."""
        if affinity is not None:
            self.sigma_ = None
            W = check_given_graph(affinity, X.shape[0])
            warn_of_unlinked(W)
            return W
        if isinstance(X, RowBlocks):
            raise InvalidInput(
                f"X comes in blocks of rows and no affinity is given; finding neighbours of {X.shape[0]} "
                "items needs them in memory. Pass affinity, or X as an array."
            )
        family = self._family(X)
        self.sigma_ = choose_sigma(family, self.sigma, score)
        W = family.weigh(self.sigma_)
        warn_of_unlinked(W)
        return W

    def _family(self, X: Any) -> GraphFamily:
        """Pairs to link where no affinity is given."""
        if getattr(self, "kernel", "linear") == "precomputed":
            return kernel_graph_family(np.asarray(X, dtype=np.float64), self.graph, self.n_neighbors)
        return graph_family(X, self.graph, self.n_neighbors)
