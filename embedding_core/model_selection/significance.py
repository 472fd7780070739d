"""Is one method better than another by more than noise? Both are scored on the same folds.

The folds of a cross-validation share most of their training rows, so their differences vary less than those
of independent samples would. Nadeau and Bengio [1]_ correct for it: with J folds scored, of J_all that the
rows were dealt to, the squared standard error of the mean difference is

    sd² (1 / J + n_test / n_train),   n_test / n_train = 1 / (J_all - 1),

in place of sd² / J, and the lead counts where it exceeds t standard errors, t the one-sided 95 % quantile of
Student's distribution with J - 1 degrees of freedom. Over five folds that asks for 1.43 standard deviations.
Draws of a few rows to train on, from a collection of which all others are to be named, hardly share any: for
them the second term is left out.

References
----------
.. [1] C. Nadeau, Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
"""One-sided; a lead below it is noise."""
FAR_BEHIND = 0.05
"""How far behind, in the metric's own units, a candidate must lie to be stopped early."""
STOP_ERRORS = 3.0
"""And by how many standard errors."""
TRIAL_FOLDS = 2
"""Folds on which a candidate is tried before the others."""
INDEPENDENT = float("inf")
"""In place of a number of folds."""
# Scores that are equal may differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Lead:
    """By how much one method is ahead of another, fold by fold.

    Attributes
    ----------
    mean, spread : float
        Of the differences; the spread is their standard deviation (n - 1), 0 for a single fold.
    error : float
        Standard error of the mean, corrected; infinite for a single fold.
    needed : float
        What the mean must exceed to be more than noise.
    folds, won : int
        How many were compared, and on how many the first is ahead.
    """

    mean: float
    spread: float
    error: float
    needed: float
    folds: int
    won: int

    @property
    def beyond_noise(self) -> bool:
        """Whether the first method is better by more than noise."""
        return self.mean > self.needed + _ROUNDING


def paired_lead(ours: Sequence[float], theirs: Sequence[float], n_folds: float | None = None) -> Lead:
    """Compare two methods on the same folds; larger values are better.

    Parameters
    ----------
    ours, theirs : sequences of float
        The metric on each fold, in the same order.
    n_folds : int, optional
        Folds that the rows were dealt to; default: as many as were scored. Infinite (`INDEPENDENT`) for draws
        that share hardly any training rows.

    Examples
    --------
    >>> lead = paired_lead([0.80, 0.82, 0.81, 0.80, 0.83], [0.75, 0.78, 0.77, 0.74, 0.78])
    >>> round(lead.mean, 3), lead.won, lead.beyond_noise
    (0.048, 5, True)
    """
    from scipy.special import stdtrit

    differences = np.subtract(ours, theirs, dtype=np.float64)
    scored = len(differences)
    dealt = n_folds or scored
    mean, won = float(differences.mean()), int((differences > 0).sum())
    if scored < 2 or dealt < 2:
        return Lead(mean, 0.0, np.inf, np.inf, scored, won)
    spread = float(differences.std(ddof=1))
    error = spread * float(np.sqrt(1 / scored + 1 / (dealt - 1)))
    needed = float(stdtrit(scored - 1, CONFIDENCE)) * error
    return Lead(mean, spread, error, needed, scored, won)


def is_hopeless(trial: Sequence[float], leader: Sequence[float], n_folds: int) -> bool:
    """Whether a candidate may be stopped after its first folds.

    It may where on these folds it lies behind the leader by more than `FAR_BEHIND` and by more than
    `STOP_ERRORS` standard errors of the paired differences. One fold alone stops nobody.
    """
    lag = paired_lead(leader, trial, n_folds)
    return lag.mean > FAR_BEHIND and lag.mean > STOP_ERRORS * lag.error


def best_of(values: Mapping[str, Sequence[float]]) -> str:
    """Name with the largest mean over the folds, the first of equals (to rounding)."""
    means = {name: round(float(np.mean(folds)), 9) for name, folds in values.items()}
    return max(means, key=lambda name: means[name])
