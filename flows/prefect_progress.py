"""Progress of long stages as Prefect shows it: an artifact of the task run, updated every few seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flows.prefect_views import artifact_key
from tasks.reporter import Advance, Reporter

# Work that ends earlier has no artifact: each one is kept in Prefect's database.
DELAY_SECONDS = 10.0
EVERY_SECONDS = 5.0


class PrefectReporter(Reporter):
    """Passes everything on to another reporter, and shows the progress of long work in Prefect.

    A failure of Prefect ends the display, never the work.

    Parameters
    ----------
    inner : Reporter
    collection : str
        Name of the collection, for the keys of artifacts.
    delay, every : float
        Seconds until the artifact is created, and between two updates.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        inner: Reporter,
        collection: str,
        delay: float = DELAY_SECONDS,
        every: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.inner = inner
        self.warnings = inner.warnings
        self._collection = collection
        self._delay = delay
        self._every = every
        self._clock = clock

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        """Count finished parts in the other reporter, and after a while in Prefect."""
        shown = _Shown(artifact_key(self._collection, title, "progress"), title, total)
        due = self._clock() + self._delay

        with self.inner.progress(title, total) as advance:

            def count(done: int) -> None:
                nonlocal due
                advance(done)
                if self._clock() >= due:
                    shown.update(done)
                    due = self._clock() + self._every

            yield count
        if shown.artifact is not None:
            shown.update(total)

    @contextmanager
    def working(self, title: str) -> Iterator[None]:
        """Work without countable parts has no progress in Prefect."""
        with self.inner.working(title):
            yield

    def expect(self, seconds: Callable[[str], float | None]) -> None:
        """Set how long work took the last time."""
        self.inner.expect(seconds)

    def say(self, text: str) -> None:
        """Report one line."""
        self.inner.say(text)

    def say_once(self, text: str) -> None:
        """Report one line unless it was reported before."""
        self.inner.say_once(text)


class _Shown:
    """The artifact of one piece of work."""

    def __init__(self, key: str, title: str, total: int) -> None:
        self.artifact: Any = None
        self._key = key
        self._title = title
        self._total = total
        self._failed = False

    def update(self, done: int) -> None:
        """Create the artifact, or change it."""
        if self._failed:
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        share = 100 * done / max(self._total, 1)
        text = f"{self._title}: {done} of {self._total}"
        try:
            if self.artifact is None:
                self.artifact = create_progress_artifact(share, self._key, text)
            else:
                update_progress_artifact(self.artifact, share, text)
        except Exception:  # the work goes on without its display
            self._failed = True
