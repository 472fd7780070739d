"""What every protocol takes and gives: a data set, a method's arm of the comparison, measured cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.registry import METHODS, get_method

PREPROCESSING: Mapping[str, str] = {
    "raw": "features as given",
    "zscore": "each feature to mean 0 and deviation 1",
    "unit": "each row to length 1",
    "pca": "principal components of the rows of the fit, 98 % of their variance",
}
"""Legal preprocessing; always learnt on the rows that the method's fit sees, without labels."""

PCA_VARIANCE = 0.98


class Cell(NamedTuple):
    """One number of one trial; `condition` tells apart what one trial measures under several settings."""

    condition: str
    metric: str
    value: float


@dataclass(frozen=True)
class Arm:
    """One method of an experiment as the paper names it.

    Attributes
    ----------
    title : str
        The name that the published table has.
    method : str
        Name in the registry, or a word that the protocol itself knows.
    params : mapping
        Parameters of the method.
    role : {"paper", "baseline"}
        A row of the table, or a column beside every row.
    fit_on : {"all", "train"}
        Rows that a method with a graph sees in its fit: all (test rows without labels), or the training rows.
    preprocessing : tuple of str
        In place of the experiment's; empty: the experiment's.
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

    `train` (n,) says which rows are the official ones to train on, None where a set has no split.
    """

    X: Any
    Y: NDArray[np.int8]
    label_names: tuple[str, ...] = ()
    single_label: bool = False
    train: NDArray[np.bool_] | None = None

    @property
    def classes(self) -> NDArray[np.intp]:
        """Class (n,) of each row, where each has one."""
        return np.asarray(self.Y.argmax(axis=1))

    def take(self, rows: NDArray[np.intp]) -> "TrialData":
        """Some of the rows."""
        train = None if self.train is None else self.train[rows]
        return TrialData(self.X[rows], self.Y[rows], self.label_names, self.single_label, train)


def seen_rows(arm: Arm, n: int, train: NDArray[np.intp]) -> NDArray[np.intp]:
    """Rows that the arm's fit may look at, with labels or without."""
    sees_all = arm.fit_on == "all" and get_method(arm.method).sees_all_rows
    return np.arange(n) if sees_all else train


def prepare(X: Any, preprocessing: str, seen: NDArray[np.intp]) -> Any:
    """Transform X (n, p) by what the `seen` rows alone teach."""
    from embedding_core.scaling import Scaler

    if preprocessing not in PREPROCESSING:
        raise InvalidInput(f"preprocessing={preprocessing!r}; choose from {', '.join(PREPROCESSING)}.")
    if preprocessing == "raw":
        return X
    if preprocessing == "pca":
        return _principal_components(X, seen)
    return Scaler(preprocessing).fit(X[seen]).transform(X)


def _principal_components(X: Any, seen: NDArray[np.intp]) -> NDArray[np.float64]:
    """Rows along the first axes of the `seen` rows, which hold `PCA_VARIANCE` of their variance."""
    from embedding_core.linalg.eigen import fix_signs
    from embedding_core.linalg.row_blocks import project_rows
    from embedding_core.subspace.principal import principal_space

    space = principal_space(X[seen])
    if not space.rank:
        raise InvalidInput(
            f"The {len(seen)} rows of the fit are alike and have no principal component; give features that "
            'vary, or take preprocessing="raw".'
        )
    share = np.cumsum(space.values) / space.total
    return project_rows(X, fix_signs(space.axes(int(np.searchsorted(share, PCA_VARIANCE)) + 1)))


def predict(
    arm: Arm, data: TrialData, train: NDArray[np.intp], test: NDArray[np.intp], preprocessing: str
) -> NDArray[np.int8]:
    """Labels (m, K) that 1NN in the arm's embedding, or the arm's classifier, gives to the test rows.

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
    """Fit a method with a graph on the training rows alone; the test rows are new to it."""
    from embedding_core.annotator import Annotator

    annotator = Annotator(arm.method, arm.params, n_neighbors=1, single_label=data.single_label)
    return annotator.fit(X[train], data.Y[train]).predict(X[test])


def classifies_by_neighbors(arm: Arm) -> bool:
    """Whether the arm's decisions are those of 1NN in an embedding."""
    method = METHODS.get(arm.method)
    return method is not None and method.role == "projection"
