"""Base classes of the comparison projections: optional labels, any number of columns, kernels."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import LinearEmbedding, Solution
from embedding_core.checks import check_positive
from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.labels import UNLABELED, Indicator, as_indicator, check_one_row_each
from embedding_core.linalg.eigen import fix_signs
from embedding_core.linalg.kernel_space import (
    Kernel,
    KernelCoordinates,
    check_precomputed,
    choose_landmarks,
    kernel_coordinates,
    place_by_kernel,
    resolve_gamma,
)
from embedding_core.linalg.row_blocks import RowBlocks, load_rows, project_rows

COLUMNS_WITHOUT_LABELS = 2

_FITTED_BY_KERNEL = ("projection_", "dual_coef_", "basis_items_", "gamma_")


def optional_labels(y: Any, n: int) -> Indicator:
    """Convert labels to an `Indicator`; y may be None or contain only -1."""
    if y is None:
        return _without_labels(n, 0)
    values: NDArray[Any] = np.zeros(0) if sp.issparse(y) else np.asarray(y)
    if values.dtype.kind == "O":
        bare = all(value is None or value == UNLABELED for value in values.flat)
    else:
        bare = values.dtype.kind in "if" and bool((values == UNLABELED).all())
    if values.size and bare:
        return _without_labels(len(values), values.shape[1] if values.ndim == 2 else 0)
    return as_indicator(y)


def labeled_part(X: Any, target: Indicator) -> tuple[Any, NDArray[np.float64]]:
    """Return the labeled items and their labels (l, K) in float64; labeled rows of RowBlocks are loaded."""
    labeled = target.labeled
    if not labeled.all():
        X = load_rows(X, labeled) if isinstance(X, RowBlocks) else X[labeled]
    return X, target.Y[labeled].astype(np.float64)


def _without_labels(n: int, K: int) -> Indicator:
    return Indicator(np.full((n, K), UNLABELED, dtype=np.int8), np.zeros(n, dtype=bool), np.arange(K))


class SubspaceEmbedding(LinearEmbedding):
    """A linear embedding that may have more columns than the K-1 of a discriminant.

    `_supervised` tells whether `fit` needs labels, `_directions` describes its directions in messages, and
    `_flags` names its boolean parameters.
    """

    _supervised: ClassVar[bool] = True
    _directions: ClassVar[str] = "in which features and labels vary together"
    _flags: ClassVar[tuple[str, ...]] = ()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self._flags:
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise InvalidInput(f"{name}={value!r} is not legal; give True or False.")

    def _check_inputs(self, X: Any, y: Any) -> tuple[Any, Indicator]:
        if self._supervised:
            return super()._check_inputs(X, y)
        self._check_parameters()
        X = self._check_items(X, reset=True)
        target = optional_labels(y, X.shape[0])
        check_one_row_each(X, target)
        return X, target

    def _check_classes(self, target: Indicator) -> None:
        """Accept any labels; the rank shows whether they carry information."""

    def _n_columns(self, target: Indicator, rank: int) -> int:
        """Return the number of columns to keep out of `rank`."""
        if rank == 0:
            raise InvalidInput(
                f"{type(self).__name__} finds no direction {self._directions} (n_samples={len(target.Y)}); "
                "add items, features or labels that vary."
            )
        r = self.n_components
        if r is None:
            return min(max(target.n_classes - 1, 1) if target.n_classes else COLUMNS_WITHOUT_LABELS, rank)
        if r > rank:
            raise TooManyComponents(
                f"n_components={r} exceeds the {rank} directions {self._directions}; lower it, or set it to "
                "None.",
                rank,
            )
        return r

    def _store(self, X: Any, target: Indicator, solution: Solution) -> Self:
        """Fix the signs and set the fitted attributes; all columns of the solution are kept."""
        self.projection_ = fix_signs(solution.projection)
        self.eigenvalues_ = solution.eigenvalues.copy()
        self.embedding_ = project_rows(X, self.projection_)
        self.classes_ = target.classes
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._supervised
        return tags


class KernelEmbedding(SubspaceEmbedding):
    """Base class of methods with a kernel: q = projection_^T x, or q = dual_coef_^T k(basis_items_, x).

    A subclass obtains the coordinates of the items in feature space from `_span`, solves its linear form
    there and passes the directions to `_store_dual`.
    """

    kernel: str
    gamma: float | str
    landmarks: Any
    random_state: Any

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Map items to the embedding.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)
            For kernel="precomputed" the kernel between these items and those of `fit`, (m, n).

        Returns
        -------
        ndarray of shape (m, r)
        """
        check_is_fitted(self)
        if self.kernel == "linear":
            return super().transform(X)
        return self._by_kernel(self._check_items(X, reset=False))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("gamma", self.gamma, ("scale",))

    def _check_items(self, X: Any, reset: bool) -> Any:
        X = super()._check_items(X, reset)
        if self.kernel == "precomputed" and sp.issparse(X):
            raise InvalidInput("Precomputed kernel values must be dense, X is sparse; pass X.toarray().")
        if self.kernel != "linear" and not (isinstance(X, np.ndarray) or sp.issparse(X)):
            raise InvalidInput(
                f"X is a {type(X).__name__}; a kernel needs the items in memory. Pass an array or a CSR "
                "matrix."
            )
        return X

    def _forget(self) -> None:
        """Delete the attributes of an earlier fit with another kernel."""
        for name in _FITTED_BY_KERNEL:
            self.__dict__.pop(name, None)

    def _span(self, X: Any, usable: NDArray[np.bool_]) -> KernelCoordinates:
        """Return all items in the span of the usable ones, or of landmarks among them; sets `gamma_`."""
        if self.kernel == "precomputed":
            X = check_precomputed(X).astype(np.float64)
        elif self.kernel == "rbf":
            self.gamma_ = resolve_gamma(X[usable], self.gamma)
        chosen = choose_landmarks(self.landmarks, X.shape[0], usable, self.random_state)
        return kernel_coordinates(self._kernel, X, chosen)

    def _store_dual(
        self,
        X: Any,
        target: Indicator,
        span: KernelCoordinates,
        directions: NDArray[np.float64],
        eigenvalues: NDArray[np.float64],
    ) -> None:
        """Set the fitted attributes of a kernel form; `directions` are in coordinates of `span`."""
        self.dual_coef_ = fix_signs(span.expand(directions))
        self.basis_items_ = self._kernel.take(X, span.heads)
        self.eigenvalues_ = eigenvalues
        self.classes_ = target.classes
        self.embedding_ = self._by_kernel(X)

    def _by_kernel(self, X: Any) -> NDArray[np.float64]:
        return place_by_kernel(self._kernel, X, self.basis_items_, self.dual_coef_)

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma_ if self.kernel == "rbf" else 1.0)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
