"""Terminal output: results on standard output, messages and progress on standard error.

In a terminal, text is wrapped between words, tables are fitted to the width, and colors are used unless
NO_COLOR is set. In a pipe, lines and tables are written in full, without colors or control codes.

Everything that is printed passes through here. Control characters and invisible characters of file names,
labels and error messages do not reach the terminal, see `tasks.safe_text`, and a text of megabytes is cut.
"""

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from tasks.report.tables import Table
from tasks.reporter import Advance, Reporter
from tasks.safe_text import cut_text, escape_json, escape_toml, printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from flows.progress import ProgressBars

# In a pipe, progress is one line every few seconds.
_LINE_SECONDS = 5.0
_UNLIMITED = 10_000
# Longest cell, line and message, in characters.
_MAX_CELL = 1_000
_MAX_LINE = 2_000
_MAX_MESSAGE = 8_000
# A traceback is shown on request only.
MAX_TRACEBACK = 200_000
# Style of the first group of each pattern.
_STYLES = (
    (
        re.compile(
            r"^(NOT TRACKED|NOT IN PREFECT|PROMISE VOID|NO PROMISE|damaged|failed|lost|labelscape:)(?=\W)"
        ),
        "bold red",
    ),
    (re.compile(r"^\s*\S+ {2,}(fresh)\b"), "green"),
    (re.compile(r"^\s*\S+ {2,}(computed)\b"), "cyan"),
    (re.compile(r"^\s*\S+ {2,}(stale|missing)\b"), "yellow"),
    (re.compile(r"^\s*(warning:)"), "yellow"),
    (re.compile(r"^(winner|champion) {2,}"), "bold green"),
    (re.compile(r"^([a-z]+) {2,}\S"), "bold"),
)

Content = str | Table | Sequence[str | Table]


class OutputLost(Exception):
    """Standard output cannot be written: its reader has exited, its disk is full, or it was closed.

    Attributes
    ----------
    quiet : bool
        Whether the reader has exited, as `head` does; that is no error.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written ({error.strerror or error})")
        self.quiet = isinstance(error, BrokenPipeError)


def open_closed_streams() -> None:
    """Open those of the three standard streams that are closed (`>&-`) on /dev/null.

    Otherwise the next file that is opened would take the number of the stream, and receive what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def show(content: Content = "") -> None:
    """Print a result to standard output: text, a table, or several of both.

    JSON stays one document with the same values. Characters that the output cannot encode become question
    marks.
    """
    for part in [content] if isinstance(content, (str, Table)) else content:
        with _results():
            _write(_render(part, sys.stdout), sys.stdout)


def show_verbatim(text: str) -> None:
    """Print text that must not be wrapped to standard output, such as TOML; unsafe characters are escaped."""
    with _results():
        _write(_escape(text), sys.stdout)


def tell(text: str, most: int = _MAX_MESSAGE) -> None:
    """Print a message of at most `most` characters to standard error."""
    try:
        _write(_render(cut_text(text, most), sys.stderr), sys.stderr)
    except OSError:
        _discard(sys.stderr)


def format_command(lead: str, command: str) -> str:
    """A command for standard error; on several lines it stays one command when it is copied."""
    from flows.table_layout import wrap_command

    if len(command) > _MAX_LINE:
        return f"{lead} the same command"
    return wrap_command(lead, command, shutil.get_terminal_size().columns if sys.stderr.isatty() else None)


@contextmanager
def _results() -> Iterator[None]:
    """Raise OutputLost if standard output fails."""
    try:
        yield
    except OSError as error:
        _discard(sys.stdout)
        raise OutputLost(error) from None


def _write(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), file=stream, flush=True)


def _discard(stream: TextIO) -> None:
    """Send a stream that failed to /dev/null, so that the interpreter does not fail to flush it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _render(part: str | Table, stream: TextIO) -> str:
    if isinstance(part, str) and part[:1] in ("{", "["):
        return _escape(part)
    part = _clean(part)
    terminal = stream.isatty()
    if isinstance(part, str) and not terminal:
        return part
    width = shutil.get_terminal_size().columns if terminal else None
    # Not the stream itself: rich ends the process if the reader of a pipe has exited.
    page = _Page(stream)
    console = _make_console(page, width or _UNLIMITED)
    for one in _lay_out(part, width):
        console.print(one, soft_wrap=not isinstance(part, Table))
    return "\n".join(line.rstrip() for line in page.getvalue().split("\n")[:-1])


class _Page(io.StringIO):
    """Collects what will be printed to a stream, with the properties of that stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a read-only attribute of StringIO
        """The encoding decides which lines a table may be drawn with."""
        return self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        return self._stream.isatty()


def _escape(text: str) -> str:
    return escape_json(text) if text[:1] in ("{", "[") else escape_toml(text)


def _clean(part: str | Table) -> str | Table:
    """Text from outside without unsafe characters and of bounded length."""
    if isinstance(part, str):
        return "\n".join(cut_text(line, _MAX_LINE) for line in printable_lines(part).split("\n"))
    header, *rows = (
        tuple(cut_text(printable(cell), _MAX_CELL) for cell in row) for row in (part.header, *part.rows)
    )
    return replace(part, header=header, rows=tuple(rows), caption=printable(part.caption))


def _lay_out(part: str | Table, width: int | None) -> Iterator[Any]:
    from flows.table_layout import render_table, wrap_line

    lines = part.split("\n") if isinstance(part, str) else []
    if isinstance(part, Table):
        table, lines = render_table(part, width)
        yield table
    for line in lines:
        for number, piece in enumerate(wrap_line(line, width) if width else [line]):
            yield _stylize(piece, dim=isinstance(part, Table), first=number == 0)


def _stylize(line: str, dim: bool, first: bool) -> "Text":
    from rich.text import Text

    text = Text(line, style="dim" if dim else "")
    for pattern, style in _STYLES if first and not dim else ():
        found = pattern.match(line)
        if found:
            text.stylize(style, *found.span(1))
            break
    return text


def _make_console(stream: TextIO, width: int | None = None) -> "Console":
    from rich.console import Console

    return Console(
        file=stream, force_terminal=stream.isatty(), width=width, highlight=False, markup=False, emoji=False
    )


class TerminalReporter(Reporter):
    """Progress bars in a terminal, plain lines elsewhere."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__()
        self._quiet = quiet
        self._seconds: Callable[[str], float | None] = lambda title: None
        self._made: ProgressBars | None = None

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        """Count finished parts of `total` in a bar, or in a line every few seconds."""
        if self._quiet or total < 2:
            yield lambda done: None
        elif sys.stderr.isatty():
            with self._bars().count(printable(title), total) as advance:
                yield advance
        else:
            yield _lines(title, total)

    @contextmanager
    def working(self, title: str) -> Iterator[None]:
        """Show a bar during work without countable parts; nothing in a pipe."""
        if self._quiet or not sys.stderr.isatty():
            yield
        else:
            with self._bars().wait(printable(title), self._seconds(title)):
                yield

    def expect(self, seconds: Callable[[str], float | None]) -> None:
        """Set the function that says how long the work of a title took the last time."""
        self._seconds = seconds

    def say(self, text: str) -> None:
        """Print one line, above the progress bars."""
        if self._quiet:
            return
        lines = _lay_out(_clean(text), shutil.get_terminal_size().columns)
        if self._made is None or not self._made.say(lines):
            tell(text)

    def _bars(self) -> "ProgressBars":
        if self._made is None:
            from flows.progress import ProgressBars

            self._made = ProgressBars(_make_console(sys.stderr))
        return self._made


def _lines(title: str, total: int) -> Advance:
    printed = time.monotonic()

    def advance(done: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= _LINE_SECONDS and done < total:
            printed = now
            tell(f"  {title}: {done}/{total}")

    return advance
