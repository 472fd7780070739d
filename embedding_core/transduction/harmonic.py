"""Gaussian fields and harmonic functions (HF)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.labels import Indicator
from embedding_core.transduction.graph_solvers import solve_columns
from embedding_core.transduction.score_rules import label_shares
from embedding_core.transduction.transducer import InductiveTransducer, Shares, reached_items


def harmonic_columns(
    W: Any, target: Indicator, Y: NDArray[np.float64], shifts: NDArray[np.float64], start: NDArray[np.float64]
) -> Shares:
    """Solve (L_uu + shift_k I) f_k = W_ul y_k for the unlabeled items u, y_k given on the labeled ones l.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
    target : Indicator
        Says which items are labeled.
    Y : ndarray of shape (l, K)
    shifts, start : ndarrays of shape (K,)
        Shifts >= 0; values where the equations decide nothing, as for items that no path links with a
        labeled one.

    Returns
    -------
    Shares
        F of all items; `share` is F too.
    """
    reached = reached_items(W, target.labeled)
    F = np.tile(start, (len(target.Y), 1))
    F[target.labeled] = Y
    unknown = np.flatnonzero(reached & ~target.labeled)
    if len(unknown):
        rows = W[unknown]
        W_uu, W_ul = rows[:, unknown], rows[:, np.flatnonzero(target.labeled)]
        degree = np.asarray(rows.sum(axis=1), dtype=np.float64).reshape(-1, 1)
        diagonal = degree + shifts

        def apply(V: NDArray[np.float64]) -> NDArray[np.float64]:
            return diagonal * V - W_uu @ V

        F[unknown] = solve_columns(apply, diagonal, W_ul @ Y, F[unknown], least=1.0)  # labels are 0 and 1
    return Shares(F, F, reached)


class HarmonicFunctions(InductiveTransducer):
    """Gaussian fields and harmonic functions (HF) [1]_.

    Every unlabeled item is the weighted mean of its neighbors, labeled ones are held.

    Parameters
    ----------
    decision : {"half", "mass", "prior"}, default="half"
        How the harmonic function becomes scores: `decisions.DECISIONS`. "half" is the plain rule of the
        paper, "mass" its class mass normalization (Eq. 9).
    graph : {"knn", "gaussian"}, default="knn"
        Graph where no affinity is given: nearest neighbors (sparse), or all pairs (dense, up to 2 GB). Both
        weigh pairs by exp(-d² / (2 sigma)).
    n_neighbors : int, default=10
        Neighbors of an item in the "knn" graph, and those that a new item asks.
    sigma : float, "auto" or "cv", default="auto"
        In squared distances. "auto" is their mean over the linked pairs; "cv" picks 1/64, 1/16, 1/4, 1 or 4
        times that by 5-fold cross-validation on the labeled items.

    Attributes
    ----------
    label_distributions_ : ndarray of shape (n, K)
        F, the labels themselves for labeled items.
    transduction_scores_ : ndarray of shape (n, K)
        Scores in [0, 1] of all items; above one half means yes.
    transduction_ : ndarray of shape (n,) or (n, K)
        Classes, or 0/1 labels, of all items.
    shares_ : ndarray of shape (n, K)
        F without rounding beyond [0, 1].
    items_, decision_weights_, exclusive_
        Items of the fit and the rule that decides, for new items.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        `fit` was given label columns.
    sigma_ : float or None
        Scale used, None where an affinity was given.
    n_features_in_ : int

    Notes
    -----
    L_uu F_u = W_ul Y_l with L = D - W (Eq. 4 and 5 of [1]_), solved by conjugate gradients, all columns at
    once. F_ik is the chance that a random walk from i meets a labeled item with label k first: it lies in
    [0, 1], and with one class an item the rows sum to 1.

    The mathematics is column-wise, so several labels an item are as many problems of two classes, and
    F_ik > 1/2 is the paper's rule for them. Class mass normalization takes the proportions of the labels
    among the labeled items for the true ones; masses are summed over the unlabeled items. The paper's
    combination with an external classifier (its Section 5) is not here.

    Parts of the graph without a labeled item have no harmonic function of their own; F is the proportion of
    each label there, and a warning counts the items. New items: see `InductiveTransducer`.

    References
    ----------
    .. [1] X. Zhu, Z. Ghahramani, J. Lafferty, "Semi-Supervised Learning Using Gaussian Fields and Harmonic
       Functions", ICML 2003.

    Examples
    --------
    A path of five items with labeled ends: the function is linear.

    >>> import numpy as np
    >>> from embedding_core import HarmonicFunctions
    >>> X, y = np.arange(5.0)[:, None], [0, -1, -1, -1, 1]
    >>> path = np.eye(5, k=1) + np.eye(5, k=-1)
    >>> HarmonicFunctions().fit(X, y, affinity=path).label_distributions_[:, 1].round(6).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    def __init__(
        self,
        *,
        decision: str = "half",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
    ) -> None:
        self.decision = decision
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma

    def _propagate(self, W: Any, target: Indicator) -> Shares:
        Y = target.Y[target.labeled].astype(np.float64)
        found = harmonic_columns(W, target, Y, np.zeros(Y.shape[1]), label_shares(target))
        return Shares(found.F, np.clip(found.F, 0.0, 1.0), found.reached)
