"""Legal values of parameters: one sentence for each kind of mistake."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from embedding_core.errors import InvalidInput

SCALE_ITEMS = "Drop such items, or scale the features."


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite real number; True and False are not."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # an integer beyond every float
        return False


def is_count(value: Any, at_least: int = 1) -> TypeGuard[int]:
    """Whether a value is an integer from `at_least` up; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least


def check_choice(name: str, value: Any, legal: Sequence[str | None]) -> None:
    """Raise InvalidInput unless the value is one of the legal ones."""
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
    """Raise InvalidInput unless the value is a number from 0 up or one of `words`."""
    if not ((is_number(value) and value >= 0) or _is_word(value, words)):
        raise InvalidInput(f"{name}={value!r} is not legal; give a number >= 0{_or(words)}.")


def check_share(name: str, value: Any, low: float = 0.0, high: float = 1.0) -> None:
    """Raise InvalidInput unless the value is a number in [low, high]."""
    if not (is_number(value) and low <= value <= high):
        raise InvalidInput(f"{name}={value!r} is not legal; give a number from {low:g} to {high:g}.")


def check_sample_weight(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """Return the weights of n items as float64; they must be finite and >= 0."""
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"sample_weight holds no numbers ({error}); give one weight an item.") from error
    if weight.shape != (n,):
        raise InvalidInput(f"sample_weight has shape {weight.shape}; expected ({n},), one weight an item.")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise InvalidInput("sample_weight holds negative or non-finite values; weights are >= 0.")
    return weight


def _is_word(value: Any, words: Sequence[str | None]) -> bool:
    return (value is None and None in words) or (isinstance(value, str) and value in words)


def _or(words: Sequence[str | None]) -> str:
    return "".join(f' or "{word}"' if word is not None else " or None" for word in words)


def refuse_numbers(error: ValueError, advice: str) -> InvalidInput:
    """A library's complaint about an array, with what to do where it says nothing of that."""
    message = str(error)
    return InvalidInput(f"{message} {advice}" if "contains infinity" in message else message)


def validate_items(model: BaseEstimator, X: Any, reset: bool) -> Any:
    """X as floats, dense or CSR, checked against the fit unless `reset`; a complaint says what to do."""
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
                f"X holds {largest:.3g}; squares of numbers beyond {limit:.0e} overflow. {SCALE_ITEMS}"
            )
    return X


def largest_magnitude(X: Any) -> float:
    """The largest |x| of a matrix with entries; NaN where it holds one."""
    with np.errstate(invalid="ignore"):
        return max(float(X.max()), -float(X.min()))


def magnitude_limit(n: int, p: int) -> float:
    """Up to here all squares of n x p numbers and their sums are finite, with room for differences."""
    return float(np.sqrt(np.finfo(np.float64).max / (8 * n * p)) / 4)


def items_vary(X: Any) -> bool:
    """Whether any feature of X, dense or sparse, differs between items."""
    return bool(abs(X.max(axis=0) - X.min(axis=0)).sum() > 0)
