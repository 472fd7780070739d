"""Few labelled rows a class: the rest are unlabelled, and classified."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from embedding_core.errors import InvalidInput
from embedding_core.labels import UNLABELLED


def draw_a_class(
    y: NDArray[Any], count: int, number: int, seed: int = 0
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw `count` labelled rows of each class of y (n,); gives them and the rest, both ascending."""
    order = np.random.default_rng([seed, number]).permutation(len(y))
    drawn = [order[y[order] == one][:count] for one in np.unique(y)]
    if min(map(len, drawn)) < count:
        raise InvalidInput(f"{count} rows of each class were asked for, a class has {min(map(len, drawn))}.")
    labelled = np.sort(np.concatenate(drawn))
    return labelled, np.setdiff1d(np.arange(len(y)), labelled)


def few_label_accuracy(
    estimator: Any, X: Any, y: NDArray[np.integer], count: int, number: int, seed: int = 0
) -> float:
    """Share of the rest that is classified rightly.

    Estimators that take unlabelled rows (their `fit` has an `affinity`) see the rest without labels, others
    the labelled rows alone.
    """
    labelled, rest = draw_a_class(y, count, number, seed)
    model = clone(estimator)
    if "affinity" in inspect.signature(model.fit).parameters:
        hidden = np.full(len(y), UNLABELLED)
        hidden[labelled] = y[labelled]
        model.fit(X, hidden)
    else:
        model.fit(X[labelled], y[labelled])
    return float((model.predict(X[rest]) == y[rest]).mean())
