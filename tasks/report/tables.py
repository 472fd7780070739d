"""A table of text cells, rendered as Markdown here and for the terminal by `flows`; and CSV files."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.csv_cells import guard_cell
from tasks.safe_text import printable

if TYPE_CHECKING:
    from tasks.report.data import NoteRow, ScoreRow


@dataclass(frozen=True)
class Table:
    """A table of text cells.

    Attributes
    ----------
    header : tuple of str
    rows : tuple of tuples of str
    caption : str
        How to read the table.
    best : set of (row, column)
        The best value of each column.
    marked : set of int
        Rows that are baselines; their names say so too.
    texts : set of int
        Columns of text, aligned left and wrapped where space is short. The first column always is one; the
        other columns hold numbers, aligned right and never wrapped.
    optional : tuple of int
        Columns that a narrow terminal drops, the first one first. Empty: all but the first, from the right.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    best: frozenset[tuple[int, int]] = frozenset()
    marked: frozenset[int] = frozenset()
    texts: frozenset[int] = frozenset()
    optional: tuple[int, ...] = ()

    def is_text(self, column: int) -> bool:
        """Whether a column holds text rather than numbers."""
        return column == 0 or column in self.texts

    def drop_order(self) -> tuple[int, ...]:
        """Columns that may be dropped, the first one first."""
        return self.optional or tuple(range(len(self.header) - 1, 0, -1))


def format_time(iso: str) -> str:
    """Format a time in ISO 8601 to the second.

    >>> format_time("2026-11-17T21:15:01.123456+00:00")
    '2026-11-17 21:15:01'
    """
    return iso[:19].replace("T", " ")


def display_width(text: str) -> int:
    """Number of terminal columns a text takes: two per wide character, none per combining mark."""
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Cut the middle of a text to fit `width` columns; names often differ at their ends."""
    if display_width(text) <= width:
        return text
    head = _take(text, (width - 1) * 2 // 3)
    tail = _take(text[::-1], width - 1 - display_width(head))[::-1]
    return f"{head}…{tail}"


def _take(text: str, width: int) -> str:
    """Return the longest prefix of at most `width` columns."""
    used = 0
    for place, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:place]
    return text


def render_markdown(table: Table) -> str:
    """Render a Markdown table; the best value of each column is bold."""
    header = "| " + " | ".join(_escape_markdown(cell) for cell in table.header) + " |"
    left = {0, *table.texts}
    rule = "|" + "|".join("---" if column in left else "---:" for column in range(len(table.header))) + "|"
    lines = [header, rule]
    for number, row in enumerate(table.rows):
        cells = [_escape_markdown(cell) for cell in row]
        cells = [
            f"**{cell}**" if (number, column) in table.best else cell for column, cell in enumerate(cells)
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if table.caption:
        lines += ["", table.caption + "."]
    return "\n".join(lines) + "\n"


def _escape_markdown(text: str) -> str:
    """Escape characters that are special in Markdown, HTML or dollar-delimited mathematics."""
    return "".join("\\" + char if char in "\\|`*_<>[]$~" else char for char in printable(text))


def scores_csv(scores: Sequence["ScoreRow"]) -> str:
    """Write every score as CSV at full precision, one row per fold and metric."""
    rows = (
        (printable(method), printable(classifier), fold, printable(metric), repr(float(value)))
        for method, classifier, fold, metric, value in scores
    )
    return _csv(("method", "classifier", "fold", "metric", "value"), rows)


def notes_csv(notes: Sequence["NoteRow"]) -> str:
    """Write every note on the data as CSV: file, row (empty if it concerns the whole file), message."""
    rows = ((printable(file), "" if row is None else row, printable(text)) for file, row, text in notes)
    return _csv(("file", "row", "message"), rows)


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([guard_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()
