"""What changed labels gained: two models on the items that both know, judged by the present labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.metrics import METRICS, multilabel_metrics
from embedding_core.model_selection.significance import Lead, paired_lead

_LOWER_IS_BETTER = frozenset(metric.name for metric in METRICS if not metric.higher_is_better)


@dataclass(frozen=True, eq=False)
class Judgment:
    """Out-of-fold decisions (n, K) of a model and the scores (n, K) that they are based on."""

    decided: NDArray[np.int8]
    scores: NDArray[np.float64]


@dataclass(frozen=True)
class PairedGain:
    """A metric of two models on the same items.

    Attributes
    ----------
    old, new : float
        Means over the folds.
    lead : Lead
        Lead of the new model over the old one, fold by fold; positive if it is better.
    """

    old: float
    new: float
    lead: Lead


def paired_gain(
    Y: NDArray[np.int8], old: Judgment, new: Judgment, folds: NDArray[np.integer], metric: str = "macro_f1"
) -> PairedGain:
    """Compare two models on the same rows, in the groups that the folds of the new one form.

    Neither model has seen the labels of a row that it is judged on, so a difference within a group is due to
    the models. Labels that no row of a group carries do not count there.

    Parameters
    ----------
    Y : ndarray of shape (n, K)
        The labels as they are now.
    old, new : Judgment
    folds : ndarray of shape (n,)
        Fold of the new model that tests each row.
    metric : str
        A name of `multilabel_metrics`.

    Examples
    --------
    >>> Y = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.int8)
    >>> wrong, right = (Judgment(found, found.astype(float)) for found in (1 - Y, Y))
    >>> gain = paired_gain(Y, wrong, right, np.array([0, 0, 1, 1]))
    >>> gain.old, gain.new, gain.lead.beyond_noise
    (0.0, 1.0, True)
    """
    groups = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    if not groups or not Y.shape[1]:
        raise InvalidInput(f"{len(Y)} rows with {Y.shape[1]} labels; compare models on at least one of each.")

    def rate(model: Judgment) -> list[float]:
        return [
            multilabel_metrics(Y[rows], model.decided[rows], model.scores[rows], skip_absent=True)[metric]
            for rows in groups
        ]

    before, after = rate(old), rate(new)
    sign = -1.0 if metric in _LOWER_IS_BETTER else 1.0
    lead = paired_lead([sign * value for value in after], [sign * value for value in before])
    return PairedGain(float(np.mean(before)), float(np.mean(after)), lead)
