"""Votes of the nearest leave-one-out rows, their number chosen by leaving out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from embedding_core.classifiers.ml_knn import other_neighbors
from embedding_core.knn_classifier import nearest_rows, vote
from embedding_core.model_selection.inner_choice import rate_scores

CANDIDATES = (1, 3, 5, 10, 15, 20, 30, 50)
"""Numbers of neighbors to choose from."""

MOST_ROWS = 10_000
"""Rows that are asked; of more a sample, so that time grows with the rows and not with their square."""


@dataclass(frozen=True)
class NeighborVotes:
    """The k rows of `Z` (v, r) nearest to a query vote with their labels `Y` (v, K), weighted by 1/d."""

    Z: NDArray[np.float64]
    Y: NDArray[np.int8]
    k: int

    def scores(self, queries: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares (m, K) of the votes, in [0, 1]."""
        return vote(self.Y, *nearest_rows(self.Z, queries, self.k), "distance")


def fit_votes(
    Z: NDArray[np.float64], Y: NDArray[np.int8], random_state: Any
) -> tuple[NeighborVotes, NDArray[np.float64]]:
    """Choose k by the votes (l, K) for each row of all others, which are returned too.

    Parameters
    ----------
    Z : ndarray of shape (l, r)
        Rows that their own labels did not place.
    Y : ndarray of shape (l, K)
    random_state : int, RandomState or None
        Draws `MOST_ROWS` rows to ask where there are more.
    """
    asked = np.arange(len(Z))
    if len(Z) > MOST_ROWS:
        asked = np.sort(check_random_state(random_state).choice(len(Z), MOST_ROWS, replace=False))
    distances, indices = other_neighbors(Z, min(max(CANDIDATES), len(asked) - 1), asked)
    best: tuple[tuple[float, float], int, NDArray[np.float64]] | None = None
    for k in [k for k in CANDIDATES if k <= distances.shape[1]]:
        votes = vote(Y[asked], distances[:, :k], indices[:, :k], "distance")
        quality = rate_scores(Y, votes)
        if best is None or quality > best[0]:
            best = quality, k, votes
    assert best is not None  # two rows at least: one neighbor can be asked
    return NeighborVotes(Z[asked], Y[asked], best[1]), best[2]
