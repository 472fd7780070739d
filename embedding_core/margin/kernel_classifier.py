"""TODO."""

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

from embedding_core.checks import (
    check_choice,
    check_count,
    check_positive,
    check_sample_weight,
    items_vary,
    validate_items,
)
from embedding_core.classifier_mixin import PartialLabelsMixin
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import (
    GRAPHS,
    GraphFamily,
    check_sigma_choice,
    graph_family,
    kernel_distances,
    kernel_graph_family,
    nearest_edges,
    resolve_graph,
    warn_of_unlinked,
)
from embedding_core.graph.graphs import (
    Edges,
    find_knn_edges,
    graph_from_edges,
)
from embedding_core.knn_classifier import as_labeled_features
from embedding_core.labels import Indicator, check_labels_differ, given_as_columns, in_given_form
from embedding_core.linalg.kernel_space import KERNELS, Kernel, check_precomputed, place_by_kernel
from embedding_core.model_selection.inner_choice import labeled_folds, micro_f1_empty1
from embedding_core.scaling import SCALINGS, Scaler

GRAPH_CHOICES = (*GRAPHS, "kernel")
C_CANDIDATES = (1.0, 10.0, 0.1, 100.0)
"""Penalties that "cv" tries, preferred first among equal scores."""

S = TypeVar("S")
Answer = Callable[[NDArray[np.intp], NDArray[np.intp], S], NDArray[np.float64]]
"""Decisions (m, J) for some labeled items by a fit on others, both by number, with a setting."""


def dimension_candidates(rank: int) -> list[int]:
    """1, 2, 4, ... and the rank itself: small ones are preferred among equal scores."""
    return [*(2**e for e in range(rank.bit_length()) if 2**e < rank), rank]


def decide(decisions: NDArray[np.float64], multi_label: bool) -> NDArray[np.int8]:
    """0/1 labels from decisions (m, J): the positive ones, or the largest one of each row.

    Two classes have one decision, that for the second: the labels then are both columns.
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
    """The setting with the best mean micro-F1 (accuracy for classes) over folds, the first of equals.

    Parameters
    ----------
    Y : ndarray of shape (l, K)
        Labels of the labeled items.
    settings : sequence
    answer : callable
        A fold's items are hidden from the margin, not from the graph, as unlabeled items are.
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
    """Pairs to link where no affinity is given.

    "knn" and "gaussian" weigh distances of the features, those of the feature space where only a kernel is
    known. "kernel" links nearest neighbors by the kernel's own values (Fig. 1, step 2) whatever sigma.
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
        values = X[edges.i, edges.j]
    else:
        products = X[edges.i] * X[edges.j] if not sp.issparse(X) else X[edges.i].multiply(X[edges.j])
        values = np.asarray(products.sum(axis=1), dtype=np.float64).ravel()
    if (values < 0).any():
        e = int(np.argmin(values))
        raise InvalidInput(
            f'graph="kernel" needs values >= 0, but those of items {edges.i[e]} and {edges.j[e]} give '
            f'{values[e]:.3g}; use graph="knn", another kernel, or pass an affinity.'
        )
    return values


class KernelClassifier(PartialLabelsMixin, BaseEstimator, ABC):
    """Base of one machine a label against the rest, linear in a kernel's feature space.

    Subclasses give `_learn`, which finds `coef_` (h, J) and `intercept_` (J,): a decision is x^T coef_ +
    intercept_ for "linear", k(x, basis_items_) coef_ + intercept_ else. J is 1 for two classes, else K.
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
        """Learn from all items, labeled or not.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
            Kernel matrix (n, n) if precomputed.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled, or 0/1 columns with rows of -1 for unlabeled.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. Where given, `graph`, `n_neighbors` and `sigma`
            play no part.
        sample_weight : array-like of shape (n,), optional
            A weight of s counts as s copies of the item in the errors (and in l of `LapSVM` and `LapRLS`), 0
            as an unlabeled item. The graph links items, not copies.

        Returns
        -------
        self
        """
        self._learn(*self._check_inputs(X, y, sample_weight), affinity)
        return self

    @abstractmethod
    def _learn(self, X: Any, target: Indicator, times: NDArray[np.float64], affinity: Any) -> None:
        """Set the fitted attributes from checked items, labels and weights (n,), 0 if unlabeled."""

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Decisions (m, K), above 0 for yes; (m,), above 0 for the second class, where there are two.

        A label on which all labeled items agree gets -1 or 1.
        """
        decisions = self._decide(X)
        return decisions[:, 0] if self._one_decision else decisions

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes (m,) with the largest decision, or labels (m, K) in 0/1 with a positive one."""
        labels = decide(self._decide(X), self.multi_label_)
        return in_given_form(labels, self.classes_, self.multi_label_)

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores (m, K) in [0, 1]: 1 / (1 + exp(-decision)), above one half for yes.

        Comparable between labels as decisions are; not calibrated probabilities. Two classes have scores that
        sum to one.
        """
        scores = expit(self._decide(X))
        return np.column_stack([1 - scores, scores]) if self._one_decision else scores

    def _decide(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self._decisions(self._check_items(X, reset=False))

    def _decisions(self, X: Any) -> NDArray[np.float64]:
        """Decisions (m, J) for checked items."""
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
            raise InvalidInput("Precomputed kernel values came sparse; they must be dense: pass X.toarray().")
        X = validate_items(self, X, reset)
        if reset:
            self.scaler_ = Scaler(self.input_scale).fit(X)
        return self.scaler_.transform(X)

    def _check_inputs(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Indicator, NDArray[np.float64]]:
        """Validate parameters, items, labels and weights, in this order.

        Items come back scaled, labels without items of weight 0, weights (n,) as 0 for unlabeled items.
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
                'features before computing it, and give input_scale="none".'
            )

    def _check_classes(self, target: Indicator) -> None:
        check_labels_differ(target, type(self).__name__, self.multi_label_)

    def _check_weighed(self, target: Indicator) -> None:
        """Raise where no label is left on which items with a positive weight differ."""
        Y = target.Y[target.labeled]
        if not len(Y) or (Y.min(axis=0) == Y.max(axis=0)).all():
            raise InvalidInput(
                f"sample_weight is zero for all labeled items but {len(Y)} with the same labels; "
                f"{type(self).__name__} separates classes: give items of two or more a positive weight."
            )

    def _affinity(self, X: Any, affinity: Any, score: Callable[[Any], float]) -> Any:
        """W, given or built from X; `score` rates a graph for sigma="cv"."""
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
        """-1 and 1 of the labeled items for every machine, (l, J)."""
        columns = target.Y[target.labeled][:, 1:] if self._one_decision else target.Y[target.labeled]
        return (2 * columns - 1).astype(np.int8)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


def _check_variation(X: Any) -> None:
    """Raise where all items are the same: nothing could tell their classes apart."""
    if not items_vary(X):
        raise InvalidInput(
            f"All {X.shape[0]} items are equal, so nothing tells their classes apart; give features that "
            "vary."
        )
