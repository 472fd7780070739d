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

    w = (G - λ I)^-1 b, where λ, no larger than the smallest eigenvalue g_0 of G, is the one root of the
    secular equation sum_i β_i² / (g_i - λ)² = squared_radius, β being b in the eigenbasis of G. g_0 - λ lies
    between |β_0| / radius and |β| / radius. Where b has no part along the lowest eigenvector and there is no
    such root, λ is g_0, and a multiple of that vector fills the length, on the side of b.
    """
    g, Q = np.linalg.eigh((G + G.T) / 2)
    Q = fix_signs(Q)
    beta, radius = Q.T @ b, float(np.sqrt(squared_radius))

    def weights(gap: float) -> NDArray[np.float64]:
        below = g - g[0] + gap
        return np.divide(beta, below, out=np.zeros_like(beta), where=below > 0)

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
    """Spectral graph transducer (SGT) [1]_: a ratio cut of the graph that heeds given labels.

    Transductive: it labels the items of its fit alone.

    Parameters
    ----------
    c : float, default=3200.0
        Weight > 0 of the given labels against the cut.
    n_components : int, default=80
        Eigenvectors d of the Laplacian to work in, after the constant one; fewer where there are no more.
    spectrum : {"squares", "graph"}, default="squares"
        Eigenvalues to use with them: 1, 4, 9, ..., d² (the paper's algorithm), or the graph's own (its
        derivation).
    laplacian : {"normalized", "plain"}, default="normalized"
        Eigenvectors of D^-1 L, as the paper's algorithm may, or of L = D - W.
    graph, n_neighbors, sigma
        As for `HarmonicFunctions`.

    Attributes
    ----------
    label_distributions_ : ndarray of shape (n, K)
        z, one cut a label.
    transduction_scores_ : ndarray of shape (n, K)
        Scores in [0, 1] of all items; above one half means yes.
    transduction_ : ndarray of shape (n,) or (n, K)
        Classes, or 0/1 labels, of all items.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        `fit` was given label columns.
    sigma_ : float or None
        Scale used, None where an affinity was given.
    n_features_in_ : int

    Notes
    -----
    One label against the rest: z minimizes

        z^T L z + c (z - γ)^T C (z - γ)   with   z^T 1 = 0, z^T z = n,

    where γ is γ_+ = sqrt(l_- / l_+) on labeled items that have the label, γ_- = -sqrt(l_+ / l_-) on those
    that have it not, 0 elsewhere, and the diagonal C is l / (2 l_+), l / (2 l_-) and 0. With z = V w for the
    eigenvectors V and their eigenvalues Λ it is a quadratic function of w on a sphere, w = (G - λ I)^-1 b
    with G = Λ + c V^T C V and b = c V^T C γ; λ is the root of the secular equation |w|² = n.

    The decision is the paper's, yes where z > (γ_+ + γ_-) / 2; the score is logistic in (z - (γ_+ + γ_-) / 2)
    / (γ_+ - γ_-) times 2. With one class an item the best-scored class counts. A label that all labeled
    items have, or none, has no cut: z is 0 and the score 1 or 0.

    For "normalized" the constraints are weighed by degree, z^T D 1 = 0 and z^T D z = tr D, which those
    eigenvectors fulfil; items without a link have z = 0. On a graph of several components the first
    eigenvectors tell them apart, and parts without a labeled item fall to the side that balances the cut.

    The original was not at hand; the defaults of c and d, and what is said of its algorithm, are as we know
    it.

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
                "No labeled item has a link, so that no label can flow; link one of them, or label others."
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
        """z of one label; `gamma` holds γ_- and γ_+."""
        share = np.where(positive, positive.mean(), 1 - positive.mean())
        C_V = float(self.c) / (2 * share)[:, None] * V[labeled]
        G = np.diag(values) + V[labeled].T @ C_V
        b = C_V.T @ gamma[positive.astype(int)]
        return V @ minimize_on_sphere(G, b, float(len(V)))
