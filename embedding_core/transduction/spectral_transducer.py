"""The spectral graph transducer (SGT)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from embedding_core.checks import check_count, check_positive
from embedding_core.errors import InvalidInput
from embedding_core.labels import Indicator
from embedding_core.linalg.eigen import fix_signs
from embedding_core.transduction.graph_solvers import LAPLACIANS, graph_modes
from embedding_core.transduction.score_rules import label_shares, logistic_scores
from embedding_core.transduction.transducer import Answer, Transducer


def minimize_on_sphere(
    G: NDArray[np.float64], b: NDArray[np.float64], squared_radius: float
) -> NDArray[np.float64]:
    """Minimize w^T G w - 2 b^T w over |w|² = squared_radius.

    The solution is w = (G - λ I)^-1 b, where λ is at most the smallest eigenvalue g_0 of G and the only such
    root of the secular equation sum_i β_i² / (g_i - λ)² = squared_radius, with β = b in the eigenbasis of G.
    g_0 - λ lies between |β_0| / radius and |β| / radius. If b has no component along the lowest eigenvector
    and there is no such root, λ is g_0, and a multiple of that eigenvector fills the length, on the side of
    b.
    """
    g, Q = np.linalg.eigh((G + G.T) / 2)
    Q = fix_signs(Q)
    beta, radius = Q.T @ b, float(np.sqrt(squared_radius))

    def weights(gap: float) -> NDArray[np.float64]:
        below = g - g[0] + gap
        ratios: NDArray[np.float64] = np.divide(beta, below, out=np.zeros_like(beta), where=below > 0)
        return ratios

    def excess(gap: float) -> float:
        return 1 / radius - 1 / float(np.linalg.norm(weights(gap)))

    low, high = abs(beta[0]) / radius, 2 * float(np.linalg.norm(beta)) / radius
    if np.linalg.norm(weights(low)) <= radius:
        w = weights(0.0)
        w[0] = np.copysign(np.sqrt(max(squared_radius - float(w[1:] @ w[1:]), 0.0)), beta[0])
    else:
        w = weights(brentq(excess, low, high, xtol=1e-300, rtol=1e-14))
    return Q @ w


class SpectralGraphTransducer(Transducer):
    """Spectral graph transducer (SGT) [1]_: a ratio cut of the graph that respects given labels.

    Transductive: it only labels the items of its fit.

    Parameters
    ----------
    c : float, default=3200.0
        Weight > 0 of the given labels relative to the cut.
    n_components : int, default=80
        Number d of eigenvectors of the Laplacian after the constant one; fewer if there are no more.
    spectrum : {"squares", "graph"}, default="squares"
        Eigenvalues used with them: 1, 4, 9, ..., d² (the paper's algorithm), or those of the graph (its
        derivation).
    laplacian : {"normalized", "plain"}, default="normalized"
        Eigenvectors of D^-1 L, an option of the paper's algorithm, or of L = D - W.
    graph, n_neighbors, sigma
        As in `HarmonicFunctions`.

    Attributes
    ----------
    label_distributions_ : ndarray of shape (n, K)
        z, one cut per label.
    transduction_scores_ : ndarray of shape (n, K)
        Scores in [0, 1] of all items; above one half means yes.
    transduction_ : ndarray of shape (n,) or (n, K)
        Classes, or 0/1 labels, of all items.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    n_features_in_ : int

    Notes
    -----
    Labels are cut one against the rest: z minimizes

        z^T L z + c (z - γ)^T C (z - γ)   with   z^T 1 = 0, z^T z = n,

    where γ is γ_+ = sqrt(l_- / l_+) on labeled items with the label, γ_- = -sqrt(l_+ / l_-) on labeled items
    without it, and 0 elsewhere; the diagonal C is l / (2 l_+), l / (2 l_-) and 0. With z = V w for the
    eigenvectors V and their eigenvalues Λ, this is a quadratic function of w on a sphere: w = (G - λ I)^-1 b
    with G = Λ + c V^T C V and b = c V^T C γ, where λ is the root of the secular equation |w|² = n.

    As in the paper, the decision is yes if z > (γ_+ + γ_-) / 2. The score is logistic in
    2 (z - (γ_+ + γ_-) / 2) / (γ_+ - γ_-). With one class per item the highest-scored class is taken. A label
    that all labeled items have, or no labeled item has, has no cut: z is 0 and the score is 1 or 0.

    For "normalized" the constraints are weighted by degree, z^T D 1 = 0 and z^T D z = tr D, which those
    eigenvectors satisfy; items without a link have z = 0. On a graph with several components the first
    eigenvectors separate them, and parts without a labeled item fall on the side that balances the cut.

    The original was not available; the defaults of c and d and the statements about its algorithm are to our
    knowledge.

    References
    ----------
    .. [1] T. Joachims, "Transductive Learning via Spectral Graph Partitioning", ICML 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import SpectralGraphTransducer
    >>> X = np.array([[0.0], [1], [2], [3], [10], [11], [12], [13]])
    >>> y = ["a", -1, -1, -1, -1, -1, -1, "b"]
    >>> y = np.array(y, dtype=object)
    >>> SpectralGraphTransducer(n_neighbors=2).fit(X, y).transduction_.tolist()
    ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b']
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Transducer._legal,
        "spectrum": ("squares", "graph"),
        "laplacian": LAPLACIANS,
    }

    def __init__(
        self,
        *,
        c: float = 3200.0,
        n_components: int = 80,
        spectrum: str = "squares",
        laplacian: str = "normalized",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
    ) -> None:
        self.c = c
        self.n_components = n_components
        self.spectrum = spectrum
        self.laplacian = laplacian
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("c", self.c)
        check_count("n_components", self.n_components)

    def _answer(self, W: Any, target: Indicator) -> Answer:
        modes = graph_modes(W, int(self.n_components), self.laplacian == "normalized")
        V, r = modes.vectors, len(modes.eigenvalues)
        linked = np.asarray(W.sum(axis=1)).ravel() > 0
        if not V[target.labeled].any():
            raise InvalidInput(
                "No labeled item has a link, so labels cannot spread; link one of them, or label other items."
            )
        values = np.arange(1.0, r + 1) ** 2 if self.spectrum == "squares" else modes.eigenvalues
        Y = target.Y[target.labeled] == 1
        F, scores = np.zeros(target.Y.shape), np.empty(target.Y.shape)
        for k, positive in enumerate(Y.T):
            if positive.all() or not positive.any():
                scores[:, k] = float(positive[0])
                continue
            gamma = np.array([-np.sqrt(positive.mean() / (1 - positive.mean())), 0.0])
            gamma[1] = -1 / gamma[0]
            F[:, k] = self._cut(V, values, target.labeled, positive, gamma)
            middle, half = gamma.mean(), (gamma[1] - gamma[0]) / 2
            scores[:, k] = logistic_scores(F[:, [k]], middle, np.array([half]))[:, 0]
        return Answer(F, np.where(linked[:, None], scores, label_shares(target)), linked)

    def _cut(
        self,
        V: NDArray[np.float64],
        values: NDArray[np.float64],
        labeled: NDArray[np.bool_],
        positive: NDArray[np.bool_],
        gamma: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return z of one label; `gamma` holds γ_- and γ_+."""
        share = np.where(positive, positive.mean(), 1 - positive.mean())
        C_V = float(self.c) / (2 * share)[:, None] * V[labeled]
        G = np.diag(values) + V[labeled].T @ C_V
        b = C_V.T @ gamma[positive.astype(int)]
        return V @ minimize_on_sphere(G, b, float(len(V)))
