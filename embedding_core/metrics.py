"""Multi-label metrics with explicit conventions.

There are metrics of 0/1 decisions and metrics of rankings: of the labels of a row, or of the rows of a label,
by their scores. No metric is ever NaN; the table says how empty classes and rows without labels count.

| name | convention |
|---|---|
| macro_precision, macro_recall, macro_f1 | mean over all K classes; 0/0 counts as 0 |
| micro_precision, micro_recall, micro_f1 | from the contingency tables summed over classes; 0/0 is 0 |
| precision_class_mean | macro_precision over the classes that have a positive row |
| hamming_loss | fraction of wrong cells |
| accuracy | fraction of rows with every cell correct (subset accuracy) |
| lrap | label ranking average precision; a row with no label, or with all labels, counts as 1 |
| map_macro | mean, over classes with a positive row, of the average precision of the ranking of the rows |
| one_error | fraction of labeled rows whose top-scored label is wrong; ties at the top share the row |
| coverage0 | rank of the last true label, counted from 0; a row without labels counts as 0 |
| ranking_loss | fraction of misordered (true, false) label pairs of a row; ties are wrong, no pair is 0 |

`lrap` and `ranking_loss` equal scikit-learn's. `coverage0` is scikit-learn's coverage error minus one if
every row has a label. The macro and micro metrics equal scikit-learn's with `zero_division=0`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.errors import InvalidInput


@dataclass(frozen=True)
class Metric:
    """Name, direction and display title of one metric."""

    name: str
    higher_is_better: bool
    title: str


METRICS: tuple[Metric, ...] = (
    Metric("macro_precision", True, "macro precision"),
    Metric("macro_recall", True, "macro recall"),
    Metric("macro_f1", True, "macro F1"),
    Metric("micro_precision", True, "micro precision"),
    Metric("micro_recall", True, "micro recall"),
    Metric("micro_f1", True, "micro F1"),
    Metric("precision_class_mean", True, "class-mean precision"),
    Metric("accuracy", True, "subset accuracy"),
    Metric("hamming_loss", False, "Hamming loss"),
    Metric("lrap", True, "LRAP"),
    Metric("map_macro", True, "macro MAP"),
    Metric("one_error", False, "one-error"),
    Metric("coverage0", False, "coverage (from 0)"),
    Metric("ranking_loss", False, "ranking loss"),
)


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elementwise part / whole; 0 where whole is 0."""
    ratio: NDArray[np.float64] = np.divide(
        part, whole, out=np.zeros_like(part, dtype=float), where=whole != 0
    )
    return ratio


def _mean(values: NDArray[np.float64], empty: float = 0.0) -> float:
    return float(values.mean()) if values.size else empty


def _decision_metrics(Y: NDArray[np.int8], Y_pred: NDArray[np.int8], skip_absent: bool) -> dict[str, float]:
    """Compute the metrics of 0/1 decisions from one contingency table per class."""
    true = Y.sum(axis=0, dtype=float)
    predicted = Y_pred.sum(axis=0, dtype=float)
    hit = (Y & Y_pred).sum(axis=0, dtype=float)
    precision, recall = _ratio(hit, predicted), _ratio(hit, true)
    f1 = _ratio(2 * hit, true + predicted)
    hits, positives, guesses = hit.sum(), true.sum(), predicted.sum()
    averaged = true + predicted > 0 if skip_absent else slice(None)
    return {
        "macro_precision": _mean(precision[averaged]),
        "macro_recall": _mean(recall[averaged]),
        "macro_f1": _mean(f1[averaged]),
        "micro_precision": float(_ratio(hits, guesses)),
        "micro_recall": float(_ratio(hits, positives)),
        "micro_f1": float(_ratio(2 * hits, positives + guesses)),
        "precision_class_mean": _mean(precision[true > 0]),
        "accuracy": float((Y_pred == Y).all(axis=1).mean()),
        "hamming_loss": float((Y_pred != Y).mean()),
    }


def _ranks(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each cell of a row, count all cells, and the relevant cells, that score at least as high.

    The second count is valid at relevant cells only.
    """
    from scipy.stats import rankdata  # imported late: it takes 0.5 s, and METRICS is needed without it

    rank = rankdata(-scores, method="max", axis=1)
    rank_among_relevant = rankdata(np.where(relevant, -scores, np.inf), method="max", axis=1)
    return rank, rank_among_relevant


def _average_precision(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Average precision of each row's ranking, with ties ranked together; 0 without a relevant cell."""
    rank, rank_among_relevant = _ranks(scores, relevant)
    precision = np.where(relevant, rank_among_relevant / rank, 0.0)
    return _ratio(precision.sum(axis=1), relevant.sum(axis=1, dtype=float))


def _one_error(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> float:
    """Expected one-error if ties at the top are broken at random, over the rows that have a label."""
    top = scores == scores.max(axis=1, keepdims=True)
    wrong = (top & ~relevant).sum(axis=1) / top.sum(axis=1)
    return _mean(wrong[relevant.any(axis=1)])


def row_precisions(Y: NDArray[np.int8], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average precision (n,) of each row's ranking of labels; its mean is `lrap`."""
    relevant = Y.astype(bool)
    trivial = relevant.all(axis=1) | ~relevant.any(axis=1)
    return np.where(trivial, 1.0, _average_precision(scores, relevant))


def _ranking_metrics(Y: NDArray[np.int8], scores: NDArray[np.float64]) -> dict[str, float]:
    """Compute the metrics of each row's ranking of labels and (map_macro) of each label's ranking of rows."""
    relevant = Y.astype(bool)
    rank, rank_among_relevant = _ranks(scores, relevant)
    n_relevant = relevant.sum(axis=1, dtype=float)
    n_irrelevant = Y.shape[1] - n_relevant
    misordered = np.where(relevant, rank - rank_among_relevant, 0).sum(axis=1, dtype=float)
    last_true = np.where(relevant, rank - 1, 0).max(axis=1)
    class_precision = _average_precision(np.ascontiguousarray(scores.T), relevant.T)
    return {
        "lrap": _mean(row_precisions(Y, scores)),
        "map_macro": _mean(class_precision[relevant.any(axis=0)]),
        "one_error": _one_error(scores, relevant),
        "coverage0": _mean(last_true),
        "ranking_loss": _mean(_ratio(misordered, n_relevant * n_irrelevant)),
    }


def _as_decisions(Y: ArrayLike, name: str) -> NDArray[np.int8]:
    """Return a 0/1 array (m, K), or raise InvalidInput."""
    array = np.asarray(Y)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInput(
            f"{name} has shape {array.shape}; expected (rows, labels) with at least one of each."
        )
    if not np.isin(array, (0, 1)).all():
        found = sorted(set(np.unique(array).tolist()) - {0, 1})[:5]
        raise InvalidInput(f"{name} contains {found}; expected only 0 and 1. Leave out unlabeled rows (-1).")
    return array.astype(np.int8)


def multilabel_metrics(
    Y_true: ArrayLike, Y_pred: ArrayLike, scores: ArrayLike, skip_absent: bool = False
) -> dict[str, float]:
    """Compute every metric of `METRICS` for one set of predictions.

    Parameters
    ----------
    Y_true, Y_pred : (m, K) array of 0/1
        True and predicted labels.
    scores : (m, K) array of float
        Finite; higher means more likely. Compared within a row and within a column.
    skip_absent : bool, default=False
        Leave labels that no row has and no row is given out of the macro averages, instead of counting them
        as 0. A fold of a cross-validation lacks some rare labels; with 0 for each of them, a perfect
        prediction of 15 labels with 2 to 120 of 330 rows scores 0.92 on five folds.

    Returns
    -------
    dict of str to float
        One finite value per metric, in the order of `METRICS`.

    Examples
    --------
    >>> values = multilabel_metrics([[1, 0], [0, 1]], [[1, 0], [1, 1]], [[0.9, 0.2], [0.6, 0.7]])
    >>> values["hamming_loss"], values["lrap"], values["micro_recall"]
    (0.25, 1.0, 1.0)
    """
    Y, decided = _as_decisions(Y_true, "Y_true"), _as_decisions(Y_pred, "Y_pred")
    ranked = np.asarray(scores, dtype=float)
    if not Y.shape == decided.shape == ranked.shape:
        raise InvalidInput(
            f"Y_true {Y.shape}, Y_pred {decided.shape} and scores {ranked.shape} differ in shape; "
            "expected one row per item and one column per label in all three."
        )
    if not np.isfinite(ranked).all():
        raise InvalidInput(
            f"scores contain {(~np.isfinite(ranked)).sum()} NaN or infinite values; expected finite values."
        )
    values = _decision_metrics(Y, decided, skip_absent) | _ranking_metrics(Y, ranked)
    return {metric.name: values[metric.name] for metric in METRICS}
