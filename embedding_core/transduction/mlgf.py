"""Multi-label Gaussian fields (MLGF), and the graph of the labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import check_not_negative
from embedding_core.labels import Indicator, label_correlation
from embedding_core.transduction.harmonic import harmonic_columns
from embedding_core.transduction.score_rules import label_shares
from embedding_core.transduction.transducer import InductiveTransducer, Shares


def label_laplacian(target: Indicator, normalized: bool = False) -> NDArray[np.float64]:
    """Return H = D_C - C (K, K) of the cosine correlation C of the labels (Eq. 19 of DLE) without diagonal.

    If `normalized`, returns D_C^(-1/2) H D_C^(-1/2). Rows of labels that occur with no other label are 0.
    """
    C = label_correlation(target.Y)
    np.fill_diagonal(C, 0.0)
    degree = C.sum(axis=1)
    H = np.diag(degree) - C
    if normalized:
        root = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
        H *= root[:, None] * root
    return H


def rotate_labels(H: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues (K,) >= 0 and eigenvectors (K, K) of H, which decouple A F + F H = B.

    With F' = F Q and B' = B Q, column k is (A + h_k I) f'_k = b'_k.
    """
    values, Q = np.linalg.eigh(H)
    return np.maximum(values, 0.0), Q


def correlated_harmonic(W: Any, target: Indicator, H: NDArray[np.float64], nu: float) -> Shares:
    """Solve L_uu F_u / d + nu F_u H = W_ul Y_l / d with mean degree d, column by column in the basis of H."""
    degree = float(W.sum()) / W.shape[0]
    h, Q = rotate_labels(H)
    Y = target.Y[target.labeled].astype(np.float64)
    found = harmonic_columns(W, target, Y @ Q, nu * degree * h, label_shares(target) @ Q)
    F = found.F @ Q.T
    F[target.labeled] = Y
    return Shares(F, np.clip(F, 0.0, 1.0), found.reached)  # exact values lie in [0, 1]; clip rounding errors


class MLGF(InductiveTransducer):
    """Multi-label Gaussian fields and harmonic functions (MLGF) [1]_.

    Harmonic functions for several labels that are also smooth along a graph of the labels.

    Parameters
    ----------
    nu : float, default=0.1
        Weight >= 0 of the label graph. 0 gives `HarmonicFunctions`.
    decision : {"prior", "half", "mass"}, default="prior"
        Rule that converts shares to scores, see `embedding_core.transduction.score_rules.DECISIONS`.
        Correlated labels attract each other, so that few reach one half; "prior" only needs their order.
    graph, n_neighbors, sigma
        As in `HarmonicFunctions`.

    Attributes
    ----------
    label_distributions_, transduction_scores_, transduction_, shares_, items_, decision_weights_, exclusive_
        As in `HarmonicFunctions`.
    label_laplacian_ : ndarray of shape (K, K)
        H.
    classes_ : ndarray of shape (K,)
    sigma_ : float or None
    n_features_in_ : int

    Notes
    -----
    F_l = Y_l, and F_u minimizes tr(F^T L F) / d + nu tr(F H F^T), so that

        L_uu F_u / d + nu F_u H = W_ul Y_l / d.

    L = D - W; d is the mean degree, which makes nu independent of the unit of W (not in the paper);
    H = D_C - C is the Laplacian of the cosine correlation C of the labels. In the basis of the eigenvectors
    of H the columns decouple, and each is solved by conjugate gradients.

    Definition used: the original was not available, and this has not been checked against its text. To our
    knowledge it adds -nu tr(F C' F^T) to the harmonic energy. With C' = C this has no minimum for large nu;
    with C' = C - D_C it is the convex term above, and F stays in [0, 1]. The default decision rule is not
    from the paper. With one class per item no two labels occur together, H is 0, and the method is
    `HarmonicFunctions`.

    References
    ----------
    .. [1] Z.-J. Zha, T. Mei, J. Wang, Z. Wang, X.-S. Hua, "Graph-based Semi-supervised Learning with
       Multi-label", ICME 2008; "... with Multiple Labels", J. Visual Communication and Image Representation
       20, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import MLGF
    >>> X = np.array([[0.0], [1], [2], [8], [9], [10]])
    >>> Y = np.array([[1, 1], [-1, -1], [1, 0], [-1, -1], [0, 1], [0, 0]])
    >>> MLGF(n_neighbors=2, decision="half").fit(X, Y).transduction_[[1, 3]].tolist()
    [[1, 1], [0, 1]]
    """

    def __init__(
        self,
        *,
        nu: float = 0.1,
        decision: str = "prior",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
    ) -> None:
        self.nu = nu
        self.decision = decision
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_not_negative("nu", self.nu)

    def _propagate(self, W: Any, target: Indicator) -> Shares:
        self.label_laplacian_ = label_laplacian(target)
        return correlated_harmonic(W, target, self.label_laplacian_, float(self.nu))
