"""Legal values of LPSSVM's parameters."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput

DIMENSION_WORDS = ("energy", "cv")


def check_parameters(estimator: Any, choices: Mapping[str, tuple[str, ...]]) -> None:
    """Raise InvalidInput at the first parameter without a legal value."""
    for name, legal in choices.items():
        value = getattr(estimator, name)
        if value not in legal:
            raise InvalidInput(f"{name}={value!r} is not legal; choose one of {', '.join(legal)}.")
    if not (_is_number(estimator.gamma) and estimator.gamma >= 0):
        raise InvalidInput(f"gamma={estimator.gamma!r} is not legal; give a number >= 0.")
    if not (_is_number(estimator.tol) and estimator.tol >= 0):
        raise InvalidInput(f"tol={estimator.tol!r} is not legal; give a number >= 0.")
    if not (_is_number(estimator.energy) and 0 < estimator.energy <= 1):
        raise InvalidInput(f"energy={estimator.energy!r} is not legal; give a share above 0, at most 1.")
    if not _is_count(estimator.max_iter):
        raise InvalidInput(f"max_iter={estimator.max_iter!r} is not legal; give an integer >= 1.")
    _check_positive_or("C", estimator.C, "cv")
    _check_positive_or("theta", estimator.theta, "auto")
    r = estimator.n_components
    if not (_is_count(r) or (isinstance(r, str) and r in DIMENSION_WORDS)):
        raise InvalidInput(f'n_components={r!r} is not legal; give an integer >= 1, "energy" or "cv".')


def _check_positive_or(name: str, value: Any, word: str) -> None:
    if isinstance(value, str):
        if value == word:
            return
    elif _is_number(value) and value > 0:
        return
    raise InvalidInput(f'{name}={value!r} is not legal; give a positive number or "{word}".')


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, Real) and not isinstance(value, bool | np.bool_) and bool(np.isfinite(float(value)))
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
