"""Choose a setting inside the training labels: every row is judged by a fit that did not see its labels."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels, nearest_rows
from embedding_core.labels import Indicator, one_label_each
from embedding_core.metrics import row_precisions
from embedding_core.model_selection.folds import stratified_folds

# From rows to learn from and rows to judge to the scores (m, K) of the latter, one array an option.
ScoreOptions = Callable[[NDArray[np.intp], NDArray[np.intp]], Iterable[NDArray[np.float64]]]

CV_FOLDS = 5
"""Folds of the labeled items in every choice named "cv"."""

_WITHOUT_CV = {"sigma": 'sigma="auto"', "n_components": "a number of components"}


def labeled_folds(Y: NDArray[np.int8]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Folds of the labeled rows of Y (n, K) for a choice "cv"; fewer where fewer rows are labeled."""
    return stratified_folds(Y, min(CV_FOLDS, int((Y >= 0).all(axis=1).sum())), seed=0)


def check_cv_labels(name: str, target: Indicator) -> None:
    """Raise where fewer than two items are labeled, so that `name`="cv" has none to hide."""
    n_labeled = int(target.labeled.sum())
    if n_labeled < 2:
        raise InvalidInput(
            f'{name}="cv" chooses by labels, and {n_labeled} {"item is" if n_labeled else "items are"} '
            f"labeled; label two or more, or take {_WITHOUT_CV[name]}."
        )


def micro_f1_empty1(Y: NDArray[np.int8], predicted: NDArray[np.int8]) -> float:
    """Micro-averaged F1; for one label an item it is the accuracy.

    It is 1 where neither has any label, as may be in a fold: all is right there. In `metrics` 0/0 is 0.
    """
    positives = int(Y.sum()) + int(predicted.sum())
    return 2 * int((Y & predicted).sum()) / positives if positives else 1.0


def fold_score(target: Indicator, place: Callable[[Indicator], NDArray[np.float64]]) -> float:
    """Mean micro-F1 of 1NN in the embedding, each fold of the labeled items hidden in turn, to choose sigma.

    Parameters
    ----------
    target : Indicator
    place : callable
        Gives the embedding (n, r) of all items where only the labels handed to it are known.

    Returns
    -------
    float
        A fold without which the classes cannot be told apart scores 0.
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
    """How good scores (m, K) are for labels Y (m, K), the larger the better; the second part breaks ties.

    First accuracy where every row carries one label, else label ranking average precision; then the squared
    error, negated.
    """
    # These two alone: a search asks hundreds of times, and all metrics take ten times as long.
    if one_label_each(Y):
        rating = (decide_labels(scores, single_label=True) == Y).all(axis=1)
    else:
        rating = row_precisions(Y, scores)
    return float(rating.mean()), -float(((scores - Y) ** 2).mean())


def choose_option(
    Y: NDArray[np.int8], n_options: int, score_options: ScoreOptions, n_splits: int = 3, seed: int = 0
) -> int:
    """Number of the option whose out-of-fold scores rate best, the first of equals; see `choose_scored`."""
    return choose_scored(Y, n_options, score_options, n_splits, seed)[0] if n_options > 1 else 0


def choose_scored(
    Y: NDArray[np.int8], n_options: int, score_options: ScoreOptions, n_splits: int = 3, seed: int = 0
) -> tuple[int, NDArray[np.float64] | None]:
    """Number of the option whose out-of-fold scores rate best, the first of equals, and these scores (n, K).

    Fewer than two labeled rows cannot be told apart: then the first option, without scores.

    Parameters
    ----------
    Y : (n, K) array of 0/1, rows of -1 unlabeled
        Unlabeled rows are in no fold.
    n_options : int
    score_options : callable
        See `ScoreOptions`.
    n_splits, seed
        Of the folds; there are at most as many folds as labeled rows.
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
