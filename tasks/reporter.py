"""The interface through which a stage reports progress and messages. Imports nothing heavy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


class Reporter:
    """Base class; reports nothing."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self.warnings: list[str] = []

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        """Yield a function that takes the number of finished parts out of `total`."""
        yield lambda done: None

    @contextmanager
    def working(self, title: str) -> Iterator[None]:
        """Report that work without countable parts is in progress."""
        yield

    def expect(self, seconds: Callable[[str], float | None]) -> None:
        """Set the function that says how many seconds the work of a title took the last time, for its ETA."""

    def say(self, text: str) -> None:
        """Report one line."""

    def warn(self, text: str) -> None:
        """Report a line that is also shown after the results."""
        self.warnings.append(text)
        self.say(f"  warning: {text}")

    def say_once(self, text: str) -> None:
        """Report one line unless it was reported before."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)
