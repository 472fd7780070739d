"""Choices by cross-validation on the labeled items, and decisions for all labels at once."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from embedding_core.model_selection.inner_choice import labeled_folds, micro_f1_empty1

C_CANDIDATES = (1.0, 10.0, 0.1, 100.0)
"""Penalties that "cv" tries, preferred first among equal scores."""

S = TypeVar("S")
Answer = Callable[[NDArray[np.intp], NDArray[np.intp], S], NDArray[np.float64]]
"""Decisions (m, J) for some labeled items by a fit on others, both by number, with a setting."""


def dimension_candidates(rank: int) -> list[int]:
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


def best_setting(
    Y: NDArray[np.int8], settings: Sequence[S], answer: "Answer[S]", multi_label: bool
) -> tuple[S, float]:
    """The setting with the best mean micro-F1 (accuracy for classes) over folds, the first of equals.

    Parameters
    ----------
    Y : ndarray of shape (l, K)
        Labels of the labeled items.
    settings : sequence
    answer : callable
        A fold's items are hidden from the margin, not from the graph, as unlabeled items are.
    multi_label : bool

    Returns
    -------
    setting, score
    """
    folds = labeled_folds(Y)
    scores = [
        float(
            np.mean(
                [
                    micro_f1_empty1(Y[test], decide(answer(train, test, one), multi_label))
                    for train, test in folds
                ]
            )
        )
        for one in settings
    ]
    best = int(np.argmax(scores))
    return settings[best], scores[best]
