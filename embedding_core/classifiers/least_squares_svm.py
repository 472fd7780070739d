"""Least-squares support vector machines, fitted in one pass over blocks of rows.

The hinge loss of a support vector machine is replaced by the squared error, so that one linear system serves
all labels. The kernel is that of `ScaledSVM` at some landmarks (Nyström), or linear. Time grows as n and
memory does not, where an exact machine takes n² of both.
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from embedding_core.checks import check_choice, check_count, check_positive
from embedding_core.classifiers.baselines import constant_decisions, draw_rows
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.linalg.kernel_space import rbf_values
from embedding_core.model_selection.calibration import calibrate_shared, logistic_link
from embedding_core.scaling import Features, Scaler, as_features

KERNELS = ("rbf", "linear")
# Rows whose kernel values exist at a time. Fixed: sums depend on it.
_BLOCK_ROWS = 4096
_CALIBRATED_ROWS, _FEWEST_ROWS = 10_000, 50
# Added to the diagonal, in units of its mean: landmarks may coincide.
_RIDGE = 1e-9
# Of the solver for sparse features.
_TOLERANCE = 1e-8


class LeastSquaresSVM(BaseEstimator):
    """One least-squares machine per label on z-scored features.

    Parameters
    ----------
    kernel : {"rbf", "linear"}
        exp(-gamma d²) at the landmarks, or the features themselves.
    landmarks : int
        Labeled rows, drawn at random, whose kernel functions are combined. All rows if there are fewer. Not
        used by the linear kernel.
    C : float
        Weight of the squared errors, as that of the margin errors of `ScaledSVM`.
    gamma : float or "scale"
        "scale" is 1 / p: z-scored features have variance 1, so this is the "scale" of `ScaledSVM`.
    scale : {"zscore", "none", "unit"}
        Scaling of the features, see `Scaler`.
    random_state : int
        Seed of the landmarks.

    Attributes
    ----------
    scaler_ : Scaler
    support_ : (m, p) array or CSR matrix, or None
        The scaled landmarks; None for the linear kernel.
    coef_ : (m, K) or (p, K) array
    intercept_ : (K,) array
        Infinite for a label that all training rows have, or no training row has.
    calibration_ : Calibration
        From decision values to scores, learned on a tenth of the labeled rows, at most 10,000, which the
        machines have not seen. Squared errors shrink the decision values of rare labels, so that their sign
        would miss most of them.
    n_features_in_ : int

    Notes
    -----
    With kernel values k_i of row i at the landmarks, their kernel matrix M, and targets t of +1 and -1, the
    coefficients minimize C sum_i (t_i - a^T k_i - b)² + a^T M a. If all rows are landmarks, this is the
    least-squares support vector machine [1]_. For the linear kernel M is the identity.

    References
    ----------
    .. [1] J. Suykens, J. Vandewalle, "Least Squares Support Vector Machine Classifiers", Neural Processing
       Letters 9, 1999.
    """

    def __init__(
        self,
        kernel: str = "rbf",
        landmarks: int = 1000,
        C: float = 1.0,
        gamma: float | str = "scale",
        scale: str = "zscore",
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.landmarks = landmarks
        self.C = C
        self.gamma = gamma
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Fit on the labeled rows of X (n, p), Y (n, K)."""
        check_choice("kernel", self.kernel, KERNELS)
        check_count("landmarks", self.landmarks)
        check_positive("C", self.C)
        check_positive("gamma", self.gamma, ("scale",))
        X, indicator = as_labeled_features(X, Y)
        self.n_features_in_ = X.shape[1]
        rows, held_out = self._split(np.flatnonzero(indicator.labeled))
        self.scaler_ = Scaler(self.scale).fit(X)
        chosen = rows[draw_rows(len(rows), self.landmarks, self.random_state)]
        self.support_ = self.scaler_.transform(X[chosen]) if self.kernel == "rbf" else None
        targets = 2 * indicator.Y[rows].astype(np.float64) - 1
        self.coef_, self.intercept_ = self._solve(X, rows, targets)
        constant = constant_decisions(indicator.Y[rows])
        self.intercept_ = np.where(constant == 0, self.intercept_, constant)
        self.coef_[:, constant != 0] = 0.0
        self.calibration_ = logistic_link(targets.shape[1])
        if len(held_out):
            decided = self.decision_values(X[held_out])
            self.calibration_ = calibrate_shared(decided, indicator.Y[held_out])
        return self

    def _split(self, labeled: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows that are fitted, and those that calibrate: a tenth, none of fewer than 50."""
        count = min(_CALIBRATED_ROWS, len(labeled) // 10) if len(labeled) >= _FEWEST_ROWS else 0
        held_out = np.zeros(len(labeled), dtype=bool)
        held_out[draw_rows(len(labeled), count, self.random_state)] = count > 0
        return labeled[~held_out], labeled[held_out]

    def _solve(
        self, X: Features, rows: NDArray[np.intp], T: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients and intercepts from sums over the rows."""
        if self.support_ is None and sp.issparse(X):
            return self._solve_sparse(self.scaler_.transform(X[rows]), T)
        size = self.n_features_in_ if self.support_ is None else self.support_.shape[0]
        gram, moments, total = np.zeros((size, size)), np.zeros((size, T.shape[1])), np.zeros(size)
        for start, values in self._blocks(X, rows):
            gram += values.T @ values
            moments += values.T @ T[start : start + len(values)]
            total += values.sum(axis=0)
        mean, center = total / len(rows), T.mean(axis=0)
        gram -= np.outer(total, mean)
        moments -= np.outer(total, center)
        gram += self._penalty(size) / self.C
        gram[np.diag_indices(size)] += _RIDGE * max(float(np.trace(gram)) / size, np.finfo(np.float64).tiny)
        coef: NDArray[np.float64] = scipy.linalg.solve(gram, moments, assume_a="pos")
        return coef, center - mean @ coef

    def _solve_sparse(
        self, X: Features, T: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same for a linear machine on words, by conjugate gradients: a p x p matrix may not fit."""
        from sklearn.linear_model import Ridge

        ridge = Ridge(alpha=1 / self.C, solver="sparse_cg", tol=_TOLERANCE).fit(X, T)
        return np.atleast_2d(ridge.coef_).T.copy(), np.atleast_1d(ridge.intercept_)

    def _penalty(self, size: int) -> NDArray[np.float64]:
        return (
            np.eye(size) if self.support_ is None else rbf_values(self.support_, self.support_, self._theta)
        )

    @property
    def _theta(self) -> float:
        return 1 / self.n_features_in_ if self.gamma == "scale" else float(self.gamma)

    def _blocks(self, X: Features, rows: NDArray[np.intp] | None = None) -> Iterator[tuple[int, Any]]:
        """Values of all basis functions, some rows at a time; sparse ones of a linear machine stay sparse."""
        count = X.shape[0] if rows is None else len(rows)
        for start in range(0, count, _BLOCK_ROWS):
            part = slice(start, min(start + _BLOCK_ROWS, count))
            scaled = self.scaler_.transform(X[part] if rows is None else X[rows[part]])
            if self.support_ is not None:
                yield start, rbf_values(scaled, self.support_, self._theta)
            else:
                yield start, scaled.astype(np.float64)

    def decision_values(self, X: Any) -> NDArray[np.float64]:
        """Return decision values (m, K), before calibration."""
        X = as_features(X, self.n_features_in_)
        values = np.empty((X.shape[0], self.coef_.shape[1]))
        for start, block in self._blocks(X):
            values[start : start + block.shape[0]] = block @ self.coef_ + self.intercept_
        return values

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return calibrated scores (m, K) in [0, 1]."""
        return self.calibration_.apply(self.decision_values(X))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) with a score above one half."""
        return decide_labels(self.predict_scores(X))
