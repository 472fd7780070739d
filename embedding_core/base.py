"""Base classes: linear embeddings, embeddings that use a graph, classifiers of partly labeled items."""

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
    """Solution of an eigenproblem: a projection (p, r), best column first, and its eigenvalues (r,)."""

    projection: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


class LinearEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of the methods whose result is one matrix: q = projection_^T x.

    A subclass solves its problem in `fit` and passes the result to `_store`. `_legal` declares the legal
    values of its categorical parameters.
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    n_components: int | None

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Project items into the embedding.

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
        """Check shape and dtype only; each pass over the blocks checks the values."""
        if X.dtype not in (np.float32, np.float64):
            raise InvalidInput(f"The blocks of X contain {X.dtype}; use float32 or float64.")
        n, p = X.shape
        if n <= p:  # solved in the row space, which is no larger than a p x p matrix: load X
            return self._check_items(load_rows(X), reset)
        first = next((block for _, block in X.iter_blocks() if len(block)), np.empty((0, p), X.dtype))
        self._check_items(first, reset)
        return X

    def _check_inputs(self, X: Any, y: Any) -> tuple[Any, Indicator]:
        """Validate parameters, then items, then labels."""
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
                f"y has {found}; {type(self).__name__} separates classes and needs at least two. Label items "
                "of another class."
            )

    def _weigh_labels(
        self, target: Indicator, sample_weight: Any
    ) -> tuple[Indicator, NDArray[np.float64] | None]:
        """Return labels and weights (n,).

        Items of weight 0 become unlabeled; at least two classes must remain.
        """
        if sample_weight is None:
            return target, None
        weight = check_sample_weight(sample_weight, len(target.Y))
        left = np.flatnonzero((target.Y[weight > 0] == 1).any(axis=0))
        if len(left) < 2:
            others = f" except those of class {target.classes[left[0]]}" if len(left) else ""
            raise InvalidInput(
                f"sample_weight is zero for all labeled items{others}; {type(self).__name__} separates "
                "classes and needs items of two or more classes with a positive weight."
            )
        return target.hide(np.flatnonzero(weight == 0)), weight

    def _store(self, X: Any, target: Indicator, solution: Solution) -> Self:
        """Keep the first `n_components` columns, fix their signs and set the fitted attributes."""
        rank = solution.projection.shape[1]
        if rank == 0:
            raise InvalidInput(
                f"{type(self).__name__} finds no direction that separates the classes: the class means "
                "coincide, or differ only in features that are constant within each class. Add items or "
                "features."
            )
        r = self.n_components
        if r is not None and r > rank:
            raise TooManyComponents(
                f"n_components={r} exceeds the {rank} directions in which the classes differ "
                f"({X.shape[1]} features, {target.n_classes} classes); lower it or set it to None.",
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
        return int(self.projection_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


class GraphEmbedding(LinearEmbedding):
    """Base class of methods that take an affinity or build a graph by `graph`, `n_neighbors` and `sigma`."""

    graph: str
    n_neighbors: int
    sigma: float | str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_neighbors", self.n_neighbors)
        check_sigma_choice(self.sigma)

    def _affinity(self, X: Any, affinity: Any, score: Callable[[Any], float]) -> Any:
        """Return W, supplied or built from X. `score` rates a graph for sigma="cv"."""
        if affinity is None and isinstance(X, RowBlocks):
            raise InvalidInput(
                f"X is read in blocks of rows and no affinity is given; finding the neighbors of "
                f"{X.shape[0]} items needs X in memory. Pass affinity, or X as an array."
            )
        W, self.sigma_ = resolve_graph(affinity, X.shape[0], lambda: self._family(X), self.sigma, score)
        warn_of_unlinked(W)
        return W

    def _family(self, X: Any) -> GraphFamily:
        """Return the candidate graphs for the case that no affinity is supplied."""
        if getattr(self, "kernel", "linear") == "precomputed":
            return kernel_graph_family(np.asarray(X, dtype=np.float64), self.graph, self.n_neighbors)
        return graph_family(X, self.graph, self.n_neighbors)


class PartialLabelsMixin(ClassifierMixin):
    """Classifier mixin that accepts -1 (unlabeled) in `score` as well as in `fit`.

    Labels are classes (n,) or label columns (n, K). A subclass sets `classes_` and `multi_label_`.
    """

    classes_: NDArray[Any]
    multi_label_: bool

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the labeled rows (subset accuracy for label columns).

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)
        y : array-like of shape (m,) or (m, K)
            Same form as in `fit`. Unlabeled rows (-1) are ignored; at least one row must be labeled.
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
                "sample_weight is zero for all labeled rows, so there is nothing to score; give at least one "
                "labeled row a positive weight."
            )
        right = predicted == in_given_form(target.Y, target.classes, self.multi_label_)
        return float(np.average(right.all(axis=1) if self.multi_label_ else right, weights=times))

    def _check_form(self, target: Indicator, columns: bool) -> None:
        """Raise InvalidInput if the labels to score are not in the form that `fit` received."""
        if columns != self.multi_label_:
            form = {True: "columns (n, K)", False: "classes (n,)"}
            raise InvalidInput(
                f"y contains {form[columns]}, but {type(self).__name__} was fitted with "
                f"{form[self.multi_label_]}; pass y in that form."
            )
        if columns:
            check_columns(target, self.classes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags
