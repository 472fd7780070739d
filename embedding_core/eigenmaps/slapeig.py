"""Supervised Laplacian eigenmaps with class-dependent distances (S-LapEig)."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from embedding_core.checks import check_positive
from embedding_core.eigenmaps.combined_graph import (
    CombinedGraph,
    check_link_budget,
    given_graph,
    with_short_indices,
)
from embedding_core.eigenmaps.eigenmap import EigenmapEmbedding, class_codes
from embedding_core.labels import UNLABELED, Indicator
from embedding_core.linalg.conditioning import shift_items

_BLOCK_ROWS = 1024
_POOLS = 3  # neighbors are searched in the same class, the other classes and the unlabeled items


def supervised_distances(
    t: NDArray[np.float64], i: NDArray[np.intp], j: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return d² of Sect. 2.4 from t = |x_i - x_j|² / τ² and the classes i and j of the ends.

    It is 1 - exp(-t) within a class, exp(t) between classes, and t, which lies between the two, if a class is
    unknown.
    """
    known = (i != UNLABELED) & (j != UNLABELED)
    with np.errstate(over="ignore"):
        return np.where(known, np.where(i == j, -np.expm1(-t), np.exp(t)), t)


def mean_distance(X: Any) -> float:
    """Return the mean Euclidean distance over all pairs of distinct items; 1 if all items coincide."""
    n, X = X.shape[0], shift_items(X)
    total = sum(
        float(euclidean_distances(X[start : start + _BLOCK_ROWS], X).sum())
        for start in range(0, n, _BLOCK_ROWS)
    )
    return total / (n * (n - 1)) if total > 0 else 1.0


def find_supervised_neighbors(
    X: Any, codes: NDArray[np.intp], n_neighbors: int, tau: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the k items nearest to each item by `supervised_distances`, and their d², both (n, k).

    d² increases with the Euclidean distance within the same class, within the other classes and within the
    unlabeled items, so the k nearest items are among the k nearest of each of these three groups.
    """
    n, X = X.shape[0], shift_items(X)
    nearest, squared = np.empty((n, n_neighbors), dtype=np.intp), np.empty((n, n_neighbors))
    for code in np.unique(codes):
        own, unlabeled = codes == code, codes == UNLABELED
        rows = np.flatnonzero(own)
        pools = [own, ~own] if code == UNLABELED else [own, ~own & ~unlabeled, unlabeled]
        found = [_nearest_of(X, rows, np.flatnonzero(pool), n_neighbors) for pool in pools if pool.any()]
        j = np.hstack([indices for indices, _ in found])
        d = supervised_distances(np.hstack([lengths for _, lengths in found]) ** 2 / tau, code, codes[j])
        d[j == rows[:, None]] = np.inf
        best = np.argsort(d, axis=1, kind="stable")[:, :n_neighbors]
        nearest[rows], squared[rows] = (
            np.take_along_axis(j, best, axis=1),
            np.take_along_axis(d, best, axis=1),
        )
    return nearest, squared


def _nearest_of(
    X: Any, rows: NDArray[np.intp], pool: NDArray[np.intp], n_neighbors: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return indices and distances of the k + 1 items of a pool nearest to each row, itself included."""
    index = NearestNeighbors(n_neighbors=min(n_neighbors + 1, len(pool))).fit(X[pool])
    lengths, found = index.kneighbors(X[rows])
    return pool[found], lengths


class SLapEig(EigenmapEmbedding):
    """Supervised Laplacian eigenmap (S-LapEig) [1]_ as in Sect. 2.4 of [2]_.

    A Laplacian eigenmap on distances that are below 1 within a class and above 1 between classes.

    Parameters
    ----------
    sigma : float, default=1.0
        σ² of the weights exp(-d² / σ²). d² has no unit, and 1 separates pairs within a class from pairs
        between classes; the papers give no value.
    tau : float or "auto", default="auto"
        τ² in d², in units of a squared distance. "auto" is the square of the mean distance over all pairs of
        items, as in [1]_.
    n_neighbors, out_of_sample, alpha, gamma, n_components
        As in `SLEML`. "nystrom" gives the neighbors of a new item the weights that the graph gives to those
        of an unlabeled item.

    Attributes
    ----------
    tau_ : float or None
        τ² used; None if an affinity was given.
    embedding_, eigenvalues_, degree_, classes_, n_neighbors_
        As in `SLEML`, and so are the attributes of the out-of-sample map.

    Notes
    -----
    Minimizes Eq. 1 as `LaplacianEigenmaps` does, with w_ij = exp(-d²(x_i, x_j) / σ²) for nearest
    neighbors and d² = 1 - exp(-t) within a class, exp(t) between classes, t = |x_i - x_j|² / τ².

    Readings. (1) The modified distance also determines the neighbors: it replaces the distance, and only
    under this reading does the paper need a k above the class size "to relate each sample to other samples of
    different classes" (Sect. 3.2). With a smaller k the classes are separate components, and a warning is
    issued. (2) Pairs with an unlabeled item have d² = t, between the other two; without labels the method is
    `LaplacianEigenmaps` with the width σ² τ². (3) A supplied affinity (divided by its largest entry if that
    is above 1) replaces exp(-t), and its edges replace the neighbors.

    References
    ----------
    .. [1] Q. Jiang, M. Jia, "Supervised Laplacian Eigenmaps for Machinery Fault Classification", WRI World
       Congress on Computer Science and Information Engineering, 2009.
    .. [2] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import SLapEig
    >>> X, y = load_iris(return_X_y=True)
    >>> SLapEig().fit(X, y).embedding_.shape
    (150, 2)
    """

    _one_class_per_item: ClassVar[bool] = True
    tau_: float | None

    def __init__(
        self,
        *,
        sigma: float = 1.0,
        tau: float | str = "auto",
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
        self.tau = tau

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("sigma", self.sigma)
        check_positive("tau", self.tau, ("auto",))

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> CombinedGraph:
        codes = class_codes(target)
        W = self._neighbors(X, codes) if affinity is None else self._reweigh(affinity, codes)
        with np.errstate(over="ignore"):
            W.data = np.exp(-W.data / float(self.sigma))
        W.eliminate_zeros()
        return CombinedGraph(with_short_indices(sp.csr_array(W.maximum(W.T))))

    def _neighbors(self, X: Any, codes: NDArray[np.intp]) -> Any:
        """Return directed links to the nearest items, with d²."""
        n, k = X.shape[0], self.n_neighbors_
        check_link_budget(n, _POOLS * k)
        # far from the origin |x|² + |z|² - 2 x.z suffers from cancellation
        items = X if sp.issparse(X) else X - X.mean(axis=0, dtype=np.float64)
        self.tau_ = mean_distance(items) ** 2 if self.tau == "auto" else float(self.tau)
        nearest, d = find_supervised_neighbors(items, codes, k, self.tau_)
        return sp.csr_array((d.ravel(), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))

    def _reweigh(self, affinity: Any, codes: NDArray[np.intp]) -> Any:
        """Return the links of a supplied graph, with d²."""
        self.tau_ = None
        W = sp.csr_array(given_graph(affinity, len(codes)))
        ends = W.tocoo()
        t = -np.log(W.data / W.data.max(initial=1.0))
        W.data = supervised_distances(t, codes[ends.row], codes[ends.col])
        return W

    def _extension(self) -> tuple[NDArray[np.float64], float | None]:
        return self.eigenvalues_, None if self.tau_ is None else self.tau_ * float(self.sigma)
