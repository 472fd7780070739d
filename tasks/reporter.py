"""What a stage may tell a person while it works; nothing heavy is imported here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


class Reporter:
    """The interface; this one says nothing."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        """Yield a function that counts finished pieces of `total`."""
        yield lambda done: None

    def say(self, text: str) -> None:
        """One line of news."""

    def say_once(self, text: str) -> None:
        """One line of news that several stages may have to tell."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)
