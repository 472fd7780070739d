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
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.registry import get_method
from embedding_core.scaling import Features, as_features

_GROUPS = 10


@dataclass(frozen=True)
class Prediction:
    """Predictions of one classifier for the test rows: labels (m, K) in 0/1 and scores (m, K) in [0, 1]."""

    classifier: str
    labels: NDArray[np.int8]
    scores: NDArray[np.float64]


class FoldScore(NamedTuple):
    """One metric of one classifier on one fold, and its standard error if only some rows were tested."""

    classifier: str
    metric: str
    value: float
    error: float = 0.0


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


def _classify_directly(
    fitted: Annotator, X: Features, test: NDArray[np.intp], closed: bool, links: Any
) -> Prediction:
    """Return the predictions of a classifier; `transduction_scores_` is used for rows of its fit."""
    left = getattr(fitted.model_, "transduction_scores_", None) if closed else None
    scores = fitted.predict_scores(X[test], links) if left is None else left[test]
    return Prediction(fitted.method, decide_labels(scores, fitted.single_label), scores)


def _classify_by_neighbors(
    fitted: Annotator,
    X: Features,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    n_neighbors: Sequence[int],
    closed: bool,
) -> list[Prediction]:
    """Return the predictions of the nearest labeled rows in the embedding for each number of neighbors.

    One search serves all numbers. Test rows that were part of the fit are compared by their fitted
    coordinates, see `Annotator`.
    """
    Y_train = fitted.neighbors_.Y_
    if closed and get_method(fitted.method).sees_all_rows:
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
    closed: bool = True,
    links: Any = None,
) -> list[Prediction]:
    """Fit on the training rows and classify the test rows; see `evaluate_fold`.

    With closed=False no method sees the features of the test rows before it classifies them, as with items
    that are annotated later. `affinity` is then that of the rows of `open_rows`, and the method must be
    inductive. `links` (m, n) are given links from the test rows to these rows, with which they arrive.
    """
    if not n_neighbors or min(n_neighbors) < 1:
        raise InvalidInput(f"n_neighbors={tuple(n_neighbors)}; expected one or more integers >= 1.")
    X, Y = as_features(X, missing=bool(blocks)), as_indicator(Y).Y
    train, test = np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)
    annotator = Annotator(method=method, params=params, scale=scale, single_label=single_label, blocks=blocks)
    hidden = hide_labels(Y, train, test)
    rows = slice(None) if closed else open_rows(len(Y), test)
    fitted = annotator.fit(X[rows], hidden[rows], affinity)
    if get_method(method).role == "classifier":
        return [_classify_directly(fitted, X, test, closed, links)]
    return _classify_by_neighbors(fitted, X, train, test, n_neighbors, closed)


def open_rows(n: int, test: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows that a fit may see if the test rows are new: training rows and unlabeled ones."""
    return np.delete(np.arange(n), test)


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
    tested_share: float = 1.0,
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
    tested_share : float
        Share of the rows of the fold that `test` is a sample of, see `sample_rows`. Below 1 every score has a
        standard error.

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
    return measure_predictions(as_indicator(Y).Y[np.asarray(test, dtype=np.intp)], predictions, tested_share)


def measure_predictions(
    Y_true: NDArray[np.int8], predictions: Iterable[Prediction], tested_share: float = 1.0
) -> list[FoldScore]:
    """Compute every metric of predictions for the same rows with labels Y_true (m, K)."""
    return [score for one in predictions for score in _score(Y_true, one, tested_share)]


def _score(Y: NDArray[np.int8], found: Prediction, tested_share: float) -> list[FoldScore]:
    """Every metric of one prediction, with standard errors if it is for a sample."""
    values = multilabel_metrics(Y, found.labels, found.scores)
    if tested_share >= 1:
        return [FoldScore(found.classifier, metric, value) for metric, value in values.items()]
    errors = sampling_errors(Y, found, tested_share)
    return [FoldScore(found.classifier, metric, value, errors[metric]) for metric, value in values.items()]


def sample_rows(Y: NDArray[np.int8], rows: NDArray[np.intp], most: int | None, seed: int) -> NDArray[np.intp]:
    """Return all of some labeled rows, or a stratified sample of at most `most` of them, ascending."""
    if most is None or len(rows) <= most:
        return rows
    parts = -(-len(rows) // most)
    return rows[stratified_folds(Y[rows], parts, seed)[0][1]]


def sampling_errors(Y: NDArray[np.int8], found: Prediction, tested_share: float) -> dict[str, float]:
    """Return the standard error of every metric that comes from testing a sample of the rows of a fold.

    The sample is cut into `_GROUPS` groups; the spread of a metric over them gives the error of the whole.
    A sample of a large share of all rows has a smaller error: it leaves out few.
    """
    groups = [
        multilabel_metrics(Y[part::_GROUPS], found.labels[part::_GROUPS], found.scores[part::_GROUPS])
        for part in range(_GROUPS)
    ]
    factor = np.sqrt((1 - tested_share) / _GROUPS)
    return {
        metric: float(factor * np.std([group[metric] for group in groups], ddof=1)) for metric in groups[0]
    }


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
