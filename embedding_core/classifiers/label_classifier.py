"""Base class of the classifiers without a graph: validated input, 0/1 decisions from scores, tags."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import PartialLabelsMixin
from embedding_core.checks import check_count, validate_items
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.labels import given_as_columns, in_given_form
from embedding_core.scaling import Features


def check_neighbors(n_neighbors: Any, n_labeled: int, n_available: int) -> None:
    """Raise InvalidInput if there are fewer than `n_neighbors` labeled rows to choose neighbors from."""
    check_count("n_neighbors", n_neighbors)
    if n_neighbors > n_available:
        raise InvalidInput(
            f"n_neighbors={n_neighbors} exceeds the {n_available} rows that a row can choose from "
            f"(labeled rows: n_samples={n_labeled}); lower it or label more rows."
        )


class LabelClassifier(PartialLabelsMixin, BaseEstimator, ABC):
    """Base of the classifiers that give each label a score in [0, 1], above one half for yes.

    Subclasses implement `_check_parameters`, `_learn` and `_score`.
    """

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Fit the model on the labeled items.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : object, optional
            Ignored: the method has no graph. Present for API consistency.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, target = as_labeled_features(self._check_items(X, reset=True), y)
        self.multi_label_ = given_as_columns(y)
        self.classes_ = target.classes
        every = target.labeled.all()
        self._learn(X if every else X[target.labeled], target.Y if every else target.Y[target.labeled])
        return self

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Score the labels of items.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)

        Returns
        -------
        ndarray of shape (m, K)
            Scores in [0, 1], above one half for yes; see the Notes of the class.
        """
        check_is_fitted(self)
        return self._score(self._check_items(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels (m, K) in 0/1, or the highest-scored classes (m,) if `fit` was given classes (n,)."""
        labels = decide_labels(self.predict_scores(X), single_label=not self.multi_label_)
        return in_given_form(labels, self.classes_, self.multi_label_)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise InvalidInput for invalid parameters, independent of the items."""

    @abstractmethod
    def _learn(self, X: Features, Y: NDArray[np.int8]) -> None:
        """Set the fitted attributes from labeled items (n, p) and their labels (n, K)."""

    @abstractmethod
    def _score(self, X: Features) -> NDArray[np.float64]:
        """Return scores (m, K) of validated items."""

    def _check_items(self, X: Any, reset: bool) -> Features:
        return validate_items(self, X, reset)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
