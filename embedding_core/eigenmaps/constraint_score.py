"""Constraint Score as an eigenmap: pairs of the same class are pulled together, all others pushed apart."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.checks import check_not_negative
from embedding_core.eigenmaps.combined_graph import (
    CombinedGraph,
    LabelSets,
    find_label_sets,
    solve_label_sets,
)
from embedding_core.eigenmaps.eigenmap import EigenmapEmbedding
from embedding_core.graph.spectral import Eigenmap
from embedding_core.labels import Indicator


class ConstraintScore(EigenmapEmbedding):
    """Constraint Score [1]_ as an eigenmap, Sect. 2.3 of [2]_.

    The criterion depends only on the labels and places every class on one point. The features enter through
    the out-of-sample map; "linear" is a ridge regression on the classes.

    Parameters
    ----------
    beta : float, default=1.0
        β, the weight of pairs of different classes. The embedding does not depend on it, see Notes.
    n_neighbors, out_of_sample, alpha, gamma, n_components
        As in `SLEML`; `n_neighbors` is used only by "nystrom", here the mean of the nearest items.
        `n_components` is at most K-1 for K classes with items.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (r,)
        Eigenvalues of L^M - β L^C, all equal to -β n for n labeled items.
    degree_ : ndarray of shape (n,)
        Diagonal of the metric Z^T Z = I: 1 for labeled items, 0 for others.
    embedding_, classes_, n_neighbors_
        As in `SLEML`, and so are the attributes of the out-of-sample map.

    Notes
    -----
    Minimizes sum_ij |z_i - z_j|² w^M_ij - β sum_ij |z_i - z_j|² w^C_ij with w^M = 1 for pairs of the
    same class and w^C = 1 for all others (the subtraction type of [1]_).

    Readings. (1) Row sums of w^M - β w^C may be negative, so the constraint cannot be Z^T D Z = I; it is Z^T
    Z = I, orthogonal to the constant vector. L^C = n I - 1 1^T - L^M, hence L^M - β L^C = (1 + β) L^M - β n I
    on vectors that sum to 0: for every β the solution is the null space of L^M, the K-1 contrasts of class
    indicators. (2) Its eigenvalue is repeated, so the axes are a choice. With classes ordered by descending
    size, axis j separates class j + 1 from classes 1 to j. Further components would be arbitrary, so more
    than K-1 raise an error. (3) Pairs with an unlabeled item do not count; such items are placed by the
    out-of-sample map.

    References
    ----------
    .. [1] D. Zhang, S. Chen, Z.-H. Zhou, "Constraint Score: A New Filter Method for Feature Selection with
       Pairwise Constraints", Pattern Recognition 41(5), 2008.
    .. [2] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import ConstraintScore
    >>> X, y = load_iris(return_X_y=True)
    >>> np.unique(ConstraintScore().fit(X, y).embedding_, axis=0).shape
    (3, 2)
    """

    _one_class_per_item: ClassVar[bool] = True
    _links_unlabeled: ClassVar[bool] = False

    def __init__(
        self,
        *,
        beta: float = 1.0,
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
        self.beta = beta

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_not_negative("beta", self.beta)

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> CombinedGraph:
        """Link same-class pairs with weight 1 / class size: same null space as L^M, and all degrees are 1."""
        sets = find_label_sets(target.Y)
        J = sp.csr_array(sp.diags_array(1 / sets.counts))
        n = len(target.Y)
        return CombinedGraph(sp.csr_array((n, n)), LabelSets(sets.P, J, sets.counts))

    def _span(self, graph: CombinedGraph) -> tuple[int, str]:
        assert graph.sets is not None
        return graph.sets.P.shape[1], "classes"

    def _solve(self, graph: CombinedGraph, r: int) -> Eigenmap:
        assert graph.sets is not None
        contrasts = solve_label_sets(graph.sets, r).coordinates
        return Eigenmap(contrasts, np.full(r, -float(self.beta) * len(contrasts)))

    def _extension(self) -> tuple[NDArray[np.float64], float | None]:
        """Use the graph of same-class pairs, whose eigenvalues are 0."""
        return np.zeros(len(self.eigenvalues_)), None
