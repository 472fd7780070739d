"""A classifier of the registry on features that are propagated along links."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from embedding_core.annotator import Annotator
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.propagation import RESTARTS, STEPS, LinkPropagation
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.labels import one_label_each

NEIGHBORS = 10
"""Neighbors in the graph that replaces links if there are none."""


class PropagatedClassifier(BaseEstimator):
    """Classifier on features that are propagated along the links of all items.

    With `restarts=(0,)` and `steps=2` features are averaged over two links; logistic regression on them is
    the simplified graph convolution of [1]_.

    Parameters
    ----------
    classifier : str
        A classifier of the registry that is inductive.
    params : mapping, optional
        Its parameters.
    restarts, steps
        See `LinkPropagation`.
    input_scale : {"zscore", "none"}
        "none" tells that the features are prepared and must not be scaled again.

    Attributes
    ----------
    propagation_ : LinkPropagation
    annotator_ : Annotator
    transduction_scores_ : ndarray of shape (n, K)
        Scores of all items of the fit, with their links.
    n_features_in_ : int

    Notes
    -----
    Features of unlabeled items take part in the propagation, their labels do not. New items are placed by
    their links, or by their own features without links. Without an affinity, nearest neighbors take the
    place of links.

    References
    ----------
    .. [1] F. Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019.
    """

    takes_links = True
    """Whether `predict_scores` takes the links of new items."""

    def __init__(
        self,
        classifier: str = "logistic_regression",
        params: Mapping[str, Any] | None = None,
        restarts: Sequence[float] = RESTARTS,
        steps: int = STEPS,
        input_scale: str = "zscore",
    ) -> None:
        self.classifier = classifier
        self.params = params
        self.restarts = restarts
        self.steps = steps
        self.input_scale = input_scale

    def fit(self, X: Any, Y: ArrayLike, affinity: Any = None) -> Self:
        """Fit on X (n, p), Y (n, K) with rows of -1 unlabeled, and the links of all items (n, n)."""
        X, indicator = as_labeled_features(X, Y)
        if affinity is None:
            affinity = build_knn_graph(X, min(NEIGHBORS, X.shape[0] - 1))
        scale = "auto" if self.input_scale == "zscore" else self.input_scale
        self.propagation_ = LinkPropagation(restarts=self.restarts, steps=self.steps, scale=scale)
        P = self.propagation_.fit_transform(X, affinity)
        annotator = Annotator(self.classifier, self.params, single_label=one_label_each(indicator.Y))
        self.annotator_ = annotator.fit(P, indicator.Y)
        self.transduction_scores_ = self.annotator_.predict_scores(P)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_scores(self, X: Any, links: Any = None) -> NDArray[np.float64]:
        """Return scores (m, K) of new items; `links` (m, n) or (m, n + m) as for `LinkPropagation`."""
        return self.annotator_.predict_scores(self.propagation_.transform(X, links))

    def predict(self, X: Any, links: Any = None) -> NDArray[np.int8]:
        """Return the labels (m, K) of new items."""
        return decide_labels(self.predict_scores(X, links))
