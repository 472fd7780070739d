"""Legal values of parameters: one sentence for each kind of mistake."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from embedding_core.errors import InvalidInput


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite real number; True and False are not."""
    return (
        isinstance(value, Real) and not isinstance(value, bool | np.bool_) and bool(np.isfinite(float(value)))
    )


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


def _is_word(value: Any, words: Sequence[str | None]) -> bool:
    return (value is None and None in words) or (isinstance(value, str) and value in words)


def _or(words: Sequence[str | None]) -> str:
    return "".join(f' or "{word}"' if word is not None else " or None" for word in words)
