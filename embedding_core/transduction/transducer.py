"""Base classes of the graph transduction methods.

They validate the input, build the graph, choose sigma, and store the result of a fit. `InductiveTransducer`
also classifies new items.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import PartialLabelsMixin
from embedding_core.checks import check_choice, check_count, validate_items
from embedding_core.errors import InvalidInput, warn_caller
from embedding_core.graph.affinity import GRAPHS, check_sigma_choice, graph_family, resolve_graph
from embedding_core.graph.components import graph_components
from embedding_core.graph.propagation import check_directed_links
from embedding_core.knn_classifier import decide_labels, nearest_rows
from embedding_core.labels import (
    Indicator,
    as_indicator,
    check_one_row_each,
    given_as_columns,
    in_given_form,
    one_label_each,
)
from embedding_core.model_selection.inner_choice import check_cv_labels, labeled_folds, micro_f1_empty1
from embedding_core.transduction.score_rules import DECISIONS, Rule, label_shares, make_rule

_BLOCK_ROWS = 1024


@dataclass(frozen=True)
class Answer:
    """Raw result `F` and `scores` in [0, 1] of all items, both (n, K); `reached` (n,) marks labeled parts."""

    F: NDArray[np.float64]
    scores: NDArray[np.float64]
    reached: NDArray[np.bool_]


class GraphMethod(BaseEstimator):
    """Base of estimators that work on a graph of all items, given or built from X.

    `_legal` declares the allowed values of string parameters. `_fold_labels` predicts labels for some items,
    which the choice of sigma needs.
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {"graph": GRAPHS}
    graph: str
    n_neighbors: int
    sigma: float | str

    def _check_items(self, X: Any, reset: bool) -> Any:
        return validate_items(self, X, reset)

    def _check_inputs(self, X: Any, y: Any) -> tuple[Any, Indicator]:
        """Validate parameters, items and labels, in this order."""
        self._check_parameters()
        X = self._check_items(X, reset=True)
        target = as_indicator(y)
        check_one_row_each(X, target)
        self.classes_ = target.classes
        return X, target

    def _check_parameters(self) -> None:
        for name, legal in self._legal.items():
            check_choice(name, getattr(self, name), legal)
        check_count("n_neighbors", self.n_neighbors)
        check_sigma_choice(self.sigma)

    def _affinity(self, X: Any, target: Indicator, affinity: Any) -> Any:
        """Return W of all items; sets `sigma_`, None if the graph was given."""
        if affinity is None and self.sigma == "cv":
            check_cv_labels("sigma", target)
        W, self.sigma_ = resolve_graph(
            affinity,
            X.shape[0],
            lambda: graph_family(X, self.graph, self.n_neighbors),
            self.sigma,
            lambda W: self._cv_score(X, W, target),
        )
        return W

    def _cv_score(self, X: Any, W: Any, target: Indicator) -> float:
        """Return the mean micro-F1 over folds of the labeled items, each hidden in turn; 0 on failure."""
        try:
            scores = [
                micro_f1_empty1(target.Y[test], self._fold_labels(X, W, target.hide(test), test))
                for _, test in labeled_folds(target.Y)
            ]
        except InvalidInput:  # such as no convergence: this sigma is a bad choice, not bad input
            return 0.0
        return float(np.mean(scores))

    def _fold_labels(self, X: Any, W: Any, seen: Indicator, rows: NDArray[np.intp]) -> NDArray[np.int8]:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


class Transducer(GraphMethod):
    """Base of the methods that classify all items of their fit.

    Subclasses implement `_answer`, and store further attributes in `_remember`.
    """

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Classify the unlabeled items.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
            All items, labeled or not.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. If given, `graph` and `sigma` are ignored, and
            `n_neighbors` is only used for new items.

        Returns
        -------
        self
        """
        self.multi_label_ = given_as_columns(y)
        X, target = self._check_inputs(X, y)
        W = self._affinity(X, target, affinity)
        answer = self._answer(W, target)
        warn_of_unreached(W, answer.reached)
        self._remember(X, answer)
        self.label_distributions_, self.transduction_scores_ = answer.F, answer.scores
        self.transduction_ = self._decide(answer.scores)
        return self

    def _answer(self, W: Any, target: Indicator) -> Answer:
        raise NotImplementedError

    def _remember(self, X: Any, answer: Any) -> None:
        """Set further fitted attributes."""

    def _decide(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """Return the classes (m,) with the highest score, or 0/1 labels (m, K) scored above one half."""
        labels = decide_labels(scores, not self.multi_label_)
        return in_given_form(labels, self.classes_, self.multi_label_)

    def _fold_labels(self, X: Any, W: Any, seen: Indicator, rows: NDArray[np.intp]) -> NDArray[np.int8]:
        return decide_labels(self._answer(W, seen).scores[rows], one_label_each(seen.Y))


def reached_items(W: Any, labeled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask (n,) of the items that a path connects with a labeled one, including labeled items."""
    found = graph_components(W)
    return np.isin(found.labels, np.unique(found.labels[labeled]))


def warn_of_unreached(W: Any, reached: NDArray[np.bool_]) -> None:
    """Warn if parts of the graph have no labeled item, or only links that are too weak to count."""
    if reached.all():
        return
    missed = np.flatnonzero(~reached)
    sizes = np.sort(np.bincount(graph_components(W).labels[missed]))[::-1]
    sizes = sizes[sizes > 0]
    listed = ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")
    warn_caller(
        f"No label reaches {len(missed)} of {len(reached)} items (the first is row {missed[0]}), in parts of "
        f"the graph of sizes {listed}; they get the proportions of the labels among the labeled items. "
        "Label items there, or connect them: scale the features, increase n_neighbors or sigma, or add edges "
        "to the affinity.",
    )


@dataclass(frozen=True)
class Shares:
    """Raw result `F` and `share` in [0, 1], both (n, K), and a mask of the items that labels reach, (n,)."""

    F: NDArray[np.float64]
    share: NDArray[np.float64]
    reached: NDArray[np.bool_]


@dataclass(frozen=True)
class ShareAnswer(Answer):
    """An answer with its shares and the rule that converted them to scores."""

    share: NDArray[np.float64]
    rule: Rule


class ShareTransducer(Transducer):
    """Base of the methods that compute shares; subclasses implement `_propagate`."""

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {**Transducer._legal, "decision": tuple(DECISIONS)}
    decision: str

    def _propagate(self, W: Any, target: Indicator) -> Shares:
        raise NotImplementedError

    def _answer(self, W: Any, target: Indicator) -> ShareAnswer:
        found = self._propagate(W, target)
        rule = make_rule(self.decision, found.share[found.reached & ~target.labeled], target)
        reached, q = found.reached[:, None], label_shares(target)
        scores = np.where(reached, rule.scores(found.share), q)
        return ShareAnswer(found.F, scores, found.reached, np.where(reached, found.share, q), rule)


class InductiveTransducer(PartialLabelsMixin, ShareTransducer):
    """Base of the methods with shares that also classify new items.

    A new item gets the weighted mean of the shares of the items of the fit,

        f(x) = sum_j w(x, x_j) f_j / sum_j w(x, x_j),

    which is the equation of a harmonic function for one more node (Delalleau, Bengio, Le Roux 2005). The
    weights are those of the graph: exp(-d² / (2 sigma)) on the n_neighbors nearest items, or on all items. If
    an affinity was given, the weights are unknown: they are the given links of the new item, or else the
    n_neighbors nearest items have equal weights.
    """

    takes_links = True
    """Whether `predict_scores` takes the links of new items."""

    def predict_scores(self, X: Any, links: Any = None) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1] of new items; see the class.

        `links` (m, n) are weights of links to the items of the fit; further columns, links of the new items
        to each other, are not used. An item without any is placed by its neighbors.

        An item of the fit is its own nearest neighbor, so its scores in `transduction_scores_` have the
        largest weight but are not reproduced exactly.
        """
        check_is_fitted(self)
        X = self._check_items(X, reset=False)
        share = np.empty((X.shape[0], len(self.classes_)))
        for start in range(0, len(share), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            share[rows] = self._place(X[rows])
        if links is not None:
            m, n = X.shape[0], self.items_.shape[0]
            wide = np.shape(links)[-1] == n + m
            L = check_directed_links(links, (m, n + m if wide else n))[:, :n]
            total = np.asarray(L.sum(axis=1)).ravel()
            linked = total > 0
            share[linked] = np.clip((L @ self.shares_)[linked] / total[linked, None], 0.0, 1.0)
        yes, no = self.decision_weights_
        return Rule(yes, no, self.exclusive_).scores(share)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the classes (m,) with the highest score, or 0/1 labels (m, K) scored above one half."""
        return self._decide(self.predict_scores(X))

    def _remember(self, X: Any, answer: ShareAnswer) -> None:
        self.items_, self.shares_ = X, answer.share
        self.decision_weights_ = np.stack([answer.rule.yes, answer.rule.no])
        self.exclusive_ = answer.rule.exclusive

    def _place(self, X: Any) -> NDArray[np.float64]:
        n = self.items_.shape[0]
        everywhere = self.sigma_ is not None and self.graph == "gaussian"
        distances, nearest = nearest_rows(self.items_, X, n if everywhere else min(self.n_neighbors, n))
        weights = np.ones_like(distances)
        if self.sigma_ is not None:
            # relative to the nearest item: the means are the same, and the weights cannot all underflow
            weights = np.exp((distances[:, :1] ** 2 - distances**2) / (2 * self.sigma_))
        weights /= weights.sum(axis=1, keepdims=True)
        pointers = np.arange(0, nearest.size + 1, nearest.shape[1])
        mean = sp.csr_array((weights.ravel(), nearest.ravel(), pointers), shape=(X.shape[0], n))
        scores: NDArray[np.float64] = np.clip(mean @ self.shares_, 0.0, 1.0)
        return scores
