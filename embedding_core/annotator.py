"""The model that annotates items: scaling, a method of the registry, and neighbors in its embedding."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from embedding_core.blocks import replaces_own_scaling
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels, as_labeled_features, decide_labels
from embedding_core.labels import rows_without_one_label
from embedding_core.linalg.row_blocks import RowView, take_rows, view_rows
from embedding_core.model_selection.thresholds import exceed_thresholds
from embedding_core.preprocessing import Preprocessor
from embedding_core.registry import METHODS, get_method
from embedding_core.registry.method import Method
from embedding_core.scaling import Features, Scaler, as_features

SKOPS_TRUSTED_TYPES: tuple[str, ...] = tuple(
    sorted(
        {
            # Sparse rows stored by a neighbor classifier; skops reads them without unpickling.
            "scipy.sparse._csr.csr_array",
            "scipy.sparse._csr.csr_matrix",
            "embedding_core.annotator.Annotator",
            "embedding_core.knn_classifier.NeighborLabels",
            "embedding_core.scaling.Scaler",
            "embedding_core.scaling.TfIdf",
            "embedding_core.model_selection.calibration.Calibration",
            "embedding_core.preprocessing.Preprocessor",
            # Parts of a fitted kernel DLE.
            "embedding_core.kernel_dle.estimator.KernelDLE",
            "embedding_core.kernel_dle.kernels.MixedKernel",
            "embedding_core.kernel_dle.kernels.FeatureMetric",
            "embedding_core.kernel_dle.links.LinkedRows",
            "embedding_core.kernel_dle.links.MeanKernel",
            "embedding_core.kernel_dle.links.PropagatedKernel",
            "embedding_core.graph.propagation.LinkPropagation",
            "embedding_core.kernel_dle.classifier.NeighborVotes",
            "embedding_core.kernel_dle.solution.KernelExpansion",
            *(method.type_name for method in METHODS.values()),
        }
    )
)
"""Types that a saved annotator may contain beyond skops' own list: our classes and CSR matrices."""


def _check_labels(method: Method, Y: NDArray[np.int8], labeled: NDArray[np.bool_]) -> None:
    """Raise InvalidInput for labels that the method does not support."""
    odd = len(rows_without_one_label(Y))
    if odd and not method.multi_label:
        others = ", ".join(other.name for other in METHODS.values() if other.multi_label)
        raise InvalidInput(
            f"method {method.name} takes exactly one class per row, but {odd} of {labeled.sum()} labeled "
            f"rows have none or several; choose one of {others}."
        )


def _check_affinity(affinity: Any, n: int) -> None:
    if affinity is not None and np.shape(affinity) != (n, n):
        raise InvalidInput(
            f"affinity has shape {np.shape(affinity)}; expected ({n}, {n}), one row and column per item."
        )


def _check_thresholds(thresholds: ArrayLike | None, n_labels: int) -> None:
    if thresholds is None:
        return
    given = np.asarray(thresholds, dtype=np.float64)
    if given.shape != (n_labels,) or np.isnan(given).any():
        raise InvalidInput(
            f"thresholds={given.tolist()} for {n_labels} labels; give one number per label, inf for never."
        )


class Annotator(BaseEstimator):
    """Classifier for a partly labeled collection, built from any method of the registry.

    Parameters
    ----------
    method : str
        A name of `embedding_core.registry.METHODS`.
    params : mapping, optional
        Parameters of the method.
    scale : {"none", "zscore", "unit"}
        Scaling before the method, see `Scaler`; methods with their own scaling see X unscaled.
    n_neighbors, weights
        Nearest neighbors in the embedding, see `NeighborLabels`; not used by classifiers.
    single_label : bool
        Every item has exactly one label: `predict` then returns the highest-scored one.
    label_names : sequence of str, optional
        Names of the K labels.
    recipe : mapping, optional
        How the features were made. Stored with the model, not interpreted.
    thresholds : (K,) array-like, optional
        Decision threshold of each label, see `embedding_core.model_selection.threshold_tuning`; one half by
        default. Single labels are decided by the highest score, independent of the thresholds.
    blocks : sequence of mappings, optional
        How blocks of columns are prepared before the method, see `embedding_core.blocks.FeatureBlock`. It
        replaces `scale`. If there are several blocks, methods with their own scaling see the prepared
        features too and do not scale them again.

    Attributes
    ----------
    scaler_ : Scaler or Preprocessor
    model_ : estimator
        The fitted method.
    neighbors_ : NeighborLabels
        Fitted on the labeled rows, placed like new rows; only for projections.
    classes_ : (K,) array
        Label names, or the names of the labels in Y.
    n_features_in_ : int

    Notes
    -----
    A method that uses the graph, or that is not inductive, is fitted on all rows. Every other method,
    including its scaling, is fitted on the labeled rows.

    Only coordinates of the same kind are compared. An eigenmap has two kinds: `embedding_`, exact, only for
    the rows of its fit, and `transform`, an approximation, for any row. New rows are placed by `transform`,
    so the labeled rows that they are compared with are as well; for linear methods both agree.

    Thresholds affect `predict` only. Scores are those of the method, so they keep their ranking and meaning.

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
        blocks: Sequence[Mapping[str, Any]] | None = None,
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
        self.blocks = blocks

    def fit(self, X: Any, Y: ArrayLike, affinity: Any = None) -> Self:
        """Fit on X (n, p), Y (n, K) with rows of -1 unlabeled; affinity (n, n) for graph methods."""
        method = get_method(self.method)
        X, indicator = as_labeled_features(X, Y, missing=bool(self.blocks))
        _check_affinity(affinity, X.shape[0])
        _check_labels(method, indicator.Y, indicator.labeled)
        self.classes_ = self._name_classes(indicator.classes)
        _check_thresholds(self.thresholds, len(self.classes_))
        self.n_features_in_ = X.shape[1]
        Y_seen = indicator.Y
        X = self._view(X) if affinity is not None or not method.uses_graph else X
        if not (method.sees_all_rows or indicator.labeled.all()):
            X, Y_seen = take_rows(X, indicator.labeled), Y_seen[indicator.labeled]
        self.scaler_ = self._make_scaler(method).fit(X, Y_seen)
        graph = {"affinity": affinity} if method.uses_graph else {}
        scaled = self.scaler_.transform(X)
        self.model_ = self._build(method).fit(scaled, Y_seen, **graph)
        if method.role == "projection":
            neighbors = NeighborLabels(self.n_neighbors, self.weights)
            known = (Y_seen >= 0).all(axis=1)
            seen = scaled if known.all() else take_rows(scaled, known)
            Z = self.model_.transform(seen) if method.inductive else self.model_.embedding_[known]
            self.neighbors_ = neighbors.fit(Z, Y_seen[known])
        return self

    def _view(self, X: Features) -> Features:
        """A view of large X if the method reads it by rows: scaled rows are then not copied as a whole."""
        return view_rows(X) if get_method(self.method).by_rows and not self.blocks else X

    def _make_scaler(self, method: Method) -> Scaler | Preprocessor:
        if not self.blocks:
            return Scaler(method.input_scale(self.scale))
        if replaces_own_scaling(self.blocks):
            return Preprocessor(self.blocks)
        return Preprocessor(
            [{**block, "scale": method.input_scale(block.get("scale", "none"))} for block in self.blocks]
        )

    def _build(self, method: Method) -> Any:
        prepared = bool(self.blocks) and replaces_own_scaling(self.blocks or ())
        return method.build(**{**(method.unscaled() if prepared else {}), **(self.params or {})})

    def _name_classes(self, classes: ArrayLike) -> NDArray[Any]:
        if self.label_names is None:
            return np.asarray(classes)
        n_classes = len(np.asarray(classes))
        if len(self.label_names) != n_classes:
            raise InvalidInput(
                f"{len(self.label_names)} label names for {n_classes} labels; give one per label."
            )
        return np.asarray([str(name) for name in self.label_names])

    def _scale_new(self, X: Any) -> Features:
        if not get_method(self.method).inductive:
            raise InvalidInput(
                f"method {self.method} only knows the rows of its fit and cannot take new ones; "
                "fit it on these rows too, or choose an inductive method."
            )
        X = as_features(X, self.n_features_in_, missing=bool(self.blocks))
        return self.scaler_.transform(self._view(X))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return coordinates (m, r) of new items in the embedding."""
        if get_method(self.method).role != "projection":
            raise InvalidInput(
                f"method {self.method} is a classifier and has no embedding; choose a projection."
            )
        scaled = self._scale_new(X)
        coordinates: NDArray[np.float64] = self.model_.transform(scaled)
        return coordinates

    def prepare_features(self, X: Any) -> Features:
        """Return new items as the method sees them: filled, weighed and scaled."""
        scaled = self._scale_new(X)
        return np.asarray(scaled) if isinstance(scaled, RowView) else scaled

    @property
    def uses_links(self) -> bool:
        """Whether links of new items change their scores: the method takes them and did not decline links."""
        return bool(getattr(self.model_, "takes_links", False))

    def predict_scores(self, X: Any, links: Any = None) -> NDArray[np.float64]:
        """Return scores (m, K) of the labels of new items, in [0, 1]; thresholds do not change them.

        `links` (m, n) or (m, n + m) are weights of links to the n items of the fit and to each other, for
        models that use the links of new items (`uses_links`); others ignore them.
        """
        if get_method(self.method).role == "projection":
            return self.neighbors_.predict_scores(self.transform(X))
        scaled = self._scale_new(X)
        given = {"links": links} if links is not None and self.uses_links else {}
        scores: NDArray[np.float64] = self.model_.predict_scores(scaled, **given)
        return scores

    def decision_thresholds(self) -> NDArray[np.float64] | None:
        """Return the threshold of each label (K,); None if the highest score decides."""
        if self.single_label:
            return None
        if self.thresholds is None:
            return np.full(len(self.classes_), 0.5)
        return np.asarray(self.thresholds, dtype=np.float64)

    def predict(self, X: Any, links: Any = None) -> NDArray[np.int8]:
        """Return labels (m, K) of new items in 0/1: scores above their thresholds, or the highest one."""
        return self.decide(self.predict_scores(X, links))

    def decide(self, scores: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return labels (m, K) in 0/1 from scores (m, K) of `predict_scores`."""
        thresholds = self.decision_thresholds()
        if thresholds is None:
            return decide_labels(scores, single_label=True)
        return exceed_thresholds(scores, thresholds)
