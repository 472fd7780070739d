"""Numbers in text files. Python accepts `1_0`, `infinity`, `nan` and digits of other scripts; we do not."""

import math
import re

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def parse_number(text: str) -> float:
    """Parse a finite decimal number.

    >>> parse_number(" -2e3 ")
    -2000.0

    Raises
    ------
    ValueError
        The text is not such a number.
    """
    value = float(text)
    if "_" in text or not math.isfinite(value) or not text.isascii():
        raise ValueError("not a finite decimal number")
    return value


def is_whole(text: str) -> bool:
    """Whether a text is an integer of at most 18 digits."""
    return _WHOLE.fullmatch(text) is not None
