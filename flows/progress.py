"""Progress bars on standard error, with an ETA, for work that takes longer than two seconds."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.budget import format_duration
from tasks.reporter import Advance

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

# Short work shows no bar: it would only flicker.
DELAY_SECONDS = 2.0


class ProgressBars:
    """One bar per piece of work under way, removed when the work ends.

    Work that counts its parts shows how many are done; other work shows a moving bar. Both show an ETA: from
    the pace so far, or from how long the same work took the last time.

    Parameters
    ----------
    console : rich.console.Console
    delay : float
        Seconds before the first bar appears.
    """

    def __init__(self, console: "Console", delay: float = DELAY_SECONDS) -> None:
        self._console = console
        self._delay = delay
        self._lock = threading.RLock()
        self._open = 0
        self._progress: Progress | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def count(self, title: str, total: int) -> Iterator[Advance]:
        """A bar that fills as parts are finished."""
        with self._task(title, total=total) as (progress, task):
            yield lambda done: progress.update(task, completed=done)

    @contextmanager
    def wait(self, title: str, expected: float | None) -> Iterator[None]:
        """A bar for work without countable parts; `expected` is how many seconds it took the last time."""
        with self._task(title, total=None, expected=expected):
            yield

    def say(self, lines: Iterable[Any]) -> bool:
        """Print lines above the bars; return False if there are none."""
        with self._lock:
            if self._progress is None:
                return False
            for line in lines:
                self._progress.console.print(line, soft_wrap=True)
            return True

    @contextmanager
    def _task(self, title: str, **fields: Any) -> "Iterator[tuple[Progress, TaskID]]":
        with self._lock:
            progress = self._start()
            task = progress.add_task(title, **fields)
        try:
            yield progress, task
        finally:
            with self._lock:
                progress.remove_task(task)
                self._finish()

    def _start(self) -> "Progress":
        self._open += 1
        if self._progress is None:
            self._progress = _make_progress(self._console)
            self._timer = threading.Timer(self._delay, self._appear, [self._progress])
            self._timer.daemon = True
            self._timer.start()
        return self._progress

    def _appear(self, progress: "Progress") -> None:
        with self._lock:
            if progress is self._progress:
                progress.start()

    def _finish(self) -> None:
        self._open -= 1
        if self._open == 0 and self._progress is not None and self._timer is not None:
            self._timer.cancel()
            self._progress.stop()
            self._progress = self._timer = None


def format_eta(task: Any) -> str:
    """Progress of a rich task and its ETA, or its running time if the ETA is unknown."""
    elapsed = task.elapsed or 0.0
    expected = task.fields.get("expected")
    if task.total is not None:
        left = task.time_remaining
        return f"{task.completed:.0f}/{task.total:.0f}{_left(left) if left is not None else ''}"
    if expected is not None and elapsed < expected:
        return f"{elapsed:.0f} s{_left(expected - elapsed)}"
    return f"{elapsed:.0f} s"


def _left(seconds: float) -> str:
    return f", ETA {format_duration(round(seconds))}"


def _make_progress(console: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, ProgressColumn, Task
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    class Bar(BarColumn):
        """Fills with the parts that are done, or with the share of the expected time that has passed."""

        def render(self, task: Task) -> ProgressBar:
            expected = task.fields.get("expected")
            if expected is None:
                return super().render(task)
            done = min(task.elapsed or 0.0, 0.99 * expected)
            return ProgressBar(total=expected, completed=done, width=self.bar_width, pulse=False)

    class Eta(ProgressColumn):
        """Parts done, and the time left."""

        def render(self, task: Task) -> Text:
            return Text(format_eta(task), no_wrap=True)

    class Title(ProgressColumn):
        """Name of the work, cut where the terminal is narrow."""

        def render(self, task: Task) -> Text:
            return Text(f"  {task.description}", no_wrap=True, overflow="ellipsis")

    class Bars(Progress):
        """Hides the bar of a stage while work inside the stage has a bar that counts parts."""

        def get_renderables(self) -> Any:
            counted = [task for task in self.tasks if task.total is not None]
            yield self.make_tasks_table(counted or self.tasks)

    width = max(5, min(30, console.width // 4))
    return Bars(Title(), Bar(bar_width=width), Eta(), console=console, transient=True, refresh_per_second=4)
