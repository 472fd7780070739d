"""What the comparison projections share: labels that may be missing, and as many columns as there are.

Projections that are linear in the features or in the feature space of a kernel.
"""

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


def optional_labels(y: Any, n: int) -> Indicator:
    """Labels in one form, also where there are none: y is None or holds -1 alone."""
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
    """Labeled items and their labels (l, K) in float64; of RowBlocks they are brought into memory."""
    labeled = target.labeled
    if not labeled.all():
        X = load_rows(X, labeled) if isinstance(X, RowBlocks) else X[labeled]
    return X, target.Y[labeled].astype(np.float64)


def _without_labels(n: int, K: int) -> Indicator:
    return Indicator(np.full((n, K), UNLABELED, dtype=np.int8), np.zeros(n, dtype=bool), np.arange(K))


class SubspaceEmbedding(LinearEmbedding):
    """A linear embedding whose columns may outnumber the K-1 of a discriminant.

    `_supervised` says whether `fit` needs labels, `_directions` what its directions are, for messages;
    `_flags` names the parameters that are True or False.
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
        """Any labels will do; whether they tell anything, the rank says."""

    def _n_columns(self, target: Indicator, rank: int) -> int:
        """Columns to keep of the `rank` there are."""
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
                f"n_components={r} exceeds the {rank} directions {self._directions}; lower it, or leave it "
                "at None.",
                rank,
            )
        return r

    def _store(self, X: Any, target: Indicator, solution: Solution) -> Self:
        """Fix the signs and set the fitted attributes; the columns are those to keep."""
        self.projection_ = fix_signs(solution.projection)
        self.eigenvalues_ = solution.eigenvalues.copy()
        self.embedding_ = project_rows(X, self.projection_)
        self.classes_ = target.classes
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._supervised
        return tags


_FITTED_BY_KERNEL = ("projection_", "dual_coef_", "basis_items_", "gamma_")


class KernelEmbedding(SubspaceEmbedding):
    """Base of the methods with a kernel: q = projection_^T x, or q = dual_coef_^T k(basis_items_, x).

    A subclass asks `_span` for the items in coordinates of feature space, solves its linear form there and
    hands the directions to `_store_dual`.
    """

    kernel: str
    gamma: float | str
    landmarks: Any
    random_state: Any

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Place items in the embedding.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)
            For kernel="precomputed" the kernel of these items with those of `fit`, (m, n).

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
            raise InvalidInput("Precomputed kernel values came sparse; they must be dense: pass X.toarray().")
        if self.kernel != "linear" and not (isinstance(X, np.ndarray) or sp.issparse(X)):
            raise InvalidInput(
                f"X is a {type(X).__name__}; a kernel needs the items in memory. Pass an array or a CSR "
                "matrix."
            )
        return X

    def _forget(self) -> None:
        """Drop what a former fit with another kernel left."""
        for name in _FITTED_BY_KERNEL:
            self.__dict__.pop(name, None)

    def _span(self, X: Any, usable: NDArray[np.bool_]) -> KernelCoordinates:
        """All items in the span of the usable ones, or of landmarks among them; sets `gamma_`."""
        if self.kernel == "precomputed":
            X = check_precomputed(X).astype(np.float64)
        else:
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
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
