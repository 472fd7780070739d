"""Plain baselines that every comparison shows: nearest neighbors and support vector machines."""

from collections.abc import Iterator, Sequence
from itertools import groupby, product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from embedding_core.checks import check_choice, check_count, check_positive
from embedding_core.classifiers.ml_knn import other_neighbors
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels, as_labeled_features, decide_labels, vote
from embedding_core.labels import one_label_each
from embedding_core.model_selection.calibration import (
    Calibration,
    calibrate_shared,
    calibrate_together,
    choose_calibrated,
)
from embedding_core.model_selection.inner_choice import rate_scores
from embedding_core.scaling import Features, Scaler, as_features, make_scaler, row_scale, scales_to_try


class InputNeighbors(BaseEstimator):
    """Nearest neighbors in the input space.

    Parameters
    ----------
    scale : {"none", "zscore", "unit"}
        Scaling of the features before distances are measured, see `Scaler`.
    n_neighbors : int
    weights : {"uniform", "distance"}

    Attributes
    ----------
    scaler_ : Scaler
    neighbors_ : NeighborLabels
    """

    def __init__(self, scale: str = "none", n_neighbors: int = 1, weights: str = "uniform") -> None:
        self.scale = scale
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Store the labeled rows of X (n, p) and Y (n, K); the scaling is learned on all rows of X."""
        self.scaler_ = Scaler(self.scale).fit(X)
        self.neighbors_ = NeighborLabels(self.n_neighbors, self.weights).fit(self.scaler_.transform(X), Y)
        return self

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the fraction (m, K) of the neighbors that have each label."""
        return self.neighbors_.predict_scores(self.scaler_.transform(X))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) that more than half of the neighbors have."""
        return decide_labels(self.predict_scores(X))


class TunedNeighbors(BaseEstimator):
    """Nearest neighbors in the input space; their number is chosen by leave-one-out.

    Parameters
    ----------
    scale : {"cosine", "zscore", "unit", "tfidf", "none"}
        Scaling of the features before distances are measured. "cosine" is "unit", or "tfidf" for counts;
        both give rows of length 1, where the Euclidean distance orders rows as the cosine does.
    candidates : sequence of int
        Candidate numbers of neighbors; those that need more rows than there are are skipped.
    weights : {"distance", "uniform"}
        Weight of a neighbor: the inverse of its distance, or uniform.
    tuning_rows : int
        Maximum number of labeled rows, drawn at random, that are left out for the choice; their neighbors are
        searched among all rows.
    random_state : int
        Seed of the draw.
    calibrate : bool
        Whether scores are calibrated on the leave-one-out votes, see
        `embedding_core.model_selection.calibration`. Rows with exactly one label each are not calibrated.

    Attributes
    ----------
    n_neighbors_ : int
        Chosen number.
    scale_ : str
    scaler_ : Scaler or TfIdf
    neighbors_ : NeighborLabels
    calibration_ : Calibration or None
    left_out_scores_ : (l, K) array or None
        Leave-one-out scores of the labeled rows; None for a single row, or if the choice used a sample.
    n_features_in_ : int
    """

    def __init__(
        self,
        scale: str = "cosine",
        candidates: Sequence[int] = (1, 3, 5, 10, 15, 20, 30, 50),
        weights: str = "distance",
        tuning_rows: int = 10_000,
        random_state: int = 0,
        calibrate: bool = False,
    ) -> None:
        self.scale = scale
        self.candidates = candidates
        self.weights = weights
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.calibrate = calibrate

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Choose and fit on the labeled rows of X (n, p), Y (n, K)."""
        for one in self.candidates:
            check_count("candidates", one)
        check_count("tuning_rows", self.tuning_rows)
        X, indicator = as_labeled_features(X, Y)
        X, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        self.scale_ = row_scale(X) if self.scale == "cosine" else self.scale
        self.scaler_ = make_scaler(self.scale_).fit(X)
        scaled = self.scaler_.transform(X)
        self.n_neighbors_, self.left_out_scores_ = self._choose(scaled, labels)
        self.neighbors_ = NeighborLabels(self.n_neighbors_, self.weights).fit(scaled, labels)
        self.n_features_in_ = X.shape[1]
        return self

    def _choose(self, Z: Features, Y: NDArray[np.int8]) -> tuple[int, NDArray[np.float64] | None]:
        """Return the number of neighbors whose leave-one-out scores are best, and these scores."""
        self.calibration_: Calibration | None = None
        possible = [int(k) for k in self.candidates if k < len(Y)]
        if not possible:
            return 1, None
        rows = draw_rows(len(Y), self.tuning_rows, self.random_state)
        distances, indices = other_neighbors(Z, max(possible), rows=rows)
        scores = [vote(Y, distances[:, :k], indices[:, :k], self.weights) for k in possible]
        best = max(range(len(possible)), key=lambda one: (*rate_scores(Y[rows], scores[one]), -one))
        if self.calibrate and not one_label_each(Y):
            self.calibration_ = calibrate_votes(scores[best], Y[rows])
        return possible[best], self._calibrated(scores[best]) if len(rows) == len(Y) else None

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the weighted fraction (m, K) of the neighbors that have each label, calibrated if set."""
        return self._calibrated(self.neighbors_.predict_scores(self.scaler_.transform(X)))

    def _calibrated(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores if self.calibration_ is None else self.calibration_.apply(scores)

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) with a score above one half."""
        return decide_labels(self.predict_scores(X))


class ScaledSVM(BaseEstimator):
    """Support vector machines on z-scored features: one per label, or one per pair of classes.

    Parameters
    ----------
    C : float
        Penalty of margin errors.
    gamma : float, "scale" or "auto"
        Width of the kernel exp(-gamma d²). "scale" is 1 / (p variance of X), the default of scikit-learn;
        "auto" is 1 / p, the default of LibSVM.
    scale : {"zscore", "none", "unit", "tfidf"}
        Scaling of the features, see `make_scaler`. "none" reproduces papers that do not mention any scaling.
    kernel : {"rbf", "precomputed"}
        "precomputed" takes the kernel matrix (n, n) of all rows in `fit`, and the kernel values (m, n) with
        them afterwards; it needs scale="none".
    one_vs_one : bool
        Where every labeled row has exactly one of three or more labels, train one machine per pair of these
        classes, as scikit-learn's SVC does with classes.

    Attributes
    ----------
    scaler_ : Scaler or TfIdf
        For z-scores a sparse X is only divided by the standard deviations, not centered.
    labeled_ : (l,) array
        Numbers of the labeled rows.
    machines_ : list of SVC or None
        One per label; None for a label that all training rows have, or no training row has: its constant is
        predicted. With `one_vs_one` a single SVC for all classes.
    constants_ : (K,) array
        Scores of the labels without a machine, 0 or 1.
    pairs_ : bool
        Whether there is one machine per pair of classes.

    Notes
    -----
    Scores are logistic in the decision value: above one half on the positive side. They are comparable
    between labels to the same extent as decision values, but are not calibrated probabilities. With
    `one_vs_one` the decision value of a class is its lead over the best other one, in pairs won (and a
    fraction for their margins).
    """

    def __init__(
        self,
        C: float = 1.0,
        gamma: float | str = "scale",
        scale: str = "zscore",
        kernel: str = "rbf",
        one_vs_one: bool = False,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.scale = scale
        self.kernel = kernel
        self.one_vs_one = one_vs_one

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Fit one machine per label on the labeled rows of X (n, p), Y (n, K)."""
        check_positive("C", self.C)
        check_positive("gamma", self.gamma, ("scale", "auto"))
        check_choice("kernel", self.kernel, ("rbf", "precomputed"))
        X, indicator = as_labeled_features(X, Y)
        if self.kernel == "precomputed":
            self._check_kernel(X)
        self.scaler_ = make_scaler(self.scale).fit(X)
        scaled, labels = self.scaler_.transform(X), indicator.Y[indicator.labeled]
        self.labeled_ = np.flatnonzero(indicator.labeled)
        rows = self._seen(scaled[self.labeled_])
        self.pairs_ = self.one_vs_one and _are_classes(labels)
        self.machines_ = _fit_machines(rows, labels, self.pairs_, self.C, self.kernel, self.gamma)
        self.constants_ = labels[0].astype(np.float64)
        self.n_features_in_ = scaled.shape[1]
        return self

    def _check_kernel(self, K: Any) -> None:
        if self.scale != "none" or K.shape[0] != K.shape[1]:
            raise InvalidInput(
                f'kernel="precomputed" with scale={self.scale!r} and a matrix of shape {K.shape}; give the '
                'square kernel matrix of all rows, and scale="none".'
            )

    def _seen(self, rows: Any) -> Any:
        """Keep the kernel values with the labeled rows."""
        return rows[:, self.labeled_] if self.kernel == "precomputed" else rows

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1]; see Notes."""
        scores: NDArray[np.float64] = expit(self.decision_values(X))
        return scores

    def decision_values(self, X: Any) -> NDArray[np.float64]:
        """Return signed distances (m, K) in units of the margin; infinite for labels without a machine."""
        rows = self._seen(self.scaler_.transform(X))
        constants = np.where(self.constants_ == 1, np.inf, -np.inf)
        return _decision_values(self.machines_, rows, constants, self.pairs_)

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) on the positive side, or the class that wins most pairs."""
        return decide_labels(self.predict_scores(X), single_label=self.pairs_)


class TunedSVM(BaseEstimator):
    """`ScaledSVM` with C, the kernel width and the scaling chosen on inner folds, and calibrated scores.

    Parameters
    ----------
    penalties : sequence of float
        Values of C.
    widths : sequence of float
        Factors of the gamma "scale" of `ScaledSVM`.
    inner_folds : int
        Number of folds of the training rows for the grid search.
    tuning_rows : int
        Maximum number of labeled rows, drawn at random, for the grid search; the final fit uses all rows.
    random_state : int
        Seed of the folds and of the draw.
    scale : {"auto", "zscore", "none", "unit", "tfidf"}
        Scaling of the features, see `make_scaler`. "auto" is "zscore", except for non-negative features that
        are mostly 0, such as words: there the inner folds choose between "zscore" and rows of length 1, with
        TF-IDF weights if the features are integers.
    calibrate : bool
        Whether scores are calibrated on the out-of-fold decision values of the grid search, see
        `embedding_core.model_selection.calibration`. False gives the scores of `ScaledSVM`.
    one_vs_one : bool
        As in `ScaledSVM`. The scores of such classes are calibrated by one function for all of them, so that
        the class that wins most pairs has the best score.

    Attributes
    ----------
    C_, gamma_, scale_ : float, float, str
        Chosen values.
    calibration_ : Calibration
    left_out_scores_ : (l, K) array or None
        Out-of-fold scores of the labeled rows; None if the grid search used a sample.
    machine_ : ScaledSVM
    n_features_in_ : int

    Notes
    -----
    `predict` decides by the sign of the decision value, as a plain SVC does. A calibrated score is above one
    half where the label is more probable than not, which is not the same: machines of rare labels tend to
    lie on the negative side.
    """

    def __init__(
        self,
        penalties: Sequence[float] = (1.0, 10.0, 100.0),
        widths: Sequence[float] = (0.1, 0.3, 1.0, 3.0),
        inner_folds: int = 3,
        tuning_rows: int = 2000,
        random_state: int = 0,
        scale: str = "auto",
        calibrate: bool = True,
        one_vs_one: bool = True,
    ) -> None:
        self.penalties = penalties
        self.widths = widths
        self.inner_folds = inner_folds
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.scale = scale
        self.calibrate = calibrate
        self.one_vs_one = one_vs_one

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Choose C and gamma and fit on the labeled rows of X (n, p), Y (n, K)."""
        X, indicator = as_labeled_features(X, Y)
        X, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        grid = self._grid(X)
        rows = draw_rows(len(labels), self.tuning_rows, self.random_state)
        X_few, Y_few = X[rows], labels[rows]
        pairs = self.one_vs_one and _are_classes(labels)
        chosen = choose_calibrated(
            Y_few,
            len(grid),
            lambda train, test: _score_grid(X_few, Y_few, train, test, grid, pairs),
            self.inner_folds,
            self.random_state,
            self.calibrate,
            calibrate_together if pairs else calibrate_shared,
        )
        self.scale_, self.gamma_, self.C_ = grid[chosen.option]
        self.calibration_ = chosen.calibration
        self.left_out_scores_ = chosen.left_out if len(rows) == len(labels) else None
        self.machine_ = ScaledSVM(self.C_, self.gamma_, self.scale_, one_vs_one=pairs).fit(X, labels)
        self.n_features_in_ = X.shape[1]
        return self

    def _grid(self, X: Features) -> list[tuple[str, float, float]]:
        """Return scaling, gamma and C; neighbors share scaled rows, and a kernel if gamma is the same."""
        for name in ("penalties", "widths"):
            check_grid(name, getattr(self, name))
        return [
            (scale, unit * float(width), float(C))
            for scale in scales_to_try(self.scale, X)
            for unit in [_gamma_unit(make_scaler(scale).fit(X).transform(X))]
            for width, C in product(self.widths, self.penalties)
        ]

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return calibrated scores (m, K) in [0, 1]."""
        return self.calibration_.apply(self.machine_.decision_values(as_features(X, self.n_features_in_)))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) that `ScaledSVM.predict` gives."""
        return self.machine_.predict(as_features(X, self.n_features_in_))


def check_grid(name: str, values: Sequence[float]) -> None:
    """Raise InvalidInput unless there are one or more values, all positive."""
    if not len(values):
        raise InvalidInput(f"{name} is empty; give one or more positive numbers.")
    for value in values:
        check_positive(name, value)


def draw_rows(n: int, most: int, seed: int) -> NDArray[np.intp]:
    """Return all of n rows, or a random sample of `most` of them, in ascending order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def _gamma_unit(scaled: Features) -> float:
    """Return the gamma "scale" of scikit-learn, 1 / (p variance of X)."""
    mean_square = scaled.multiply(scaled).mean() if hasattr(scaled, "multiply") else (scaled**2).mean()
    variance = float(mean_square - scaled.mean() ** 2) or 1.0
    return 1 / float(scaled.shape[1] * variance)


def _score_grid(
    X: Features,
    Y: NDArray[np.int8],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    grid: Sequence[tuple[str, float, float]],
    pairs: bool,
) -> Iterator[NDArray[np.float64]]:
    """Yield the decision values of the test rows at each grid point; labels and C share one kernel."""
    constants = constant_decisions(Y[train])
    for scale, points in groupby(grid, key=lambda point: point[0]):
        scaler = make_scaler(scale).fit(X[train])
        seen, asked = scaler.transform(X[train]), scaler.transform(X[test])
        among = euclidean_distances(seen, squared=True)
        towards = euclidean_distances(asked, seen, squared=True)
        for gamma, same in groupby(points, key=lambda point: point[1]):
            K, K_asked = np.exp(-gamma * among), np.exp(-gamma * towards)
            for _, _, C in same:
                machines = _fit_machines(K, Y[train], pairs, C, "precomputed")
                yield _decision_values(machines, K_asked, constants, pairs)


def _are_classes(Y: NDArray[np.int8]) -> bool:
    """Whether every row of Y (l, K) has exactly one of three or more labels."""
    return Y.shape[1] > 2 and one_label_each(Y)


def _fit_machines(
    rows: Any, Y: NDArray[np.int8], pairs: bool, C: float, kernel: str, gamma: float | str = "scale"
) -> list[SVC | None]:
    """Fit one machine per label, or one for all pairs of classes; None where rows do not differ."""
    targets = [Y.argmax(axis=1)] if pairs else Y.T
    return [
        None if target.min() == target.max() else SVC(C=C, kernel=kernel, gamma=gamma).fit(rows, target)
        for target in targets
    ]


def _decision_values(
    machines: Sequence[SVC | None], rows: Any, constants: NDArray[np.float64], pairs: bool
) -> NDArray[np.float64]:
    """Return the decision values (m, K); a label without a machine has its constant (K,)."""
    values = np.tile(constants, (rows.shape[0], 1))
    for k, machine in enumerate(machines):
        if machine is None:
            continue
        if pairs:
            values[:, machine.classes_] = _leads(machine.decision_function(rows))
        else:
            values[:, k] = machine.decision_function(rows)
    return values


def _leads(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much each class (m, k) is ahead of the best other one; of two classes (m,) the margin."""
    if found.ndim == 1:
        return np.column_stack([-found, found])
    second, first = np.sort(found, axis=1)[:, -2:].T
    lead: NDArray[np.float64] = found - np.where(found == first[:, None], second[:, None], first[:, None])
    return lead


def calibrate_votes(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> Calibration:
    """Calibrate out-of-fold votes (l, K); labels that no row or every row has keep the score 0 or 1."""
    found, constant = calibrate_shared(scores, Y), constant_decisions(Y)
    return Calibration(found.slopes, np.where(constant == 0, found.offsets, constant))


def constant_decisions(Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the decision values (K,) of labels that all rows have, inf, or no row has, -inf; else 0."""
    decided: NDArray[np.float64] = np.select([Y.min(axis=0) == 1, Y.max(axis=0) == 0], [np.inf, -np.inf], 0.0)
    return decided
