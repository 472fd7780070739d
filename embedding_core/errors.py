"""Errors and warnings raised by embedding_core."""

import sys
import warnings

_INSIDE = {"embedding_core", "sklearn"}


class InvalidInput(ValueError):
    """An array or a parameter that a method cannot work with.

    The message says what was found, what is allowed and what to do. It is a `ValueError`, as scikit-learn's
    contract requires.
    """


class UnreadableItem(InvalidInput):
    """The file of an item cannot be decoded. The message is a short reason without the file name."""


class TooManyComponents(InvalidInput):
    """More dimensions were requested than exist; `most` is the number that exist."""

    # The default is for unpickling, which passes only the message and restores `most` afterwards.
    def __init__(self, message: str, most: int = 0) -> None:
        super().__init__(message)
        self.most = most


def check_memory(what: str, needed: float, budget: float, advice: str) -> None:
    """Raise InvalidInput if `what` needs more bytes than the budget. `advice` says what the user can do."""
    if needed > budget:
        raise InvalidInput(
            f"{what} needs {needed / 1e9:.1f} GB, the budget is {budget / 1e9:.1f} GB; {advice}."
        )


def warn_caller(message: str) -> None:
    """Issue a warning that points to the user's line, the first one outside this package and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
