"""Supervised Laplacian eigenmaps for multi-label data (SLE-ML)."""

from typing import Any

import scipy.sparse as sp

from embedding_core.checks import check_choice, check_share
from embedding_core.eigenmaps.combined_graph import (
    CombinedGraph,
    build_half_knn_graph,
    find_label_sets,
    given_graph,
    solve_label_sets,
)
from embedding_core.eigenmaps.eigenmap import EigenmapEmbedding
from embedding_core.graph.spectral import Eigenmap
from embedding_core.labels import Indicator


class SLEML(EigenmapEmbedding):
    """Supervised Laplacian eigenmap for multi-label data (SLE-ML) [1]_.

    Places items so that nearest neighbors and items with similar label sets are close together. Intended for
    visualization (`n_components=2`). With a small `balance` classes may appear separated that are not:
    compare two values, 0.5 and 0.9, as the paper recommends, and a control with shuffled labels.

    Parameters
    ----------
    balance : float, default=0.9
        λ of Eq. 3, from 0 (labels only) to 1 (features only: Laplacian eigenmap).
    n_neighbors : int or "auto", default="auto"
        Number of neighbors k of an item. "auto" is the paper's 1.5 times the mean class size; with unlabeled
        items the class sizes are extrapolated to all items. Give a number for large collections, where "auto"
        is large.
    class_weight : None or "balanced", default=None
        "balanced" multiplies w^L_ij by s_i s_j, where s_i² is the mean over the labels of i of mean class
        size / class size (the paper's second open problem, not in the paper). With one label per item every
        item then has the same label degree, so that λ has the same effect in small and large classes.
    out_of_sample : {"linear", "nystrom", "kernel_ridge"}, default="linear"
        How `transform` places items (the paper's first open problem, not in the paper): ridge regression of
        the coordinates on the features; the mean of the k nearest items of the fit divided by 1 - μ; or ridge
        regression with the kernel exp(-gamma d²) centered at up to 2000 items.
    alpha : float, default=1e-3
        Ridge of "linear" and "kernel_ridge", relative to the mean squared length of a (centered) item.
    gamma : float or "auto", default="auto"
        Parameter of "kernel_ridge". "auto" is one over the mean squared distance of two items.
    n_components : int or None, default=None
        Number of dimensions r. None means K-1 as for the other methods; the figures of the paper have 2.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        Z, the eigenmap itself for all items of `fit`, including unlabeled ones. `transform` of the same items
        returns the approximation that is also used for new items.
    eigenvalues_ : ndarray of shape (r,)
        μ of L z = μ D z, ascending, without the trivial pair (0, constant).
    degree_ : ndarray of shape (n,)
        Diagonal of D.
    classes_ : ndarray of shape (K,)
    n_neighbors_ : int
        k used; if an affinity is given, only by `transform`.
    projection_ : ndarray of shape (p, r)
        Only for "linear": an item is placed at x^T projection_ + intercept_.
    intercept_ : ndarray of shape (r,)
        For "linear" and "kernel_ridge".
    reference_items_, reference_values_ : (m, p) array or CSR matrix, (m, r) array
        For "nystrom" the items of the fit and their coordinates, for "kernel_ridge" the centers of the kernel
        and their coefficients.
    gamma_ : float
        For "kernel_ridge".
    n_features_in_ : int

    Notes
    -----
    Minimizes Eq. 3, sum_ij |z_i - z_j|² w_ij with w = λ w^F + (1 - λ) w^L subject to Z^T D Z = I, by
    the eigenvectors of L Z = D Z Λ (Sect. 2.1). w^F is 0, 1/2 or 1 if none, one or both of two items are
    among the k nearest of the other (not counting itself); a supplied affinity replaces it. w^L is the
    Jaccard similarity of label sets. λ = 1 is the Laplacian eigenmap with the weights 0, 1/2, 1, not the
    Gaussian one. λ = 0 places all items with the same labels on one point.

    Readings. (1) The sums of Eq. 3 and D run over all pairs, so w^L_ii = 1 counts in D. (2) 0/0 for two items
    without labels is 0. (3) Unlabeled items have no label links (w^L = 0, also to themselves) and are placed
    by their neighbors only. (4) An item without any link (unlabeled at λ = 0, isolated in a supplied
    affinity) is not part of the eigenproblem; it is placed by the out-of-sample map, and a warning is issued.
    (5) If the combined graph has c > 1 components, the first c - 1 coordinates separate them, largest first,
    with a warning (except at λ = 0, where classes are components by design).

    `fit_transform` is `fit` followed by `transform`, as scikit-learn's contract requires: it returns the
    out-of-sample approximation of the items of the fit. The eigenmap is `embedding_`.

    There is no `sample_weight`: every term is a link between two items, and `affinity` sets the weights of
    links.

    w^L = P J P^T, with P the membership in the S distinct label sets, is applied but never formed. The
    eigenvectors are computed by Lanczos with the known null vectors deflated, component by component
    (`embedding_core.graph.spectral`).

    References
    ----------
    .. [1] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019, LNCS 11896, 525-534.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import SLEML
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> model = SLEML(balance=0.5, n_components=2).fit(X, y)
    >>> model.embedding_.shape, model.n_neighbors_
    ((150, 2), 75)
    """

    def __init__(
        self,
        *,
        balance: float = 0.9,
        n_neighbors: int | str = "auto",
        class_weight: str | None = None,
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
        self.balance = balance
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("class_weight", self.class_weight, (None, "balanced"))
        check_share("balance", self.balance)

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> CombinedGraph:
        """Build W of Eq. 3."""
        n, balance = len(target.Y), float(self.balance)
        W = sp.csr_array((n, n)) if affinity is None else given_graph(affinity, n)
        if affinity is None and balance > 0:
            W = build_half_knn_graph(X, self.n_neighbors_)
        if sp.issparse(W):
            W.data *= balance
            W.eliminate_zeros()
        else:
            W *= balance
        sets = find_label_sets(target.Y, self.class_weight) if balance < 1 else None
        return CombinedGraph(W, sets, 1 - balance)

    def _span(self, graph: CombinedGraph) -> tuple[int, str]:
        if self.balance == 0 and graph.sets is not None:
            return graph.sets.P.shape[1], "distinct label sets"
        return super()._span(graph)

    def _solve(self, graph: CombinedGraph, r: int) -> Eigenmap:
        if self.balance == 0 and graph.sets is not None:
            return solve_label_sets(graph.sets, r)
        return super()._solve(graph, r)
