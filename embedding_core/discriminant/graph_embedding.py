"""What the discriminant methods with a graph share: where it comes from, and how sigma is chosen."""

from collections.abc import Callable
from typing import Any

import numpy as np

from embedding_core.base import LinearEmbedding
from embedding_core.checks import check_count
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import (
    GraphFamily,
    check_sigma_choice,
    graph_family,
    kernel_graph_family,
    resolve_graph,
    warn_of_unlinked,
)
from embedding_core.linalg.row_blocks import RowBlocks


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
        if affinity is None and isinstance(X, RowBlocks):
            raise InvalidInput(
                f"X comes in blocks of rows and no affinity is given; finding neighbors of {X.shape[0]} "
                "items needs them in memory. Pass affinity, or X as an array."
            )
        W, self.sigma_ = resolve_graph(affinity, X.shape[0], lambda: self._family(X), self.sigma, score)
        warn_of_unlinked(W)
        return W

    def _family(self, X: Any) -> GraphFamily:
        """Pairs to link where no affinity is given."""
        if getattr(self, "kernel", "linear") == "precomputed":
            return kernel_graph_family(np.asarray(X, dtype=np.float64), self.graph, self.n_neighbors)
        return graph_family(X, self.graph, self.n_neighbors)
