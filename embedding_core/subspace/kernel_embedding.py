"""Projections that are linear in the features or in the feature space of a kernel."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.checks import check_positive
from embedding_core.errors import InvalidInput
from embedding_core.labels import Indicator
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
from embedding_core.subspace.embedding import SubspaceEmbedding

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
