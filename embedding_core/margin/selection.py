"""Choice of C and of the subspace dimension by cross-validation on the labelled items (the open problem)."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from embedding_core.discriminant.dle import micro_f1
from embedding_core.folds import stratified_folds
from embedding_core.margin.alternation import Machine, Stage

CV_FOLDS = 5
C_CANDIDATES = (1.0, 10.0, 0.1, 100.0)
"""Candidates of C="cv", preferred first among equal scores."""

Setting = tuple[float, int | None]
Fit = Callable[[Stage, NDArray[np.int8], Setting], Machine]


def dimension_candidates(rank: int) -> list[int | None]:
    """1, 2, 4, ... and the rank itself: small ones are preferred among equal scores."""
    return [*(2**e for e in range(rank.bit_length()) if 2**e < rank), rank]


def decide(decisions: NDArray[np.float64], multi_label: bool) -> NDArray[np.int8]:
    """0/1 labels from decisions (m, J): the positive ones, or the largest one of each row.

    Two classes have one decision, that for the second: the labels then are both columns.
    """
    if multi_label:
        return (decisions > 0).astype(np.int8)
    if decisions.shape[1] == 1:
        second = decisions[:, 0] > 0
        return np.column_stack([~second, second]).astype(np.int8)
    labels = np.zeros(decisions.shape, dtype=np.int8)
    labels[np.arange(len(labels)), decisions.argmax(axis=1)] = 1
    return labels


def fit_columns(stage: Stage, signs: NDArray[np.int8], setting: Setting, fit: Fit) -> list[Machine | float]:
    """One machine a column of signs (l, J); a column that is all one sign is answered by that sign."""
    return [
        float(sign[0]) if (sign == sign[0]).all() else fit(stage, np.ascontiguousarray(sign), setting)
        for sign in signs.T
    ]


def cv_scores(
    stage: Stage,
    Y: NDArray[np.int8],
    signs: NDArray[np.int8],
    settings: list[Setting],
    fit: Fit,
    multi_label: bool,
) -> Mapping[Setting, float]:
    """Mean micro-F1 (accuracy for classes) of every setting over folds of the labelled items.

    A fold's items are hidden from the margin, not from the graph, as unlabelled items are.
    """
    folds = stratified_folds(Y, min(CV_FOLDS, len(Y)), seed=0)
    scores: dict[Setting, list[float]] = {setting: [] for setting in settings}
    for train, test in folds:
        seen = stage.select(train)
        for setting in settings:
            machines = fit_columns(seen, signs[train], setting, fit)
            decisions = np.column_stack([_decide_rows(machine, stage.rows[test]) for machine in machines])
            scores[setting].append(micro_f1(Y[test], decide(decisions, multi_label)))
    return {setting: float(np.mean(found)) for setting, found in scores.items()}


def _decide_rows(machine: Machine | float, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(machine, float):
        return np.full(len(rows), machine)
    return rows @ machine.weight + machine.bias
