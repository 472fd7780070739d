"""Classification constrained dimensionality reduction (CCDR): a Laplacian eigenmap with class centers."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.checks import check_share
from embedding_core.eigenmaps.combined_graph import CombinedGraph
from embedding_core.eigenmaps.laplacian_eigenmaps import LaplacianEigenmaps
from embedding_core.graph.affinity import Edges
from embedding_core.labels import Indicator


def link_class_centers(W: Any, Y: NDArray[np.int8], balance: float) -> Any:
    """Build the graph (n + K, n + K) of Eq. 2: λ W between items, (1 - λ) / 2 from an item to its classes.

    The factor 1/2 is needed because the first sum of Eq. 2 counts every pair twice, the second once.
    """
    centers = sp.csr_array((1 - balance) / 2 * (Y == 1))
    return sp.block_array([[balance * sp.csr_array(W), centers], [centers.T, None]], format="csr")


def nearest_scale(edges: Edges) -> float:
    """Return ten times the mean squared distance to the nearest item, or the edges' scale if that is 0."""
    nearest = np.full(edges.n, np.inf)
    np.minimum.at(nearest, edges.i, edges.squared)
    np.minimum.at(nearest, edges.j, edges.squared)
    scale = 10 * float(nearest.mean())
    return scale if scale > 0 else edges.scale


class CCDR(LaplacianEigenmaps):
    """Classification constrained dimensionality reduction (CCDR) [1]_ as in Sect. 2.2 of [2]_.

    A Laplacian eigenmap with one additional node per class, the class center, which is linked to all items of
    the class. Accepts several labels per item.

    Parameters
    ----------
    balance : float, default=0.5
        λ of Eq. 2, from 0 (labels only) to 1 (features only: Laplacian eigenmap); 1/2 as in [1]_. With k
        neighbors an item has k feature links and about one label link, so classes are visibly separated only
        if λ is near 1/k: use 1e-3 to see them.
    sigma : float or "auto", default="auto"
        σ² of the weights exp(-d² / σ²). "auto" is ten times the mean squared distance to the nearest item, as
        in [1]_ (the mean squared length of all edges if every item has a duplicate).
    n_neighbors, out_of_sample, alpha, gamma, n_components
        As in `SLEML`.

    Attributes
    ----------
    class_centers_ : ndarray of shape (K, r)
        μ_k of Eq. 2; 0 for a class without links (no item has it, or `balance` is 1).
    sigma_, embedding_, eigenvalues_, degree_, classes_, n_neighbors_
        As in `LaplacianEigenmaps`.

    Notes
    -----
    Minimizes Eq. 2, λ sum_ij |z_i - z_j|² w_ij + (1 - λ) sum_ki |μ_k - z_i|² c_ki, over items and
    centers, with the weights of `LaplacianEigenmaps`.

    Readings. (1) The constraint is that of [1]_: Z^T D Z = I and orthogonality to the constant vector, with Z
    the items and the centers together. This is the Laplacian eigenmap of a graph of n + K nodes. (2) The
    factor of the class links keeps the two sums as printed (see `link_class_centers`). (3) Unlabeled items
    have no center and are placed by their neighbors only. λ = 1 is `LaplacianEigenmaps` with this σ²; λ = 0
    places all items of a class on one point (for one label per item).

    References
    ----------
    .. [1] J. A. Costa, A. O. Hero, "Classification Constrained Dimensionality Reduction", ICASSP 2005;
       R. Raich, J. A. Costa, S. B. Damelin, A. O. Hero, the same title, arXiv:0802.2906.
    .. [2] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import CCDR
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CCDR().fit(X, y)
    >>> model.embedding_.shape, model.class_centers_.shape
    ((150, 2), (3, 2))
    """

    _supervised: ClassVar[bool] = True
    _linked: ClassVar[str] = "items and class centers"

    def __init__(
        self,
        *,
        balance: float = 0.5,
        sigma: float | str = "auto",
        n_neighbors: int | str = "auto",
        out_of_sample: str = "linear",
        alpha: float = 1e-3,
        gamma: float | str = "auto",
        n_components: int | None = None,
    ) -> None:
        super().__init__(
            sigma=sigma,
            n_neighbors=n_neighbors,
            out_of_sample=out_of_sample,
            alpha=alpha,
            gamma=gamma,
            n_components=n_components,
        )
        self.balance = balance

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share("balance", self.balance)

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> CombinedGraph:
        W = self._heat_graph(X, affinity)
        linked = link_class_centers(W, target.Y, float(self.balance))
        linked.eliminate_zeros()
        return CombinedGraph(linked)

    def _auto_sigma(self, X: Any, edges: Edges) -> float:
        return nearest_scale(edges)

    def _in_pieces_by_design(self) -> bool:
        return self.balance == 0

    def _span(self, graph: CombinedGraph) -> tuple[int, str]:
        return len(graph.degree), "items and class centers"

    def _item_coordinates(
        self, Z: NDArray[np.float64], nodes: NDArray[np.intp], target: Indicator
    ) -> NDArray[np.float64]:
        n = len(target.Y)
        items = nodes < n
        self.class_centers_ = np.zeros((target.n_classes, Z.shape[1]))
        self.class_centers_[nodes[~items] - n] = Z[~items]
        return Z[items]
