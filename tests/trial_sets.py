"""Small data sets for the tests of the papers' protocols."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from embedding_core.protocols.trial import TrialData
from tests.synthetic import single_label


def blobs(n: int = 120, p: int = 8, K: int = 3, seed: int = 0) -> TrialData:
    """Rows of K overlapping classes, which no method separates completely."""
    X, y = single_label(n, p, K, seed)
    X += 2.5 * np.random.default_rng(seed + 1).normal(size=X.shape)
    return TrialData(X, np.eye(K, dtype=np.int8)[y], tuple("abcdefgh"[:K]), single_label=True)


def shuffle_rows(data: TrialData, rows: NDArray[np.intp]) -> TrialData:
    """The same data with the labels of some rows shuffled; the new labels are checked to differ."""
    Y = data.Y.copy()
    Y[rows] = Y[np.random.default_rng(7).permutation(rows)]
    assert not np.array_equal(Y, data.Y)
    return replace(data, Y=Y)
