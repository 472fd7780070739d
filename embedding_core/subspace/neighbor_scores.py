"""How well neighbors in an embedding tell labels, dimension by dimension."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.model_selection.inner_choice import labeled_folds, micro_f1_empty1

_BLOCK_DISTANCES = 2_000_000


def dimension_scores(Q: NDArray[np.float64], Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Micro-F1 (r,) of the nearest neighbor by the first 1, 2, ... r columns of Q.

    Mean over 5 folds of the labeled rows of Y (n, K), fewer where fewer are labeled; of equal distances the
    first row counts.
    """
    scores = [_fold_scores(Q[train], Y[train], Q[test], Y[test]) for train, test in labeled_folds(Y)]
    return np.mean(scores, axis=0)


def _fold_scores(
    known: NDArray[np.float64], labels: NDArray[np.int8], asked: NDArray[np.float64], truth: NDArray[np.int8]
) -> list[float]:
    nearest = np.empty((known.shape[1], len(asked)), dtype=np.intp)
    step = max(1, _BLOCK_DISTANCES // len(known))
    for start in range(0, len(asked), step):
        rows = slice(start, start + step)
        squared = np.zeros((len(asked[rows]), len(known)))
        for column, found in enumerate(nearest):
            squared += (asked[rows, column, None] - known[:, column]) ** 2
            found[rows] = squared.argmin(axis=1)
    return [micro_f1_empty1(truth, labels[found]) for found in nearest]
