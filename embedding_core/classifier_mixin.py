"""What all classifiers of partly labeled items share: the accuracy on labeled rows, scikit-learn's tags."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags

from embedding_core.checks import check_sample_weight
from embedding_core.errors import InvalidInput
from embedding_core.labels import (
    Indicator,
    as_indicator,
    check_columns,
    check_one_row_each,
    given_as_columns,
    in_given_form,
)


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
