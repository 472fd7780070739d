"""Model selection on the training labels: every row is judged by a fit that did not see its labels."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels, nearest_rows
from embedding_core.labels import Indicator, one_label_each
from embedding_core.metrics import row_precisions
from embedding_core.model_selection.folds import stratified_folds

# Maps training and test rows to the scores (m, K) of the test rows, one array per option.
ScoreOptions = Callable[[NDArray[np.intp], NDArray[np.intp]], Iterable[NDArray[np.float64]]]

CV_FOLDS = 5
"""Number of folds of the labeled items for every parameter set to "cv"."""

_WITHOUT_CV = {"sigma": 'sigma="auto"', "n_components": "a number of components"}


def labeled_folds(Y: NDArray[np.int8]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return folds of the labeled rows of Y (n, K) for "cv"; fewer if fewer rows are labeled."""
    return stratified_folds(Y, min(CV_FOLDS, int((Y >= 0).all(axis=1).sum())), seed=0)


def check_cv_labels(name: str, target: Indicator) -> None:
    """Raise if fewer than two items are labeled, so that `name`="cv" cannot hide any."""
    n_labeled = int(target.labeled.sum())
    if n_labeled < 2:
        raise InvalidInput(
            f'{name}="cv" chooses by labels, and {n_labeled} {"item is" if n_labeled else "items are"} '
            f"labeled; label two or more, or take {_WITHOUT_CV[name]}."
        )


def micro_f1_empty1(Y: NDArray[np.int8], predicted: NDArray[np.int8]) -> float:
    """Return micro-averaged F1; with one label per item this is the accuracy.

    It is 1 if neither array has any label, which may happen in a fold. In `metrics` 0/0 is 0.
    """
    positives = int(Y.sum()) + int(predicted.sum())
    return 2 * int((Y & predicted).sum()) / positives if positives else 1.0


def fold_score(target: Indicator, place: Callable[[Indicator], NDArray[np.float64]]) -> float:
    """Return the mean micro-F1 of 1NN in the embedding over folds of the labeled items, each hidden in turn.

    Parameters
    ----------
    target : Indicator
    place : callable
        Returns the embedding (n, r) of all items, using only the labels passed to it.

    Returns
    -------
    float
        A fold whose training labels do not separate the classes scores 0.
    """
    check_cv_labels("sigma", target)
    scores = []
    for train, test in labeled_folds(target.Y):
        two_classes = (target.Y[train] == 1).any(axis=0).sum() > 1
        Q = place(target.hide(test)) if two_classes else np.zeros((len(target.Y), 0))
        scores.append(_neighbor_score(Q, target.Y, train, test))
    return float(np.mean(scores))


def _neighbor_score(
    Q: NDArray[np.float64], Y: NDArray[np.int8], train: NDArray[np.intp], test: NDArray[np.intp]
) -> float:
    if Q.shape[1] == 0:
        return 0.0
    _, nearest = nearest_rows(Q[train], Q[test], 1)
    return micro_f1_empty1(Y[test], Y[train][nearest[:, 0]])


def rate_scores(Y: NDArray[np.int8], scores: NDArray[np.float64]) -> tuple[float, float]:
    """Rate scores (m, K) for labels Y (m, K); larger is better, and the second value breaks ties.

    The first value is the accuracy if every row has one label, else the label ranking average precision; the
    second is the negative squared error.
    """
    # only these two: a search rates hundreds of times, and computing all metrics takes ten times as long
    if one_label_each(Y):
        rating = (decide_labels(scores, single_label=True) == Y).all(axis=1)
    else:
        rating = row_precisions(Y, scores)
    return float(rating.mean()), -float(((scores - Y) ** 2).mean())


def choose_scored(
    Y: NDArray[np.int8], n_options: int, score_options: ScoreOptions, n_splits: int = 3, seed: int = 0
) -> tuple[int, NDArray[np.float64] | None]:
    """Return the index of the option with the best out-of-fold scores and these scores (n, K).

    The first option wins ties. With fewer than two labeled rows the first option is returned without scores.

    Parameters
    ----------
    Y : (n, K) array of 0/1, rows of -1 unlabeled
        Unlabeled rows are in no fold.
    n_options : int
    score_options : callable
        See `ScoreOptions`.
    n_splits, seed
        Number and seed of the folds; there are at most as many folds as labeled rows.
    """
    labeled = np.flatnonzero((Y >= 0).all(axis=1))
    if len(labeled) < 2:
        return 0, None
    gathered = np.zeros((n_options, *Y.shape))
    for train, test in stratified_folds(Y, min(n_splits, len(labeled)), seed):
        for option, scores in enumerate(score_options(train, test)):
            gathered[option, test] = scores
    ratings = [rate_scores(Y[labeled], scores[labeled]) for scores in gathered]
    best = max(range(n_options), key=lambda option: (*ratings[option], -option))
    return best, gathered[best]
