"""Whether one method is better than another by more than noise, when both are scored on the same folds.

The folds of a cross-validation share most of their training rows, so the differences between two methods vary
less than they would over independent samples. Nadeau and Bengio [1]_ correct for this. With J folds scored,
out of J_all folds that the rows are split into, the squared standard error of the mean difference is

    sd² (1 / J + n_test / n_train),   n_test / n_train = 1 / (J_all - 1),

instead of sd² / J. A lead counts if it exceeds t standard errors, where t is the one-sided 95 % quantile of
Student's distribution with J - 1 degrees of freedom. With five folds, that is 1.43 standard deviations.
Small training sets drawn at random from a large collection share hardly any rows; for them the second term is
left out (`INDEPENDENT`).

The best of m equally good methods leads by chance more often than a single one does. If the first method was
picked as the best of m on the same folds, the quantile is that of 1 - 0.05 / m (Bonferroni), so a lead of any
of the m counts by chance in at most 5 % of cases. With five folds and m = 6 that is 2.66 standard deviations.

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
"""A candidate is stopped early only if it is behind by more than this, in units of the metric."""
STOP_ERRORS = 3.0
"""A candidate is stopped early only if it is behind by more than this number of standard errors."""
TRIAL_FOLDS = 2
"""Number of folds that a candidate is scored on first."""
INDEPENDENT = float("inf")
"""Number of folds to pass for draws that share hardly any training rows."""
# Equal scores may differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Lead:
    """Lead of one method over another, compared fold by fold.

    Attributes
    ----------
    mean, spread : float
        Mean and standard deviation (n - 1) of the differences; the spread of a single fold is 0.
    error : float
        Corrected standard error of the mean; infinite for a single fold.
    needed : float
        Threshold that the mean must exceed to be more than noise.
    folds, won : int
        Number of folds compared, and number of folds on which the first method is better.
    picked_among : int
        Number of methods that the first one is the best of, on the same folds.
    """

    mean: float
    spread: float
    error: float
    needed: float
    folds: int
    won: int
    picked_among: int = 1

    @property
    def beyond_noise(self) -> bool:
        """Whether the first method is better by more than noise."""
        return self.mean > self.needed + _ROUNDING


def paired_lead(
    ours: Sequence[float], theirs: Sequence[float], n_folds: float | None = None, picked_among: int = 1
) -> Lead:
    """Compare two methods on the same folds; larger values are better.

    Parameters
    ----------
    ours, theirs : sequences of float
        The metric on each fold, in the same order.
    n_folds : int, optional
        Number of folds that the rows are split into; by default, as many as were scored. Use `INDEPENDENT`
        for draws that share hardly any training rows.
    picked_among : int, default=1
        Number of methods that `ours` is the best of, on these folds; see the module.

    Examples
    --------
    >>> lead = paired_lead([0.80, 0.82, 0.81, 0.80, 0.83], [0.75, 0.78, 0.77, 0.74, 0.78])
    >>> round(lead.mean, 3), lead.won, lead.beyond_noise
    (0.048, 5, True)
    """
    from scipy.special import stdtrit

    differences = np.subtract(ours, theirs, dtype=np.float64)
    scored = len(differences)
    split_into = n_folds or scored
    mean, won = float(differences.mean()), int((differences > 0).sum())
    if scored < 2 or split_into < 2:
        return Lead(mean, 0.0, np.inf, np.inf, scored, won, picked_among)
    spread = float(differences.std(ddof=1))
    error = spread * float(np.sqrt(1 / scored + 1 / (split_into - 1)))
    needed = float(stdtrit(scored - 1, 1 - (1 - CONFIDENCE) / max(picked_among, 1))) * error
    return Lead(mean, spread, error, needed, scored, won, picked_among)


def is_hopeless(trial: Sequence[float], leader: Sequence[float], n_folds: int) -> bool:
    """Whether a candidate can be stopped after its first folds.

    It can if it is behind the leader on these folds by more than `FAR_BEHIND`, and by more than `STOP_ERRORS`
    standard errors of the paired differences. A single fold is never enough.
    """
    lag = paired_lead(leader, trial, n_folds)
    return lag.mean > FAR_BEHIND and lag.mean > STOP_ERRORS * lag.error


def best_of(values: Mapping[str, Sequence[float]]) -> str:
    """Name with the largest mean over the folds; the first one if several are equal up to rounding."""
    means = {name: round(float(np.mean(folds)), 9) for name, folds in values.items()}
    return max(means, key=lambda name: means[name])
