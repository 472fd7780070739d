"""Linear baselines: logistic regression and the support vector machine, tuned, for all labels at once.

The problems of the labels are independent, but they share the items: one matrix product serves all of them,
so they are solved together by L-BFGS. Items are rotated to their principal axes first, where the bound
of the Hessian is diagonal and serves as preconditioner. Each penalty starts from the solution of the last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator

from embedding_core.checks import check_choice, check_count
from embedding_core.classifiers.baselines import check_grid, draw_rows
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.model_selection.calibration import choose_calibrated
from embedding_core.scaling import Features, as_features, make_scaler, scales_to_try

LOSSES = ("logistic", "squared_hinge")
# Coefficients solved together; L-BFGS keeps about twenty vectors of this length.
_MOST_COEFFICIENTS = 2**20
_STEPS = 300
_TOLERANCE = 1e-5
# Items of a larger rank are not rotated.
_MOST_AXES = 3000
# Rows of length 1 are short in comparison with z-scores, so coefficients must be larger.
_UNIT_ROWS = {"unit": 10.0, "tfidf": 10.0}
# Upper bounds of the second derivative of the losses.
_CURVATURE = {"logistic": 0.25, "squared_hinge": 2.0}


@dataclass(frozen=True)
class LinearFit:
    """Coefficients `W` (p, P) and intercepts `b` (P,) of P linear functions X W + b."""

    W: NDArray[np.float64]
    b: NDArray[np.float64]

    def decide(self, X: Features) -> NDArray[np.float64]:
        """Return decision values (m, P)."""
        values: NDArray[np.float64] = np.asarray(X @ self.W) + self.b
        return values


def fit_linear(
    X: Features,
    T: NDArray[np.float64],
    C: float,
    loss: str,
    start: LinearFit | None = None,
    features: NDArray[np.float64] | None = None,
    rough: bool = False,
) -> LinearFit:
    """Minimize C sum_i loss(t_i f(x_i)) + |w|² / 2 for each column of T; the intercept is not penalized.

    Parameters
    ----------
    X : (n, p) array or CSR matrix
    T : (n, P) array
        +1 and -1; 0 leaves a row out of the problem of this column.
    C : float
    loss : {"logistic", "squared_hinge"}
        log(1 + exp(-z)), or max(0, 1 - z)².
    start : LinearFit, optional
        Where to start.
    features : (p, P) array of 0/1, optional
        Features that each function may use; all by default.
    rough : bool, default=False
        Stop early, when the loss falls by less than a millionth: enough to compare penalties.

    Returns
    -------
    LinearFit
        A column of T without both signs has W = 0 and b = inf, -inf, or 0 if it has no sign at all.
    """
    p, P = X.shape[1], T.shape[1]
    W, b = np.zeros((p, P)), np.zeros(P)
    has_yes, has_no = (T > 0).any(axis=0), (T < 0).any(axis=0)
    b[has_yes & ~has_no], b[has_no & ~has_yes] = np.inf, -np.inf
    varied = np.flatnonzero(has_yes & has_no)
    step = max(1, _MOST_COEFFICIENTS // (p + 1))
    for first in range(0, len(varied), step):
        part = varied[first : first + step]
        begin = np.zeros((p + 1, len(part)))
        if start is not None:
            begin[:-1], begin[-1] = start.W[:, part], np.nan_to_num(start.b[part], posinf=0.0, neginf=0.0)
        allowed = None if features is None else features[:, part]
        found = _solve(X, T[:, part], C, loss, begin, allowed, rough)
        W[:, part], b[part] = found[:-1], found[-1]
    return LinearFit(W, b)


def _solve(
    X: Features,
    T: NDArray[np.float64],
    C: float,
    loss: str,
    begin: NDArray[np.float64],
    allowed: NDArray[np.float64] | None,
    rough: bool,
) -> NDArray[np.float64]:
    """Return coefficients and intercepts (p + 1, P) by L-BFGS in units of the Hessian's diagonal bound."""
    n, shape, taken = X.shape[0], begin.shape, T != 0
    squares = X.multiply(X).sum(axis=0) if sp.issparse(X) else np.einsum("ij,ij->j", X, X)
    bound = _CURVATURE[loss] * np.append(np.asarray(squares).ravel(), n)
    bound[:-1] += 1 / C
    unit = np.sqrt(n / bound)[:, None]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        found = flat.reshape(shape) * unit
        z = T * (np.asarray(X @ found[:-1]) + found[-1])
        if loss == "logistic":
            total, slope = (np.logaddexp(0, -z) * taken).sum(), -T * expit(-z)
        else:
            short = np.maximum(0, 1 - z) * taken
            total, slope = (short**2).sum(), -2 * T * short
        gradient = np.vstack([np.asarray(X.T @ slope) + found[:-1] / C, slope.sum(axis=0)])
        if allowed is not None:
            gradient[:-1] *= allowed
        return float(total + (found[:-1] ** 2).sum() / (2 * C)) / n, (gradient * unit / n).ravel()

    if allowed is not None:
        begin = np.vstack([begin[:-1] * allowed, begin[-1:]])
    steps, fall = (_STEPS // 5, 1e-6) if rough else (_STEPS, 1e-10)
    options = {"maxiter": steps, "maxfun": 2 * steps, "gtol": _TOLERANCE, "ftol": fall}
    solved = minimize(objective, (begin / unit).ravel(), jac=True, method="L-BFGS-B", options=options)
    coefficients: NDArray[np.float64] = solved.x.reshape(shape) * unit
    return coefficients


@dataclass(frozen=True)
class PrincipalRows:
    """Items as coordinates `Z` (n, r) on orthonormal axes around `mean` (p,).

    |w|² is the same for coefficients of the coordinates and of the features. The axes are the columns of
    `axes` (p, r), or of seen^T axes for sparse items `seen` (n, p), which are not centered. Without axes, Z
    are the items themselves.
    """

    Z: Features
    axes: NDArray[np.float64] | None
    mean: NDArray[np.float64]
    seen: Features | None = None

    def place(self, X: Features) -> Features:
        """Return the coordinates (m, r) of other items."""
        if self.axes is None:
            return X
        if self.seen is not None:
            return (X @ self.seen.T).toarray() @ self.axes
        return (X - self.mean) @ self.axes

    def lift(self, fit: LinearFit) -> LinearFit:
        """Return the same functions of the features."""
        if self.axes is None:
            return fit
        W = self.axes @ fit.W
        if self.seen is not None:
            W = np.asarray(self.seen.T @ W)
        return LinearFit(W, fit.b - self.mean @ W)


def principal_rows(X: Features) -> PrincipalRows:
    """Rotate items to their principal axes; sparse items only if they have more features than rows."""
    n, p = X.shape
    if min(n, p) > _MOST_AXES or (sp.issparse(X) and p <= n):
        return PrincipalRows(X, None, np.zeros(p))
    if sp.issparse(X):
        values, rows = _positive_part((X @ X.T).toarray().astype(np.float64))
        return PrincipalRows(rows * np.sqrt(values), rows / np.sqrt(values), np.zeros(p), X)
    mean = X.mean(axis=0, dtype=np.float64)
    centered = X - mean
    if p <= n:
        axes = _positive_part(centered.T @ centered)[1]
    else:
        values, rows = _positive_part(centered @ centered.T)
        axes = centered.T @ (rows / np.sqrt(values))
    return PrincipalRows(centered @ axes, axes, mean)


def _positive_part(S: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues and vectors of a Gram matrix that are not rounding errors."""
    values, vectors = np.linalg.eigh(S)
    kept = values > max(values[-1], 0.0) * 1e-12
    return values[kept], vectors[:, kept]


def signs(Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return labels as +1 and -1."""
    return np.where(Y == 1, 1.0, -1.0)


class TunedLinear(BaseEstimator):
    """One linear classifier per label, with penalty and scaling chosen on inner folds.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge"}
        Logistic regression, or the linear support vector machine of LinearSVC.
    penalties : sequence of float
        Values of C, the weight of the loss against |w|² / 2; ten times these values for rows of length 1.
    scale : {"auto", "zscore", "unit", "tfidf", "none"}
        Scaling of the features, see `make_scaler`. "auto" is "zscore", except for non-negative features that
        are mostly 0, such as words: there the inner folds choose between "zscore" and rows of length 1, with
        TF-IDF weights if the features are integers.
    inner_folds : int
        Number of folds of the training rows for the choice.
    tuning_rows : int
        Maximum number of labeled rows, drawn at random, for the choice; the final fit uses all rows.
    random_state : int
        Seed of the folds and of the draw.

    Attributes
    ----------
    C_, scale_ : float, str
        Chosen values.
    scaler_ : Scaler or TfIdf
    coef_ : (p, K) array
    intercept_ : (K,) array
        Infinite for a label that all training rows have or no training row has.
    calibration_ : Calibration
        Logistic regression gives probabilities and is not calibrated.
    left_out_scores_ : (l, K) array or None
        Out-of-fold scores of the labeled rows; None if the choice used a sample.
    n_features_in_ : int

    Notes
    -----
    `predict` decides by the sign of the decision value, as scikit-learn does; see `TunedSVM`.
    """

    def __init__(
        self,
        loss: str = "logistic",
        penalties: Sequence[float] = (0.001, 0.01, 0.1, 1.0, 10.0),
        scale: str = "auto",
        inner_folds: int = 3,
        tuning_rows: int = 2000,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.penalties = penalties
        self.scale = scale
        self.inner_folds = inner_folds
        self.tuning_rows = tuning_rows
        self.random_state = random_state

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Choose and fit on the labeled rows of X (n, p), Y (n, K)."""
        check_choice("loss", self.loss, LOSSES)
        check_grid("penalties", self.penalties)
        check_count("inner_folds", self.inner_folds)
        X, indicator = as_labeled_features(X, Y)
        X, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        rows = draw_rows(len(labels), self.tuning_rows, self.random_state)
        X_few, Y_few, scales = X[rows], labels[rows], scales_to_try(self.scale, X)
        # increasing, so that each solution is a start for the next
        grid = [(scale, _UNIT_ROWS.get(scale, 1.0) * C) for scale in scales for C in sorted(self.penalties)]
        chosen = choose_calibrated(
            Y_few,
            len(grid),
            lambda train, test: self._score_grid(X_few, Y_few, train, test, grid),
            self.inner_folds,
            self.random_state,
            calibrate=self.loss != "logistic",
        )
        self.scale_, self.C_ = grid[chosen.option]
        self.calibration_ = chosen.calibration
        self.left_out_scores_ = chosen.left_out if len(rows) == len(labels) else None
        self.scaler_ = make_scaler(self.scale_).fit(X)
        rotated = principal_rows(self.scaler_.transform(X))
        solved = rotated.lift(fit_linear(rotated.Z, signs(labels), self.C_, self.loss))
        self.coef_, self.intercept_ = solved.W, solved.b
        self.n_features_in_ = X.shape[1]
        return self

    def _score_grid(
        self,
        X: Features,
        Y: NDArray[np.int8],
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        grid: Sequence[tuple[str, float]],
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the decision values of the test rows at each grid point."""
        now, solved = "", None
        for scale, C in grid:
            if scale != now:
                scaler = make_scaler(scale).fit(X[train])
                seen, now, solved = principal_rows(scaler.transform(X[train])), scale, None
                asked = seen.place(scaler.transform(X[test]))
            solved = fit_linear(seen.Z, signs(Y[train]), C, self.loss, solved, rough=True)
            yield solved.decide(asked)

    def decision_values(self, X: Any) -> NDArray[np.float64]:
        """Return decision values (m, K); infinite for labels that did not vary."""
        scaled = self.scaler_.transform(as_features(X, self.n_features_in_))
        return LinearFit(self.coef_, self.intercept_).decide(scaled)

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities (m, K)."""
        return self.calibration_.apply(self.decision_values(X))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) with a positive decision value."""
        return decide_labels(expit(self.decision_values(X)))
