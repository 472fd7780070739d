"""Base class of the kernel classifiers that use a graph, and their model selection.

It validates and scales the input, builds the graph, and turns decisions into labels and scores.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import PartialLabelsMixin
from embedding_core.checks import (
    check_choice,
    check_count,
    check_positive,
    check_sample_weight,
    items_vary,
    validate_items,
)
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import (
    GRAPHS,
    Edges,
    GraphFamily,
    check_sigma_choice,
    find_knn_edges,
    graph_family,
    kernel_distances,
    kernel_graph_family,
    nearest_edges,
    resolve_graph,
)
from embedding_core.graph.supplied import graph_from_edges, warn_of_unlinked
from embedding_core.knn_classifier import as_labeled_features
from embedding_core.labels import Indicator, check_labels_differ, given_as_columns, in_given_form
from embedding_core.linalg.kernel_space import KERNELS, Kernel, check_precomputed, place_by_kernel
from embedding_core.model_selection.inner_choice import labeled_folds, micro_f1_empty1
from embedding_core.scaling import SCALINGS, Scaler

GRAPH_CHOICES = (*GRAPHS, "kernel")
C_CANDIDATES = (1.0, 10.0, 0.1, 100.0)
"""Penalties tried by "cv"; the first one wins ties."""

S = TypeVar("S")
Answer = Callable[[NDArray[np.intp], NDArray[np.intp], S], NDArray[np.float64]]
"""Maps training and test positions among the labeled items and a setting to decisions (m, J)."""


def dimension_candidates(rank: int) -> list[int]:
    """Return 1, 2, 4, ... and the rank; smaller values win ties."""
    return [*(2**e for e in range(rank.bit_length()) if 2**e < rank), rank]


def decide(decisions: NDArray[np.float64], multi_label: bool) -> NDArray[np.int8]:
    """Convert decisions (m, J) to 0/1 labels: the positive ones, or the largest of each row.

    Two classes have a single decision, for the second class; both label columns are returned.
    """
    if multi_label:
        return (decisions > 0).astype(np.int8)
    if decisions.shape[1] == 1:
        second = decisions[:, 0] > 0
        return np.column_stack([~second, second]).astype(np.int8)
    labels = np.zeros(decisions.shape, dtype=np.int8)
    labels[np.arange(len(labels)), decisions.argmax(axis=1)] = 1
    return labels


def best_setting(
    Y: NDArray[np.int8], settings: Sequence[S], answer: "Answer[S]", multi_label: bool
) -> tuple[S, float]:
    """Return the setting with the best mean micro-F1 (accuracy for classes) over folds; the first on ties.

    Parameters
    ----------
    Y : ndarray of shape (l, K)
        Labels of the labeled items.
    settings : sequence
    answer : callable
        Decisions for the items of a fold. They are hidden from the loss but remain in the graph, unlabeled.
    multi_label : bool

    Returns
    -------
    setting, score
    """
    folds = labeled_folds(Y)
    scores = [
        float(
            np.mean(
                [
                    micro_f1_empty1(Y[test], decide(answer(train, test, one), multi_label))
                    for train, test in folds
                ]
            )
        )
        for one in settings
    ]
    best = int(np.argmax(scores))
    return settings[best], scores[best]


def own_graph_family(X: Any, kernel: Kernel, graph: str, n_neighbors: int) -> GraphFamily:
    """Return the pairs to link if no affinity is given.

    "knn" and "gaussian" use distances between the features, or in the feature space for a precomputed kernel.
    "kernel" links nearest neighbors and weights them by the kernel values (Fig. 1, step 2), without sigma.
    """
    if kernel.name != "precomputed" and graph != "kernel":
        return graph_family(X, graph, n_neighbors)
    if kernel.name == "precomputed":
        if graph != "kernel":
            return kernel_graph_family(X, graph, n_neighbors)
        edges = nearest_edges(kernel_distances(X), n_neighbors)
    else:
        edges = find_knn_edges(X, n_neighbors)
    W = graph_from_edges(edges.i, edges.j, _kernel_weights(X, kernel, edges), edges.n)
    return GraphFamily(edges.scale, lambda sigma: W)


def _kernel_weights(X: Any, kernel: Kernel, edges: Edges) -> NDArray[np.float64]:
    if kernel.name == "rbf":
        return np.exp(-kernel.theta * edges.squared)
    if kernel.name == "precomputed":
        values: NDArray[np.float64] = X[edges.i, edges.j]
    elif kernel.name == "intersection":
        first, second = X[edges.i], X[edges.j]
        smaller = first.minimum(second) if sp.issparse(X) else np.minimum(first, second)
        values = np.asarray(smaller.sum(axis=1), dtype=np.float64).ravel()
    else:
        products = X[edges.i] * X[edges.j] if not sp.issparse(X) else X[edges.i].multiply(X[edges.j])
        values = np.asarray(products.sum(axis=1), dtype=np.float64).ravel()
    if (values < 0).any():
        e = int(np.argmin(values))
        raise InvalidInput(
            f'graph="kernel" needs kernel values >= 0, but items {edges.i[e]} and {edges.j[e]} have '
            f'{values[e]:.3g}; use graph="knn", another kernel, or pass an affinity.'
        )
    return values


class KernelClassifier(PartialLabelsMixin, BaseEstimator, ABC):
    """Base of the one-vs-rest classifiers that are linear in a kernel's feature space.

    Subclasses implement `_learn`, which sets `coef_` (h, J) and `intercept_` (J,). The decision is
    x^T coef_ + intercept_ for "linear" and k(x, basis_items_) coef_ + intercept_ otherwise. J is 1 for two
    classes and K otherwise.
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kernel": KERNELS,
        "graph": GRAPH_CHOICES,
        "input_scale": SCALINGS,
    }
    kernel: str
    theta: float | str
    input_scale: str
    landmarks: int | Sequence[int] | str | None
    graph: str
    n_neighbors: int
    sigma: float | str
    random_state: Any
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    basis_items_: Any

    def fit(self, X: Any, y: Any, affinity: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model on all items, labeled or not.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
            The kernel matrix (n, n) if `kernel` is "precomputed".
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. If given, `graph`, `n_neighbors` and `sigma` are
            ignored.
        sample_weight : array-like of shape (n,), optional
            A weight of s counts as s copies of the item in the loss (and in l of `LapSVM` and `LapRLS`). An
            item of weight 0 counts as unlabeled. The graph is not affected: it links items, not copies.

        Returns
        -------
        self
        """
        self._learn(*self._check_inputs(X, y, sample_weight), affinity)
        return self

    @abstractmethod
    def _learn(self, X: Any, target: Indicator, times: NDArray[np.float64], affinity: Any) -> None:
        """Set the fitted attributes from validated items, labels and weights (n,), 0 if unlabeled."""

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return decisions (m, K), positive for yes; for two classes (m,), positive for the second class.

        A label on which all labeled items agree gets -1 or 1.
        """
        decisions = self._decide(X)
        return decisions[:, 0] if self._one_decision else decisions

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the classes (m,) with the largest decision, or the 0/1 labels (m, K) with a positive one."""
        labels = decide(self._decide(X), self.multi_label_)
        return in_given_form(labels, self.classes_, self.multi_label_)

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1], above one half for yes: 1 / (1 + exp(-decision)).

        Scores of different labels are comparable to the same extent as decisions; they are not calibrated
        probabilities. The scores of two classes sum to one.
        """
        scores = expit(self._decide(X))
        return np.column_stack([1 - scores, scores]) if self._one_decision else scores

    def _decide(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self._decisions(self._check_items(X, reset=False))

    def _decisions(self, X: Any) -> NDArray[np.float64]:
        """Return decisions (m, J) for validated items."""
        return self._place(X, self.coef_) + self.intercept_

    def _place(self, X: Any, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kernel == "linear":
            return np.asarray(X @ directions)
        return place_by_kernel(self._kernel, X, self.basis_items_, directions)

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.theta_)

    @property
    def _one_decision(self) -> bool:
        return not self.multi_label_ and len(self.classes_) == 2

    def _check_items(self, X: Any, reset: bool) -> Any:
        if self.kernel == "precomputed" and sp.issparse(X):
            raise InvalidInput("Precomputed kernel values must be dense, but X is sparse: pass X.toarray().")
        X = validate_items(self, X, reset)
        if reset:
            self.scaler_ = Scaler(self.input_scale).fit(X)
        return self.scaler_.transform(X)

    def _check_inputs(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Indicator, NDArray[np.float64]]:
        """Validate parameters, items, labels and weights, in this order.

        Returns the scaled items, the labels with items of weight 0 hidden, and weights (n,) that are 0 for
        unlabeled items.
        """
        self._check_parameters()
        X, target = as_labeled_features(self._check_items(X, reset=True), y)
        self.multi_label_ = given_as_columns(y)
        self._check_classes(target)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, X.shape[0])
        if weight is not None:
            target = target.hide(np.flatnonzero(weight == 0))
            self._check_weighed(target)
        _check_variation(X)
        self.classes_ = target.classes
        self.theta_ = 1.0 / X.shape[1] if isinstance(self.theta, str) else float(self.theta)
        if self.kernel == "precomputed":
            X = check_precomputed(X).astype(np.float64)
        return X, target, target.counts(weight)

    def _check_parameters(self) -> None:
        for name, legal in self._legal.items():
            check_choice(name, getattr(self, name), legal)
        check_positive("theta", self.theta, ("auto",))
        check_count("n_neighbors", self.n_neighbors)
        check_sigma_choice(self.sigma)
        if self.kernel == "precomputed" and self.input_scale != "none":
            raise InvalidInput(
                f"input_scale={self.input_scale!r} scales features, but the kernel is precomputed; scale the "
                'features before computing the kernel and set input_scale="none".'
            )

    def _check_classes(self, target: Indicator) -> None:
        check_labels_differ(target, type(self).__name__, self.multi_label_)

    def _check_weighed(self, target: Indicator) -> None:
        """Raise if items with a positive weight do not differ in any label."""
        Y = target.Y[target.labeled]
        if not len(Y) or (Y.min(axis=0) == Y.max(axis=0)).all():
            raise InvalidInput(
                f"sample_weight is zero for all labeled items but {len(Y)} with the same labels; "
                f"{type(self).__name__} separates classes: give items of two or more a positive weight."
            )

    def _affinity(self, X: Any, affinity: Any, score: Callable[[Any], float]) -> Any:
        """Return W, given or built from X; `score` rates a graph for sigma="cv"."""
        W, self.sigma_ = resolve_graph(
            affinity,
            X.shape[0],
            lambda: own_graph_family(X, self._kernel, self.graph, self.n_neighbors),
            None if self.graph == "kernel" else self.sigma,
            score,
        )
        warn_of_unlinked(W)
        return W

    def _signs(self, target: Indicator) -> NDArray[np.int8]:
        """Return -1 or 1 of the labeled items for every machine, (l, J)."""
        columns = target.Y[target.labeled][:, 1:] if self._one_decision else target.Y[target.labeled]
        return (2 * columns - 1).astype(np.int8)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


def _check_variation(X: Any) -> None:
    """Raise if all items are equal: their classes cannot be separated."""
    if not items_vary(X):
        raise InvalidInput(
            f"All {X.shape[0]} items are equal, so their classes cannot be separated; give features that "
            "vary."
        )
