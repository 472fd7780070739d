"""A promise on the precision of written labels, from out-of-fold scores.

A pair (row, label) is written if its score exceeds one common threshold. The threshold is chosen such that,
with a given confidence, at least a given share of the pairs written for new items is right.

The k highest-scored pairs of the labeled rows are checked suggestions, x of them wrong. If pairs were
independent, the hypothesis "more than α of the pairs above this threshold are wrong" would have the p-value
of the binomial test, P(Bin(k, α) <= x) = 1 - I_α(x + 1, k - x), with the regularized incomplete beta function
I. The pairs of one row are not independent, so counts are divided by their over-dispersion

    d = max(1, n / (n - 1) Σ_i (e_i - (x / k) w_i)² / (k p (1 - p))),   p = (x + 1/2) / (k + 1),

with w_i pairs of row i among the k, e_i of them wrong: p-value = 1 - I_α(x / d + 1, (k - x) / d).

Thresholds are tested in fixed sequences [1]_: from a start, k grows by a factor of 1.15 as long as the
p-value is at most δ / J. There are J = 4 starts at k0, 4 k0, 16 k0 and 64 k0, where k0 pairs without an error
are the fewest that can pass; the union bound over the starts keeps the error at δ = 1 - confidence. The
largest k that passed is used. If none did, nothing is promised.

What is not promised: that each single label reaches the precision; anything about new items that are unlike
the labeled ones (see `embedding_core.annotation.drift`), or if the labeled rows were not a random sample. δ
covers all attempts, not only those that end with a promise. Out-of-fold scores come from models fitted on
fewer rows than the final one, so the guarantee is approximate; its rate of violations is measured in
`tasks/reproduce/RESULTS.md`. The over-dispersion is seen in the errors: without an error it is 1, so the rate
is exceeded if the first k0 pairs come from few rows that are right or wrong as a whole (about ten rows).

References
----------
.. [1] A. Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, "Learn then Test: Calibrating Predictive
   Algorithms to Achieve Risk Control", 2021.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from embedding_core.checks import is_count, is_number
from embedding_core.errors import InvalidInput
from embedding_core.model_selection.thresholds import TIE, rank_scores

STARTS = (1, 4, 16, 64)
"""Starts of the sequences for pairs of all labels, in multiples of the smallest number that can pass."""
LABEL_STARTS = (1, 2, 4)
"""Starts for a single label, which has fewer pairs."""
STEP = 1.15
_GROWTH = STEP ** np.arange(1, 34)
"""Factors, up to 100, by which more labeled rows are imagined in `rows_needed`."""


@dataclass(frozen=True)
class LabelExpectation:
    """How often each label was given to labeled rows, and how often rightly; arrays of shape (K,).

    Attributes
    ----------
    given, right, carriers : ndarray of int
        Rows that were given the label, those of them that carry it, and all rows that carry it.
    rows : int
        Number of labeled rows.
    """

    given: NDArray[np.int64]
    right: NDArray[np.int64]
    carriers: NDArray[np.int64]
    rows: int

    @property
    def precision(self) -> NDArray[np.float64]:
        """Share of the given labels that are right; NaN for a label that was not given."""
        return _share(self.right, self.given)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Share of the carriers that were given the label; NaN for a label without carriers."""
        return _share(self.right, self.carriers)

    @property
    def times_share(self) -> NDArray[np.float64]:
        """Number of rows that were given a label, in multiples of its carriers; NaN without carriers."""
        return _share(self.given, self.carriers)


def expect_labels(decided: ArrayLike, Y: ArrayLike) -> LabelExpectation:
    """Count how decisions (n, K) in 0/1 agree with labels Y (n, K) in 0/1.

    The counts foretell precision and recall on new items if neither the score nor the threshold of a row
    depends on its own labels: pass decisions of `decide_out_of_fold`. Decisions by thresholds that were tuned
    on the same rows look better than they are.

    Examples
    --------
    >>> found = expect_labels([[1, 0], [1, 0], [0, 0]], [[1, 0], [0, 1], [1, 0]])
    >>> found.precision.tolist(), found.recall.tolist()
    ([0.5, nan], [0.5, 0.0])
    """
    labels, written = _as_binary("Y", Y), _as_binary("decided", decided)
    if written.shape != labels.shape:
        raise InvalidInput(
            f"decided has shape {written.shape} and Y {labels.shape}; give one decision per label."
        )
    given, carriers = written.sum(axis=0, dtype=np.int64), labels.sum(axis=0, dtype=np.int64)
    return LabelExpectation(given, (written & labels).sum(axis=0, dtype=np.int64), carriers, len(labels))


@dataclass(frozen=True)
class PrecisionPromise:
    """Result of `promise_precision`.

    Attributes
    ----------
    target, confidence : float
        What was asked for.
    threshold : float or None
        Pairs with a higher score are written; None if nothing can be promised.
    checked, wrong : int
        Pairs (row, label) above the threshold among the labeled rows, and how many of them are wrong; 0 if
        nothing can be promised.
    expected_recall : float
        Share of all carried labels that are above the threshold, without labels that every row carries.
    needed : int
        Number of checked pairs without an error that are the fewest to allow a promise.
    rows_needed : int or None
        If nothing can be promised: a guess of how many labeled rows would allow a promise, if the precision
        stays as it is; None if no number up to 100 times as many would.
    labels : LabelExpectation
        Counts of each label at the threshold.
    """

    target: float
    confidence: float
    threshold: float | None
    checked: int
    wrong: int
    expected_recall: float
    needed: int
    rows_needed: int | None
    labels: LabelExpectation

    @property
    def sentence(self) -> str:
        """The promise in words, with its evidence and its assumption; or what is missing."""
        if self.threshold is None:
            return self._missing()
        return (
            f"At least {_percent(self.target)} of the labels written should be right (confidence "
            f"{_percent(self.confidence)}, from {self.checked} checked suggestions, {self.wrong} wrong; "
            f"finds about {_percent(round(self.expected_recall, 2))} of the labels). Assumes new items like "
            "the labeled ones, and that these were chosen at random."
        )

    def _missing(self) -> str:
        said = f"Not enough evidence: at least {self.needed} suggestions without an error are needed"
        if self.rows_needed is None:
            return f"{said}, and more labeled items alone may not help: too many suggestions are wrong."
        return f"{said}, or more with few errors; about {self.rows_needed} labeled items may do."


def promise_precision(
    scores: ArrayLike,
    Y: ArrayLike,
    target: float = 0.9,
    confidence: float = 0.9,
    starts: Sequence[int] = STARTS,
) -> PrecisionPromise:
    """Choose one threshold for all labels such that at least `target` of what is written is right.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        Out-of-fold scores of the labeled rows, comparable between labels: calibrated, not shifted by
        thresholds.
    Y : array-like of shape (n, K)
        0/1 labels.
    target : float, default=0.9
        Precision to promise, between 0 and 1.
    confidence : float, default=0.9
        1 - δ, between 0 and 1.
    starts : sequence of int, default=(1, 4, 16, 64)
        Ascending starts of the sequences in multiples of k0; for a single label `LABEL_STARTS` find more.

    Returns
    -------
    PrecisionPromise

    Notes
    -----
    Scores closer than `TIE` are equal: a threshold is never placed between them, and a sequence moves on to
    the last of them. A single row says nothing about the spread between rows and allows no promise. A label
    that every row carries is no evidence: it is written with the others, but its pairs are not among those
    checked. Otherwise it would pay for errors in the labels that differ between items.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y = (rng.random((300, 4)) < 0.3).astype(int)
    >>> found = promise_precision(Y + 0.5 * rng.normal(size=Y.shape), Y)
    >>> found.sentence[:100]
    'At least 90 % of the labels written should be right (confidence 90 %, from 102 checked suggestions, '
    >>> found.wrong, round(found.expected_recall, 2)
    (4, 0.29)
    """
    S, labels = _check_pairs(scores, Y)
    _check_share("target", target)
    _check_share("confidence", confidence)
    _check_starts(starts)
    alpha, level = 1 - target, (1 - confidence) / len(starts)
    needed = ceil(log(level) / log(target) - 1e-9)
    certain = labels.all(axis=0) & ~labels.all()
    pairs = _RankedPairs(S[:, ~certain], labels[:, ~certain])
    passed = [pairs.last_passing(start * needed, alpha, level) for start in starts]
    k = max(passed)
    rows_needed = None if k else pairs.rows_needed(needed, alpha, level)
    threshold = float(pairs.cuts[k - 1]) if k else None
    above = np.full(S.shape, False) if threshold is None else (threshold < S) | certain
    found = expect_labels(above, labels)
    right = int(found.right[~certain].sum())
    wrong, recall = k - right, right / max(1, int(labels[:, ~certain].sum()))
    return PrecisionPromise(target, confidence, threshold, k, wrong, recall, needed, rows_needed, found)


def rows_needed_per_label(
    scores: ArrayLike, Y: ArrayLike, target: float = 0.9, confidence: float = 0.9
) -> list[int | None]:
    """Return for each label a guess of how many labeled rows would allow a promise on it alone.

    Parameters as for `promise_precision`. At most the present number of rows if a promise is possible now;
    None if no number up to 100 times as many would do while the precision stays as it is, or if no row
    carries the label. A label that every row carries needs no more.
    """
    S, labels = _check_pairs(scores, Y)
    found: list[int | None] = []
    for k in range(labels.shape[1]):
        if labels[:, k].min() == labels[:, k].max():
            found.append(len(labels) if labels[0, k] else None)
            continue
        one = promise_precision(S[:, [k]], labels[:, [k]], target, confidence, LABEL_STARTS)
        found.append(one.rows_needed if one.threshold is None else len(labels))
    return found


def tail_probability(
    checked: ArrayLike, wrong: ArrayLike, alpha: float, dispersion: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return 1 - I_α(x / d + 1, (k - x) / d) for k checked and x wrong pairs with over-dispersion d.

    For d = 1 it is the probability of at most x wrong pairs if each of k pairs is wrong with probability α.

    >>> tail_probability(36, 0, 0.1).round(4).item()
    0.0225
    """
    k, x, d = (np.asarray(value, dtype=np.float64) for value in (checked, wrong, dispersion))
    p: NDArray[np.float64] = np.where(x < k, 1 - betainc(x / d + 1, np.maximum(k - x, 1e-9) / d, alpha), 1.0)
    return p


class _RankedPairs:
    """All pairs (row, label) in descending order of their scores."""

    def __init__(self, scores: NDArray[np.float64], Y: NDArray[np.int8]) -> None:
        self.n, self.K = Y.shape
        order, cuts, gaps = (found[:, 0] for found in rank_scores(scores.reshape(-1, 1)))
        self.rows, self.cuts = order // self.K, cuts
        self.errors = 1 - Y.ravel()[order]
        self.wrong = self.errors.cumsum(dtype=np.int64)
        self.ends = np.flatnonzero(gaps > TIE) + 1
        """Numbers of pairs that a threshold can separate from the rest, ascending."""

    def last_passing(self, start: int, alpha: float, level: float) -> int:
        """Return the last k of the sequence from `start` whose p-value is at most `level`; 0 if none."""
        last, k = 0, self._end_of_ties(start)
        while k and self.p_value(k, alpha) <= level:
            last, k = k, self._end_of_ties(ceil(STEP * k))
        return last

    def _end_of_ties(self, k: int) -> int:
        """Return the smallest possible number of pairs from k on; 0 if there are fewer than k pairs."""
        place = np.searchsorted(self.ends, k)
        return int(self.ends[place]) if place < len(self.ends) else 0

    def p_value(self, k: int, alpha: float) -> float:
        """Return the p-value of the k highest-scored pairs."""
        if self.n < 2:
            return 1.0
        return float(tail_probability(k, self.wrong[k - 1], alpha, self.dispersion(k)))

    def dispersion(self, k: int) -> float:
        """Return the over-dispersion d of the errors among the k highest-scored pairs."""
        x = int(self.wrong[k - 1])
        written = np.bincount(self.rows[:k], minlength=self.n)
        errors = np.bincount(self.rows[:k], weights=self.errors[:k], minlength=self.n)
        p = (x + 0.5) / (k + 1)
        spread = float(((errors - x / k * written) ** 2).sum()) * self.n / (self.n - 1)
        return float(max(1.0, spread / (k * p * (1 - p))))

    def rows_needed(self, needed: int, alpha: float, level: float) -> int | None:
        """Return the smallest number of rows at which c times as many pairs and errors would pass."""
        if self.n < 2:
            return None
        k = np.unique([self._end_of_ties(ceil(STEP**step)) for step in range(1, 80)])
        k = k[k > 0]
        d = np.array([self.dispersion(one) for one in k])
        error = (self.wrong[k - 1] + 0.5) / (k + 1)
        pairs = k * _GROWTH[:, None]
        enough = (pairs >= needed) & (tail_probability(pairs, pairs * error, alpha, d) <= level)
        factors = _GROWTH[enough.any(axis=1)]
        return ceil(self.n * float(factors[0])) if len(factors) else None


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole != 0)
    return shares


def _check_pairs(scores: ArrayLike, Y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    labels = _as_binary("Y", Y)
    try:
        S = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"scores are not numeric ({error}); give one number per row and label.") from error
    if S.shape != labels.shape:
        raise InvalidInput(f"scores have shape {S.shape} and Y {labels.shape}; give one score per label.")
    if not np.isfinite(S).all():
        raise InvalidInput(f"scores contain {int((~np.isfinite(S)).sum())} NaN or infinite values.")
    return S, labels


def _as_binary(name: str, given: ArrayLike) -> NDArray[np.int8]:
    array = np.asarray(given)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInput(
            f"{name} has shape {array.shape}; expected (rows, labels) with at least one of each."
        )
    if not np.isin(array, (0, 1)).all():
        raise InvalidInput(f"{name} contains other values than 0 and 1; leave out unlabeled rows.")
    return array.astype(np.int8)


def _check_share(name: str, value: float) -> None:
    if not (is_number(value) and 0 < value < 1):
        raise InvalidInput(f"{name}={value!r} is not legal; give a number above 0 and below 1, such as 0.9.")


def _check_starts(starts: Sequence[int]) -> None:
    if not starts or not all(is_count(start) for start in starts):
        raise InvalidInput(f"starts={starts!r} is not legal; give integers >= 1, such as {STARTS}.")


def _percent(share: float) -> str:
    return f"{100 * share:.10g} %"
