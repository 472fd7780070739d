"""Errors of the mathematics."""


class InvalidInput(ValueError):
    """An array or a parameter that a method cannot work with.

    The message names what was found, what is allowed, and what to do. It is a `ValueError`, as
    scikit-learn's contract asks.
    """
