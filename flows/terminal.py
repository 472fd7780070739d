"""What a person reads in a terminal: results on standard output, news and progress on standard error."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.reporter import Advance, Reporter

# A bar is redrawn at most this often; a plain line follows the last one no sooner.
_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 5.0


def show(text: str = "") -> None:
    """A result, to standard output; letters that it cannot take become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def tell(text: str) -> None:
    """News, to standard error."""
    print(text, file=sys.stderr, flush=True)


class TerminalReporter(Reporter):
    """Progress bars in a terminal, plain lines elsewhere."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__()
        self._quiet = quiet

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        """Count finished pieces of `total` in a bar, or in a line every few seconds."""
        if self._quiet or total < 2:
            yield lambda done: None
        elif sys.stderr.isatty():
            with _bar(title, total) as advance:
                yield advance
        else:
            yield _lines(title, total)

    def say(self, text: str) -> None:
        """One line of news."""
        if not self._quiet:
            tell(text)


@contextmanager
def _bar(title: str, total: int) -> Iterator[Advance]:
    start = time.monotonic()
    drawn = 0.0

    def advance(done: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn >= _REDRAW_SECONDS or done == total:
            drawn = now
            sys.stderr.write("\r" + _draw(title, done, total, now - start))
            sys.stderr.flush()

    advance(0)
    try:
        yield advance
    finally:
        # The line is wiped: the stage's own line of result follows.
        sys.stderr.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
        sys.stderr.flush()


def _draw(title: str, done: int, total: int, elapsed: float) -> str:
    columns = shutil.get_terminal_size().columns - 1
    # The first pieces may wait for a compiler, so that a guess from them would frighten.
    left = f", {elapsed / done * (total - done):.0f} s left" if done and elapsed >= 2 else ""
    tail = f" {done}/{total}{left}"
    width = max(5, min(30, columns - len(title) - len(tail) - 8))
    filled = round(width * done / total)
    return f"  {title} [{'#' * filled}{'.' * (width - filled)}]{tail}"[:columns].ljust(columns)


def _lines(title: str, total: int) -> Advance:
    told = time.monotonic()

    def advance(done: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _LINE_SECONDS and done < total:
            told = now
            tell(f"  {title}: {done}/{total}")

    return advance
