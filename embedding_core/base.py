"""What every linear embedding shares: input checks, the number of components, `transform`, tags."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.checks import check_choice, check_count, check_sample_weight, validate_items
from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.labels import Indicator, as_indicator, check_one_row_each
from embedding_core.linalg.eigen import fix_signs
from embedding_core.linalg.row_blocks import RowBlocks, load_rows, project_rows


@dataclass(frozen=True)
class Solution:
    """Columns of a projection (p, r), best first, and their eigenvalues (r,)."""

    projection: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


class LinearEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the methods that end in one matrix: q = projection_^T x.

    Subclasses solve in `fit` and hand the result to `_store`. `_legal` declares the legal values of their
    parameters of choice.
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    n_components: int | None

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Place items in the embedding.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix or RowBlocks of shape (m, p)

        Returns
        -------
        ndarray of shape (m, r)
        """
        check_is_fitted(self)
        return project_rows(self._check_items(X, reset=False), self.projection_)

    def _check_items(self, X: Any, reset: bool) -> Any:
        if isinstance(X, RowBlocks):
            return self._check_row_blocks(X, reset)
        return validate_items(self, X, reset)

    def _check_row_blocks(self, X: RowBlocks, reset: bool) -> Any:
        """Check shape and type; every pass over the blocks checks their numbers."""
        if X.dtype not in (np.float32, np.float64):
            raise InvalidInput(f"The blocks of X hold {X.dtype}; give float32 or float64.")
        n, p = X.shape
        if n <= p:  # wide data are solved in their row space, which is no larger than a p x p matrix
            return self._check_items(load_rows(X), reset)
        first = next((block for _, block in X.iter_blocks() if len(block)), np.empty((0, p), X.dtype))
        self._check_items(first, reset)
        return X

    def _check_inputs(self, X: Any, y: Any) -> tuple[Any, Indicator]:
        """Validate parameters, items and labels, in this order."""
        self._check_parameters()
        X = self._check_items(X, reset=True)
        target = as_indicator(y)
        check_one_row_each(X, target)
        self._check_classes(target)
        return X, target

    def _check_parameters(self) -> None:
        for name, legal in self._legal.items():
            check_choice(name, getattr(self, name), legal)
        check_count("n_components", self.n_components, (None,))

    def _check_classes(self, target: Indicator) -> None:
        self._check_two_classes(target)
        r, K = self.n_components, target.n_classes
        if r is not None and r > K - 1:
            raise TooManyComponents(
                f"n_components={r} exceeds K-1={K - 1} for {type(self).__name__}; lower it or add labels.",
                K - 1,
            )

    def _check_two_classes(self, target: Indicator) -> None:
        used = np.flatnonzero((target.Y == 1).any(axis=0))
        if len(used) < 2:
            found = (
                f"1 class with labeled items ({target.classes[used[0]]})" if len(used) else "no labeled item"
            )
            raise InvalidInput(
                f"y has {found}; {type(self).__name__} separates classes and needs two or more. Label items "
                "of another class."
            )

    def _weigh_labels(
        self, target: Indicator, sample_weight: Any
    ) -> tuple[Indicator, NDArray[np.float64] | None]:
        """Labels and weights (n,); items of weight 0 become unlabeled, two or more classes must be left."""
        if sample_weight is None:
            return target, None
        weight = check_sample_weight(sample_weight, len(target.Y))
        left = np.flatnonzero((target.Y[weight > 0] == 1).any(axis=0))
        if len(left) < 2:
            others = f" but those of class {target.classes[left[0]]}" if len(left) else ""
            raise InvalidInput(
                f"sample_weight is zero for all labeled items{others}; {type(self).__name__} separates "
                "classes: give items of two or more a positive weight."
            )
        return target.hide(np.flatnonzero(weight == 0)), weight

    def _store(self, X: Any, target: Indicator, solution: Solution) -> Self:
        """Cut to `n_components`, fix the signs, set the fitted attributes."""
        rank = solution.projection.shape[1]
        if rank == 0:
            raise InvalidInput(
                f"{type(self).__name__} finds no direction that separates the classes: their means coincide, "
                "or differ only where the items of each class do not vary. Add items or features."
            )
        r = self.n_components
        if r is not None and r > rank:
            raise TooManyComponents(
                f"n_components={r} exceeds the {rank} directions in which the classes differ "
                f"({X.shape[1]} features, {target.n_classes} classes); lower it or leave it at None.",
                rank,
            )
        if not np.isfinite(solution.projection[:, :r]).all():
            raise InvalidInput(
                f"The projection of {type(self).__name__} overflows: the features vary too little or too "
                "much for float64. Scale X, for instance to unit variance."
            )
        self.projection_ = fix_signs(solution.projection[:, :r])
        self.eigenvalues_ = solution.eigenvalues[:r].copy()
        self.embedding_ = project_rows(X, self.projection_)
        self.classes_ = target.classes
        return self

    @property
    def _n_features_out(self) -> int:
        return self.projection_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
