"""Time budgets: parsing, formatting, and the time that is left."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from storage.errors import LabelscapeError

_UNITS = {"h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_LONGEST = 366 * 24 * 3600
# A year in seconds has fewer digits.
_MOST_DIGITS = 9


class BudgetEnded(LabelscapeError):
    """The time budget ended."""


def parse_duration(text: str) -> int:
    """Parse a duration such as 90s, 10m or 1h30m into seconds.

    >>> parse_duration("1h30m"), parse_duration(" 90s ")
    (5400, 90)
    """
    found = _DURATION.fullmatch(text.strip().lower().replace(" ", ""))
    parts = found.groups(default="0") if found else ()
    short = all(len(part) <= _MOST_DIGITS for part in parts)
    seconds = sum(
        int(part[-_MOST_DIGITS:]) * unit for part, unit in zip(parts, _UNITS.values(), strict=False)
    )
    if short and not seconds:
        raise ValueError(f"{text!r} is not a positive duration; write for instance 90s, 10m or 1h30m")
    if not short or seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than a year; write for instance 90s, 10m or 1h30m")
    return seconds


def format_duration(seconds: float) -> str:
    """Format seconds with the two largest units that apply.

    >>> format_duration(5400), format_duration(61.2), format_duration(0.4)
    ('1 h 30 min', '1 min 1 s', '0 s')
    """
    whole = int(seconds)
    if whole >= _UNITS["h"]:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= _UNITS["m"] else f"{whole} s"


@dataclass(frozen=True)
class TimeSpent:
    """Seconds of `auto`: its budget, the parts that the budget covers, and tracking, which comes after it.

    `data` includes what comes before the first stage, such as the start of a Prefect server.
    """

    budget: float
    data: float
    candidates: float
    fit: float
    tracking: float = 0.0

    @property
    def covered(self) -> float:
        """Seconds of the parts that the budget covers."""
        return self.data + self.candidates + self.fit


class Budget:
    """A time limit that starts with `start`.

    Parameters
    ----------
    seconds : float
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._started: float | None = None
        self._reserved = 0.0

    def start(self) -> None:
        """Start the clock; later calls have no effect."""
        if self._started is None:
            self._started = self._clock()

    def reserve(self, seconds: float) -> None:
        """Set aside seconds for what comes last; this replaces an earlier reserve."""
        self._reserved = seconds

    @property
    def spent(self) -> float:
        """Seconds since the start; 0 before it."""
        return 0.0 if self._started is None else self._clock() - self._started

    @property
    def left(self) -> float:
        """Seconds left without the reserve; 0 once the budget has ended."""
        return max(0.0, self.seconds - self.spent - self._reserved)

    def over(self) -> BudgetEnded:
        """Error to raise when the budget has ended."""
        return BudgetEnded(f"the budget of {format_duration(self.seconds)} ended")
