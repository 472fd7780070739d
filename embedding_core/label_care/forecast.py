"""A forecast of what more labels gain, from the learning curve within the labeled rows.

Models are fitted on parts of the labeled rows and rated on rows left out. The curve y = a - b m^(-1/4) over
the number m of training rows is extended beyond all labeled rows. The interval was fitted to 168 forecasts on
real sets: [g / 3 - .01, 2 g + .01] around the forecast gain g covered 96 % of the gains in LRAP, 88 % in
macro F1 and 82 % in micro F1. `tasks/reproduce/RESULTS.md` has our own count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.threshold_tuning import tune_thresholds
from embedding_core.model_selection.thresholds import exceed_thresholds
from embedding_core.scaling import Scaler

SIZES = (0.25, 0.35, 0.5, 0.65, 0.8)
"""Training parts, as shares of the labeled rows."""
REPEATS, FOLDS = 3, 5
FEWEST_ROWS = 30
"""Labeled rows that a forecast needs."""
SEEN = 5
"""Carriers among the labeled rows with which a label counts in macro F1."""
MOST_ROWS = 1_000
"""Labeled rows that the curve is fitted to; more are sampled."""
METRICS = ("macro_f1", "micro_f1", "lrap")
_DECAY = -0.25
_SLACK = 0.01

Learner = Callable[[Any, NDArray[np.int8], Any], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Fits X (l, p), Y (l, K); returns scores (m, K) of other rows (m, p), and thresholds (K,)."""


@dataclass(frozen=True)
class Curve:
    """y = level - drop m^(-1/4), with drop >= 0."""

    level: float
    drop: float

    def at(self, rows: float) -> float:
        """Return the value with this many training rows."""
        return float(self.level - self.drop * rows**_DECAY)


@dataclass(frozen=True)
class GainForecast:
    """The forecast of a metric.

    Attributes
    ----------
    metric : str
    rows, more : int
        Labeled rows now, and labels to be added.
    now, gain : float
        Value of the curve now, and what `more` labels add to it.
    low, high : float
        Interval of the gain.
    drop : float
        Parameter of the curve, see `Curve`.
    best_label : int or None
        The label whose F1 gains most; only for macro F1.
    best_gain : float
        Its gain.
    """

    metric: str
    rows: int
    more: int
    now: float
    gain: float
    low: float
    high: float
    drop: float = 0.0
    best_label: int | None = None
    best_gain: float = 0.0

    def gain_at(self, rows: int) -> tuple[float, float, float]:
        """Return the forecast gain with another number of labeled rows, and its interval."""
        gain = _gain(Curve(0.0, self.drop), self.rows, rows - self.rows)
        return (gain, *gain_interval(gain))

    def covers(self, gain: float) -> bool:
        """Whether a gain that happened lies in the interval."""
        return self.low <= gain <= self.high


def fit_curve(rows: NDArray[np.float64], values: NDArray[np.float64]) -> Curve:
    """Fit the curve by least squares with weights m; a falling curve becomes a constant.

    >>> m = np.array([10.0, 20, 40, 80])
    >>> curve = fit_curve(m, 0.9 - 0.5 * m**-0.25)
    >>> round(curve.level, 6), round(curve.drop, 6)
    (0.9, 0.5)
    """
    known = np.isfinite(values)
    m, y = np.asarray(rows, dtype=np.float64)[known], values[known]
    if not len(m):
        return Curve(0.0, 0.0)
    x, weights = m**_DECAY, m / m.sum()
    x_mean, y_mean = float(weights @ x), float(weights @ y)
    variance = float(weights @ (x - x_mean) ** 2)
    slope = float(weights @ ((x - x_mean) * (y - y_mean))) / variance if variance > 0 else 0.0
    drop = max(0.0, -slope)
    return Curve(y_mean + drop * x_mean, drop)


def gain_interval(gain: float) -> tuple[float, float]:
    """Return the interval [g / 3 - .01, 2 g + .01] of a forecast gain."""
    return gain / 3 - _SLACK, 2 * gain + _SLACK


def forecast_gains(
    X: Any, Y: NDArray[np.int8], more: int = 100, learner: Learner | None = None, seed: int = 0
) -> dict[str, GainForecast]:
    """Forecast what more labels gain in macro F1, micro F1 and LRAP.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
        Features of the labeled rows, a random sample of the collection.
    Y : ndarray of shape (n, K)
        0/1 labels. Macro F1 is over the labels of at least five rows.
    more : int
        Labels to be added.
    learner : callable, optional
        The model; default: ridge regression, thresholds from its exact leave-one-out scores.
    seed : int
        Draws folds and training parts.

    Raises
    ------
    InvalidInput
        There are fewer than 30 labeled rows, or no label of at least five.
    """
    n = len(Y)
    seen = Y.sum(axis=0) >= SEEN
    if n < FEWEST_ROWS or not seen.any():
        raise InvalidInput(
            f"{n} labeled items with {int(seen.sum())} labels of at least {SEEN}; a forecast needs at least "
            f"{FEWEST_ROWS} items and one such label. Label more items first."
        )
    if more < 1:
        raise InvalidInput(f"{more} more labels; forecast at least 1.")
    rng = np.random.default_rng(seed)
    kept = np.sort(rng.choice(n, MOST_ROWS, replace=False)) if n > MOST_ROWS else np.arange(n)
    table, per_label = _measure(X[kept], Y[kept], seen, learner or ridge_learner, rng)
    counts = table[:, 0]
    made = {
        name: _forecast(name, n, more, fit_curve(counts, table[:, 1 + place]))
        for place, name in enumerate(METRICS)
    }
    gains = [_gain(fit_curve(counts, column), n, more) for column in per_label.T]
    best = int(np.argmax(np.where(seen, gains, -np.inf)))
    macro = made["macro_f1"]
    made["macro_f1"] = GainForecast(
        **{**vars(macro), "best_label": best if gains[best] > 0 else None, "best_gain": float(gains[best])}
    )
    return made


def ridge_learner(
    X: Any, Y: NDArray[np.int8], queries: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score rows by ridge regression with an intercept, of z-scored rows (sparse rows as given).

    The penalty has the least leave-one-out error of five; thresholds are those of "macro_f1" on leave-one-out
    scores.
    """
    if isinstance(X, np.ndarray):
        scaler = Scaler("zscore").fit(X)
        X, queries = scaler.transform(X), scaler.transform(queries)
    K, K_new = _products(X, X), _products(queries, X)
    means = K.mean(axis=0)
    dual, errors = fit_ridge(K, Y)
    scores = (K_new - K_new.mean(axis=1, keepdims=True) - means + means.mean()) @ dual + Y.mean(axis=0)
    return scores, tune_thresholds(Y - errors, Y, "macro_f1")


def fit_ridge(K: NDArray[np.float64], Y: NDArray[np.int8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit ridge regression with an intercept from inner products K (n, n).

    Returns the dual coefficients (n, K) of centered rows, and the leave-one-out errors (n, K), both with the
    penalty of the least error.

    Notes
    -----
    Without a row, the mean of the others is another one too. The hat matrix is 1 1ᵀ / n + G (G + c I)⁻¹ with
    the centered G, so the error without row i is that of the fit, c d_i, divided by
    c [(G + c I)⁻¹]_ii - 1 / n. If the last term were left out, a small penalty would seem to predict each row
    from the sum of all others.
    """
    means = K.mean(axis=0)
    values, V = np.linalg.eigh(K - means - means[:, None] + means.mean())
    moments, squares = V.T @ (Y - Y.mean(axis=0)), V**2
    best: tuple[float, NDArray[np.float64], NDArray[np.float64]] | None = None
    for penalty in max(float(values.sum()) / len(K), 1e-12) * 10.0 ** np.arange(-2, 3):
        inverse = 1 / (np.maximum(values, 0) + penalty)
        dual = V @ (inverse[:, None] * moments)
        errors = dual / (squares @ inverse - 1 / (len(K) * penalty))[:, None]
        loss = float((errors**2).mean())
        if best is None or loss < best[0]:
            best = loss, dual, errors
    assert best is not None
    return best[1], best[2]


def _products(A: Any, B: Any) -> NDArray[np.float64]:
    product = A @ B.T
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float64)


def _measure(
    X: Any, Y: NDArray[np.int8], seen: NDArray[np.bool_], learner: Learner, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return training rows and metrics (s, 1 + 3), and F1 of each label (s, K), of each repeat and size."""
    rated, labels = [], []
    for repeat in range(REPEATS if len(Y) <= MOST_ROWS // 2 else 1):
        folds = stratified_folds(Y, FOLDS, int(rng.integers(2**31)) + repeat)
        for size in SIZES:
            scores, decided = np.zeros(Y.shape), np.zeros(Y.shape, dtype=np.int8)
            count = max(2, round(size * len(Y)))
            for train, test in folds:
                chosen = rng.permutation(train)[:count]
                scores[test], cuts = learner(X[chosen], Y[chosen], X[test])
                decided[test] = exceed_thresholds(scores[test], cuts)
            found = multilabel_metrics(Y[:, seen], decided[:, seen], scores[:, seen])
            whole = multilabel_metrics(Y, decided, scores)
            rated.append([count, found["macro_f1"], whole["micro_f1"], whole["lrap"]])
            labels.append(_label_f1(Y, decided))
    return np.array(rated, dtype=np.float64), np.array(labels)


def _label_f1(Y: NDArray[np.int8], decided: NDArray[np.int8]) -> NDArray[np.float64]:
    both = ((Y == 1) & (decided == 1)).sum(axis=0)
    total = (Y == 1).sum(axis=0) + (decided == 1).sum(axis=0)
    f1: NDArray[np.float64] = 2 * both / np.maximum(total, 1)
    return f1


def _gain(curve: Curve, rows: int, more: int) -> float:
    return curve.at(rows + more) - curve.at(rows)


def _forecast(metric: str, rows: int, more: int, curve: Curve) -> GainForecast:
    gain = _gain(curve, rows, more)
    low, high = gain_interval(gain)
    return GainForecast(metric, rows, more, curve.at(rows), gain, low, high, curve.drop)
