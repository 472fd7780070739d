"""Whether new items are like the labeled ones, and which features or blocks of features differ.

A classifier is trained to tell labeled from new rows. If it can, on rows that it did not see, the two are not
drawn alike, and whatever was measured on the labeled rows need not hold for the new ones. It detects change,
not harm: labels may be as good as before.

The classifier is kernel ridge regression of the side y (0 labeled, 1 new) with the penalty λ, scored by the
AUC of each of five folds and their mean. The kernel is the one of Kernel DLE, with widths taken from the data
without regard to the side. With G = (K + λ I)^(-1), the predictions for a fold B by the other folds are

    f_B = y_B - (G_BB)^(-1) (G y)_B,

so one factorization serves all folds and any number of targets y. Permuted sides are further targets. They
are permuted within each fold: each fold keeps its number of new rows, and under the hypothesis that all rows
are drawn alike every such permutation is equally likely, so the p-value is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis

from embedding_core.errors import InvalidInput
from embedding_core.kernel_dle.kernels import fit_kernel, resolve_kernel
from embedding_core.linalg.conditioning import EPS
from embedding_core.scaling import Features, Scaler, as_features

Verdict = Literal["same", "warn", "void", "untested"]

PENALTY = 0.1
FOLDS = 5
MOST_ROWS = 600
"""Rows per side; more are sampled."""
FEWEST_ROWS = 5
"""Rows per side below which nothing is tested: each fold needs one."""
PERMUTATIONS = 199
VOID, WARN = 0.01, 0.05
"""p-values up to which a promise on precision is void, or a warning is given."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Moved:
    """How far one feature or block of features moved from the labeled to the new items.

    Attributes
    ----------
    name : str
    size : float
        Blocks: AUC of a classifier on this block alone, about 1/2 if it did not move. Features: difference of
        the means in standard deviations, positive if it is larger for new items.
    """

    name: str
    size: float


@dataclass(frozen=True)
class Drift:
    """Result of `detect_drift`.

    Attributes
    ----------
    auc : float
        Mean AUC over the folds; NaN if nothing was tested.
    p_value : float
        Share of sides, the true one and permuted ones, that are told apart at least as well; 1 if untested.
    verdict : {"same", "warn", "void", "untested"}
        "void" for p <= 0.01, "warn" for p <= 0.05, "untested" if a side has fewer than five rows.
    labeled, new : int
        Rows that were compared.
    """

    auc: float
    p_value: float
    verdict: Verdict
    labeled: int
    new: int

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.verdict == "untested":
            return (
                f"Whether the new items are like the labeled ones was not tested: {self.new} new and "
                f"{self.labeled} labeled items; at least {FEWEST_ROWS} of each are needed."
            )
        measured = f"(AUC {self.auc:.2f}, p = {self.p_value:.3f})"
        if self.verdict == "same":
            return f"No difference between new and labeled items was found {measured}."
        if self.verdict == "warn":
            return f"The new items may differ from the labeled ones {measured}; check a sample of the labels."
        return (
            f"The new items differ from the labeled ones {measured}: no promise holds for them. Label some "
            "of them."
        )


def detect_drift(
    labeled: Any,
    new: Any,
    random_state: Any = 0,
    n_permutations: int = PERMUTATIONS,
    most_rows: int = MOST_ROWS,
) -> Drift:
    """Test whether labeled rows (a, p) and new rows (b, p) are drawn alike.

    Parameters
    ----------
    labeled, new : arrays or CSR matrices of shape (a, p) and (b, p)
        Features prepared in the same way.
    random_state : int, RandomState or None, default=0
        Draws rows, folds and permutations.
    n_permutations : int, default=199
        The smallest p-value is 1 / (n_permutations + 1).
    most_rows : int, default=600
        Rows per side; more are sampled.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> detect_drift(X[:100], X[100:]).verdict, detect_drift(X[:100], X[100:] + 1.0).verdict
    ('same', 'void')
    """
    X, y = _stack_sides(labeled, new, check_random_state(random_state), most_rows)
    a, b = int((y == 0).sum()), int(y.sum())
    if min(a, b) < FEWEST_ROWS:
        return Drift(float("nan"), 1.0, "untested", a, b)
    rng = check_random_state(random_state)
    folds = _deal_folds(y, rng)
    sides = _permute_sides(y, folds, n_permutations, rng)
    found = _mean_auc(_out_of_fold(_kernel_matrix(X), sides, folds), sides, folds)
    p_value = float((found >= found[0] - _ROUNDING).mean())
    verdict: Verdict = "void" if p_value <= VOID else "warn" if p_value <= WARN else "same"
    return Drift(float(found[0]), p_value, verdict, a, b)


def moved_blocks(
    labeled: Any,
    new: Any,
    blocks: Sequence[tuple[str, int]],
    random_state: Any = 0,
    most_rows: int = MOST_ROWS,
) -> tuple[Moved, ...]:
    """Return the AUC of the classifier on each block of columns alone, largest first.

    `blocks` are names and numbers of columns, in the order of the columns. Sides of fewer than five rows give
    an empty tuple.
    """
    X, y = _stack_sides(labeled, new, check_random_state(random_state), most_rows)
    if sum(width for _, width in blocks) != X.shape[1] or any(width < 1 for _, width in blocks):
        raise InvalidInput(
            f"blocks of {[width for _, width in blocks]} columns for {X.shape[1]} features; give the name "
            "and the number of columns of each block, in order."
        )
    if min((y == 0).sum(), y.sum()) < FEWEST_ROWS:
        return ()
    folds, found, start = _deal_folds(y, check_random_state(random_state)), [], 0
    for name, width in blocks:
        scores = _out_of_fold(_kernel_matrix(X[:, start : start + width]), y[:, None], folds)
        found.append(Moved(name, float(_mean_auc(scores, y[:, None], folds)[0])))
        start += width
    return tuple(sorted(found, key=lambda one: -one.size))


def moved_features(
    labeled: Any, new: Any, names: Sequence[str] | None = None, most: int = 5
) -> tuple[Moved, ...]:
    """Return the `most` features whose means differ most, in pooled standard deviations; largest first.

    Only features whose difference exceeds the largest one expected by chance among p features,
    sqrt(2 ln(2 p)) standard errors, are returned. A feature that is constant on both sides but differs is
    infinitely far away. Changes that leave the mean alone are not seen here.
    """
    A, B = _as_sides(labeled, new)
    p = A.shape[1]
    if names is not None and len(names) != p:
        raise InvalidInput(f"{len(names)} names for {p} features; give one per feature.")
    difference, deviation = _mean_difference(A, B)
    chance = np.sqrt(2 * np.log(2 * p) * (1 / A.shape[0] + 1 / B.shape[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(difference == 0, 0.0, difference / deviation)
    order = np.argsort(-np.abs(size), kind="stable")[:most]
    order = order[np.abs(size[order]) > chance]
    return tuple(Moved(names[k] if names is not None else f"f{k}", float(size[k])) for k in order)


def _mean_difference(A: Features, B: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the difference of the column means and the pooled standard deviation, both (p,).

    Differences and deviations that are rounding errors are 0.
    """
    a, b = A.shape[0], B.shape[0]
    (mean_a, var_a), (mean_b, var_b) = _moments(A), _moments(B)
    rounding = (a + b) * EPS * np.maximum(np.abs(mean_a), np.abs(mean_b))
    difference = mean_b - mean_a
    difference[np.abs(difference) <= rounding] = 0.0
    deviation = np.sqrt((a * var_a + b * var_b) / max(a + b - 2, 1))
    return difference, np.where(deviation <= rounding, 0.0, deviation)


def _moments(X: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and variance of each column in float64."""
    if sp.issparse(X):
        mean, variance = mean_variance_axis(X.astype(np.float64), axis=0)
        return mean, variance
    return X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)


def _as_sides(labeled: Any, new: Any) -> tuple[Features, Features]:
    A, B = as_features(labeled), as_features(new)
    if A.shape[1] != B.shape[1]:
        raise InvalidInput(
            f"labeled items have {A.shape[1]} features and new items {B.shape[1]}; prepare both alike."
        )
    if sp.issparse(A) != sp.issparse(B):
        raise InvalidInput("labeled and new items must both be dense or both be sparse.")
    return A, B


def _stack_sides(labeled: Any, new: Any, rng: Any, most_rows: int) -> tuple[Features, NDArray[np.int8]]:
    """Return at most `most_rows` rows of each side as float64, and their side y (n,): 0 labeled, 1 new."""
    sides = []
    for rows in _as_sides(labeled, new):
        n = rows.shape[0]
        if n > most_rows:
            rows = rows[np.sort(rng.choice(n, most_rows, replace=False))]
        sides.append(rows.astype(np.float64))
    stack = sp.vstack(sides, format="csr") if sp.issparse(sides[0]) else np.vstack(sides)
    return stack, np.repeat(np.array([0, 1], dtype=np.int8), [side.shape[0] for side in sides])


def _deal_folds(y: NDArray[np.int8], rng: Any) -> NDArray[np.intp]:
    """Return the fold (n,) of each row; the rows of each side are dealt evenly."""
    folds = np.empty(len(y), dtype=np.intp)
    for side in (0, 1):
        rows = rng.permutation(np.flatnonzero(y == side))
        folds[rows] = np.arange(len(rows)) % FOLDS
    return folds


def _permute_sides(y: NDArray[np.int8], folds: NDArray[np.intp], count: int, rng: Any) -> NDArray[np.int8]:
    """Return y (n, 1 + count): the true sides first, then sides permuted within each fold."""
    sides = np.repeat(y[:, None], 1 + count, axis=1)
    for fold in range(FOLDS):
        rows = np.flatnonzero(folds == fold)
        lots = np.argsort(rng.random_sample((len(rows), count)), axis=0)
        sides[rows, 1:] = y[rows][lots]
    return sides


def _kernel_matrix(X: Features) -> NDArray[np.float64]:
    kernel = fit_kernel(resolve_kernel("auto", X), X, 0, scaler=Scaler("zscore").fit(X))
    return kernel.columns(X, X)


def _out_of_fold(
    K: NDArray[np.float64], sides: NDArray[np.int8], folds: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the predictions (n, t) of targets (n, t) for each fold by a fit on the others."""
    n = len(K)
    # the targets of all columns have the same mean in every fold, so an intercept would not change an order
    y = sides - sides[:, :1].mean()
    G = scipy.linalg.inv(K + PENALTY * np.eye(n), check_finite=False)
    product, predicted = G @ y, np.empty(y.shape)
    for fold in range(FOLDS):
        B = np.flatnonzero(folds == fold)
        predicted[B] = y[B] - scipy.linalg.solve(G[np.ix_(B, B)], product[B], assume_a="pos")
    return predicted


def _mean_auc(
    scores: NDArray[np.float64], sides: NDArray[np.int8], folds: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the mean over the folds of the AUC of each column (t,); equal scores count one half."""
    from scipy.stats import rankdata  # imported late: it takes 0.5 s

    total = np.zeros(scores.shape[1])
    for fold in range(FOLDS):
        rows = folds == fold
        # rounding must not order rows with the same features
        ranks = rankdata(np.round(scores[rows], 9), axis=0)
        y = sides[rows]
        b = y.sum(axis=0, dtype=np.int64)
        total += ((ranks * y).sum(axis=0) - b * (b + 1) / 2) / (b * (len(y) - b))
    return total / FOLDS
