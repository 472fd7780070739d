"""Errors and warnings of the mathematics."""

import sys
import warnings

_INSIDE = {"embedding_core", "sklearn"}


class InvalidInput(ValueError):
    """An array or a parameter that a method cannot work with.

    The message names what was found, what is allowed, and what to do. It is a `ValueError`, as
    scikit-learn's contract asks.
    """


class TooManyComponents(InvalidInput):
    """More dimensions are asked for than there are; `most` is how many there are."""

    def __init__(self, message: str, most: int = 0) -> None:  # a copy from another process sets `most` later
        super().__init__(message)
        self.most = most


def check_memory(what: str, needed: float, budget: float, advice: str) -> None:
    """Raise where `what` takes more bytes than the budget; `advice` is what the caller's user can do."""
    if needed > budget:
        raise InvalidInput(
            f"{what} needs {needed / 1e9:.1f} GB, the budget is {budget / 1e9:.1f} GB; {advice}."
        )


def warn_caller(message: str) -> None:
    """Warn with the line that called this package: neither ours nor scikit-learn's tells a user anything."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
