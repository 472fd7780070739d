"""Rules that convert the result of a graph method to scores in [0, 1], above one half for yes.

A share f_ik in [0, 1] is the fraction of the label mass reaching item i that supports label k; 1 - f_ik is
the fraction against it. A rule weights the two sides with a_k and b_k: the score is a f / (a f + b (1 - f)).
If every labeled item has exactly one class, a class competes with the best other one, and the score is a_k
f_k / (a_k f_k + max a_j f_j over j != k), which exceeds one half only for the best class.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from embedding_core.labels import Indicator, one_label_each

DECISIONS: Mapping[str, str] = {
    "half": "yes if the share is above one half: a = b = 1",
    "mass": "class mass normalization, Eq. 9 of Zhu, Ghahramani and Lafferty: the summed shares for and "
    "against a label are scaled to its proportions among the labeled items",
    "prior": "yes for the items with the largest shares, in the same proportion among the unlabeled items as "
    'the label has among the labeled ones; the same as "mass" if every item has exactly one class',
}
"""Available rules and what they do."""


@dataclass(frozen=True)
class Rule:
    """Weights for (`yes`, a) and against (`no`, b) labels, (K,); `exclusive`: one class per item."""

    yes: NDArray[np.float64]
    no: NDArray[np.float64]
    exclusive: bool

    def scores(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert shares (m, K) to scores (m, K); if both sides have weight 0, the share is the score."""
        support = self.yes * share
        whole = support + (_best_other(support) if self.exclusive else self.no * (1 - share))
        return np.divide(support, whole, out=share.copy(), where=whole > 0)


def label_shares(target: Indicator) -> NDArray[np.float64]:
    """Return the fraction of the labeled items that has each label, (K,)."""
    shares: NDArray[np.float64] = target.Y[target.labeled].mean(axis=0, dtype=np.float64)
    return shares


def make_rule(decision: str, share: NDArray[np.float64], target: Indicator) -> Rule:
    """Fit the weights of a rule.

    Parameters
    ----------
    decision : {"half", "mass", "prior"}
        See `DECISIONS`.
    share : ndarray of shape (m, K)
        Shares of the items to decide.
    target : Indicator
        Labels of the fit; their proportions are the prior.
    """
    q, exclusive = label_shares(target), one_label_each(target.Y)
    ones = np.ones(len(q))
    if decision == "half" or not len(share):
        return Rule(ones, ones, exclusive)
    if decision == "prior" and not exclusive:
        cut = prior_cuts(share, q)
        return Rule(1 - cut, cut, exclusive)
    mass = share.mean(axis=0)
    return Rule(_ratio(q, mass), _ratio(1 - q, 1 - mass), exclusive)


def prior_cuts(share: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cut of each column with a fraction above it closest to q_k, in the middle of its gap."""
    cuts = np.empty(len(q))
    for k, column in enumerate(share.T):
        values, counts = np.unique(column, return_counts=True)
        above = len(column) - np.r_[0, np.cumsum(counts)]
        gaps = np.r_[0.0, values, 1.0]
        j = int(np.argmin(abs(above - q[k] * len(column))))
        cuts[k] = (gaps[j] + gaps[j + 1]) / 2
    return cuts


def balanced_cuts(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the cut of each column with the smallest e_+ / n_+ + e_- / n_-, the sum of the error rates.

    A cut lies in the middle of its gap; among equally good cuts, the one with the fewest items above is
    taken. A label that all items have gets -inf, a label that no item has gets inf.
    """
    cuts = np.empty(Y.shape[1])
    for k, positive in enumerate(Y.T == 1):
        n_yes, n_no = int(positive.sum()), int((~positive).sum())
        if not (n_yes and n_no):
            cuts[k] = -np.inf if n_yes else np.inf
            continue
        order = np.argsort(scores[:, k], kind="stable")
        values, hits = scores[order, k], positive[order]
        missed = np.r_[0, np.cumsum(hits)] / n_yes
        kept_out = np.r_[0, np.cumsum(~hits)] / n_no
        error = missed + 1 - kept_out
        error[:-1][np.r_[True, np.diff(values) == 0]] = np.inf  # not below all items, nor between equal ones
        j = len(values) - int(np.argmin(error[::-1]))
        cuts[k] = (values[j - 1] + values[min(j, len(values) - 1)]) / 2
    return cuts


def logistic_scores(
    F: NDArray[np.float64], cuts: NDArray[np.float64], width: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(-(F - cut) / width)) of each column; 0 or 1 if the cut is infinite."""
    scores: NDArray[np.float64] = expit((F - cuts) / np.where(width > 0, width, 1.0))
    return scores


def _best_other(support: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest entry of the row among the other columns; 0 if there are none."""
    if support.shape[1] == 1:
        return np.zeros_like(support)
    second, best = np.partition(support, -2, axis=1)[:, -2:].T[:, :, None]
    others: NDArray[np.float64] = np.where(support == best, second, best)
    return others


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    # without any mass the weight has no effect on entries that are 0, and must not suppress the others
    return np.divide(a, b, out=np.ones_like(a), where=b > 0)
