"""What every linear embedding shares: input checks, the number of components, `transform`, tags.

What the discriminant methods with a graph share: where it comes from, and how sigma is chosen.

What all classifiers of partly labeled items share: the accuracy on labeled rows, scikit-learn's tags.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.checks import check_choice, check_count, check_sample_weight, validate_items
from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.graph.affinity import (
    GraphFamily,
    check_sigma_choice,
    graph_family,
    kernel_graph_family,
    resolve_graph,
)
from embedding_core.graph.supplied import warn_of_unlinked
from embedding_core.labels import (
    Indicator,
    as_indicator,
    check_columns,
    check_one_row_each,
    given_as_columns,
    in_given_form,
)
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


class GraphEmbedding(LinearEmbedding):
    """Base of the methods that take an affinity or build a graph by `graph`, `n_neighbors` and `sigma`."""

    graph: str
    n_neighbors: int
    sigma: float | str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_neighbors", self.n_neighbors)
        check_sigma_choice(self.sigma)

    def _affinity(self, X: Any, affinity: Any, score: Callable[[Any], float]) -> Any:
        """W, given or built from X; `score` rates a graph for sigma="cv"."""
        if affinity is None and isinstance(X, RowBlocks):
            raise InvalidInput(
                f"X comes in blocks of rows and no affinity is given; finding neighbors of {X.shape[0]} "
                "items needs them in memory. Pass affinity, or X as an array."
            )
        W, self.sigma_ = resolve_graph(affinity, X.shape[0], lambda: self._family(X), self.sigma, score)
        warn_of_unlinked(W)
        return W

    def _family(self, X: Any) -> GraphFamily:
        """Pairs to link where no affinity is given."""
        if getattr(self, "kernel", "linear") == "precomputed":
            return kernel_graph_family(np.asarray(X, dtype=np.float64), self.graph, self.n_neighbors)
        return graph_family(X, self.graph, self.n_neighbors)


class PartialLabelsMixin(ClassifierMixin):
    """A classifier of classes (n,) or label columns (n, K) that knows -1 in `score` as it does in `fit`.

    Subclasses set `classes_` and `multi_label_`.
    """

    classes_: NDArray[Any]
    multi_label_: bool

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labeled rows; with label columns a row is right where all its labels are.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)
        y : array-like of shape (m,) or (m, K)
            In the form that `fit` was given. Unlabeled rows (-1) do not count; one at least is labeled.
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
            In [0, 1].
        """
        predicted = self.predict(X)
        target = as_indicator(y)
        check_one_row_each(predicted, target)
        self._check_form(target, given_as_columns(y))
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(predicted))
        times = target.counts(weight)
        if not times.sum() > 0:
            raise InvalidInput(
                "sample_weight is zero for all labeled rows, so none is left to score; give one of them a "
                "positive weight."
            )
        right = predicted == in_given_form(target.Y, target.classes, self.multi_label_)
        return float(np.average(right.all(axis=1) if self.multi_label_ else right, weights=times))

    def _check_form(self, target: Indicator, columns: bool) -> None:
        """Raise unless labels to score came in the form of those of the fit."""
        if columns != self.multi_label_:
            form = {True: "columns (n, K)", False: "classes (n,)"}
            raise InvalidInput(
                f"y holds {form[columns]}, but {type(self).__name__} was fitted with "
                f"{form[self.multi_label_]}; give y in that form."
            )
        if columns:
            check_columns(target, self.classes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags
