"""First labels of unlabeled items: those of the nearest labeled one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.knn_classifier import nearest_rows
from embedding_core.labels import Indicator
from embedding_core.linalg.row_blocks import RowBlocks, row_blocks

CHUNK_ROWS = 32_768
"""Labeled items held at a time."""


def nearest_labels(X: Any, target: Indicator) -> NDArray[np.int8]:
    """Labels (n, K) where each unlabeled item takes over those of its nearest labeled one.

    X is an ndarray, CSR matrix or `RowBlocks`. All pairs are measured, so the time grows with the number of
    labeled times that of unlabeled items; memory holds some of the labeled and a block of the others.
    """
    Y = target.Y.copy()
    if target.labeled.all():
        return Y
    if sp.issparse(X):
        _, nearest = nearest_rows(X[target.labeled], X[~target.labeled], 1)
        Y[~target.labeled] = target.Y[target.labeled][nearest[:, 0]]
        return Y
    shortest = np.full(len(Y), np.inf)
    for chosen, known in _labeled_chunks(X, target.labeled):
        for rows, block in row_blocks(X):
            missing = np.flatnonzero(~target.labeled[rows])
            if len(missing) == 0:
                continue
            distance, nearest = nearest_rows(known, block[missing], 1)
            items = missing + rows.start
            nearer = distance[:, 0] < shortest[items]  # of equally near items the first one stays
            items, nearest = items[nearer], nearest[nearer, 0]
            shortest[items] = distance[nearer, 0]
            Y[items] = target.Y[chosen[nearest]]
    return Y


def _labeled_chunks(
    X: NDArray[Any] | RowBlocks, labeled: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
    """Row numbers of labeled items and the items, `CHUNK_ROWS` at a time."""
    numbers = np.flatnonzero(labeled)
    chunk = np.empty((min(CHUNK_ROWS, len(numbers)), X.shape[1]), dtype=X.dtype)
    held = done = 0
    for rows, block in row_blocks(X):
        waiting = block[labeled[rows]]
        while len(waiting):
            part = waiting[: len(chunk) - held]
            chunk[held : held + len(part)] = part
            held, waiting = held + len(part), waiting[len(part) :]
            if held == len(chunk):
                yield numbers[done : done + held], chunk
                done, held = done + held, 0
    if held:
        yield numbers[done:], chunk[:held]
