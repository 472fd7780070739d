"""How good the predictions are label by label, which labels are confused, and the items to look at first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.report.judged import JudgedItems

MOST_CONFUSIONS = 15
MOST_CASES = 12


class LabelScore(NamedTuple):
    """Precision, recall and F1 of one label, how many items carry it, and how often it was predicted.

    NaN where nothing was predicted (precision) or no item carries the label (recall).
    """

    name: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


class Case(NamedTuple):
    """An item to look at: its row, and why."""

    row: int
    reason: str


def score_labels(Y: NDArray[np.int8], judged: JudgedItems, names: Sequence[str]) -> list[LabelScore]:
    """Score each label over the labeled items that have a prediction; the worst F1 first."""
    rows = judged.known & (Y >= 0).all(axis=1)
    given, predicted = Y[rows] == 1, judged.decided[rows] == 1
    both, support, count = (given & predicted).sum(axis=0), given.sum(axis=0), predicted.sum(axis=0)
    found = [
        LabelScore(
            names[k],
            _share(both[k], count[k]),
            _share(both[k], support[k]),
            _share(2 * both[k], support[k] + count[k]),
            int(support[k]),
            int(count[k]),
        )
        for k in range(len(names))
    ]
    return sorted(found, key=lambda one: -1.0 if np.isnan(one.f1) else one.f1)


def _share(part: np.integer[Any], whole: np.integer[Any]) -> float:
    return float(part) / float(whole) if whole else float("nan")


def count_confusions(Y: NDArray[np.int8], judged: JudgedItems) -> NDArray[np.intp]:
    """Count (K, K) how often label a is given and missed while label b is predicted and not given.

    With one label per item this is the confusion matrix without its diagonal.
    """
    rows = judged.known & (Y >= 0).all(axis=1)
    given, predicted = Y[rows] == 1, judged.decided[rows] == 1
    missed, extra = (given & ~predicted).astype(np.intp), (predicted & ~given).astype(np.intp)
    return np.asarray(missed.T @ extra)


def list_confusions(Y: NDArray[np.int8], judged: JudgedItems, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The most frequent confusions: given label, predicted label, items, share of the items given."""
    counts = count_confusions(Y, judged)
    given = (Y[judged.known] == 1).sum(axis=0)
    order = np.argsort(-counts, axis=None, kind="stable")[:MOST_CONFUSIONS]
    pairs = (divmod(int(place), len(names)) for place in order)
    return [
        (names[a], names[b], f"{counts[a, b]:,}", f"{counts[a, b] / max(int(given[a]), 1):.0%}")
        for a, b in pairs
        if counts[a, b]
    ]


def most_doubtful(Y: NDArray[np.int8], judged: JudgedItems, names: Sequence[str]) -> list[Case]:
    """Labeled items with a label closest to its threshold; of equal ones, those with more labels in doubt."""
    rows = np.flatnonzero(judged.known & (Y >= 0).all(axis=1))
    doubt = judged.doubt()[rows]
    closest = np.abs(judged.scores[rows] - 0.5).argmin(axis=1)
    in_all = (1 - 2 * np.abs(judged.scores[rows] - 0.5)).sum(axis=1)
    chosen = np.lexsort((-in_all, -doubt))[:MOST_CASES]
    return [
        Case(int(rows[k]), f"in doubt: {names[closest[k]]}, score {judged.scores[rows[k], closest[k]]:.2f}")
        for k in chosen
    ]


def most_wrong(Y: NDArray[np.int8], judged: JudgedItems, names: Sequence[str]) -> list[Case]:
    """Labeled items whose prediction is farthest from a given label."""
    error, worst = judged.error(Y)
    wrong = np.flatnonzero(np.nan_to_num(error) > 0)
    chosen = wrong[np.argsort(-error[wrong], kind="stable")][:MOST_CASES]
    return [Case(int(row), _wrong_about(row, int(worst[row]), Y, judged, names)) for row in chosen]


def _wrong_about(row: int, k: int, Y: NDArray[np.int8], judged: JudgedItems, names: Sequence[str]) -> str:
    how = "given, not predicted" if Y[row, k] == 1 else "predicted, not given"
    return f"{names[k]}: {how}, score {judged.scores[row, k]:.2f}"


def quality_content(Y: NDArray[np.int8], judged: JudgedItems, names: Sequence[str]) -> dict[str, Any]:
    """Scores and confusions of labels as plain data for the page."""
    return {
        "title": judged.title,
        "labels": [
            (
                one.name,
                *(_number(value) for value in (one.precision, one.recall, one.f1)),
                f"{one.support:,}",
                f"{one.predicted:,}",
            )
            for one in score_labels(Y, judged, names)
        ],
        "confusions": list_confusions(Y, judged, names),
    }


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
