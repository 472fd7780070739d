"""Embedding of integrated K-means and Laplacian clustering (KL)."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, lobpcg, svds

from embedding_core.checks import check_count, check_share
from embedding_core.errors import InvalidInput, warn_caller
from embedding_core.graph.spectral import DENSE_SIZE, LEAST_STEP
from embedding_core.knn_classifier import nearest_rows
from embedding_core.labels import Indicator
from embedding_core.linalg.eigen import fix_signs
from embedding_core.transduction.graph_solvers import Apply
from embedding_core.transduction.transducer import GraphMethod

_TOLERANCE = 1e-7
_GUARD = 5
_ROUND_STEPS, _MAX_ROUNDS = 200, 10
_DENSE_FEATURES = 50


@dataclass(frozen=True)
class WeightedItems:
    """A = D^(1/2) (X - 1 m^T), never formed: `X` (n, p), `root` D^(1/2) (n,), `mean` m (p,)."""

    X: Any
    root: NDArray[np.float64]
    mean: NDArray[np.float64]

    def spread(self, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """A M (n, r)."""
        return self.root[:, None] * (self.X @ M - self.mean @ M)

    def gather(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """A^T V (p, r)."""
        weighted = self.root[:, None] * V
        return self.X.T @ weighted - np.outer(self.mean, weighted.sum(axis=0))

    @property
    def largest_eigenvalue(self) -> float:
        """Of A A^T."""
        n, p = self.X.shape
        if min(n, p) <= _DENSE_FEATURES:
            A = self.spread(np.eye(p)) if p <= n else self.gather(np.eye(n))
            return float(np.linalg.norm(A, 2) ** 2)
        A = LinearOperator(
            (n, p),
            matvec=lambda v: self.spread(v.reshape(-1, 1)).ravel(),
            rmatvec=lambda v: self.gather(v.reshape(-1, 1)).ravel(),
            dtype=np.float64,
        )
        start = np.random.default_rng(0).normal(size=min(n, p))
        return float(svds(A, k=1, v0=start, return_singular_vectors=False)[0] ** 2)


def weigh_items(X: Any, degree: NDArray[np.float64]) -> WeightedItems:
    """Center X at its mean weighed by degree."""
    X = X.astype(np.float64)
    return WeightedItems(X, np.sqrt(degree), np.asarray(X.T @ degree).ravel() / degree.sum())


def leading_pairs(
    apply: Apply, trivial: NDArray[np.float64], r: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The r largest eigenvalues (r,), descending, and eigenvectors (n, r) beside the trivial vector.

    A block method: on a graph of many components eigenvalues repeat, and Lanczos would miss some silently.
    """
    n = len(trivial)
    if n <= DENSE_SIZE or 5 * (r + _GUARD) >= n:
        B = apply(np.eye(n)) - 3 * np.outer(trivial, trivial)
        values, Q = scipy.linalg.eigh((B + B.T) / 2, subset_by_index=(n - r, n - 1))
        return values[::-1], Q[:, ::-1]
    start = np.random.default_rng(0).normal(size=(n, min(r + _GUARD, n - 1)))
    operator = LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)
    for _ in range(_MAX_ROUNDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on convergence, which is checked below
            values, start = lobpcg(
                operator,
                start,
                Y=trivial[:, None],
                tol=_TOLERANCE / 10,
                maxiter=_ROUND_STEPS,
                largest=True,
            )
        Q = start[:, :r]
        if np.linalg.norm(apply(Q) - Q * values[:r], axis=0).max() <= _TOLERANCE:
            return values[:r], Q
        # the block loses its way after many steps; begun again from where it is, it finds on
    raise InvalidInput(
        "The eigenvectors of the combined graph did not converge. Give fewer n_components, a larger balance, "
        "or a graph with more links."
    )


class KMeansLaplacian(GraphMethod):
    """Embedding of integrated K-means and Laplacian clustering (KL) [1]_.

    Transductive: it places the items of its fit alone. The relaxed indicators of clusters that are compact in
    the features and well cut in the graph are the coordinates. Labels are not used, except for their number.

    Parameters
    ----------
    balance : float, default=0.5
        Weight from 0 (the graph alone: normalized cut) to 1 (the features alone: K-means, that is PCA) of the
        K-means term.
    n_components : int or None, default=None
        Dimensions r; None takes K - 1 for K classes or labels, and 1 for a single one.
    graph, n_neighbors, sigma
        As for `HarmonicFunctions`; "cv" compares 1NN in the embedding.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        Z with Z^T D Z = I.
    eigenvalues_ : ndarray of shape (r,)
        θ, descending.
    classes_ : ndarray of shape (K,)
    sigma_ : float or None
        Scale used, None where an affinity was given.
    n_features_in_ : int

    Notes
    -----
    Q = D^(1/2) Z holds the leading eigenvectors of

        (1 - balance) D^(-1/2) W D^(-1/2) + balance A A^T / σ²,   A = D^(1/2) (X - 1 m^T),

    beside the trivial D^(1/2) 1, which is an eigenvector of both terms; m is the mean weighed by degree and
    σ the largest singular value of A, so that both terms have the largest eigenvalue 1 at most.

    Definition taken: the original was not at hand; [2]_ uses the embedding with 1NN and says no more. As we
    know it, it joins K-means on the attributes with the normalized cut of the pairwise relations. Relaxed,
    the cut is max tr(Q^T D^(-1/2) W D^(-1/2) Q) over Q^T Q = I for Q = D^(1/2) H (H^T D H)^(-1/2), H the
    clusters' 0/1 indicators, and K-means with items weighed by degree is max tr(Q^T A A^T Q) for the same Q;
    the scales of the two terms are ours. K clusters take K - 1 coordinates.

    Neither an n x n matrix nor centered sparse features are made. Items without a link are placed by the
    K-means term of the eigenvectors' equation, and a warning counts them.

    References
    ----------
    .. [1] F. Wang, C. Ding, T. Li, "Integrated KL (K-means - Laplacian) Clustering: A New Clustering Approach
       by Combining Attribute Data and Pairwise Relations", SDM 2009.
    .. [2] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import KMeansLaplacian
    >>> X, y = load_iris(return_X_y=True)
    >>> KMeansLaplacian().fit(X, y).embedding_.shape
    (150, 2)
    """

    def __init__(
        self,
        *,
        balance: float = 0.5,
        n_components: int | None = None,
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
    ) -> None:
        self.balance = balance
        self.n_components = n_components
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Place the items.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled, or 0/1 columns with rows of -1 for unlabeled.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. Where given, `graph`, `n_neighbors` and `sigma`
            play no part.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        W = self._affinity(X, target, affinity)
        alone = int((np.asarray(W.sum(axis=1)).ravel() == 0).sum())
        if alone:
            warn_caller(
                f"{alone} of {X.shape[0]} items have no link to any other; the K-means term alone places "
                "them.",
            )
        self.eigenvalues_, self.embedding_ = self._embed(X, W, target)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share("balance", self.balance)
        check_count("n_components", self.n_components, (None,))

    def _embed(self, X: Any, W: Any, target: Indicator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """θ (r,) and Z (n, r)."""
        degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        linked = np.flatnonzero(degree > 0)
        r = max(target.n_classes - 1, 1) if self.n_components is None else int(self.n_components)
        if r > len(linked) - 1:
            raise InvalidInput(
                f"{r} dimensions asked for, but the {len(linked)} items with links have "
                f"{max(len(linked) - 1, 0)}; lower n_components, or give a graph with more links."
            )
        if len(linked) < len(degree):
            W = W[linked][:, linked]
        items, balance = weigh_items(X[linked], degree[linked]), float(self.balance)
        root, largest = items.root[:, None], items.largest_eigenvalue
        share = balance / largest if largest > 0 else 0.0

        def apply(V: NDArray[np.float64]) -> NDArray[np.float64]:
            return (1 - balance) * (W @ (V / root)) / root + share * items.spread(items.gather(V))

        theta, Q = leading_pairs(apply, items.root / np.linalg.norm(items.root), r)
        if balance == 1 and theta[-1] <= 1e-12:  # the graph's own θ may well be 0 or less
            raise InvalidInput(
                f"{r} dimensions asked for, but with balance=1 the features alone place the items, and they "
                f"have {int((theta > 1e-12).sum())}; lower n_components or balance."
            )
        # of an item that hangs on weak links rounding has taken all; the equation gives its place
        Q = fix_signs(np.divide(apply(Q), theta, out=Q.copy(), where=theta > LEAST_STEP))
        slopes = np.divide(share * items.gather(Q), theta, out=np.zeros((X.shape[1], r)), where=theta > 0)
        Z = np.asarray(X @ slopes) - items.mean @ slopes
        Z[linked] = Q / root
        return theta, Z

    def _fold_labels(self, X: Any, W: Any, seen: Indicator, rows: NDArray[np.intp]) -> NDArray[np.int8]:
        _, Z = self._embed(X, W, seen)
        _, nearest = nearest_rows(Z[seen.labeled], Z[rows], 1)
        return seen.Y[seen.labeled][nearest[:, 0]]
