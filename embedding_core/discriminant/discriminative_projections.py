"""Discriminative projections: items and labels mapped to one space, linearly or by a kernel.

For a centered kernel matrix K = T T^T the rows of T are the items, around their mean, in an orthonormal basis
of the span of their differences in feature space. A linear method that is invariant to shifts of the items
has the same form on T, and the kernel x^T z gives the linear method on X.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import GraphEmbedding, Solution
from embedding_core.checks import check_not_negative, check_positive
from embedding_core.discriminant.joint_quotient import (
    JointSolution,
    joint_quotient,
    resolve_mu,
    solve_joint,
)
from embedding_core.errors import InvalidInput, TooManyComponents, check_memory, warn_caller
from embedding_core.graph.affinity import GRAPHS
from embedding_core.graph.components import graph_components
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.labels import Indicator, check_labels_differ, label_shares
from embedding_core.linalg.eigen import RowSpace, fix_signs, positive_part, row_space
from embedding_core.linalg.kernel_space import (
    KERNELS,
    Kernel,
    check_landmarks,
    check_precomputed,
    choose_landmarks,
    kernel_coordinates,
    kernel_rounding,
    place_by_kernel,
    resolve_gamma,
)
from embedding_core.linalg.row_blocks import RowBlocks, RowView
from embedding_core.model_selection.inner_choice import fold_score

MEMORY_BUDGET_BYTES = 4e9
_DENSE_MATRICES = 8

_FITTED_BY_KERNEL = ("projection_", "dual_coef_", "landmarks_", "X_fit_", "gamma_")


def check_size(n: int) -> None:
    """Raise InvalidInput if the kernel form of n items exceeds the memory budget."""
    needed = _DENSE_MATRICES * 8 * float(n) ** 2
    advice = "pass landmarks (for example 500), or use the linear form"
    check_memory(f"The kernel form of {n} items", needed, MEMORY_BUDGET_BYTES, advice)


@dataclass(frozen=True)
class KernelRowSpace:
    """The `space` of directions f that a kernel offers, and the items `rows` (h,) whose phi span it.

    `space.lift` returns coefficients of these items.
    """

    space: RowSpace
    rows: NDArray[np.intp]


def kernel_row_space(kernel: Kernel, X: Any, landmarks: Any, random_state: Any) -> KernelRowSpace:
    """Return the span of all items (exact) or of landmarks (Nyström), see `linalg.kernel_space`.

    Parameters
    ----------
    kernel : Kernel
        "rbf" or "precomputed".
    X : ndarray or CSR matrix of shape (n, p), or the validated kernel of all pairs (n, n)
    landmarks : int, sequence of int, "auto" or None
        Number of landmarks or their rows; None, or all rows, gives the exact form.
    random_state : int, RandomState or None
        Seed for drawing the landmarks.
    """
    n = X.shape[0]
    chosen = choose_landmarks(landmarks, n, np.ones(n, dtype=bool), random_state)
    if len(chosen) < n:
        nystrom = kernel_coordinates(kernel, X, chosen)
        return KernelRowSpace(RowSpace(nystrom.rows, nystrom.expand), nystrom.heads)
    check_size(n)
    K = X if kernel.name == "precomputed" else kernel.columns(X, X)
    return KernelRowSpace(centered_space(K), chosen)


def centered_space(K: NDArray[Any]) -> RowSpace:
    """Return coordinates T = E s^(1/2) of the items around their mean, for the centered K = E diag(s) E^T.

    Eigenvalues s that are zero up to rounding are omitted. `lift` turns a direction a in these coordinates
    into coefficients of the items, with sum zero: f = sum_i lift(a)_i phi(x_i) with |f| = |a|, and f^T phi(x)
    is k(x, items) @ lift(a).
    """
    means = K.mean(axis=0, dtype=np.float64)
    part = positive_part(K - means - means[:, None] + means.mean())
    total = float(part.values.sum())
    negative = total - float(np.trace(K, dtype=np.float64) - means.sum())
    if negative > kernel_rounding(K) * total:
        raise InvalidInput(
            f"The kernel is not positive semidefinite: after centering, its negative eigenvalues sum to "
            f"{-negative:.3g}, its positive ones to {total:.3g}. Pass a kernel of inner products, for "
            "example with its negative eigenvalues set to zero."
        )
    keep = part.values > len(K) * np.finfo(K.dtype).eps * np.max(part.values, initial=0.0)
    E, root = part.vectors[:, keep], np.sqrt(part.values[keep])
    return RowSpace(E * root, lambda a: E @ (a / root[:, None]))


class DiscriminativeProjections(GraphEmbedding):
    """Discriminative projections [1]_: a map f for items and a map g for labels into one space.

    Items are close to the images of their labels and far from those of other labels. Linked items, labeled or
    not, stay close together, and similar classes get nearby positions. Unlike LDA it has up to p dimensions.

    Parameters
    ----------
    mu : float or "auto", default="auto"
        Weight of the graph, >= 0. "auto" is l/s, the number of labeled items divided by the sum of all
        similarities (section 4 of [1]_): labels and graph have equal weight.
    kernel : {"linear", "rbf", "intersection", "precomputed"}, default="linear"
        f is linear in the features, or in the feature space of a kernel: exp(-gamma d²), the sum of
        min(x, z) for histograms, or X itself (n, n).
        The paper mentions the kernel form at the end of section 3 without giving it.
    gamma : float or "scale", default="scale"
        Parameter of the "rbf" kernel; "scale" is 1 / (p Var(X)).
    ridge : float, default=0.0
        Not in the paper: adds ridge t |f|² to C, with t the trace of the block of B + C that belongs to f.
        Useful if the graph does not regularize f: a kernel of full rank with mu near 0, or p > n.
    landmarks : int, sequence of int, "auto" or None, default=None
        Not in the paper (Nyström): with a kernel, f lies in the span of this many random items, or of these
        rows, instead of all items. "auto" uses 500 landmarks for more than 2,000 items. Ignored by the linear
        form, which does not need it.
    scaling : {"unit", "natural"}, default="unit"
        Length of the columns: |f| = 1 (in feature space, for a kernel), or gamma^T (B + C) gamma = 1, for
        which Theorem 1 holds for all columns jointly. g is scaled by the same factors as f.
    graph : {"knn", "gaussian"}, default="knn"
        Graph used if no affinity is given: nearest neighbors (sparse), or all pairs (dense, at most 2 GB).
        Both have weights exp(-d² / (2 sigma)). With a precomputed kernel the distances are those of its
        feature space.
    n_neighbors : int, default=10
        Number of neighbors of an item in the "knn" graph.
    sigma : float, "auto" or "cv", default="auto"
        Scale of the weights, in units of a squared distance. "auto" is the mean squared distance of the
        linked pairs; "cv" selects 1/64, 1/16, 1/4, 1 or 4 times that value by 5-fold cross-validation of 1NN
        on the labeled items.
    n_components : int or None, default=None
        Number of dimensions d, at most the number of features p (or the rank of the data if that is less).
        None means K-1, as for LDA.
    random_state : int, RandomState or None, default=0
        Seed for drawing the landmarks.

    Attributes
    ----------
    projection_ : ndarray of shape (p, d)
        f; only for kernel="linear".
    label_projection_ : ndarray of shape (K, d)
        g; row k is the position of label k. A label without items is at the mean of the labeled items.
    eigenvalues_ : ndarray of shape (d,)
        lambda, ascending, in [0, 1]: the cost along each column.
    embedding_ : ndarray of shape (n, d)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    mu_ : float
        Weight used.
    sigma_ : float or None
        Scale used; None if an affinity was given.
    dual_coef_ : ndarray of shape (h, d)
        For a kernel: each column contains the a_i of f = sum_i a_i phi(x_i), over h items.
    landmarks_ : ndarray of shape (h,)
        Row numbers of these items: all items, or the landmarks that are linearly independent.
    X_fit_ : array or CSR matrix of shape (h, p)
        The x_i, for a kernel that is not precomputed.
    gamma_ : float
        For the "rbf" kernel.
    n_features_in_ : int

    Notes
    -----
    f and g minimize (M + L) / (N + L) (Theorem 1) with

        M = sum_i |f^T x_i - g^T y_i|²,  N = sum_i sum_k |f^T x_i - g^T s_k|²,  L = mu f^T X (D - W) X^T f,

    i over the labeled items, s_k the k-th unit vector, D - W over all items. M, N, L are gamma^T A gamma,
    gamma^T B gamma, gamma^T C gamma of gamma = (f, g), and the columns are the eigenvectors of (A + C) gamma
    = lambda (B + C) gamma with the smallest lambda (section 3.4). A, B and C have a closed form of p x p and
    p x K sums and a sparse Laplacian; for p > n the problem is solved in the row space of X.

    Readings. (1) C is mu X L X^T, as printed in step 1; the double sum in the cost is twice that, a factor of
    2 in mu. (2) Where gamma^T (B + C) gamma = 0 the numerator vanishes too: the problem is restricted to the
    range of B + C. (3) Eigenvectors with f = 0 map all items to one point and are omitted; for classes of
    equal size (0, 1), with lambda = 1/K, is one of them. Columns with equal lambda are determined only up to
    rotation: the f are made orthogonal, longest first. (4) With several labels per item, every pair of an
    item and one of its labels adds |f^T x - g^T s_k|² to the numerator, and every pair of an item and any
    label adds it to the denominator. For one label per item this is the paper's cost. With g^T y for a 0/1
    vector y, lambda could exceed 1 and the result would not be invariant to a shift of the data. A set of
    labels is at the mean of its labels. (5) Labels without items are left out of the sums: far away they
    would make the cost 0. (6) The paper does not specify the length of the columns, on which nearest
    neighbors depend. Its claim that 100 dimensions do as well as those of LPP on USPS holds only with unit
    columns.

    A shift of all items by t shifts every row of g by f^T t and changes nothing else. With mu = 0 the first
    columns span the space of LDA; further columns are arbitrary, all with lambda = 1/K.

    In the kernel form f lies in the span of phi(x_i). A kernel of full rank can map the items of `fit` to any
    positions. Without `ridge` their embedding then depends only on the graph and the labels (the paper's
    direct form: u_i in place of f^T x_i), and the kernel decides only where other items are mapped. The graph
    regularizes it well (`mu` must be positive); a large ridge loses the advantage over the linear form. If a
    component of the graph has no labeled item, only the kernel determines its position, and a warning is
    issued. Time is O(n³), memory O(n²): more than about 7,900 items (4 GB) raise an error. With m `landmarks`
    they are O(n m²) and O(n m).

    References
    ----------
    .. [1] C. Wang, S. Mahadevan, "Jointly Learning Data-Dependent Label and Locality-Preserving Projections",
       IJCAI 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import DiscriminativeProjections
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> model = DiscriminativeProjections(n_components=3).fit(X, y)
    >>> model.embedding_.shape, model.transform_labels([0, 1, 2]).shape
    ((150, 3), (3, 3))
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kernel": KERNELS,
        "scaling": ("unit", "natural"),
        "graph": GRAPHS,
    }

    def __init__(
        self,
        *,
        mu: float | str = "auto",
        kernel: str = "linear",
        gamma: float | str = "scale",
        ridge: float = 0.0,
        landmarks: int | Sequence[int] | str | None = None,
        scaling: str = "unit",
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        n_components: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.mu = mu
        self.kernel = kernel
        self.gamma = gamma
        self.ridge = ridge
        self.landmarks = landmarks
        self.scaling = scaling
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any, affinity: Any = None, sample_weight: Any = None) -> Self:
        """Fit f and g.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or `row_blocks.RowBlocks` of shape (n, p)
            For kernel="precomputed" the kernel of all pairs, (n, n). RowBlocks are read in several passes and
            never loaded as a whole; they need `affinity` and the linear form.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items. A labeled
            item without any label is kept far from all labels.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. If given, `graph`, `n_neighbors` and `sigma` are
            ignored.
        sample_weight : array-like of shape (n,), optional
            A weight of s is equivalent to s copies of the item in A and B (in the sums over labeled items, in
            l and in the mean), 0 to an unlabeled item. The graph links items, not copies: in C every item
            counts once.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        if self.kernel == "precomputed":
            X = check_precomputed(X)
        target, weight = self._weigh_labels(target, sample_weight)
        # if all labels agree, H = 0: labels and items are unrelated, and every direction is a solution
        check_labels_differ(target, type(self).__name__, multi_label=True)
        for name in _FITTED_BY_KERNEL:
            self.__dict__.pop(name, None)
        space = self._coordinates(X)

        def place(seen: Indicator, W: Any) -> NDArray[np.float64]:
            return np.asarray(space.coordinates @ self._solve(space, seen, weight, W).f)

        W = self._affinity(X, affinity, lambda W: fold_score(target, lambda seen: place(seen, W)))
        self.mu_ = resolve_mu(self.mu, target.counts(weight).sum(), W)
        self._warn_of_components(target, W)
        solution = self._solve(space, target, weight, W)
        self._check_rank(X, solution)
        return self._place(X, space, target, weight, solution)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Map items to the embedding, f^T x.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or RowBlocks of shape (m, p)
            For kernel="precomputed" the kernel between these items and those of `fit`, (m, n).

        Returns
        -------
        ndarray of shape (m, d)
        """
        check_is_fitted(self)
        if self.kernel == "linear":
            return super().transform(X)
        return self._by_kernel(self._check_items(X, reset=False))

    def transform_labels(self, y: Any) -> NDArray[np.float64]:
        """Map labels to the embedding, g^T y; a set of labels is mapped to the mean of its labels.

        Parameters
        ----------
        y : array-like of shape (m,) or (m, K)
            Classes among `classes_`, or 0/1 columns with at least one label per row.

        Returns
        -------
        ndarray of shape (m, d)
        """
        check_is_fitted(self)
        positions: NDArray[np.float64] = label_shares(y, self.classes_) @ self.label_projection_
        return positions

    def _check_items(self, X: Any, reset: bool) -> Any:
        X = np.asarray(X) if isinstance(X, RowView) and self.kernel != "linear" else X
        X = super()._check_items(X, reset)
        if reset and self.kernel != "linear" and isinstance(X, RowBlocks):
            raise InvalidInput(
                f"X is a {type(X).__name__}; with a kernel, {type(self).__name__} needs the items in memory. "
                'Pass an array or a CSR matrix, or use kernel="linear".'
            )
        return X

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("gamma", self.gamma, ("scale",))
        check_not_negative("mu", self.mu, ("auto",))
        check_not_negative("ridge", self.ridge)
        check_landmarks(self.landmarks)

    def _check_classes(self, target: Indicator) -> None:
        self._check_two_classes(target)

    def _check_rank(self, X: Any, solution: JointSolution) -> None:
        if solution.rank == 0:
            raise InvalidInput(
                f"{type(self).__name__} finds no direction: the labeled items coincide, and so do linked "
                "items. Add items or features that vary."
            )
        r = self.n_components
        if r is not None and r > solution.rank:
            size = f"{X.shape[0]} items" + (f", {X.shape[1]} features" if self.kernel == "linear" else "")
            raise TooManyComponents(
                f"n_components={r} exceeds the {solution.rank} directions in which labeled or linked items "
                f"differ ({size}); lower it or add features or labels.",
                solution.rank,
            )

    def _coordinates(self, X: Any) -> RowSpace:
        """Return the items in at most n coordinates, in which the linear form is solved."""
        if self.kernel == "linear":
            return row_space(X)
        if self.kernel == "rbf":
            self.gamma_ = resolve_gamma(X, self.gamma)
        spanned = kernel_row_space(self._kernel, X, self.landmarks, self.random_state)
        self.landmarks_ = spanned.rows
        return spanned.space

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma_ if self.kernel == "rbf" else 1.0)

    def _warn_of_components(self, target: Indicator, W: Any) -> None:
        """Warn if a component has no label: a kernel can map it to any position."""
        if self.kernel == "linear" or self.mu_ == 0:
            return
        components = graph_components(W)
        bare = np.setdiff1d(np.arange(len(components.sizes)), components.labels[target.labeled])
        if len(bare):
            warn_caller(
                f"The graph has {components.describe()}; {len(bare)} of them ({components.sizes[bare].sum()} "
                "items) contain no labeled item, and with a kernel the graph does not determine their "
                "position. Raise n_neighbors, link them or label an item of each.",
            )

    def _solve(self, space: RowSpace, target: Indicator, weight: Any, W: Any) -> JointSolution:
        """Solve in the coordinates; g has a row per label, relative to the mean of the labeled items."""
        used = (target.Y == 1).any(axis=0)
        times = target.counts(weight)
        mu = resolve_mu(self.mu, times.sum(), W)
        problem = joint_quotient(
            space.coordinates, target.Y[:, used], times, GraphLaplacian(W), mu, float(self.ridge)
        )
        d = int(used.sum()) - 1 if self.n_components is None else self.n_components
        found = solve_joint(problem, d, scale_free=space.are_features)
        length = np.linalg.norm(found.f, axis=0) if self.scaling == "unit" else 1.0
        g = np.zeros((target.n_classes, found.f.shape[1]))
        g[used] = found.g
        return JointSolution(found.f / length, g / length, found.eigenvalues, found.rank)

    def _place(
        self, X: Any, space: RowSpace, target: Indicator, weight: Any, solution: JointSolution
    ) -> Self:
        """Set the fitted attributes."""
        lifted = space.lift(solution.f)
        projection = fix_signs(lifted)
        turned = np.where(np.einsum("ij,ij->j", lifted, projection) < 0, -1.0, 1.0)
        if self.kernel == "linear":
            self._store(X, target, Solution(projection, solution.eigenvalues))
        else:
            self.dual_coef_, self.eigenvalues_ = projection, solution.eigenvalues
            self.classes_ = target.classes
            if self.kernel != "precomputed":
                self.X_fit_ = self._kernel.take(X, self.landmarks_)
            self.embedding_ = self._by_kernel(X)
        times = target.counts(weight)
        self.label_projection_ = solution.g * turned + times @ self.embedding_ / times.sum()
        return self

    def _by_kernel(self, X: Any) -> NDArray[np.float64]:
        support = self.landmarks_ if self.kernel == "precomputed" else self.X_fit_
        return place_by_kernel(self._kernel, X, support, self.dual_coef_)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
