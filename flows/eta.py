"""When a run of many unequal pieces will be finished, reckoned from the pieces that were timed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp, log

_ROUNDS = 8

Pair = tuple[str, str]


@dataclass(frozen=True)
class Work:
    """One piece of work.

    Attributes
    ----------
    label : str
        What names it.
    method, place : str
        What does it, and on what: pieces that share either take their time alike.
    amount : float
        How much of it there is, in any unit that all pieces share.
    """

    label: str
    method: str
    place: str
    amount: float = 1.0


class Forecast:
    """Pieces that are ahead, and how fast others were.

    The pace of a piece is taken to be that of its method times that of its place. A piece that was timed
    before, perhaps with fewer trials, has its own pace. A method that nobody timed yet is given the mean of
    the others, and `tell` says that there are such.
    """

    def __init__(self) -> None:
        self._ahead: dict[str, Work] = {}
        self._paces: dict[Pair, float] = {}

    def expect(self, work: Work) -> None:
        """A piece will have to be done."""
        self._ahead[work.label] = work

    def learn(self, work: Work, seconds: float) -> None:
        """A piece of this kind took so long."""
        if work.amount > 0 and seconds > 0:
            self._paces[work.method, work.place] = seconds / work.amount

    def finish(self, labels: Iterable[str]) -> None:
        """Pieces are no longer ahead: they are done, or will never be."""
        for label in labels:
            self._ahead.pop(label, None)

    @property
    def ahead(self) -> list[str]:
        """Labels of the pieces that are ahead."""
        return list(self._ahead)

    @property
    def untimed(self) -> int:
        """Methods ahead that nobody timed yet."""
        timed = {method for method, _ in self._paces}
        return len({work.method for work in self._ahead.values()} - timed)

    def seconds_left(self) -> float | None:
        """How long the pieces ahead will take; None as long as nothing was timed."""
        if not self._paces:
            return None
        methods, places = _factors(self._paces)
        # Of methods the mean, as one slow method outweighs many fast ones; of places the middle of ratios.
        some_method, some_place = sum(methods.values()) / len(methods), _middle(list(places.values()))
        return sum(
            work.amount
            * self._paces.get(
                (work.method, work.place),
                methods.get(work.method, some_method) * places.get(work.place, some_place),
            )
            for work in self._ahead.values()
        )

    def tell(self, now: datetime) -> str:
        """How much is ahead and when it will be done, with the date where that is not today."""
        seconds = self.seconds_left()
        if seconds is None or not self._ahead:
            return ""
        finish = now + timedelta(seconds=seconds)
        when = f"{finish:%H:%M}" if finish.date() == now.date() else f"{finish:%a %d %b %Y, %H:%M}"
        guess = f" (a guess, methods not timed yet: {self.untimed})" if self.untimed else ""
        count = len(self._ahead)
        return f"{count} stage{'s' if count > 1 else ''} left, done about {when}{guess}"


def _middle(values: list[float]) -> float:
    """Geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def _factors(paces: Mapping[Pair, float]) -> tuple[dict[str, float], dict[str, float]]:
    """A factor a method and one a place whose products come near the paces: alternating means of ratios."""
    methods: dict[str, float] = dict.fromkeys((method for method, _ in paces), 1.0)
    places: dict[str, float] = dict.fromkeys((place for _, place in paces), 1.0)
    for _ in range(_ROUNDS):
        for own, others, side in ((places, methods, 1), (methods, places, 0)):
            ratios: dict[str, list[float]] = defaultdict(list)
            for pair, pace in paces.items():
                ratios[pair[side]].append(pace / others[pair[1 - side]])
            own.update({name: _middle(found) for name, found in ratios.items()})
    return methods, places


_FORECAST: ContextVar[Forecast | None] = ContextVar("labelscape_forecast", default=None)


def current_forecast() -> Forecast | None:
    """The forecast of all that this command does."""
    return _FORECAST.get()


@contextmanager
def forecasting(forecast: Forecast) -> Iterator[Forecast]:
    """What runs inside belongs to one forecast."""
    token = _FORECAST.set(forecast)
    try:
        yield forecast
    finally:
        _FORECAST.reset(token)
