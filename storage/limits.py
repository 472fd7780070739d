"""Bounds on the memory that an input may need, checked before it is loaded.

An input that needs little is always read. A larger one is read if the memory is available and if its size in
memory is plausible for the size of its file; a small file that claims to be huge is damaged or malicious.
"""

import math
import os

from storage.errors import ConfigError, LabelscapeError, SourceError

# Gigabytes that one input may need; replaces the rules below.
LIMIT_VARIABLE = "LABELSCAPE_READ_LIMIT"
MEGABYTE = 10**6
GIGABYTE = 10**9
# An input that needs less than this is read without further questions.
SMALL = 512 * MEGABYTE
# Largest plausible ratio of the size in memory to the size of the file: real tables stay below about 40.
RATIO = 64
# Approximate memory of one item: its id, its digest, its label cell and their lists.
ITEM_BYTES = 300


def check_memory(
    needed: int, what: str, size: int | None = None, error: type[LabelscapeError] = SourceError
) -> None:
    """Raise an error if an input needs more memory than it may have.

    Parameters
    ----------
    needed : int
        Estimated bytes in memory.
    what : str
        What needs them, the beginning of the message.
    size : int, optional
        Bytes of the file; without it only the available memory counts.
    error : type
        The error to raise.
    """
    if needed <= SMALL:
        return
    limit, reason = _limit(size)
    if needed > limit:
        raise error(
            f"{what} needs about {_gigabytes(needed)} of memory; {reason}. Check that the file is complete "
            "and correct, or use a smaller one. If you trust it, allow more gigabytes with "
            f"{LIMIT_VARIABLE}={math.ceil(min(needed, 10**18) / GIGABYTE)}."
        )


def _limit(size: int | None) -> tuple[int, str]:
    """Return the bytes that an input may need, and why."""
    if given := os.environ.get(LIMIT_VARIABLE):
        return _given_limit(given), f"{LIMIT_VARIABLE} allows {given} GB"
    import psutil

    available = int(psutil.virtual_memory().available)
    if size is not None and max(SMALL, RATIO * size) < available:
        plausible = max(SMALL, RATIO * size)
        return plausible, f"{_gigabytes(plausible)} are plausible for a file of {size:,} bytes"
    return available, f"{_gigabytes(available)} are available"


def _given_limit(text: str) -> int:
    try:
        value = float(text)
        if not value > 0:
            raise ValueError
        return int(min(value, 10**9) * GIGABYTE)
    except ValueError:
        raise ConfigError(
            f"{LIMIT_VARIABLE}={text[:40]!r} is not a number of gigabytes. Use for instance 8."
        ) from None


def _gigabytes(count: int) -> str:
    return f"{count / GIGABYTE:,.1f} GB" if count < 10**15 else f"{float(min(count, 10**300)):.0e} bytes"
