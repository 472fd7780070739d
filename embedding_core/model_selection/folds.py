"""Cross-validation folds that preserve the proportion of each label, for rows with several labels.

Iterative stratification [1]_: the rows of the rarest remaining label are distributed first, each to the fold
that needs this label most. The other labels of the row are subtracted from the demand at once.

References
----------
.. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas, "On the Stratification of Multi-Label Data", ECML PKDD 2011.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.errors import InvalidInput
from embedding_core.labels import as_indicator


def _fold_sizes(n: int, n_splits: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return sizes that differ by at most one; which folds are larger is random."""
    sizes = np.full(n_splits, n // n_splits)
    sizes[rng.permutation(n_splits)[: n % n_splits]] += 1
    return sizes


def _deal_rows(lots: NDArray[np.float64], lacking: NDArray[np.int64], room: NDArray[np.int64]) -> list[int]:
    """Return the fold of each row of one label: the largest demand, then the most room, then random.

    `lacking` (n_splits,) counts in n_splits-ths of a row: integers, so that ties are exact. Uses plain lists,
    which are faster than arrays of five numbers. Updates `room`.
    """
    n_splits = len(room)
    need, free, dealt = lacking.tolist(), room.tolist(), []
    for lot in lots.tolist():
        fold = max((need[f], free[f], lot[f], f) for f in range(n_splits) if free[f])[-1]
        need[fold] -= n_splits
        free[fold] -= 1
        dealt.append(fold)
    room[:] = free
    return dealt


def _assign_folds(Y: NDArray[np.int8], n_splits: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold (n,) of each row of the indicator Y (n, K)."""
    n = len(Y)
    visits = rng.permutation(n)
    lots = rng.random((n, n_splits))
    room = _fold_sizes(n, n_splits, rng)
    open_positives = Y.sum(axis=0, dtype=np.int64)
    lacking = np.tile(open_positives, (n_splits, 1))
    fold_of = np.full(n, -1)
    while open_positives.any():
        label = int(np.argmin(np.where(open_positives > 0, open_positives, n + 1)))
        rows = visits[(fold_of[visits] < 0) & (Y[visits, label] > 0)]
        fold_of[rows] = _deal_rows(lots[rows], lacking[:, label], room)
        for fold in range(n_splits):
            lacking[fold] -= n_splits * Y[rows[fold_of[rows] == fold]].sum(axis=0, dtype=np.int64)
        open_positives -= Y[rows].sum(axis=0, dtype=np.int64)
    without_label = visits[fold_of[visits] < 0]
    fold_of[without_label] = np.repeat(np.arange(n_splits), room)
    return fold_of


def stratified_folds(
    Y: ArrayLike, n_splits: int = 5, seed: int = 0
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split the labeled rows into folds.

    Parameters
    ----------
    Y : (n, K) array of 0/1, rows of -1 unlabeled; or (n,) classes
        Unlabeled rows are in no fold, neither for training nor for testing.
    n_splits : int
        Number of folds, from 2 to the number of labeled rows.
    seed : int
        The same seed and labels give the same folds.

    Returns
    -------
    list of (train, test)
        Row numbers in ascending order. The test parts are disjoint, cover the labeled rows and differ in size
        by at most one (unlike [1]_, where sizes may drift).

    Notes
    -----
    A label with fewer positive rows than folds is missing from the test part of some folds; a label with a
    single positive row is missing from the training part of one.

    Examples
    --------
    >>> Y = [[1, 0], [1, 0], [-1, -1], [0, 1], [0, 1]]
    >>> [test.tolist() for _, test in stratified_folds(Y, n_splits=2)]
    [[0, 4], [1, 3]]
    """
    indicator = as_indicator(Y)
    rows = np.flatnonzero(indicator.labeled)
    if n_splits < 2 or n_splits > len(rows):
        raise InvalidInput(
            f"{n_splits} folds of {len(rows)} labeled rows; "
            f"choose from 2 to {max(len(rows), 2)} folds, or label more rows."
        )
    fold_of = _assign_folds(indicator.Y[rows], n_splits, np.random.default_rng(seed))
    return [(rows[fold_of != fold], rows[fold_of == fold]) for fold in range(n_splits)]


def smallest_training_part(n: int, n_splits: int) -> int:
    """Return the size of the smallest training part if n rows are split into folds, at most n of them.

    A single row cannot be split and forms the training part itself.
    """
    return n - -(-n // max(2, n_splits)) if n > 1 else n


def check_folds(
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]], Y: NDArray[np.int8], names: Sequence[str]
) -> None:
    """Raise InvalidInput if the training part of a fold has fewer than two of the K named labels."""
    for number, (train, _) in enumerate(folds, start=1):
        if (Y[train] == 1).any(axis=0).sum() < 2:
            counts = (Y == 1).sum(axis=0)
            rare = ", ".join(f"{names[k]!r} has {counts[k]}" for k in np.argsort(counts, kind="stable")[:2])
            raise InvalidInput(
                f"the training part of fold {number} has fewer than two labels: among all labeled items "
                f"{rare}. Label more items with the rarer one, or choose another evaluation.seed."
            )
