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
    """Solve (L_uu + shift_k I) f_k = W_ul y_k for the unlabeled items u, given y_k on the labeled items l.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
    target : Indicator
        Marks the labeled items.
    Y : ndarray of shape (l, K)
    shifts, start : ndarrays of shape (K,)
        Shifts >= 0; initial values, which remain where the equations determine nothing, such as items without
        a path to a labeled one.

    Returns
    -------
    Shares
        F of all items; `share` equals F.
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
            product: NDArray[np.float64] = diagonal * V - W_uu @ V
            return product

        F[unknown] = solve_columns(apply, diagonal, W_ul @ Y, F[unknown], least=1.0)  # labels are 0 and 1
    return Shares(F, F, reached)


class HarmonicFunctions(InductiveTransducer):
    """Gaussian fields and harmonic functions (HF) [1]_.

    Every unlabeled item is the weighted mean of its neighbors; labeled items keep their labels.

    Parameters
    ----------
    decision : {"half", "mass", "prior"}, default="half"
        Rule that converts the harmonic function to scores, see
        `embedding_core.transduction.score_rules.DECISIONS`. "half" is the plain rule of the paper, "mass" its
        class mass normalization (Eq. 9).
    graph : {"knn", "gaussian"}, default="knn"
        Graph if no affinity is given: nearest neighbors (sparse) or all pairs (dense, up to 2 GB), weighted
        by exp(-d² / (2 sigma)).
    n_neighbors : int, default=10
        Number of neighbors of an item in the "knn" graph, and of a new item among the items of the fit.
    sigma : float, "auto" or "cv", default="auto"
        In squared distances. "auto" is their mean over the linked pairs; "cv" chooses among 1/64, 1/16, 1/4,
        1 and 4 times that by 5-fold cross-validation on the labeled items.

    Attributes
    ----------
    label_distributions_ : ndarray of shape (n, K)
        F; for labeled items their labels.
    transduction_scores_ : ndarray of shape (n, K)
        Scores in [0, 1] of all items; above one half means yes.
    transduction_ : ndarray of shape (n,) or (n, K)
        Classes, or 0/1 labels, of all items.
    shares_ : ndarray of shape (n, K)
        F clipped to [0, 1].
    items_, decision_weights_, exclusive_
        Items of the fit and the decision rule, used for new items.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    n_features_in_ : int

    Notes
    -----
    L_uu F_u = W_ul Y_l with L = D - W (Eq. 4 and 5 of [1]_) is solved by conjugate gradients for all columns
    at once. F_ik is the probability that a random walk from i first meets a labeled item with label k. It
    lies in [0, 1], and with one class per item the rows sum to 1.

    The equations are independent for each column, so several labels per item are treated as binary problems,
    for which the paper's rule is F_ik > 1/2. Class mass normalization uses the proportions of the labels
    among the labeled items; masses are summed over the unlabeled items. The paper's combination with an
    external classifier (Section 5) is not implemented.

    Parts of the graph without a labeled item have no harmonic function. F is the proportion of each label
    there, and a warning reports the number of items. For new items see `InductiveTransducer`.

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
