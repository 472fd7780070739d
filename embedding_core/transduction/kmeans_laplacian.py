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
    """The matrix A = D^(1/2) (X - 1 m^T), never formed: `X` (n, p), `root` D^(1/2) (n,), `mean` m (p,)."""

    X: Any
    root: NDArray[np.float64]
    mean: NDArray[np.float64]

    def spread(self, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A M (n, r)."""
        product: NDArray[np.float64] = self.root[:, None] * (self.X @ M - self.mean @ M)
        return product

    def gather(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A^T V (p, r)."""
        weighted = self.root[:, None] * V
        product: NDArray[np.float64] = self.X.T @ weighted - np.outer(self.mean, weighted.sum(axis=0))
        return product

    @property
    def largest_eigenvalue(self) -> float:
        """Return the largest eigenvalue of A A^T."""
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
    """Center X at its degree-weighted mean."""
    X = X.astype(np.float64)
    return WeightedItems(X, np.sqrt(degree), np.asarray(X.T @ degree).ravel() / degree.sum())


def leading_pairs(
    apply: Apply, trivial: NDArray[np.float64], r: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the r largest eigenvalues (r,), descending, and eigenvectors (n, r) except the trivial one.

    Uses a block method: on a graph with many components eigenvalues repeat, and Lanczos would silently miss
    some of them.
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
            warnings.simplefilter("ignore", UserWarning)  # about convergence, which is checked below
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
        # the block loses accuracy after many steps; restart from the current vectors
    raise InvalidInput(
        "The eigenvectors of the combined graph did not converge. Use fewer n_components, a larger balance, "
        "or a graph with more links."
    )


class KMeansLaplacian(GraphMethod):
    """Embedding of integrated K-means and Laplacian clustering (KL) [1]_.

    Transductive: it only places the items of its fit. The coordinates are the relaxed indicators of clusters
    that are compact in the features and well separated in the graph. Of the labels only their number is used.

    Parameters
    ----------
    balance : float, default=0.5
        Weight of the K-means term, from 0 (only the graph: normalized cut) to 1 (only the features: K-means,
        that is PCA).
    n_components : int or None, default=None
        Dimensions r. None takes K - 1 for K classes or labels, and 1 for a single one.
    graph, n_neighbors, sigma
        As in `HarmonicFunctions`; "cv" compares 1NN in the embedding.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        Z with Z^T D Z = I.
    eigenvalues_ : ndarray of shape (r,)
        θ, descending.
    classes_ : ndarray of shape (K,)
    sigma_ : float or None
        Scale used; None if an affinity was given.
    n_features_in_ : int

    Notes
    -----
    Q = D^(1/2) Z contains the leading eigenvectors of

        (1 - balance) D^(-1/2) W D^(-1/2) + balance A A^T / σ²,   A = D^(1/2) (X - 1 m^T),

    except the trivial D^(1/2) 1, which is an eigenvector of both terms; m is the degree-weighted mean and σ
    the largest singular value of A, so that the largest eigenvalue of both terms is at most 1.

    Definition used: the original was not available; [2]_ uses the embedding with 1NN and gives no details. To
    our knowledge it combines K-means on the attributes with the normalized cut of the pairwise relations.
    Relaxed, the cut is max tr(Q^T D^(-1/2) W D^(-1/2) Q) over Q^T Q = I for Q = D^(1/2) H (H^T D H)^(-1/2)
    with the 0/1 cluster indicators H, and K-means with items weighted by degree is max tr(Q^T A A^T Q) for
    the same Q. The scales of the two terms are our choice. K clusters need K - 1 coordinates.

    Neither an n x n matrix nor centered sparse features are formed. Items without a link are placed by the
    K-means term of the eigenvector equation, and a warning reports their number.

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
        """Compute the embedding.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. If given, `graph`, `n_neighbors` and `sigma` are
            ignored.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        W = self._affinity(X, target, affinity)
        alone = int((np.asarray(W.sum(axis=1)).ravel() == 0).sum())
        if alone:
            warn_caller(
                f"{alone} of {X.shape[0]} items have no link to any other; only the K-means term places "
                "them.",
            )
        self.eigenvalues_, self.embedding_ = self._embed(X, W, target)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share("balance", self.balance)
        check_count("n_components", self.n_components, (None,))

    def _embed(self, X: Any, W: Any, target: Indicator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return θ (r,) and Z (n, r)."""
        degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        linked = np.flatnonzero(degree > 0)
        r = max(target.n_classes - 1, 1) if self.n_components is None else int(self.n_components)
        if r > len(linked) - 1:
            raise InvalidInput(
                f"{r} dimensions requested, but the {len(linked)} items with links have "
                f"{max(len(linked) - 1, 0)}; lower n_components, or give a graph with more links."
            )
        if len(linked) < len(degree):
            W = W[linked][:, linked]
        items, balance = weigh_items(X[linked], degree[linked]), float(self.balance)
        root, largest = items.root[:, None], items.largest_eigenvalue
        share = balance / largest if largest > 0 else 0.0

        def apply(V: NDArray[np.float64]) -> NDArray[np.float64]:
            by_graph = (1 - balance) * (W @ (V / root)) / root
            product: NDArray[np.float64] = by_graph + share * items.spread(items.gather(V))
            return product

        theta, Q = leading_pairs(apply, items.root / np.linalg.norm(items.root), r)
        if balance == 1 and theta[-1] <= 1e-12:  # θ of the graph may legitimately be 0 or negative
            raise InvalidInput(
                f"{r} dimensions requested, but with balance=1 only the features place the items, and they "
                f"have {int((theta > 1e-12).sum())}; lower n_components or balance."
            )
        # rounding leaves nothing of an item with weak links; the eigenvector equation gives its position
        Q = fix_signs(np.divide(apply(Q), theta, out=Q.copy(), where=theta > LEAST_STEP))
        slopes = np.divide(share * items.gather(Q), theta, out=np.zeros((X.shape[1], r)), where=theta > 0)
        Z = np.asarray(X @ slopes) - items.mean @ slopes
        Z[linked] = Q / root
        return theta, Z

    def _fold_labels(self, X: Any, W: Any, seen: Indicator, rows: NDArray[np.intp]) -> NDArray[np.int8]:
        _, Z = self._embed(X, W, seen)
        _, nearest = nearest_rows(Z[seen.labeled], Z[rows], 1)
        return seen.Y[seen.labeled][nearest[:, 0]]
