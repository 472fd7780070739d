"""Base class of the eigenmaps, with the maps that place new items.

The eigenvectors exist only for the items of the fit. The out-of-sample maps solve the first open problem of
the SLE-ML paper (Sect. 5: "simulate the mapping linearly or nonlinearly") and are not in the paper. They are
learned from items X (n, p) and their coordinates Z (n, r).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import LinearEmbedding
from embedding_core.checks import check_count, check_not_negative, check_positive, items_vary
from embedding_core.errors import InvalidInput, TooManyComponents, warn_caller
from embedding_core.graph.affinity import check_neighbors
from embedding_core.graph.components import Components
from embedding_core.graph.spectral import Eigenmap, smallest_eigenpairs
from embedding_core.knn_classifier import nearest_rows
from embedding_core.labels import UNLABELED, Indicator, check_one_class_per_item
from embedding_core.linalg.conditioning import shift_full_columns
from embedding_core.linalg.eigen import fix_signs, whitening
from embedding_core.linalg.kernel_space import Kernel, place_by_kernel, rbf_values
from embedding_core.linalg.row_blocks import RowBlocks, load_rows, row_blocks
from embedding_core.linalg.scatter import center_items
from embedding_core.subspace.principal import mean_item, squared_spread

LANDMARKS = 2000
"""Largest number of landmarks of the kernel map; of more items, every (n / LANDMARKS)-th is used."""

GRAM_SIZE = 4096
"""Largest size of the square matrix that the linear map forms for sparse items."""

_BLOCK_ROWS = 2048
_CG_TOLERANCE = 1e-9
_MAX_STEPS = 2000
Map = tuple[NDArray[np.float64], NDArray[np.float64]]

_LARGEST_NYSTROM_EIGENVALUE = 1 - 1e-6


def fit_linear_map(X: Any, Z: NDArray[np.float64], alpha: float) -> Map:
    """Ridge regression of the coordinates on the features.

    Minimizes sum_i |z_i - P^T x_i - b|² + alpha s |P|², with s the mean squared distance of an item from the
    mean, so that alpha does not depend on the scale of X. alpha = 0 gives the least-squares solution of
    minimum norm.

    Returns
    -------
    projection : ndarray of shape (p, r)
    intercept : ndarray of shape (r,)

    Notes
    -----
    Uses a square matrix of size min(n, p). For sparse X with more than `GRAM_SIZE` items and features it uses
    conjugate gradients, which need only products with X.
    """
    offset = Z.mean(axis=0)
    if sp.issparse(X) and min(X.shape) > GRAM_SIZE:
        projection = _solve_by_conjugate_gradients(X, Z - offset, alpha)
        return projection, offset - mean_item(X) @ projection
    items = center_items(X)
    G, B = items.scatter, items.moments(Z - offset)
    G[np.diag_indices_from(G)] += alpha * np.trace(G) / X.shape[0]
    inverse_root = whitening(G, scale_free=items.are_features)
    projection = items.lift(inverse_root.unwhiten(inverse_root.whiten(B)))
    return projection, offset - mean_item(X) @ projection


def _solve_by_conjugate_gradients(X: Any, Z: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Solve (X_c^T X_c + alpha s I) P = X^T Z, X_c the centered X, for all columns of P at once.

    Features of very different lengths slow down convergence, so the matrix is preconditioned by its diagonal.
    Without a ridge it is not, so that the solution has minimum norm.
    """
    X, _ = shift_full_columns(X)  # only differences of items matter, and they do not change
    n, center = X.shape[0], mean_item(X)
    spread = np.maximum(np.asarray(X.multiply(X).sum(axis=0)).ravel() - n * center**2, 0.0)
    ridge = alpha * spread.sum() / n
    scale = (spread + ridge)[:, None] if ridge > 0 else np.ones((X.shape[1], 1))
    R: NDArray[np.float64] = X.T @ Z
    P, direction = np.zeros_like(R), R / scale
    length = goal = (R * direction).sum(axis=0)
    for _ in range(_MAX_STEPS):
        if (length <= _CG_TOLERANCE**2 * goal).all():
            return P
        image = X @ direction
        image = X.T @ (image - image.mean(axis=0)) + ridge * direction
        step = _ratio(length, (direction * image).sum(axis=0))
        P += step * direction
        R -= step * image
        former, length = length, (R * R / scale).sum(axis=0)
        direction = R / scale + _ratio(length, former) * direction
    warn_caller(
        f"The linear out-of-sample map did not converge in {_MAX_STEPS} steps; use a larger alpha, or "
        'out_of_sample="nystrom".',
    )
    return P


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def place_by_neighbors(
    items: Any,
    Z: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    width: float | None,
    n_neighbors: int,
    X: Any,
) -> NDArray[np.float64]:
    """Nyström extension: z(x) is the weighted mean of the z_j of the nearest items, divided by 1 - μ.

    This is the equation of the eigenproblem, sum_j w_j (z - z_j) = μ sum_j w_j z, for a new node without
    labels that is linked to its nearest items with weights exp(-d² / width), or equal weights if `width` is
    None.
    """
    if sp.issparse(items) != sp.issparse(X):
        X = sp.csr_array(X) if sp.issparse(items) else X.toarray()
    k = min(n_neighbors, items.shape[0])
    distances, nearest = nearest_rows(items, X, k)
    weights = np.ones(distances.shape)
    if width is not None:
        # relative to the nearest item: far from all items every weight would underflow to 0
        weights = np.exp((distances[:, :1] ** 2 - distances**2) / width)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = sp.csr_array(
        (weights.ravel(), nearest.ravel(), np.arange(0, nearest.size + 1, k)),
        shape=(X.shape[0], items.shape[0]),
    )
    coordinates: NDArray[np.float64] = (mean @ Z) / (1.0 - eigenvalues)
    return coordinates


def spread_landmarks(X: Any) -> Any:
    """Return the landmarks of the kernel map, as an array or CSR matrix."""
    n = X.shape[0]
    return X if n <= LANDMARKS else X[np.linspace(0, n - 1, LANDMARKS).round().astype(np.intp)]


def default_gamma(X: Any) -> float:
    """Return one over the mean squared distance of two items; 1 if all items coincide."""
    total = squared_spread(X)
    return X.shape[0] / (2 * total) if total > 0 else 1.0


def fit_kernel_map(X: Any, Z: NDArray[np.float64], landmarks: Any, gamma: float, alpha: float) -> Map:
    """Ridge regression with the kernel exp(-gamma |x - x'|²) centered at the landmarks.

    Minimizes sum_i |z_i - f(x_i) - b|² + alpha |f|² over f = sum_m k(., x_m) a_m. If all items are landmarks,
    this is kernel ridge regression.

    Returns
    -------
    coefficients : ndarray of shape (m, r)
    intercept : ndarray of shape (r,)
    """
    offset = Z.mean(axis=0)
    K = rbf_values(landmarks, landmarks, gamma)
    if landmarks.shape[0] == X.shape[0] and alpha > 0:
        K[np.diag_indices(len(K))] += alpha
        return scipy.linalg.solve(K, Z - offset, assume_a="pos", check_finite=False), offset
    A, B = alpha * K, np.zeros((len(K), Z.shape[1]))
    for rows, items in row_blocks(X, _BLOCK_ROWS):
        K_b = rbf_values(items, landmarks, gamma)
        A += K_b.T @ K_b
        B += K_b.T @ (Z[rows] - offset)
    inverse_root = whitening(A, scale_free=False)
    return inverse_root.unwhiten(inverse_root.whiten(B)), offset


def auto_neighbors(target: Indicator) -> int:
    """Return 1.5 times the mean class size (Sect. 3.2), from 1 to n - 1.

    Class sizes are extrapolated from the labeled items to all items.
    """
    Y, n = target.Y[target.labeled], len(target.Y)
    size = (Y == 1).sum(axis=0)
    mean_size: float = size[size > 0].mean() * n / len(Y)
    return max(1, min(round(1.5 * mean_size), n - 1))


def class_codes(target: Indicator) -> NDArray[np.intp]:
    """Return the column of the class of every item, -1 for unlabeled items."""
    return np.where(target.labeled, target.Y.argmax(axis=1), UNLABELED)


class EigenmapEmbedding(LinearEmbedding):
    """Base class of the eigenmaps; `SLEML` describes the common parameters and attributes.

    A subclass builds its graph in `_graph`: an object with `degree` and `restrict(nodes)`, whose nodes are
    the n items followed by other nodes, if any. If its eigenproblem is not L Z = D Z Λ of that graph, the
    subclass overrides `_solve`. Nodes of degree 0 are not part of the eigenproblem; such items are placed by
    the out-of-sample map.
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "out_of_sample": ("linear", "nystrom", "kernel_ridge"),
    }
    _supervised: ClassVar[bool] = True
    _one_class_per_item: ClassVar[bool] = False
    _links_unlabeled: ClassVar[bool] = True
    _linked: ClassVar[str] = "neighbors and labels"

    def __init__(
        self,
        *,
        n_neighbors: int | str = "auto",
        out_of_sample: str = "linear",
        alpha: float = 1e-3,
        gamma: float | str = "auto",
        n_components: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.out_of_sample = out_of_sample
        self.alpha = alpha
        self.gamma = gamma
        self.n_components = n_components

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Fit the eigenmap and the out-of-sample map.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items, used instead of those of nearest neighbors.
            Ignored by `ConstraintScore` and `SLE`, whose links are determined by the classes.

        Returns
        -------
        self
        """
        X, target = self._check_inputs(X, y)
        n = len(target.Y)
        if not items_vary(X):
            warn_caller(
                f"All {n} items have the same features, so all new items will be placed on one point; give "
                "features that vary.",
            )
        self.n_neighbors_ = self._resolve_neighbors(target)
        graph = self._graph(X, target, affinity)
        nodes = _linked_nodes(graph.degree)
        part = graph if len(nodes) == len(graph.degree) else graph.restrict(nodes)
        solution = self._solve(part, self._resolve_components(part, target))
        self.eigenvalues_, self.degree_, self.classes_ = (
            solution.eigenvalues,
            graph.degree[:n],
            target.classes,
        )
        Z = self._item_coordinates(fix_signs(solution.coordinates), nodes, target)
        linked = nodes[: len(Z)]
        self._fit_map(X if len(Z) == n else X[linked], Z)
        self.embedding_ = Z if len(Z) == n else self._with_alone(X, Z, linked, target)
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

    def _graph(self, X: Any, target: Indicator, affinity: Any) -> Any:
        raise NotImplementedError

    def _solve(self, graph: Any, r: int) -> Eigenmap:
        """Return the r best eigenpairs of a graph without nodes of degree 0."""
        components = graph.components()
        if not self._in_pieces_by_design():
            self._warn_of_components(components)
        return smallest_eigenpairs(graph, r, components)

    def _in_pieces_by_design(self) -> bool:
        return False

    def _warn_of_components(self, components: Components) -> None:
        if len(components.sizes) > 1:
            warn_caller(
                f"The graph of {self._linked} has {components.describe()}; the embedding separates them "
                "first. A larger n_neighbors may join them.",
            )

    def _span(self, graph: Any) -> tuple[int, str]:
        """Return how many points the eigenvectors can separate at most, and what these points are."""
        return len(graph.degree), "items with links"

    def _item_coordinates(
        self, Z: NDArray[np.float64], nodes: NDArray[np.intp], target: Indicator
    ) -> NDArray[np.float64]:
        """Select the coordinates of the items from those of all linked nodes."""
        return Z

    def _extension(self) -> tuple[NDArray[np.float64], float | None]:
        """For "nystrom": return μ of L z = μ D z and the width of the weights, None for equal weights."""
        return self.eigenvalues_, None

    def _check_items(self, X: Any, reset: bool) -> Any:
        X = super()._check_items(X, reset)
        return load_rows(X) if isinstance(X, RowBlocks) else X

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_neighbors", self.n_neighbors, ("auto",))
        check_not_negative("alpha", self.alpha)
        check_positive("gamma", self.gamma, ("auto",))

    def _check_classes(self, target: Indicator) -> None:
        r, n, name = self.n_components, len(target.Y), type(self).__name__
        if n < 2:
            raise InvalidInput(f"A graph needs two or more items, found n_samples={n}; add items.")
        if self._one_class_per_item:
            check_one_class_per_item(target, name, "CCDR or SLEML")
        if self._supervised:
            self._check_two_classes(target)
        if r is not None and r > n - 1:
            raise TooManyComponents(
                f"n_components={r} exceeds n-1={n - 1} for {name}; lower it or add items.", n - 1
            )

    def _resolve_neighbors(self, target: Indicator) -> int:
        if self.n_neighbors == "auto":
            return auto_neighbors(target)
        return check_neighbors(self.n_neighbors, len(target.Y))

    def _resolve_components(self, graph: Any, target: Indicator) -> int:
        r, (points, found) = self.n_components, self._span(graph)
        if points < 2:
            raise InvalidInput(
                f"{type(self).__name__} finds {points} {found}: there is nothing to separate. Label more "
                "items, or use the features (a balance above 0)."
            )
        if r is None:
            return max(1, min(target.n_classes, points) - 1)
        if r > points - 1:
            raise TooManyComponents(
                f"n_components={r} exceeds the {points - 1} dimensions that {points} {found} span; lower it.",
                points - 1,
            )
        return int(r)

    def _fit_map(self, X: Any, Z: NDArray[np.float64]) -> None:
        if self.out_of_sample == "linear":
            self.projection_, self.intercept_ = fit_linear_map(X, Z, float(self.alpha))
        elif self.out_of_sample == "nystrom":
            eigenvalues, _ = self._extension()
            if eigenvalues[-1] > _LARGEST_NYSTROM_EIGENVALUE:
                j = int(np.argmax(eigenvalues > _LARGEST_NYSTROM_EIGENVALUE))
                fewer = f"at most {j} components, or " if j else ""
                raise InvalidInput(
                    f'out_of_sample="nystrom" divides by 1 - μ, but component {j} has μ = '
                    f"{eigenvalues[j]:.6g}; use {fewer}another out_of_sample."
                )
            self.reference_items_, self.reference_values_ = X, Z
        else:
            self.gamma_ = default_gamma(X) if self.gamma == "auto" else float(self.gamma)
            self.reference_items_ = spread_landmarks(X)
            self.reference_values_, self.intercept_ = fit_kernel_map(
                X, Z, self.reference_items_, self.gamma_, float(self.alpha)
            )

    def _place(self, X: Any) -> NDArray[np.float64]:
        if self.out_of_sample == "linear":
            return np.asarray(X @ self.projection_) + self.intercept_
        if self.out_of_sample == "nystrom":
            return place_by_neighbors(
                self.reference_items_, self.reference_values_, *self._extension(), self.n_neighbors_, X
            )
        kernel = Kernel("rbf", self.gamma_)
        return place_by_kernel(kernel, X, self.reference_items_, self.reference_values_) + self.intercept_

    def _with_alone(
        self, X: Any, Z: NDArray[np.float64], linked: NDArray[np.intp], target: Indicator
    ) -> NDArray[np.float64]:
        """Return the coordinates of all items; items without links are placed by the out-of-sample map."""
        alone = np.setdiff1d(np.arange(X.shape[0]), linked)
        unexpected = alone if self._links_unlabeled else alone[target.labeled[alone]]
        if len(unexpected):
            warn_caller(
                f"{len(unexpected)} of {X.shape[0]} items have no link to any other item (the first is row "
                f"{unexpected[0]}); the out-of-sample map ({self.out_of_sample}) places them.",
            )
        embedding = np.empty((X.shape[0], Z.shape[1]))
        embedding[linked] = Z
        embedding[alone] = self._place(X[alone])
        return embedding

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)


def _linked_nodes(degree: NDArray[np.float64]) -> NDArray[np.intp]:
    linked = np.flatnonzero(degree > 0)
    if len(linked) < 2:
        raise InvalidInput(
            "The graph links no two items; give an affinity with edges, or shared labels and a method that "
            "uses them (a balance below 1)."
        )
    return linked
