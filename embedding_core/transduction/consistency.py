"""Learning with local and global consistency (CF)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import is_number
from embedding_core.errors import InvalidInput
from embedding_core.labels import Indicator
from embedding_core.transduction.graph_solvers import solve_columns
from embedding_core.transduction.transducer import InductiveTransducer, Shares, reached_items

FAINT = 1e-9
"""Label mass below this fraction of the largest is lost in the rounding of the solver."""

_TOLERANCE = 1e-13


def spread(
    W: Any, sources: NDArray[np.float64], stay: float | NDArray[np.float64], mu: float
) -> NDArray[np.float64]:
    """Solve (stay_k I + mu (I - S)) x_k = b_k for the columns b_k of `sources`, S = D^(-1/2) W D^(-1/2)."""
    degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    root = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)[:, None]

    def apply(V: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = (stay + mu) * V - (mu * root) * (W @ (root * V))
        return product

    diagonal = np.broadcast_to(np.asarray(stay + mu, dtype=np.float64), (1, sources.shape[1]))
    return solve_columns(apply, diagonal, sources, np.zeros_like(sources), _TOLERANCE)


def share_of(F: NDArray[np.float64], whole: NDArray[np.float64], reached: NDArray[np.bool_]) -> Shares:
    """Return F divided by its value if all labeled items had the label, where that is not negligible."""
    reached = reached & (whole > FAINT * whole.max(axis=0)).all(axis=1)
    share = np.divide(F, whole, out=np.zeros_like(F), where=reached[:, None])
    return Shares(F, np.clip(share, 0.0, 1.0), reached)  # exact shares lie in [0, 1]; clip rounding errors


class LocalGlobalConsistency(InductiveTransducer):
    """Learning with local and global consistency [1]_, the consistency framework (CF) of [2]_.

    Labels spread along the links of a graph of all items while labeled items pull towards their own labels.

    Parameters
    ----------
    alpha : float, default=0.99
        Fraction in [0, 1) of an item's label that comes from its neighbors; the rest is its initial label.
    decision : {"prior", "half", "mass"}, default="prior"
        Rule that converts shares to scores, see `embedding_core.transduction.score_rules.DECISIONS`. "half"
        takes the larger of two flows, which is the paper's rule for one class per item, see Notes. The
        default differs: with alpha near 1 all flows are close to the mean, and few labels reach one half.
    graph, n_neighbors, sigma
        As in `HarmonicFunctions`.

    Attributes
    ----------
    label_distributions_ : ndarray of shape (n, K)
        F; 0 for items that no label reaches.
    shares_ : ndarray of shape (n, K)
        F divided by the sum of the flows for and against the label.
    transduction_scores_, transduction_, items_, decision_weights_, exclusive_
        As in `HarmonicFunctions`.
    classes_, sigma_, n_features_in_
        As in `HarmonicFunctions`.

    Notes
    -----
    F = (1 - alpha) (I - alpha S)^-1 Y with S = D^(-1/2) W D^(-1/2) is the limit of
    F <- alpha S F + (1 - alpha) Y, where Y is 0 for unlabeled items. It is computed by conjugate gradients
    for all columns at once.

    The paper takes the largest entry of each row. The equations are independent for each column, so several
    labels per item are treated as binary problems: with Y_no = 1 - Y on labeled items, F_yes + F_no is the
    flow T of a column that is 1 on all labeled items, and the share F / T exceeds one half if F_yes > F_no.
    With one class per item, T is the row sum, and the largest share is the largest F.

    Items that no label reaches, or only with a mass below rounding, get the proportions of the labels as
    shares, and a warning reports their number. For new items see `InductiveTransducer`.

    References
    ----------
    .. [1] D. Zhou, O. Bousquet, T. N. Lal, J. Weston, B. Schölkopf, "Learning with Local and Global
       Consistency", NIPS 2003.
    .. [2] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import LocalGlobalConsistency
    >>> X, y = load_iris(return_X_y=True)
    >>> hidden = y.copy()
    >>> hidden[::2] = -1
    >>> model = LocalGlobalConsistency().fit(X, hidden)
    >>> round(float((model.transduction_ == y).mean()), 2)
    0.97
    """

    def __init__(
        self,
        *,
        alpha: float = 0.99,
        decision: str = "prior",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
    ) -> None:
        self.alpha = alpha
        self.decision = decision
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (is_number(self.alpha) and 0 <= self.alpha < 1):
            raise InvalidInput(f"alpha={self.alpha!r} is not legal; give a number from 0 to below 1.")

    def _propagate(self, W: Any, target: Indicator) -> Shares:
        alpha = float(self.alpha)
        sources = np.where(target.labeled[:, None], np.c_[target.Y, np.ones(len(target.Y))], 0.0)
        flows = spread(W, (1 - alpha) * sources, 1 - alpha, alpha)
        return share_of(flows[:, :-1], flows[:, -1:], reached_items(W, target.labeled))
