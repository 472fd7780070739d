"""Validation of parameters, sample weights and items."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from embedding_core.errors import InvalidInput

SCALE_ITEMS = "Drop these items, or scale the features."


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite real number. Booleans are not numbers."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # an integer too large for a float
        return False


def is_count(value: Any, at_least: int = 1) -> TypeGuard[int]:
    """Return whether a value is an integer >= `at_least`. Booleans are not integers."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least


def check_choice(name: str, value: Any, legal: Sequence[str | None]) -> None:
    """Raise InvalidInput unless the value is one of the legal values."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in legal):
        raise InvalidInput(f"{name}={value!r} is not legal; choose one of {', '.join(map(str, legal))}.")


def check_count(name: str, value: Any, words: Sequence[str | None] = ()) -> None:
    """Raise InvalidInput unless the value is an integer >= 1 or one of `words`."""
    if not (is_count(value) or _is_word(value, words)):
        raise InvalidInput(f"{name}={value!r} is not legal; give an integer >= 1{_or(words)}.")


def check_positive(name: str, value: Any, words: Sequence[str | None] = ()) -> None:
    """Raise InvalidInput unless the value is a positive number or one of `words`."""
    if not ((is_number(value) and value > 0) or _is_word(value, words)):
        raise InvalidInput(f"{name}={value!r} is not legal; give a positive number{_or(words)}.")


def check_not_negative(name: str, value: Any, words: Sequence[str | None] = ()) -> None:
    """Raise InvalidInput unless the value is a number >= 0 or one of `words`."""
    if not ((is_number(value) and value >= 0) or _is_word(value, words)):
        raise InvalidInput(f"{name}={value!r} is not legal; give a number >= 0{_or(words)}.")


def check_share(name: str, value: Any, low: float = 0.0, high: float = 1.0) -> None:
    """Raise InvalidInput unless the value is a number in [low, high]."""
    if not (is_number(value) and low <= value <= high):
        raise InvalidInput(f"{name}={value!r} is not legal; give a number from {low:g} to {high:g}.")


def check_sample_weight(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """Return the weights of n items as float64. They must be finite and >= 0."""
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"sample_weight is not numeric ({error}); give one weight per item.") from error
    if weight.shape != (n,):
        raise InvalidInput(f"sample_weight has shape {weight.shape}; expected ({n},), one weight per item.")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise InvalidInput(
            "sample_weight contains negative or non-finite values; weights must be finite and >= 0."
        )
    return weight


def _is_word(value: Any, words: Sequence[str | None]) -> bool:
    return (value is None and None in words) or (isinstance(value, str) and value in words)


def _or(words: Sequence[str | None]) -> str:
    return "".join(f' or "{word}"' if word is not None else " or None" for word in words)


def refuse_numbers(error: ValueError, advice: str) -> InvalidInput:
    """Turn a scikit-learn error about an array into InvalidInput.

    `advice` is added if the error gives none.
    """
    message = str(error)
    return InvalidInput(f"{message} {advice}" if "contains infinity" in message else message)


def validate_items(model: BaseEstimator, X: Any, reset: bool) -> Any:
    """Return X as floats, dense or CSR, validated against the fitted model unless `reset`."""
    if isinstance(X, (dict, set, str, bytes)) and not sp.issparse(X):
        raise InvalidInput(f"X is a {type(X).__name__}; give an array, DataFrame or CSR matrix (n, p).")
    try:
        X = validate_data(model, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
    except ValueError as error:
        raise refuse_numbers(error, SCALE_ITEMS) from error
    if X.dtype == np.float64 and X.shape[1]:
        largest, limit = largest_magnitude(X), magnitude_limit(*X.shape)
        if largest > limit:
            raise InvalidInput(
                f"X contains {largest:.3g}; squares of numbers beyond {limit:.0e} overflow. {SCALE_ITEMS}"
            )
    return X


def largest_magnitude(X: Any) -> float:
    """Return the largest |x| of a non-empty matrix, NaN if it contains NaN."""
    with np.errstate(invalid="ignore"):
        return max(float(X.max()), -float(X.min()))


def magnitude_limit(n: int, p: int) -> float:
    """Return the magnitude up to which sums of n x p squares, and of squared differences, stay finite."""
    return float(np.sqrt(np.finfo(np.float64).max / (8 * n * p)) / 4)


def items_vary(X: Any) -> bool:
    """Return whether at least one feature of X, dense or sparse, is not constant."""
    return bool(abs(X.max(axis=0) - X.min(axis=0)).sum() > 0)
