"""A few labeled and more unlabeled rows per class in the fit, other rows after it (Table 1 of LPSSVM).

The features of a trial are a kernel matrix of all rows, so every method learns in the same feature space:
methods that use unlabeled rows see the labeled and unlabeled rows, all others the labeled rows only.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.protocols.trial import Arm, Cell, TrialData, trial_rng
from embedding_core.registry import get_method

UNLABELED, NEW = "unlabeled rows", "new rows"
METRIC = "accuracy_class_mean"
"""Mean over the classes of the fraction of their rows that are recognized."""
NEAREST = "nearest row"
"""Not a method: the class of the labeled row with the smallest distance in the kernel's feature space."""
FOLDS = 3
"""Folds of the labeled rows to choose parameters; a class has only 5 of them."""

Rows = NDArray[np.intp]


class DrawnRows(NamedTuple):
    """Row numbers of the three parts of a trial, each ascending."""

    labeled: Rows
    unlabeled: Rows
    new: Rows


def draw_parts(
    classes: Rows, labeled: int, unlabeled: int, most_new: int, rng: np.random.Generator
) -> DrawnRows:
    """Draw labeled and unlabeled rows of each class; at most `most_new` of its other rows are new."""
    sizes = np.bincount(classes)
    least = int(sizes[sizes > 0].min())
    if labeled < 1 or unlabeled < 1 or labeled + unlabeled >= least:
        raise InvalidInput(
            f"{labeled} labeled and {unlabeled} unlabeled rows per class leave no new row in a class of "
            f"{least}; draw one or more of each, and fewer in total."
        )
    order = rng.permutation(len(classes))
    by_class = [order[classes[order] == k] for k in np.flatnonzero(sizes)]
    seen = labeled + unlabeled
    return DrawnRows(
        *(
            np.sort(np.concatenate([rows[part] for rows in by_class]))
            for part in (slice(labeled), slice(labeled, seen), slice(seen, seen + most_new))
        )
    )


def parts_of(data: TrialData, settings: Mapping[str, Any], number: int) -> DrawnRows:
    """Return the parts of a trial, the same for every method."""
    rng = trial_rng(settings["seed"], number)
    return draw_parts(data.classes, settings["labeled"], settings["unlabeled"], settings["new"], rng)


def training_rows(data: TrialData, settings: Mapping[str, Any], number: int) -> Rows:
    """Return the rows that features of a trial may be learned from: the labeled ones."""
    return parts_of(data, settings, number).labeled


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure `METRIC` on the unlabeled rows of the fit and on new rows.

    A parameter of the arm that is a list has its candidates: the one that classifies held-out labeled rows
    best is used, the first on ties. Several are chosen one after another.

    Settings
    --------
    labeled, unlabeled, new : int
        Rows per class; `new` is an upper limit.
    seed : int
    """
    K, classes = _kernel_of(data, preprocessing), data.classes
    parts = parts_of(data, settings, number)
    chosen = choose_params(arm, K, classes, parts)
    seen = np.sort(np.concatenate([parts.labeled, parts.unlabeled]))
    cells = []
    predict = fit(arm.method, chosen, K, classes, parts.labeled, seen)
    for name, rows in ((UNLABELED, parts.unlabeled), (NEW, parts.new)):
        cells.append(Cell(name, METRIC, class_mean(predict(rows) == classes[rows], classes[rows])))
    return cells


def _kernel_of(data: TrialData, preprocessing: str) -> NDArray[Any]:
    if preprocessing != "raw" or data.X.shape[0] != data.X.shape[1]:
        raise InvalidInput(
            f"this protocol needs a kernel matrix as it is, but the features have shape {data.X.shape} and "
            f'the preprocessing is {preprocessing!r}; use preprocessing "raw" and a data set with a kernel.'
        )
    return np.asarray(data.X)


def class_mean(right: NDArray[np.bool_], classes: Rows) -> float:
    """Return the mean over classes of the fraction of right decisions.

    >>> class_mean(np.array([True, True, True, False]), np.array([0, 0, 0, 1]))
    0.5
    """
    sizes = np.bincount(classes)
    found = np.bincount(classes, weights=right)
    return float((found[sizes > 0] / sizes[sizes > 0]).mean())


def fit(
    method: str, params: Mapping[str, Any], K: NDArray[Any], classes: Rows, labeled: Rows, seen: Rows
) -> Any:
    """Fit a method and return a function from row numbers to their classes.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix of all rows.
    classes : ndarray of shape (n,)
        Only those of the labeled rows are used.
    labeled, seen : ndarrays of int
        Rows with a label, and all rows of the fit.
    """
    if method == NEAREST:
        return lambda rows: classes[labeled][kernel_neighbors(K, rows, labeled)]
    rows_of_fit = seen if get_method(method).sees_all_rows else labeled
    hidden = np.where(np.isin(rows_of_fit, labeled), classes[rows_of_fit], -1)
    model = get_method(method).build(kernel="precomputed", **params)
    model.fit(K[np.ix_(rows_of_fit, rows_of_fit)], hidden)
    known = np.unique(classes[labeled])
    return lambda rows: known[model.predict_scores(K[np.ix_(rows, rows_of_fit)]).argmax(axis=1)]


def kernel_neighbors(K: NDArray[Any], rows: Rows, among: Rows) -> Rows:
    """Return, for each of the rows, the position in `among` of the nearest one in feature space."""
    squared = K.diagonal()[among] - 2 * K[np.ix_(rows, among)]  # |x|² is the same for all
    nearest: Rows = squared.argmin(axis=1)
    return nearest


def choose_params(arm: Arm, K: NDArray[Any], classes: Rows, parts: DrawnRows) -> dict[str, Any]:
    """Return the parameters of an arm with a single value for each that has candidates."""
    chosen = {name: value[0] if isinstance(value, list) else value for name, value in arm.params.items()}
    for name, candidates in arm.params.items():
        if isinstance(candidates, list) and len(candidates) > 1:
            scores = [
                _held_out_rate(arm.method, {**chosen, name: one}, K, classes, parts) for one in candidates
            ]
            chosen[name] = candidates[int(np.argmax(scores))]
    return chosen


def _held_out_rate(
    method: str, params: Mapping[str, Any], K: NDArray[Any], classes: Rows, parts: DrawnRows
) -> float:
    """Return the fraction of labeled rows that a fit without their labels recognizes."""
    own = classes[parts.labeled]
    seen = np.sort(np.concatenate([parts.labeled, parts.unlabeled]))
    one_hot = (own[:, None] == np.unique(own)).astype(np.int8)
    right = []
    for train, held in stratified_folds(one_hot, FOLDS, seed=0):
        predict = fit(method, params, K, classes, parts.labeled[train], seen)
        right.append(predict(parts.labeled[held]) == own[held])
    return float(np.concatenate(right).mean())
