"""Feature scaling for dense or sparse data, fitted on one set of rows and applied to others."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.sparsefuncs import mean_variance_axis

from embedding_core.checks import check_choice
from embedding_core.errors import InvalidInput
from embedding_core.linalg.conditioning import EPS
from embedding_core.linalg.row_blocks import MOST_COPIED, RowView, mean_row, row_blocks

Features = Any
"""(n, p) array of float32 or float64, a CSR matrix of these, or a `RowView`."""

SCALINGS = ("none", "zscore", "unit")
COUNT_SCALINGS = (*SCALINGS, "tfidf")
"""The scalings of `make_scaler`."""
MOST_ZEROS = 0.5
"""Non-negative features of which more than this fraction is 0 count as occurrences, for instance of words."""


def as_features(X: Any, n_features: int | None = None, missing: bool = False) -> Features:
    """Return features as a float array or CSR matrix.

    float32 and float64 are kept; other dtypes are converted to float64.

    Parameters
    ----------
    X : (n, p) array, DataFrame, sparse matrix or RowView
        Finite numbers; those of a view have been checked.
    n_features : int, optional
        Number of columns that a fitted model expects.
    missing : bool, default=False
        Accept NaN as missing values.

    Raises
    ------
    InvalidInput
        If X has another shape, is not numeric, contains NaN or infinity, or has another number of columns.
    """
    if sp.issparse(X):
        features = X.tocsr()
        if features.dtype not in (np.float32, np.float64):
            features = features.astype(np.float64)
        values = features.data
    else:
        features = values = _as_float_array(X)
    if features.ndim != 2 or 0 in features.shape:
        raise InvalidInput(
            f"X has shape {features.shape}; expected (items, features) with at least one of each."
        )
    if bad := _count_bad(values, missing):
        raise InvalidInput(f"X contains {bad} NaN or infinite values; fill them or drop their rows first.")
    if n_features is not None and features.shape[1] != n_features:
        raise InvalidInput(
            f"X has {features.shape[1]} features, the model was fitted with {n_features}; "
            "prepare the items as for the fit."
        )
    return features


def _count_bad(values: Any, missing: bool) -> int:
    """Count infinite numbers, and NaN unless they are missing values; a view has been checked before."""
    if isinstance(values, RowView):
        return 0
    is_bad = np.isinf if missing else lambda block: ~np.isfinite(block)
    blocks = [values] if values.ndim < 2 else (block for _, block in row_blocks(values))
    return sum(int(is_bad(block).sum()) for block in blocks)


def _as_float_array(X: Any) -> Any:
    if isinstance(X, RowView):
        return X
    try:
        array = np.asarray(X)
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"X is not an array of numbers ({error}); expected (items, features).") from error


def _column_moments(X: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column in float64; the deviation of a constant column is 1."""
    if sp.issparse(X):
        mean, variance = mean_variance_axis(X.astype(np.float64), axis=0)
    else:
        mean, variance = _dense_moments(X)
    # Rounding gives a constant column a variance of up to (n eps mean)^2; dividing would amplify that noise.
    n = X.shape[0]
    constant = variance <= n * EPS * variance + (n * mean * EPS) ** 2
    return mean, np.where(constant, 1.0, np.sqrt(variance))


def _dense_moments(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of each column; of many rows without a float64 copy of them."""
    if X.shape[0] * X.shape[1] <= MOST_COPIED:
        X = np.asarray(X)
        return X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)
    mean, total = mean_row(X), np.zeros(X.shape[1])
    for _, block in row_blocks(X):
        total += ((block - mean) ** 2).sum(axis=0)
    return mean, total / X.shape[0]


def _row_lengths(X: Features) -> NDArray[np.float64]:
    """Euclidean norm of each row; 1 for a row of zeros."""
    if sp.issparse(X):
        lengths = np.sqrt(np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel())
    else:
        lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    return np.where(lengths == 0, 1.0, lengths)


class Scaler(TransformerMixin, BaseEstimator):
    """Bring features to a common scale.

    Parameters
    ----------
    kind : {"none", "zscore", "unit"}
        "none" leaves X unchanged. "zscore" subtracts the mean of each column and divides by its standard
        deviation (over n, not n-1); constant columns become 0. Sparse X is only divided, because subtracting
        would make it dense. "unit" divides each row by its Euclidean norm; rows of zeros are unchanged.

    Attributes
    ----------
    mean_ : (p,) array
        Subtracted from each column; zeros for sparse X and for the other kinds.
    scale_ : (p,) array
        Divisor of each column; ones for the other kinds.
    n_features_in_ : int

    Examples
    --------
    >>> Scaler("zscore").fit_transform([[0.0, 5.0], [2.0, 5.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    def __init__(self, kind: str = "none") -> None:
        self.kind = kind

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mean and standard deviation of each column; y is ignored."""
        if self.kind not in SCALINGS:
            raise InvalidInput(f"scale {self.kind!r} is not known; choose one of {', '.join(SCALINGS)}.")
        X = as_features(X)
        p = X.shape[1]
        self.mean_, self.scale_ = np.zeros(p), np.ones(p)
        if self.kind == "zscore":
            mean, self.scale_ = _column_moments(X)
            self.mean_ = np.zeros(p) if sp.issparse(X) else mean
        self.n_features_in_ = p
        return self

    def transform(self, X: Any, copy: bool = True) -> Features:
        """Return scaled rows in the dtype of X: a copy, X itself for "none", or a view of a `RowView`.

        With copy=False dense z-scores overwrite X.
        """
        X = as_features(X, self.n_features_in_)
        if self.kind == "none":
            return X
        change = self._divide_rows if self.kind == "unit" else self._standardize
        if isinstance(X, RowView):
            return X.change(change)
        if self.kind == "zscore" and sp.issparse(X):
            if self.mean_.any():
                raise InvalidInput("X is sparse, but the scaler was fitted on dense rows; pass X.toarray().")
            return (X @ sp.diags_array(1 / self.scale_)).tocsr().astype(X.dtype)
        return self._standardize(X, X) if self.kind == "zscore" and not copy else change(X)

    def _standardize(self, X: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        scaled = np.empty_like(X) if out is None else out
        for rows, block in row_blocks(X):  # block - mean is float64: not of all rows at a time
            scaled[rows] = (block - self.mean_) / self.scale_
        return scaled

    @staticmethod
    def _divide_rows(X: Features) -> Features:
        lengths = _row_lengths(X)
        if sp.issparse(X):
            return (sp.diags_array(1 / lengths) @ X).tocsr().astype(X.dtype)
        return (X / lengths[:, None]).astype(X.dtype)


class TfIdf(TransformerMixin, BaseEstimator):
    """Weigh counts by the rarity of their feature, then divide each row by its Euclidean norm.

    The weight of a feature is 1 + ln((1 + n) / (1 + d)), where d of the n rows have it, as in scikit-learn.

    Attributes
    ----------
    weights_ : (p,) array
    n_features_in_ : int

    Examples
    --------
    >>> TfIdf().fit_transform([[2.0, 0.0], [3.0, 0.0]])
    array([[1., 0.],
           [1., 0.]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count the rows that have each feature; y is ignored."""
        X = as_features(X)
        carriers = np.asarray((X != 0).sum(axis=0)).ravel()
        self.weights_ = 1 + np.log((1 + X.shape[0]) / (1 + carriers))
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Features:
        """Return weighted rows of length 1, in the dtype of X; rows of zeros are unchanged."""
        X = as_features(X, self.n_features_in_)
        if sp.issparse(X):
            weighted = (X @ sp.diags_array(self.weights_)).tocsr().astype(X.dtype)
        else:
            weighted = (X * self.weights_).astype(X.dtype)
        return Scaler("unit").fit(weighted).transform(weighted)


def make_scaler(kind: str) -> Scaler | TfIdf:
    """Return the unfitted scaler of one of `COUNT_SCALINGS`."""
    if kind not in COUNT_SCALINGS:
        raise InvalidInput(f"scale {kind!r} is not known; choose one of {', '.join(COUNT_SCALINGS)}.")
    return TfIdf() if kind == "tfidf" else Scaler(kind)


def are_occurrences(X: Features) -> bool:
    """Return whether the features are non-negative and mostly 0, like counts or weights of words."""
    values = X.data if sp.issparse(X) else X
    zeros = 1 - np.count_nonzero(values) / (X.shape[0] * X.shape[1])
    return bool(zeros > MOST_ZEROS and (not values.size or values.min() >= 0))


def row_scale(X: Features) -> str:
    """Return the scaling after which rows are compared by their angle: "tfidf" for counts, else "unit"."""
    values = X.data if sp.issparse(X) else X
    return "tfidf" if are_occurrences(X) and bool((values == np.floor(values)).all()) else "unit"


def scales_to_try(scale: str, X: Features) -> tuple[str, ...]:
    """Return the scalings among which "auto" chooses for these items, or the given one."""
    check_choice("scale", scale, ("auto", *COUNT_SCALINGS))
    if scale != "auto":
        return (scale,)
    return (row_scale(X), "zscore") if are_occurrences(X) else ("zscore",)
