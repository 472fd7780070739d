"""Laplacian eigenmaps with heat-kernel weights, unsupervised (LE)."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import check_positive
from embedding_core.eigenmaps.combined_graph import (
    CombinedGraph,
    check_link_budget,
    given_graph,
    with_short_indices,
)
from embedding_core.eigenmaps.eigenmap import EigenmapEmbedding
from embedding_core.graph.affinity import Edges, find_knn_edges
from embedding_core.labels import Indicator
from embedding_core.subspace.principal import squared_spread


def mean_squared_distance(X: Any) -> float:
    """Return the mean over all pairs of distinct items, in O(n p); 1 if all items coincide."""
    total = squared_spread(X)
    return 2 * total / (X.shape[0] - 1) if total > 0 else 1.0


class LaplacianEigenmaps(EigenmapEmbedding):
    """Laplacian eigenmap (LE) [1]_ as in Sect. 2.1 of [2]_.

    Places items so that nearest neighbors are close together. Unsupervised: labels only determine the
    defaults of `n_neighbors` and `n_components`.

    Parameters
    ----------
    sigma : float or "auto", default="auto"
        σ² of the weights exp(-d² / σ²), in units of a squared distance. "auto" is the mean squared distance
        over all pairs of items (Sect. 3.2 of [2]_).
    n_neighbors, out_of_sample, alpha, gamma, n_components
        As in `SLEML`. "nystrom" gives the neighbors of a new item the weights exp(-d² / σ²), as the graph
        does.

    Attributes
    ----------
    sigma_ : float or None
        σ² used; None if an affinity was given.
    embedding_, eigenvalues_, degree_, classes_, n_neighbors_
        As in `SLEML`, and so are the attributes of the out-of-sample map.

    Notes
    -----
    Minimizes Eq. 1, sum_ij |z_i - z_j|² w_ij subject to Z^T D Z = I, by the eigenvectors of L Z = D Z Λ
    without the constant one. w_ij = exp(-d² / σ²) if either item is among the k nearest of the other (not
    counting itself), else 0; a supplied affinity replaces it. Isolated items and graphs with several
    components are treated as in `SLEML`.

    References
    ----------
    .. [1] M. Belkin, P. Niyogi, "Laplacian Eigenmaps for Dimensionality Reduction and Data Representation",
       Neural Computation 15(6), 2003.
    .. [2] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import LaplacianEigenmaps
    >>> X, y = load_iris(return_X_y=True)
    >>> LaplacianEigenmaps(n_components=2).fit(X, y).embedding_.shape
    (150, 2)
    """

    _supervised: ClassVar[bool] = False
    sigma_: float | None

    def __init__(
        self,
        *,
        sigma: float | str = "auto",
        n_neighbors: int | str = "auto",
        out_of_sample: str = "linear",
        alpha: float = 1e-3,
        gamma: float | str = "auto",
        n_components: int | None = None,
    ) -> None:
        super().__init__(
            n_neighbors=n_neighbors,
            out_of_sample=out_of_sample,
            alpha=alpha,
            gamma=gamma,
            n_components=n_components,
        )
        self.sigma = sigma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("sigma", self.sigma, ("auto",))

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> CombinedGraph:
        return CombinedGraph(self._heat_graph(X, affinity))

    def _heat_graph(self, X: Any, affinity: Any) -> Any:
        """Return W of Sect. 2.1, CSR, or dense if the affinity is dense."""
        if affinity is not None:
            self.sigma_ = None
            return given_graph(affinity, X.shape[0])
        check_link_budget(X.shape[0], self.n_neighbors_)
        edges = find_knn_edges(X, self.n_neighbors_)
        self.sigma_ = self._auto_sigma(X, edges) if self.sigma == "auto" else float(self.sigma)
        return with_short_indices(edges.graph("heat", self.sigma_))

    def _auto_sigma(self, X: Any, edges: Edges) -> float:
        return mean_squared_distance(X)

    def _extension(self) -> tuple[NDArray[np.float64], float | None]:
        return self.eigenvalues_, self.sigma_
