"""Building blocks of all protocols: random draws, data sets, arms of a comparison, and measured cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.registry import METHODS, get_method

PREPROCESSING: Mapping[str, str] = {
    "raw": "features as given",
    "zscore": "each feature to mean 0 and standard deviation 1",
    "unit": "each row to length 1",
    "pca": "principal components of the rows of the fit, 98 % of their variance",
}
"""Available preprocessing; always learned on the rows that the fit of the method sees, without labels."""
PCA_VARIANCE = 0.98


def trial_rng(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of one trial, the same for every method."""
    return np.random.default_rng([seed, number])


def draw_rows(n: int, fraction: float, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw round(fraction n) rows; return them and the rest, both in ascending order.

    The draw is not stratified: "we randomly select 10 % of data points". A rare class may be missing.
    """
    count = round(fraction * n)
    if not 1 < count < n:
        raise InvalidInput(f"{fraction:g} of {n} rows are {count}; draw at least two and leave some.")
    order = rng.permutation(n)
    return np.sort(order[:count]), np.sort(order[count:])


def draw_labeled(
    classes: NDArray[np.intp], fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Repeat `draw_rows` until the drawn rows have at least two classes."""
    if len(np.unique(classes)) < 2:
        raise InvalidInput("all rows are of one class; expected two or more.")
    while True:
        labeled, rest = draw_rows(len(classes), fraction, rng)
        if len(np.unique(classes[labeled])) > 1:
            return labeled, rest


def draw_per_class(
    classes: NDArray[np.intp], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw `count` training rows per class; return them and the rest, both in ascending order."""
    sizes = np.bincount(classes)
    if sizes[sizes > 0].min() <= count:
        raise InvalidInput(
            f"{count} rows per class were requested, but one class has {sizes[sizes > 0].min()}."
        )
    order = rng.permutation(len(classes))
    train = [order[classes[order] == k][:count] for k in np.unique(classes)]
    chosen = np.sort(np.concatenate(train))
    return chosen, np.setdiff1d(np.arange(len(classes)), chosen)


def draw_share_per_class(
    classes: NDArray[np.intp], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw round(share m) rows of each class of m rows, at least one; return them and the rest, ascending."""
    if not 0 < share < 1:
        raise InvalidInput(f"a share of {share:g} per class was requested; expected one between 0 and 1.")
    order = rng.permutation(len(classes))
    own = [order[classes[order] == k] for k in np.unique(classes)]
    chosen = np.sort(np.concatenate([rows[: max(1, round(share * len(rows)))] for rows in own]))
    return chosen, np.setdiff1d(np.arange(len(classes)), chosen)


def corrupt(
    Y: NDArray[np.int8], rows: NDArray[np.intp], count: int, rng: np.random.Generator
) -> NDArray[np.int8]:
    """Return a copy of Y (n, K), one class per row, in which `count` of `rows` have a wrong class.

    Each wrong class is drawn uniformly from all others.
    """
    if count > len(rows):
        raise InvalidInput(f"{count} of {len(rows)} rows cannot be given wrong labels.")
    wrong = Y.copy()
    for row in rng.permutation(rows)[:count]:
        own = int(Y[row].argmax())
        others = np.delete(np.arange(Y.shape[1]), own)
        wrong[row] = 0
        wrong[row, rng.choice(others)] = 1
    return wrong


class Cell(NamedTuple):
    """One value of one trial; `condition` distinguishes values measured under several settings."""

    condition: str
    metric: str
    value: float


@dataclass(frozen=True)
class Arm:
    """One method of an experiment as the paper names it.

    Attributes
    ----------
    title : str
        Name in the published table.
    method : str
        Name in the registry, or a keyword of the protocol.
    params : mapping
        Parameters of the method.
    role : {"paper", "baseline"}
        Whether the arm is a row of the table or a baseline column beside every row.
    fit_on : {"all", "train"}
        Rows that a graph method is fitted on: all (test rows without labels), or the training rows.
    preprocessing : tuple of str
        Overrides the preprocessing of the experiment unless empty.
    """

    title: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    role: str = "paper"
    fit_on: str = "all"
    preprocessing: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TrialData:
    """A data set: X (n, p) dense or CSR, Y (n, K) of 0/1, every row labeled.

    `train` (n,) marks the official training rows; None if the set has no split. `blocks` says how blocks of
    columns are prepared, see `Annotator`; empty for features that are prepared as a whole. `test` (n,) marks
    the official test rows, and `links` (n, n) are given links between the rows.
    """

    X: Any
    Y: NDArray[np.int8]
    label_names: tuple[str, ...] = ()
    single_label: bool = False
    train: NDArray[np.bool_] | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()
    test: NDArray[np.bool_] | None = None
    links: Any = None

    @property
    def classes(self) -> NDArray[np.intp]:
        """Class (n,) of each row, if each has exactly one."""
        return np.asarray(self.Y.argmax(axis=1))

    def take(self, rows: NDArray[np.intp]) -> "TrialData":
        """Return the data set restricted to some rows."""
        train, test = (None if part is None else part[rows] for part in (self.train, self.test))
        links = None if self.links is None else self.links[rows][:, rows]
        return replace(self, X=self.X[rows], Y=self.Y[rows], train=train, test=test, links=links)


def seen_rows(arm: Arm, n: int, train: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows that the fit of the arm may use, with or without labels."""
    sees_all = arm.fit_on == "all" and get_method(arm.method).sees_all_rows
    return np.arange(n) if sees_all else train


def prepare(X: Any, preprocessing: str, seen: NDArray[np.intp]) -> Any:
    """Transform X (n, p) by a preprocessing learned only on the `seen` rows."""
    from embedding_core.scaling import Scaler

    if preprocessing not in PREPROCESSING:
        raise InvalidInput(f"preprocessing={preprocessing!r}; choose from {', '.join(PREPROCESSING)}.")
    if preprocessing == "raw":
        return X
    if preprocessing == "pca":
        return _principal_components(X, seen)
    return Scaler(preprocessing).fit(X[seen]).transform(X)


def _principal_components(X: Any, seen: NDArray[np.intp]) -> NDArray[np.float64]:
    """Project the rows onto the leading axes of the `seen` rows, with `PCA_VARIANCE` of their variance."""
    from embedding_core.linalg.eigen import fix_signs
    from embedding_core.linalg.row_blocks import project_rows
    from embedding_core.subspace.principal import principal_space

    space = principal_space(X[seen])
    if not space.rank:
        raise InvalidInput(
            f"The {len(seen)} rows of the fit are equal and have no principal component; give features that "
            'vary, or use preprocessing="raw".'
        )
    share = np.cumsum(space.values) / space.total
    return project_rows(X, fix_signs(space.axes(int(np.searchsorted(share, PCA_VARIANCE)) + 1)))


def predict(
    arm: Arm, data: TrialData, train: NDArray[np.intp], test: NDArray[np.intp], preprocessing: str
) -> NDArray[np.int8]:
    """Return the labels (m, K) that 1NN in the arm's embedding, or the arm's classifier, predicts.

    Parameters
    ----------
    data : TrialData
        Labels of the test rows are hidden; those of the training rows may have been corrupted.
    """
    from embedding_core.evaluation import predict_fold

    seen = seen_rows(arm, data.X.shape[0], train)
    X = prepare(data.X, preprocessing, seen)
    if get_method(arm.method).sees_all_rows and arm.fit_on == "train":
        return _predict_unseen(arm, X, data, train, test)
    found = predict_fold(
        arm.method, arm.params, X, data.Y, train, test, n_neighbors=(1,), single_label=data.single_label
    )
    return found[0].labels


def _predict_unseen(
    arm: Arm, X: Any, data: TrialData, train: NDArray[np.intp], test: NDArray[np.intp]
) -> NDArray[np.int8]:
    """Fit a graph method on the training rows only; the test rows are new to it."""
    from embedding_core.annotator import Annotator

    annotator = Annotator(arm.method, arm.params, n_neighbors=1, single_label=data.single_label)
    return annotator.fit(X[train], data.Y[train]).predict(X[test])


def classifies_by_neighbors(arm: Arm) -> bool:
    """Return whether the arm decides by 1NN in an embedding."""
    method = METHODS.get(arm.method)
    return method is not None and method.role == "projection"


def find_label(data: TrialData, name: str) -> int:
    """Return the column of a label; an unknown name raises InvalidInput."""
    if name not in data.label_names:
        raise InvalidInput(f"no label {name!r}; the labels are {', '.join(data.label_names)}.")
    return data.label_names.index(name)
