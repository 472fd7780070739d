"""Plain baselines that every comparison shows: nearest neighbors and support vector machines."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from embedding_core.checks import check_choice, check_positive
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels, as_labeled_features, decide_labels
from embedding_core.model_selection.inner_choice import choose_scored
from embedding_core.scaling import Features, Scaler, as_features


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


class ScaledSVM(BaseEstimator):
    """One support vector machine per label on z-scored features.

    Parameters
    ----------
    C : float
        Penalty of margin errors.
    gamma : float, "scale" or "auto"
        Width of the kernel exp(-gamma d²). "scale" is 1 / (p variance of X), the default of scikit-learn;
        "auto" is 1 / p, the default of LibSVM.
    scale : {"zscore", "none", "unit"}
        Scaling of the features, see `Scaler`. "none" reproduces papers that do not mention any scaling.
    kernel : {"rbf", "precomputed"}
        "precomputed" takes the kernel matrix (n, n) of all rows in `fit`, and the kernel values (m, n) with
        them afterwards; it needs scale="none".

    Attributes
    ----------
    scaler_ : Scaler
        For z-scores a sparse X is only divided by the standard deviations, not centered.
    labeled_ : (l,) array
        Numbers of the labeled rows.
    machines_ : list of SVC or None
        None for a label that all training rows have, or no training row has: its constant is predicted.
    constants_ : (K,) array
        Scores of the labels without a machine, 0 or 1.

    Notes
    -----
    Scores are logistic in the decision value: above one half on the positive side. They are comparable
    between labels to the same extent as decision values, but are not calibrated probabilities.
    """

    def __init__(
        self, C: float = 1.0, gamma: float | str = "scale", scale: str = "zscore", kernel: str = "rbf"
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.scale = scale
        self.kernel = kernel

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Fit one machine per label on the labeled rows of X (n, p), Y (n, K)."""
        check_positive("C", self.C)
        check_positive("gamma", self.gamma, ("scale", "auto"))
        check_choice("kernel", self.kernel, ("rbf", "precomputed"))
        X, indicator = as_labeled_features(X, Y)
        if self.kernel == "precomputed":
            self._check_kernel(X)
        self.scaler_ = Scaler(self.scale).fit(X)
        scaled, labels = self.scaler_.transform(X), indicator.Y[indicator.labeled]
        self.labeled_ = np.flatnonzero(indicator.labeled)
        rows = self._seen(scaled[self.labeled_])
        self.machines_ = [self._fit_label(rows, column) for column in labels.T]
        self.constants_ = labels[0].astype(np.float64)
        self.n_features_in_ = scaled.shape[1]
        return self

    def _fit_label(self, rows: Any, column: NDArray[np.int8]) -> SVC | None:
        if column.min() == column.max():
            return None
        return SVC(C=self.C, kernel=self.kernel, gamma=self.gamma).fit(rows, column)

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
        rows = self._seen(self.scaler_.transform(X))
        scores = np.tile(self.constants_, (rows.shape[0], 1))
        for k, machine in enumerate(self.machines_):
            if machine is not None:
                scores[:, k] = expit(machine.decision_function(rows))
        return scores

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) on the positive side of their machine."""
        return decide_labels(self.predict_scores(X))


class TunedSVM(BaseEstimator):
    """`ScaledSVM` with C and the kernel width chosen from a small grid.

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
    scale : {"zscore", "none", "unit"}
        Scaling of the features, see `Scaler`.

    Attributes
    ----------
    C_, gamma_ : float
        Chosen values.
    left_out_scores_ : (l, K) array or None
        Out-of-fold scores of the labeled rows; None if the grid search used a sample.
    machine_ : ScaledSVM
    n_features_in_ : int
    """

    def __init__(
        self,
        penalties: Sequence[float] = (1.0, 10.0, 100.0),
        widths: Sequence[float] = (0.1, 0.3, 1.0, 3.0),
        inner_folds: int = 3,
        tuning_rows: int = 2000,
        random_state: int = 0,
        scale: str = "zscore",
    ) -> None:
        self.penalties = penalties
        self.widths = widths
        self.inner_folds = inner_folds
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.scale = scale

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Choose C and gamma and fit on the labeled rows of X (n, p), Y (n, K)."""
        X, indicator = as_labeled_features(X, Y)
        X, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        grid = self._grid(X)
        rows = self._tuning_rows(len(labels))
        X_few, Y_few = X[rows], labels[rows]
        best, left_out = choose_scored(
            Y_few,
            len(grid),
            lambda train, test: _score_grid(X_few, Y_few, train, test, grid, self.scale),
            self.inner_folds,
            self.random_state,
        )
        self.gamma_, self.C_ = grid[best]
        self.left_out_scores_ = left_out if len(rows) == len(labels) else None
        self.machine_ = ScaledSVM(self.C_, self.gamma_, self.scale).fit(X, labels)
        self.n_features_in_ = X.shape[1]
        return self

    def _grid(self, X: Features) -> list[tuple[float, float]]:
        """Return pairs of gamma and C; pairs with the same gamma are adjacent and share its kernel."""
        for name in ("penalties", "widths"):
            if not len(getattr(self, name)):
                raise InvalidInput(f"{name} is empty; give one or more positive numbers.")
            for value in getattr(self, name):
                check_positive(name, value)
        scaled = Scaler(self.scale).fit(X).transform(X)
        mean_square = scaled.multiply(scaled).mean() if hasattr(scaled, "multiply") else (scaled**2).mean()
        variance = float(mean_square - scaled.mean() ** 2) or 1.0
        unit = 1 / (X.shape[1] * variance)
        return [(unit * float(width), float(C)) for width, C in product(self.widths, self.penalties)]

    def _tuning_rows(self, n: int) -> NDArray[np.intp]:
        if n <= self.tuning_rows:
            return np.arange(n)
        rng = np.random.default_rng(self.random_state)
        return np.sort(rng.permutation(n)[: self.tuning_rows])

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1]; see `ScaledSVM`."""
        return self.machine_.predict_scores(as_features(X, self.n_features_in_))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) on the positive side of their machine."""
        return self.machine_.predict(as_features(X, self.n_features_in_))


def _score_grid(
    X: Features,
    Y: NDArray[np.int8],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    grid: Sequence[tuple[float, float]],
    scale: str,
) -> Iterator[NDArray[np.float64]]:
    """Yield the scores of `ScaledSVM` for the test rows at each grid point; labels and C share one kernel."""
    scaler = Scaler(scale).fit(X[train])
    seen, asked = scaler.transform(X[train]), scaler.transform(X[test])
    among, towards = euclidean_distances(seen, squared=True), euclidean_distances(asked, seen, squared=True)
    known: tuple[float, Any, Any] | None = None
    for gamma, C in grid:
        if known is None or known[0] != gamma:
            known = (gamma, np.exp(-gamma * among), np.exp(-gamma * towards))
        yield _score_labels(known[1], known[2], Y[train], C)


def _score_labels(
    K: NDArray[np.float64], K_asked: NDArray[np.float64], Y: NDArray[np.int8], C: float
) -> NDArray[np.float64]:
    scores = np.tile(Y[0].astype(np.float64), (len(K_asked), 1))
    for k, column in enumerate(Y.T):
        if column.min() != column.max():
            machine = SVC(C=C, kernel="precomputed").fit(K, column)
            scores[:, k] = expit(machine.decision_function(K_asked))
    return scores
