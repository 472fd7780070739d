"""A support vector machine whose penalty and kernel width are chosen inside the training labels."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from embedding_core.checks import check_positive
from embedding_core.classifiers.baselines import ScaledSVM
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import as_labeled_features
from embedding_core.model_selection.inner_choice import choose_scored
from embedding_core.scaling import Features, Scaler, as_features


class TunedSVM(BaseEstimator):
    """`ScaledSVM` with C and the kernel's width from a small grid.

    Parameters
    ----------
    penalties : sequence of float
        Values of C.
    widths : sequence of float
        Factors of `ScaledSVM`'s gamma "scale".
    inner_folds : int
        Folds of the training rows in which the grid is compared, see `inner_choice`.
    tuning_rows : int
        At most this many labeled rows, drawn at random, compare the grid; the machine learns from all.
    random_state : int
        Of the folds and the draw.

    Attributes
    ----------
    C_, gamma_ : float
        What was chosen.
    left_out_scores_ : (l, K) array or None
        Scores of the labeled rows by folds without their labels; None where a part compared the grid.
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
    ) -> None:
        self.penalties = penalties
        self.widths = widths
        self.inner_folds = inner_folds
        self.tuning_rows = tuning_rows
        self.random_state = random_state

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Choose and fit on the labeled rows of X (n, p), Y (n, K)."""
        X, indicator = as_labeled_features(X, Y)
        X, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        grid = self._grid(X)
        rows = self._tuning_rows(len(labels))
        X_few, Y_few = X[rows], labels[rows]
        best, left_out = choose_scored(
            Y_few,
            len(grid),
            lambda train, test: _score_grid(X_few, Y_few, train, test, grid),
            self.inner_folds,
            self.random_state,
        )
        self.gamma_, self.C_ = grid[best]
        self.left_out_scores_ = left_out if len(rows) == len(labels) else None
        self.machine_ = ScaledSVM(self.C_, self.gamma_).fit(X, labels)
        self.n_features_in_ = X.shape[1]
        return self

    def _grid(self, X: Features) -> list[tuple[float, float]]:
        """Pairs of gamma and C; those of one gamma stand together and share its kernel."""
        for name in ("penalties", "widths"):
            if not len(getattr(self, name)):
                raise InvalidInput(f"{name} is empty; give one or more positive numbers.")
            for value in getattr(self, name):
                check_positive(name, value)
        scaled = Scaler("zscore").fit(X).transform(X)
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
        """Scores (m, K) in [0, 1], see `ScaledSVM`."""
        return self.machine_.predict_scores(as_features(X, self.n_features_in_))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Labels (m, K) on the positive side of their machine."""
        return self.machine_.predict(as_features(X, self.n_features_in_))


def _score_grid(
    X: Features,
    Y: NDArray[np.int8],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    grid: Sequence[tuple[float, float]],
) -> Iterator[NDArray[np.float64]]:
    """What `ScaledSVM` would say of the test rows at each point; one kernel serves all labels and all C."""
    scaler = Scaler("zscore").fit(X[train])
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
