"""Semi-supervised multi-label learning by solving a Sylvester equation (SMSE)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from embedding_core.checks import check_not_negative, check_positive
from embedding_core.labels import Indicator
from embedding_core.transduction.consistency import share_of, spread
from embedding_core.transduction.mlgf import correlated_harmonic, label_laplacian, rotate_labels
from embedding_core.transduction.transducer import Shares, ShareTransducer, reached_items


class SMSE(ShareTransducer):
    """Semi-supervised multi-label learning by solving a Sylvester equation (SMSE) [1]_.

    Transductive: it only labels the items of its fit. Labels are smooth along the graph of the items and
    along a graph of the labels.

    Parameters
    ----------
    variant : {"soft", "hard"}, default="soft"
        "soft" (SMSE2 of the paper) may change given labels and uses normalized Laplacians; "hard" (SMSE1)
        keeps given labels and uses unnormalized ones.
    mu : float, default=9.0
        Weight > 0 of the graph of the items relative to the given labels; only for "soft". 9 corresponds to
        alpha = 0.9 of `LocalGlobalConsistency`.
    nu : float, default=0.1
        Weight >= 0 of the label graph.
    decision : {"prior", "half", "mass"}, default="prior"
        Rule that converts shares to scores, see `embedding_core.transduction.score_rules.DECISIONS`.
    graph, n_neighbors, sigma
        As in `HarmonicFunctions`.

    Attributes
    ----------
    label_distributions_ : ndarray of shape (n, K)
        F.
    transduction_scores_ : ndarray of shape (n, K)
        Scores in [0, 1] of all items; above one half means yes.
    transduction_ : ndarray of shape (n,) or (n, K)
        Classes, or 0/1 labels, of all items.
    label_laplacian_ : ndarray of shape (K, K)
        H.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    n_features_in_ : int

    Notes
    -----
    "soft" minimizes |F - Y|² + mu tr(F^T L F) + nu tr(F H F^T) with Y = 0 for unlabeled items. F solves the
    Sylvester equation

        (I + mu L) F + nu F H = Y,   L = I - D^(-1/2) W D^(-1/2),   H = I - D_C^(-1/2) C D_C^(-1/2).

    nu = 0 gives `LocalGlobalConsistency` with alpha = mu / (1 + mu). "hard" keeps F_l = Y_l and solves
    L_uu F_u / d + nu F_u H = W_ul Y_l / d with L = D - W, H = D_C - C and the mean degree d. With the cosine
    correlation C used here this is `MLGF`, and nu = 0 gives `HarmonicFunctions`. H is diagonalized, which
    leaves K sparse systems for conjugate gradients; no n x n matrix is formed.

    Definition used: the original was not available. The "soft" equation is that of public code that cites it.
    The "hard" equation follows from its abstract and has not been checked against the text. The weights of
    the label graph are the cosines C of the label columns (Eq. 19 of [2]_), without the diagonal. The share
    of a label, on which decisions are based, is F divided by its value if all labeled items had all labels (1
    for "hard"); it lies in [0, 1]. The default decision rule is not from the paper.

    References
    ----------
    .. [1] G. Chen, Y. Song, F. Wang, C. Zhang, "Semi-supervised Multi-label Learning by Solving a Sylvester
       Equation", SDM 2008.
    .. [2] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import SMSE
    >>> X = np.array([[0.0], [1], [2], [8], [9], [10]])
    >>> Y = np.array([[1, 1], [-1, -1], [1, 1], [-1, -1], [0, 0], [0, 0]])
    >>> SMSE(n_neighbors=2).fit(X, Y).transduction_[[1, 3]].tolist()
    [[1, 1], [0, 0]]
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {**ShareTransducer._legal, "variant": ("soft", "hard")}

    def __init__(
        self,
        *,
        variant: str = "soft",
        mu: float = 9.0,
        nu: float = 0.1,
        decision: str = "prior",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
    ) -> None:
        self.variant = variant
        self.mu = mu
        self.nu = nu
        self.decision = decision
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("mu", self.mu)
        check_not_negative("nu", self.nu)

    def _propagate(self, W: Any, target: Indicator) -> Shares:
        self.label_laplacian_ = label_laplacian(target, normalized=self.variant == "soft")
        if self.variant == "hard":
            return correlated_harmonic(W, target, self.label_laplacian_, float(self.nu))
        h, Q = rotate_labels(self.label_laplacian_)
        labeled = target.labeled[:, None]
        given = np.where(labeled, target.Y, 0.0) @ Q
        if_all = labeled * Q.sum(axis=0)
        stay = 1 + float(self.nu) * np.r_[h, h]
        flows = spread(W, np.hstack([given, if_all]), stay, float(self.mu))
        F, whole = flows[:, : len(h)] @ Q.T, flows[:, len(h) :] @ Q.T
        return share_of(F, whole, reached_items(W, target.labeled))
