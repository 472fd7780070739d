"""Compare methods on held-out labels.

For one fold, hide the labels of all rows but the training rows, fit, classify the test rows, and compute the
metrics. The fit goes through `Annotator`, so the evaluated model is the one that annotates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from embedding_core.annotator import Annotator
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels, nearest_rows, vote
from embedding_core.labels import as_indicator
from embedding_core.metrics import multilabel_metrics
from embedding_core.registry import get_method
from embedding_core.scaling import Features, as_features


@dataclass(frozen=True)
class Prediction:
    """Predictions of one classifier for the test rows: labels (m, K) in 0/1 and scores (m, K) in [0, 1]."""

    classifier: str
    labels: NDArray[np.int8]
    scores: NDArray[np.float64]


class FoldScore(NamedTuple):
    """One metric of one classifier on one fold."""

    classifier: str
    metric: str
    value: float


class Summary(NamedTuple):
    """Mean over folds, and standard deviation over folds (n - 1; 0 for a single fold)."""

    mean: float
    std: float


def hide_labels(Y: NDArray[np.int8], train: NDArray[np.intp], test: NDArray[np.intp]) -> NDArray[np.int8]:
    """Return a copy of Y in which only the training rows are labeled."""
    shared = np.intersect1d(train, test)
    if len(shared):
        raise InvalidInput(
            f"{len(shared)} rows are in both train and test, the first is {shared[0]}; use disjoint rows."
        )
    for name, rows in (("train", train), ("test", test)):
        unlabeled = int((Y[rows] < 0).any(axis=1).sum())
        if unlabeled or not len(rows):
            raise InvalidInput(
                f"{name} has {len(rows)} rows, {unlabeled} of them unlabeled; "
                "give at least one row, and only labeled rows."
            )
    hidden = np.full_like(Y, -1)
    hidden[train] = Y[train]
    return hidden


def _classify_directly(fitted: Annotator, X: Features, test: NDArray[np.intp]) -> Prediction:
    """Return the predictions of a classifier; `transduction_scores_` is used for rows of its fit."""
    left = getattr(fitted.model_, "transduction_scores_", None)
    scores = fitted.predict_scores(X[test]) if left is None else left[test]
    return Prediction(fitted.method, decide_labels(scores, fitted.single_label), scores)


def _classify_by_neighbors(
    fitted: Annotator,
    X: Features,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    n_neighbors: Sequence[int],
) -> list[Prediction]:
    """Return the predictions of the nearest labeled rows in the embedding for each number of neighbors.

    One search serves all numbers. Test rows that were part of the fit are compared by their fitted
    coordinates, see `Annotator`.
    """
    Y_train = fitted.neighbors_.Y_
    if get_method(fitted.method).sees_all_rows:
        Z = as_features(fitted.model_.embedding_)
        Z_train, Z_test = Z[np.unique(train)], Z[test]
    else:
        Z_train, Z_test = fitted.neighbors_.Z_, as_features(fitted.transform(X[test]))
    distances, indices = nearest_rows(Z_train, Z_test, max(n_neighbors))
    predictions = []
    for k in n_neighbors:
        scores = vote(Y_train, distances[:, :k], indices[:, :k])
        predictions.append(Prediction(f"{k}nn", decide_labels(scores, fitted.single_label), scores))
    return predictions


def predict_fold(
    method: str,
    params: Mapping[str, Any] | None,
    X: Any,
    Y: ArrayLike,
    train: ArrayLike,
    test: ArrayLike,
    affinity: Any = None,
    scale: str = "none",
    n_neighbors: Sequence[int] = (1, 10),
    single_label: bool = False,
    blocks: Sequence[Mapping[str, Any]] | None = None,
) -> list[Prediction]:
    """Fit on the training rows and classify the test rows; see `evaluate_fold`."""
    if not n_neighbors or min(n_neighbors) < 1:
        raise InvalidInput(f"n_neighbors={tuple(n_neighbors)}; expected one or more integers >= 1.")
    X, Y = as_features(X, missing=bool(blocks)), as_indicator(Y).Y
    train, test = np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)
    annotator = Annotator(method=method, params=params, scale=scale, single_label=single_label, blocks=blocks)
    fitted = annotator.fit(X, hide_labels(Y, train, test), affinity)
    if get_method(method).role == "classifier":
        return [_classify_directly(fitted, X, test)]
    return _classify_by_neighbors(fitted, X, train, test, n_neighbors)


def evaluate_fold(
    method: str,
    params: Mapping[str, Any] | None,
    X: Any,
    Y: ArrayLike,
    train: ArrayLike,
    test: ArrayLike,
    affinity: Any = None,
    scale: str = "none",
    n_neighbors: Sequence[int] = (1, 10),
    single_label: bool = False,
    blocks: Sequence[Mapping[str, Any]] | None = None,
) -> list[FoldScore]:
    """Compute every metric of one method on one fold.

    Parameters
    ----------
    method, params
        A name of the registry and the parameters of its estimator.
    X : (n, p) array or CSR matrix
    Y : (n, K) array of 0/1, rows of -1 unlabeled
    train, test : arrays of row numbers
        Disjoint labeled rows. All rows except `train` are unlabeled in the fit.
    affinity : (n, n) matrix, optional
        For methods that use a graph; without it they build their own from X.
    scale : {"none", "zscore", "unit"}
        Scaling before the method, learned on the rows that the method is fitted on. Methods with their own
        scaling (the baselines) see X unscaled.
    n_neighbors : sequence of int
        Numbers of neighbors to evaluate in the embedding of a projection.
    single_label : bool
        Rows have exactly one label: the highest-scored one is predicted.
    blocks : sequence of mappings, optional
        How blocks of columns are prepared, instead of `scale`; see `Annotator`.

    Returns
    -------
    list of FoldScore
        The classifier is "1nn", "10nn", ... for projections, and the name of the method for classifiers.

    Notes
    -----
    Methods with `uses_graph` and methods that are not inductive are fitted on all rows (test rows without
    labels), others only on the training rows. `summarize` averages the values of the folds; it does not pool
    their decisions.
    """
    predictions = predict_fold(
        method, params, X, Y, train, test, affinity, scale, n_neighbors, single_label, blocks
    )
    Y_true = as_indicator(Y).Y[np.asarray(test, dtype=np.intp)]
    return [
        FoldScore(prediction.classifier, metric, value)
        for prediction in predictions
        for metric, value in multilabel_metrics(Y_true, prediction.labels, prediction.scores).items()
    ]


def summarize(rows: Iterable[tuple[str, str, int, str, float]]) -> dict[tuple[str, str, str], Summary]:
    """Return the mean and standard deviation over folds of (method, classifier, fold, metric, value) rows.

    Returns
    -------
    dict of (method, classifier, metric) to Summary
        In the order of first appearance.
    """
    values: dict[tuple[str, str, str], list[float]] = {}
    for method, classifier, _fold, metric, value in rows:
        values.setdefault((method, classifier, metric), []).append(value)
    return {
        key: Summary(float(np.mean(folds)), float(np.std(folds, ddof=1)) if len(folds) > 1 else 0.0)
        for key, folds in values.items()
    }
