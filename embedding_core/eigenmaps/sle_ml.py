"""Supervised Laplacian eigenmaps for multi-label data (SLE-ML)."""

import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import LinearEmbedding
from embedding_core.eigen import fix_signs
from embedding_core.eigenmaps.combined_graph import (
    CombinedGraph,
    LabelSets,
    build_half_knn_graph,
    find_label_sets,
    with_short_indices,
)
from embedding_core.eigenmaps.out_of_sample import (
    choose_landmarks,
    default_gamma,
    fit_kernel_map,
    fit_linear_map,
    place_by_kernel,
    place_by_neighbors,
)
from embedding_core.errors import InvalidInput
from embedding_core.graphs import Components, check_affinity
from embedding_core.labels import Indicator
from embedding_core.row_blocks import RowBlocks, load_rows
from embedding_core.spectral import Eigenmap, smallest_eigenpairs

_LARGEST_NYSTROM_EIGENVALUE = 1 - 1e-6


def auto_neighbors(target: Indicator) -> int:
    """1.5 times the mean class size (Sect. 3.2), extrapolated from the labelled items to all, 1 to n - 1."""
    Y, n = target.Y[target.labelled], len(target.Y)
    size = (Y == 1).sum(axis=0)
    mean_size = size[size > 0].mean() * n / len(Y)
    return max(1, min(round(1.5 * mean_size), n - 1))


def solve_label_sets(sets: LabelSets, r: int) -> Eigenmap:
    """Solve λ = 0: eigenvectors are constant on label sets, so the graph of whole sets has them all.

    The eigenvalues left out are all 1, with vectors that sum to 0 on every set.
    """
    solution = smallest_eigenpairs(CombinedGraph(sets.quotient()), r)
    return Eigenmap(sets.P @ solution.coordinates, solution.eigenvalues)


class SLEML(LinearEmbedding):
    """Supervised Laplacian eigenmap for multi-label data (SLE-ML) [1]_.

    Places items so that nearest neighbours and items with similar label sets lie together. Made for looking
    at data (`n_components=2`). A small `balance` shows classes apart that are not apart: look at two values,
    0.5 and 0.9, as the paper recommends, and at a control with shuffled labels.

    Parameters
    ----------
    balance : float, default=0.9
        λ of Eq. 3, from 0 (labels alone) to 1 (features alone: Laplacian eigenmap).
    n_neighbors : int or "auto", default="auto"
        Neighbours k of an item. "auto" is the paper's 1.5 times the mean class size; with unlabelled items
        the class sizes are extrapolated to all items. That is many on large collections: give a number there.
    class_weight : None or "balanced", default=None
        "balanced" multiplies w^L_ij by s_i s_j, where s_i² is the mean over the labels of i of mean class
        size / class size (the paper's second open problem, not in the paper). With one label an item every
        item then has the same label degree, so that λ means the same in small classes as in large ones.
    out_of_sample : {"linear", "nystrom", "kernel_ridge"}, default="linear"
        How `transform` places items (the paper's first open problem, not in the paper): ridge regression of
        the coordinates on the features; the mean of the k nearest items of the fit over 1 - μ; or ridge
        regression with the kernel exp(-gamma d²) on up to 2000 items.
    alpha : float, default=1e-3
        Ridge of "linear" and "kernel_ridge", relative to the mean squared length of a (centred) item.
    gamma : float or "auto", default="auto"
        Of "kernel_ridge". "auto" is one over the mean squared distance of two items.
    n_components : int or None, default=None
        Dimensions r of the embedding. None takes K-1 as the other methods do; the paper's figures have 2.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        Z, the eigenmap itself for all items of `fit`, the unlabelled included. `transform` of the same items
        gives the approximation that new items get.
    eigenvalues_ : ndarray of shape (r,)
        μ of L z = μ D z, ascending; the trivial pair (0, constant) is left out.
    degree_ : ndarray of shape (n,)
        Diagonal of D.
    classes_ : ndarray of shape (K,)
    n_neighbors_ : int
        k used; where an affinity is given, by `transform` alone.
    projection_ : ndarray of shape (p, r)
        For "linear" alone: an item is placed at x^T projection_ + intercept_.
    intercept_ : ndarray of shape (r,)
        For "linear" and "kernel_ridge".
    reference_items_, reference_values_ : (m, p) array or CSR matrix, (m, r) array
        For "nystrom" the items of the fit with their coordinates, for "kernel_ridge" the items that carry the
        kernel with their coefficients.
    gamma_ : float
        For "kernel_ridge".
    n_features_in_ : int

    Notes
    -----
    Minimises Eq. 3, sum_ij |z_i - z_j|² w_ij with w = λ w^F + (1 - λ) w^L subject to Z^T D Z = I, by the
    eigenvectors of L Z = D Z Λ (Sect. 2.1). w^F is 0, 1/2 or 1 by how many of two items have the other among
    their k nearest (itself not counted); a given affinity takes its place. w^L is the Jaccard similarity of
    label sets. λ = 1 is the Laplacian eigenmap with these 0, 1/2, 1 weights, not the Gaussian one. λ = 0 puts
    all items with the same labels on one point.

    Readings. The sums of Eq. 3 and D run over all pairs, so w^L_ii = 1 counts in D. 0/0 for two items without
    any label is 0. Unlabelled items have no label links (w^L = 0, also to themselves): neighbours alone place
    them. An item without any link (unlabelled at λ = 0; isolated in a given affinity) has no place in the
    eigenproblem; it is placed by the out-of-sample map, and a warning says so. Where the combined graph has
    c > 1 components, the first c - 1 coordinates tell these apart, largest first, with a warning (none at
    λ = 0, where classes are components by design).

    w^L = P J P^T with P the membership in the S distinct label sets is applied, never formed; eigenvectors
    come from Lanczos with the known null vectors deflated, component by component
    (`embedding_core.spectral`).

    References
    ----------
    .. [1] M. Tai, M. Kudo, "A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data:
       SLE-ML", CIARP 2019, LNCS 11896, 525-534.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core.eigenmaps.sle_ml import SLEML
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> model = SLEML(balance=0.5, n_components=2).fit(X, y)
    >>> model.embedding_.shape, model.n_neighbors_
    ((150, 2), 75)
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "out_of_sample": ("linear", "nystrom", "kernel_ridge"),
    }

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
        self.balance = balance
        self.n_neighbors = n_neighbors
        self.class_weight = class_weight
        self.out_of_sample = out_of_sample
        self.alpha = alpha
        self.gamma = gamma
        self.n_components = n_components

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Find the eigenmap and the map for new items.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabelled, or 0/1 columns with rows of -1 for unlabelled.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items, in place of w^F.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        self.n_neighbors_ = self._resolve_neighbors(target)
        graph = self._graph(X, target, affinity)
        linked = _linked_rows(graph)
        solution = self._solve(graph, linked, target)
        Z = fix_signs(solution.coordinates)
        self.eigenvalues_, self.degree_, self.classes_ = solution.eigenvalues, graph.degree, target.classes
        alone = len(target.Y) - len(linked)
        self._fit_map(X[linked] if alone else X, Z)
        self.embedding_ = self._with_alone(X, Z, linked) if alone else Z
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Place items by the out-of-sample map.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)

        Returns
        -------
        ndarray of shape (m, r)
        """
        check_is_fitted(self)
        return self._place(self._check_items(X, reset=False))

    def _check_items(self, X: Any, reset: bool) -> Any:
        X = super()._check_items(X, reset)
        return load_rows(X) if isinstance(X, RowBlocks) else X

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.class_weight not in (None, "balanced"):
            raise InvalidInput(f'class_weight={self.class_weight!r} is not legal; give None or "balanced".')
        if not (_is_number(self.balance) and 0 <= self.balance <= 1):
            raise InvalidInput(
                f"balance={self.balance!r} is not legal; give a number from 0 (labels) to 1 (features)."
            )
        if not (_is_number(self.alpha) and 0 <= self.alpha < np.inf):
            raise InvalidInput(f"alpha={self.alpha!r} is not legal; give a number >= 0.")
        if self.gamma != "auto" and not (_is_number(self.gamma) and 0 < float(self.gamma) < np.inf):
            raise InvalidInput(f'gamma={self.gamma!r} is not legal; give a number > 0 or "auto".')
        k = self.n_neighbors
        if k != "auto" and not (isinstance(k, Integral) and not isinstance(k, bool) and k >= 1):
            raise InvalidInput(f'n_neighbors={k!r} is not legal; give an integer >= 1 or "auto".')

    def _check_classes(self, target: Indicator) -> None:
        r, n = self.n_components, len(target.Y)
        if n < 2:
            raise InvalidInput(f"A graph needs two or more items, found n_samples={n}; add items.")
        if (target.Y == 1).any(axis=0).sum() < 2:
            super()._check_classes(target)  # raises: classes are missing
        if r is not None and r > n - 1:
            raise InvalidInput(f"n_components={r} exceeds n-1={n - 1} for SLEML; lower it or add items.")

    def _resolve_neighbors(self, target: Indicator) -> int:
        if self.n_neighbors == "auto":
            return auto_neighbors(target)
        k, n = int(self.n_neighbors), len(target.Y)
        if k > n - 1:
            warnings.warn(
                f"n_neighbors={k} but each of the {n} items has {n - 1} others only: all pairs are linked.",
                stacklevel=3,
            )
        return min(k, n - 1)

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> CombinedGraph:
        """W of Eq. 3."""
        n, balance = len(target.Y), float(self.balance)
        if affinity is not None:
            W = with_short_indices(check_affinity(affinity, n))  # a copy
        elif balance > 0:
            W = build_half_knn_graph(X, self.n_neighbors_)
        if balance == 0:
            W = sp.csr_array((n, n))
        elif sp.issparse(W):
            W.data *= balance
        else:
            W *= balance
        sets = find_label_sets(target.Y, self.class_weight) if balance < 1 else None
        return CombinedGraph(W, sets, 1 - balance)

    def _solve(self, graph: CombinedGraph, linked: NDArray[np.intp], target: Indicator) -> Eigenmap:
        labels_alone = self.balance == 0
        nodes = graph.sets.P.shape[1] if labels_alone and graph.sets is not None else len(linked)
        r = self.n_components
        if r is not None and r > nodes - 1:
            found = "distinct label sets" if labels_alone else "items with links"
            raise InvalidInput(
                f"n_components={r} exceeds the {max(nodes - 1, 0)} dimensions that {nodes} {found} span; "
                f"lower it{' or raise balance' if labels_alone else ''}."
            )
        r = min(target.n_classes - 1, nodes - 1) if r is None else int(r)
        if labels_alone and graph.sets is not None:
            sets = graph.sets if len(linked) == len(target.Y) else graph.restrict(linked).sets
            assert sets is not None
            return solve_label_sets(sets, r)
        part = graph if len(linked) == len(target.Y) else graph.restrict(linked)
        components = part.components()
        _warn_of_components(components)
        return smallest_eigenpairs(part, r, components)

    def _fit_map(self, X: Any, Z: NDArray[np.float64]) -> None:
        if self.out_of_sample == "linear":
            self.projection_, self.intercept_ = fit_linear_map(X, Z, float(self.alpha))
        elif self.out_of_sample == "nystrom":
            if self.eigenvalues_[-1] > _LARGEST_NYSTROM_EIGENVALUE:
                j = int(np.argmax(self.eigenvalues_ > _LARGEST_NYSTROM_EIGENVALUE))
                raise InvalidInput(
                    f'out_of_sample="nystrom" divides by 1 - μ, but component {j} has μ = '
                    f"{self.eigenvalues_[j]:.6g}; use at most {j} components, or another out_of_sample."
                )
            self.reference_items_, self.reference_values_ = X, Z
        else:
            self.gamma_ = default_gamma(X) if self.gamma == "auto" else float(self.gamma)
            self.reference_items_ = choose_landmarks(X)
            self.reference_values_, self.intercept_ = fit_kernel_map(
                X, Z, self.reference_items_, self.gamma_, float(self.alpha)
            )

    def _place(self, X: Any) -> NDArray[np.float64]:
        if self.out_of_sample == "linear":
            return np.asarray(X @ self.projection_) + self.intercept_
        if self.out_of_sample == "nystrom":
            return place_by_neighbors(
                self.reference_items_, self.reference_values_, self.eigenvalues_, self.n_neighbors_, X
            )
        return place_by_kernel(self.reference_items_, self.reference_values_, self.intercept_, self.gamma_, X)

    def _with_alone(self, X: Any, Z: NDArray[np.float64], linked: NDArray[np.intp]) -> NDArray[np.float64]:
        """Coordinates of all items, those without links placed by the map."""
        alone = np.setdiff1d(np.arange(X.shape[0]), linked)
        warnings.warn(
            f"{len(alone)} of {X.shape[0]} items have no link to any other (the first is row {alone[0]}); "
            f"the out-of-sample map ({self.out_of_sample}) places them.",
            stacklevel=3,
        )
        embedding = np.empty((X.shape[0], Z.shape[1]))
        embedding[linked] = Z
        embedding[alone] = self._place(X[alone])
        return embedding

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)


def _linked_rows(graph: CombinedGraph) -> NDArray[np.intp]:
    linked = np.flatnonzero(graph.degree > 0)
    if len(linked) < 2:
        raise InvalidInput(
            "The graph links no two items; give an affinity with edges, or a balance below 1 with labels "
            "that items share."
        )
    return linked


def _warn_of_components(components: Components) -> None:
    sizes = np.sort(components.sizes)[::-1]
    if len(sizes) > 1:
        listed = ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")
        warnings.warn(
            f"The graph of neighbours and labels has {len(sizes)} components (sizes {listed}); the embedding "
            "separates them first. A larger n_neighbors may join them.",
            stacklevel=4,
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
