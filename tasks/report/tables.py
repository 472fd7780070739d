"""Result tables: one table type, rendered as Markdown and as CSV here and for the terminal by `flows`."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from tasks.report.data import NoteRow, ScoreRow
from tasks.report.ranking import (
    LOWER_IS_BETTER,
    Entry,
    available_metrics,
    format_score,
    metric_arrow,
    metric_title,
    rank_entries,
)

DEFAULT_METRICS = ("macro_f1", "micro_f1", "macro_precision", "micro_precision", "lrap", "hamming_loss")

BASELINE_MARK = " (baseline)"
# Direction overrides can disguise a file name. Joiners, which scripts and emoji need, are kept.
_BIDI = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


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


def printable(text: str) -> str:
    """Replace control characters and undecodable bytes by U+FFFD, so that any name is safe to show."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in _BIDI else c for c in text)


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


def score_table(
    scores: Sequence[ScoreRow],
    metrics: Sequence[str] = DEFAULT_METRICS,
    sort_by: str = "macro_f1",
    *,
    titles: Mapping[str, str] | None = None,
    baselines: Set[str] = frozenset(),
) -> Table:
    """Tabulate mean ± spread over folds of each method and classifier, best first, baselines marked.

    Parameters
    ----------
    scores : sequence of (method, classifier, fold, metric, value)
    metrics : metrics to show as columns; metrics that were not measured are left out.
    sort_by : metric to sort by; ConfigError if it was not measured.
    titles : display titles of the methods.
    baselines : names of the methods that are marked as baselines.
    """
    known = available_metrics(scores)
    shown = [metric for metric in dict.fromkeys((*metrics, sort_by)) if metric in known]
    entries = rank_entries(scores, sort_by)
    rows = tuple(_score_row(entry, shown, titles, baselines) for entry in entries)
    header = ("method", *(f"{metric_title(metric)} {metric_arrow(metric)}" for metric in shown))
    marked = frozenset(row for row, entry in enumerate(entries) if entry.method in baselines)
    return Table(header, rows, _caption(entries, sort_by), _best_cells(entries, shown), marked)


def _score_row(
    entry: Entry, metrics: Sequence[str], titles: Mapping[str, str] | None, baselines: Set[str]
) -> tuple[str, ...]:
    mark = BASELINE_MARK if entry.method in baselines else ""
    cells = (format_score(entry.mean(metric), entry.spread(metric)) for metric in metrics)
    return (printable(entry.title(titles)) + mark, *cells)


def _caption(entries: Sequence[Entry], sort_by: str) -> str:
    folds = {fold for entry in entries for values in entry.values.values() for fold in values}
    how = f"mean ± standard deviation over {len(folds)} folds" if len(folds) > 1 else "one fold, no spread"
    return f"{how}; best {metric_title(sort_by)} first; ↑ higher is better, ↓ lower is better"


def _best_cells(entries: Sequence[Entry], metrics: Sequence[str]) -> frozenset[tuple[int, int]]:
    """Best cell of each column, with ties at the three decimals shown."""
    best: set[tuple[int, int]] = set()
    for column, metric in enumerate(metrics, start=1):
        means = {
            row: round(mean, 3)
            for row, entry in enumerate(entries)
            if (mean := entry.mean(metric)) is not None
        }
        if means:
            target = min(means.values()) if metric in LOWER_IS_BETTER else max(means.values())
            best.update((row, column) for row, mean in means.items() if mean == target)
    return frozenset(best)


def render_markdown(table: Table) -> str:
    """Render a Markdown table; the best value of each column is bold."""
    header = "| " + " | ".join(_escape_markdown(cell) for cell in table.header) + " |"
    rule = "|" + "|".join("---" if column == 0 else "---:" for column in range(len(table.header))) + "|"
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


def scores_csv(scores: Sequence[ScoreRow]) -> str:
    """Write every score as CSV at full precision, one row per fold and metric."""
    rows = (
        (printable(method), printable(classifier), fold, printable(metric), repr(float(value)))
        for method, classifier, fold, metric, value in scores
    )
    return _csv(("method", "classifier", "fold", "metric", "value"), rows)


def notes_csv(notes: Sequence[NoteRow]) -> str:
    """Write every note on the data as CSV: file, row (empty if it concerns the whole file), message."""
    rows = ((printable(file), "" if row is None else row, printable(text)) for file, row, text in notes)
    return _csv(("file", "row", "message"), rows)


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
