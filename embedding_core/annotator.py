"""The model that annotates items: scaling, a method of the registry, and neighbors in its embedding."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels, as_labeled_features, decide_labels
from embedding_core.labels import rows_without_one_label
from embedding_core.model_selection.thresholds import shift_scores
from embedding_core.registry import METHODS, Method, get_method
from embedding_core.scaling import Features, Scaler, as_features

SKOPS_TRUSTED_TYPES: tuple[str, ...] = tuple(
    sorted(
        {
            # Sparse rows that a neighbor classifier keeps; skops reads them without unpickling.
            "scipy.sparse._csr.csr_array",
            "scipy.sparse._csr.csr_matrix",
            "embedding_core.annotator.Annotator",
            "embedding_core.knn_classifier.NeighborLabels",
            "embedding_core.scaling.Scaler",
            # What a fitted kernel DLE is made of.
            "embedding_core.kernel_dle.classifier.Calibration",
            "embedding_core.kernel_dle.estimator.KernelDLE",
            "embedding_core.kernel_dle.kernels.MixedKernel",
            "embedding_core.kernel_dle.kernels.FeatureMetric",
            "embedding_core.kernel_dle.classifier.NeighborVotes",
            "embedding_core.kernel_dle.solution.KernelExpansion",
            *(method.type_name for method in METHODS.values()),
        }
    )
)
"""What a saved annotator may hold beyond skops' own list: our classes and CSR matrices. Refuse all else."""


def _check_labels(method: Method, Y: NDArray[np.int8], labeled: NDArray[np.bool_]) -> None:
    """Refuse labels that the method cannot take."""
    odd = len(rows_without_one_label(Y))
    if odd and not method.multi_label:
        others = ", ".join(other.name for other in METHODS.values() if other.multi_label)
        raise InvalidInput(
            f"method {method.name} takes exactly one class a row, but {odd} of {labeled.sum()} labeled "
            f"rows carry none or several; choose one of {others}."
        )


def _check_affinity(affinity: Any, n: int) -> None:
    if affinity is not None and np.shape(affinity) != (n, n):
        raise InvalidInput(
            f"affinity has shape {np.shape(affinity)}; expected ({n}, {n}), one row and column an item."
        )


def _check_thresholds(thresholds: ArrayLike | None, n_labels: int) -> None:
    if thresholds is None:
        return
    given = np.asarray(thresholds, dtype=np.float64)
    if given.shape != (n_labels,) or np.isnan(given).any():
        raise InvalidInput(
            f"thresholds={given.tolist()} for {n_labels} labels; give one number a label, infinite for never."
        )


class Annotator(BaseEstimator):
    """Learn from the labeled rows of a collection, annotate others.

    Parameters
    ----------
    method : str
        A name of `embedding_core.registry.METHODS`.
    params : mapping, optional
        Parameters of the method.
    scale : {"none", "zscore", "unit"}
        Scaling in front of the method, see `Scaler`; a method with a scaling of its own sees X as it is.
    n_neighbors, weights
        Neighbors asked in the embedding, see `NeighborLabels`; classifiers answer themselves.
    single_label : bool
        Every item carries exactly one label: `predict` then returns the best-scored one.
    label_names : sequence of str, optional
        Names of the K labels.
    recipe : mapping, optional
        How the features were made. Kept with the model, not interpreted.
    thresholds : (K,) array-like, optional
        What the score of each label has to pass for yes, see `decisions.tune_thresholds`; default: one half.
        Single labels are decided by the best score whatever the thresholds.

    Attributes
    ----------
    scaler_ : Scaler
    model_ : estimator
        The fitted method.
    neighbors_ : NeighborLabels
        Over the labeled rows, placed as new rows will be; projections alone.
    classes_ : (K,) array
        Label names, else what the labels were called in Y.
    n_features_in_ : int

    Notes
    -----
    A method that uses the graph, or that knows the rows of its fit alone, is fitted on all rows; every other
    one, its scaling included, on the labeled rows.

    Coordinates are compared with coordinates of their own kind. An eigenmap has two: `embedding_`, exact, for
    the rows of its fit alone, and `transform`, an approximation, for any row. New rows are placed by
    `transform`, so the labeled rows they are compared with are too; for linear methods the two agree.

    With thresholds `predict_scores` moves the scores so that one half means yes, see `shift_scores`. The
    labels of an item are then ranked by how far they pass their thresholds.

    Examples
    --------
    >>> model = Annotator("1nn", label_names=["sky", "sea"]).fit([[0.0], [1.0]], [[1, 0], [1, 1]])
    >>> model.predict([[0.1]])
    array([[1, 0]], dtype=int8)
    """

    def __init__(
        self,
        method: str = "mlda",
        params: Mapping[str, Any] | None = None,
        scale: str = "none",
        n_neighbors: int = 1,
        weights: str = "uniform",
        single_label: bool = False,
        label_names: Sequence[str] | None = None,
        recipe: Mapping[str, Any] | None = None,
        thresholds: ArrayLike | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.scale = scale
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.single_label = single_label
        self.label_names = label_names
        self.recipe = recipe
        self.thresholds = thresholds

    def fit(self, X: Any, Y: ArrayLike, affinity: Any = None) -> Self:
        """Fit on X (n, p), Y (n, K) with rows of -1 unlabeled; affinity (n, n) for methods with a graph."""
        method = get_method(self.method)
        X, indicator = as_labeled_features(X, Y)
        _check_affinity(affinity, X.shape[0])
        _check_labels(method, indicator.Y, indicator.labeled)
        self.classes_ = self._name_classes(indicator.classes)
        _check_thresholds(self.thresholds, len(self.classes_))
        self.n_features_in_ = X.shape[1]
        Y_seen = indicator.Y
        if not (method.sees_all_rows or indicator.labeled.all()):
            X, Y_seen = X[indicator.labeled], Y_seen[indicator.labeled]
        self.scaler_ = Scaler(method.input_scale(self.scale)).fit(X)
        graph = {"affinity": affinity} if method.uses_graph else {}
        scaled = self.scaler_.transform(X)
        self.model_ = method.build(**(self.params or {})).fit(scaled, Y_seen, **graph)
        if method.role == "projection":
            neighbors = NeighborLabels(self.n_neighbors, self.weights)
            known = (Y_seen >= 0).all(axis=1)
            Z = self.model_.transform(scaled[known]) if method.inductive else self.model_.embedding_[known]
            self.neighbors_ = neighbors.fit(Z, Y_seen[known])
        return self

    def _name_classes(self, classes: ArrayLike) -> NDArray[Any]:
        if self.label_names is None:
            return np.asarray(classes)
        n_classes = len(np.asarray(classes))
        if len(self.label_names) != n_classes:
            raise InvalidInput(
                f"{len(self.label_names)} label names for {n_classes} labels; give one a label."
            )
        return np.asarray([str(name) for name in self.label_names])

    def _scale_new(self, X: Any) -> Features:
        if not get_method(self.method).inductive:
            raise InvalidInput(
                f"method {self.method} knows the rows of its fit alone and cannot take new ones; "
                "fit it on these rows too, or choose an inductive method."
            )
        return self.scaler_.transform(as_features(X, self.n_features_in_))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Coordinates (m, r) of new items in the embedding."""
        if get_method(self.method).role != "projection":
            raise InvalidInput(
                f"method {self.method} is a classifier and has no embedding; choose a projection."
            )
        scaled = self._scale_new(X)
        return self.model_.transform(scaled)

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores (m, K) of the labels of new items, in [0, 1]."""
        scores = self._raw_scores(X)
        # Models that were kept before there were thresholds lack the attribute.
        thresholds = getattr(self, "thresholds", None)
        if thresholds is None or self.single_label:
            return scores
        return shift_scores(scores, np.asarray(thresholds, dtype=np.float64))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Labels (m, K) of new items, 0/1: scores above one half, or the best one where labels are single."""
        return decide_labels(self.predict_scores(X), self.single_label)

    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        if get_method(self.method).role == "projection":
            return self.neighbors_.predict_scores(self.transform(X))
        scaled = self._scale_new(X)
        return self.model_.predict_scores(scaled)
