"""Supervised Laplacian eigenmaps with a margin between classes (S-LE)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.checks import check_positive, check_share
from embedding_core.eigenmaps.combined_graph import BUDGET_BYTES
from embedding_core.eigenmaps.eigenmap import EigenmapEmbedding, class_codes
from embedding_core.errors import check_memory
from embedding_core.graph.affinity import mean_squared_distance, squared_distances
from embedding_core.graph.spectral import Eigenmap
from embedding_core.labels import UNLABELED, Indicator

_MATRICES = 4


@dataclass(frozen=True)
class ClassGraphs:
    """W^W of same-class pairs and W^B of other pairs (n, n); `degree` is that of W^W."""

    within: NDArray[np.float64]
    between: NDArray[np.float64]

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """Row sums of W^W, including its diagonal."""
        sums: NDArray[np.float64] = self.within.sum(axis=1)
        return sums

    def restrict(self, rows: NDArray[np.intp]) -> "ClassGraphs":
        """Return the graphs of some items."""
        part = np.ix_(rows, rows)
        return ClassGraphs(self.within[part], self.between[part])


def build_class_graphs(squared: NDArray[np.float64], codes: NDArray[np.intp], sigma: float) -> ClassGraphs:
    """Build W^W and W^B of Sect. 2.5 from squared distances; unlabeled items (-1) have no links in either."""
    s = np.exp(-squared / sigma)
    near = s > s.mean(axis=1)[:, None]
    near |= near.T
    labeled = codes != UNLABELED
    near &= labeled[:, None] & labeled
    same = codes[:, None] == codes
    return ClassGraphs(np.where(near & same, s, 0.0), (near & ~same).astype(np.float64))


def solve_class_graphs(graphs: ClassGraphs, beta: float, r: int) -> Eigenmap:
    """Return the r largest ν of (β L^B - (1 - β) L^W) z = ν D^W z, Z^T D^W Z = I.

    The constant vector is excluded.
    """
    root = np.sqrt(graphs.degree)
    M = (1 - beta) * graphs.within - beta * graphs.between
    M[np.diag_indices(len(M))] -= M.sum(axis=1)
    M /= root[:, None]
    M /= root
    trivial = root / np.linalg.norm(root)
    M -= (1 + np.abs(M).sum(axis=0).max()) * np.outer(trivial, trivial)
    n = len(M)
    values, U = scipy.linalg.eigh(M, subset_by_index=(n - r, n - 1), overwrite_a=True, check_finite=False)
    return Eigenmap(U[:, ::-1] / root[:, None], values[::-1])


class SLE(EigenmapEmbedding):
    """Supervised Laplacian eigenmap with a margin (S-LE) [1]_ as in Sect. 2.5 of [2]_.

    Pushes apart similar items of different classes and pulls together similar items of one class. Two items
    are similar if their similarity is above the average similarity of one of them to all items.

    Parameters
    ----------
    sigma : float or "auto", default="auto"
        σ² of the similarity exp(-d² / σ²). "auto" is the mean squared distance over all pairs of items
        (Sect. 3.2 of [2]_).
    beta : float, default=0.01
        β, from 0 (only pull) to 1 (only push). The papers give no value. Similar items of other classes are
        many and have weight 1, those of the same class are fewer with weights below 1, so that already β =
        0.1 pushes more than it pulls: iris, wine and digits keep their classes at 0.01 and lose them at 0.5.
    n_neighbors, out_of_sample, alpha, gamma, n_components
        As in `SLEML`; `n_neighbors` is used only by "nystrom", here the mean of the nearest items.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (r,)
        ν of (β L^B - (1 - β) L^W) z = ν D^W z, descending, without the constant vector.
    degree_ : ndarray of shape (n,)
        Diagonal of D^W.
    sigma_ : float
        σ² used.
    embedding_, classes_, n_neighbors_
        As in `SLEML`, and so are the attributes of the out-of-sample map.

    Notes
    -----
    Maximizes β sum_ij |z_i - z_j|² w^B_ij - (1 - β) sum_ij |z_i - z_j|² w^W_ij. With s_ij = exp(-d² /
    σ²), two items are near if s_ij is above the mean of s over all items for at least one of them. w^W is
    s_ij for near items of one class, w^B is 1 for near items of different classes.

    Readings. (1) [2]_ gives no constraint; that of [1]_ is Z^T D^W Z = I, under which the criterion equals
    that of [1]_, the trace of Z^T (β L^B + (1 - β) W^W) Z, up to a constant. (2) An item is near itself (s_ii
    = 1) and counts in D^W. (3) The mean is over all items of the fit; an unlabeled item has no links and is
    placed by the out-of-sample map. The method needs n x n matrices for all pairs, at most 2 GB.

    References
    ----------
    .. [1] B. Raducanu, F. Dornaika, "A Supervised Non-linear Dimensionality Reduction Approach for Manifold
       Learning", Pattern Recognition 45(6), 2012.
    .. [2] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import SLE
    >>> X, y = load_iris(return_X_y=True)
    >>> SLE().fit(X, y).embedding_.shape
    (150, 2)
    """

    _one_class_per_item: ClassVar[bool] = True
    _links_unlabeled: ClassVar[bool] = False

    def __init__(
        self,
        *,
        sigma: float | str = "auto",
        beta: float = 0.01,
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
        self.beta = beta

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("sigma", self.sigma, ("auto",))
        check_share("beta", self.beta)

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> ClassGraphs:
        n = X.shape[0]
        advice = "fit it on fewer items, or use SLEML or SLapEig"
        check_memory(f"SLE of all pairs of {n} items", 8.0 * _MATRICES * n**2, BUDGET_BYTES, advice)
        squared = squared_distances(X)
        self.sigma_ = mean_squared_distance(squared) if self.sigma == "auto" else float(self.sigma)
        return build_class_graphs(squared, class_codes(target), self.sigma_)

    def _solve(self, graph: ClassGraphs, r: int) -> Eigenmap:
        return solve_class_graphs(graph, float(self.beta), r)

    def _extension(self) -> tuple[NDArray[np.float64], float | None]:
        """Use the plain mean: an item of unknown class is in neither graph, so it has no equation."""
        return np.zeros(len(self.eigenvalues_)), None
