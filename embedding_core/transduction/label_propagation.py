"""Methods that find the share of each label in what reaches an item, and their extension to new items."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import PartialLabelsMixin
from embedding_core.knn_classifier import nearest_rows
from embedding_core.labels import Indicator
from embedding_core.transduction.base import Answer, Transducer
from embedding_core.transduction.decisions import DECISIONS, Rule, label_shares, make_rule

_BLOCK_ROWS = 1024


@dataclass(frozen=True)
class Shares:
    """Raw result `F` and `share` in [0, 1], both (n, K), and which items labels reach, (n,)."""

    F: NDArray[np.float64]
    share: NDArray[np.float64]
    reached: NDArray[np.bool_]


@dataclass(frozen=True)
class ShareAnswer(Answer):
    """An answer with the shares and the rule that made the scores of them."""

    share: NDArray[np.float64]
    rule: Rule


class ShareTransducer(Transducer):
    """Base of the methods with shares; subclasses give `_propagate`."""

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
    """Base of the methods with shares that also answer for new items.

    A new item has the weighted mean of the shares of the items of the fit,

        f(x) = sum_j w(x, x_j) f_j / sum_j w(x, x_j),

    which is the equation of a harmonic function for one more node (Delalleau, Bengio, Le Roux 2005). Weights
    are those of the graph: exp(-d² / (2 sigma)) on the n_neighbors nearest items, or on all of them. Where an
    affinity was given, they are not known; the n_neighbors nearest items then count alike.
    """

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores (m, K) in [0, 1] of new items, see the class.

        An item of the fit given again is its own nearest neighbor: its scores in `transduction_scores_`
        weigh most, but are not repeated.
        """
        check_is_fitted(self)
        X = self._check_items(X, reset=False)
        share = np.empty((X.shape[0], len(self.classes_)))
        for start in range(0, len(share), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            share[rows] = self._place(X[rows])
        yes, no = self.decision_weights_
        return Rule(yes, no, self.exclusive_).scores(share)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes (m,) with the best score, or labels (m, K) in 0/1 with a score above one half."""
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
            # relative to the nearest item: the same means, and no underflow of all weights
            weights = np.exp((distances[:, :1] ** 2 - distances**2) / (2 * self.sigma_))
        weights /= weights.sum(axis=1, keepdims=True)
        pointers = np.arange(0, nearest.size + 1, nearest.shape[1])
        mean = sp.csr_array((weights.ravel(), nearest.ravel(), pointers), shape=(X.shape[0], n))
        return np.clip(mean @ self.shares_, 0.0, 1.0)
