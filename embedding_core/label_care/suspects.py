"""Labels that are probably wrong or missing, from scores by models that did not see them.

A label is suspect if its out-of-fold score contradicts it. Scores of different labels are not comparable: a
score of 0.3 may be high for a rare label and low for a frequent one. So the scores of each label are turned
into probabilities first (`calibrate_shared`, from the given labels), and all decisions of all labels are
ranked by the probability of the opposite. If every decision were flipped with the same chance, this order
would be the best possible one: the chance that a decision is wrong rises with that probability.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.errors import InvalidInput
from embedding_core.model_selection.calibration import calibrate_shared


@dataclass(frozen=True)
class Suspects:
    """Decisions that are probably wrong, the most suspect first.

    Attributes
    ----------
    rows, labels : ndarrays of shape (m,)
        Item and label of each decision.
    wrong : ndarray of shape (m,)
        Probability, from 0 to 1, that the opposite is right, judged by the other items.
    missing : ndarray of bool, shape (m,)
        True if the label is not given and probably missing; False if it is given and probably wrong.
    """

    rows: NDArray[np.intp]
    labels: NDArray[np.intp]
    wrong: NDArray[np.float64]
    missing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)

    def head(self, count: int) -> "Suspects":
        """Return the first of them."""
        return self.take(np.arange(min(count, len(self))))

    def take(self, places: NDArray[np.integer] | NDArray[np.bool_]) -> "Suspects":
        """Return those at some places of the order."""
        return Suspects(self.rows[places], self.labels[places], self.wrong[places], self.missing[places])


def contradiction(scores: ArrayLike, Y: ArrayLike) -> NDArray[np.float64]:
    """Return the probability (n, K) that the opposite of each decision is right.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        Of each row by a model that was not fitted on it.
    Y : array-like of shape (n, K)
        Given labels, 0 or 1.

    Notes
    -----
    The scale of a label's scores does not matter. A label that no row or every row carries cannot be judged;
    its values are 0.

    Examples
    --------
    >>> scores = [[0.9], [0.8], [0.85], [0.1], [0.2], [0.15]]
    >>> contradiction(scores, [[1], [1], [0], [0], [0], [1]]).argsort(axis=0)[-2:].ravel().tolist()
    [5, 2]
    """
    S, given = np.asarray(scores, dtype=np.float64), np.asarray(Y, dtype=np.int8)
    if S.ndim != 2 or S.shape != given.shape:
        raise InvalidInput(f"scores have shape {S.shape} and labels {given.shape}; give both as (n, K).")
    if not np.isin(given, (0, 1)).all():
        raise InvalidInput("labels other than 0 and 1; leave unlabeled rows out.")
    if not len(S):
        return np.zeros(S.shape)
    spread = S.std(axis=0)
    scaled = (S - S.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    probable = calibrate_shared(scaled, given).apply(scaled)
    carriers = given.sum(axis=0)
    wrong: NDArray[np.float64] = np.where(given == 1, 1 - probable, probable)
    wrong[:, (carriers == 0) | (carriers == len(given))] = 0.0
    return wrong


def find_suspects(scores: ArrayLike, Y: ArrayLike, least: float = 0.5) -> Suspects:
    """Rank the decisions whose opposite is more probable than `least`; see `contradiction`.

    Examples
    --------
    >>> scores = [[0.9], [0.8], [0.85], [0.1], [0.2], [0.15]]
    >>> found = find_suspects(scores, [[1], [1], [0], [0], [0], [1]])
    >>> found.rows.tolist(), found.missing.tolist()
    ([2, 5], [True, False])
    """
    wrong = contradiction(scores, Y)
    rows, labels = np.nonzero(wrong > least)
    values = wrong[rows, labels]
    order = np.argsort(-values, kind="stable")
    rows, labels = rows[order], labels[order]
    return Suspects(rows, labels, values[order], np.asarray(Y)[rows, labels] == 0)
