"""Lay text and tables out for a given width: wrap between words, drop columns that do not fit."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.report.tables import Table, display_width

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

GAP = 2
# A wrapped text column keeps at least this width, so that it does not become a column of single words.
_TEXT_WIDTH = 16
_NAME_WIDTH = 24
# A command in backticks stays on one line where it fits, and so does a mean with its spread.
_TOKEN = re.compile(r"`[^`]+`\S*|\S+ ± \S+|\S+")
_SHELL_WORD = re.compile(r"(?:'[^']*'|[^\s'])+")
# Lines whose rest is one command that is meant to be copied.
_COMMAND = re.compile(r"((?:again|run it now:|run it with a worker:|start it by an event:) +)(\S.*)")
_TREE = re.compile(r"[│├└─ ]*")
_KEYWORD = re.compile(r"\s*\S+(?: \S+)*?\s{2,}(?=\S)")
_CONTINUED = str.maketrans({"├": "│", "└": " ", "─": " "})


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are shown, each with its width; and the width that shows them all."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    full_width: int


def wrap_line(line: str, width: int) -> list[str]:
    """Wrap one line between words; continuation lines are indented to where its text starts.

    A word longer than the width stays whole: a path can still be copied.

    >>> wrap_line("report     /home/me/reports/index.html of the latest run", 40)
    ['report     /home/me/reports/index.html', '           of the latest run']
    """
    if display_width(line) <= width:
        return [line]
    command = _COMMAND.match(line)
    if command:
        return wrap_command(command[1].rstrip(), command[2], width).split("\n")
    indent = _continuation(line, width)
    lines: list[str] = []
    current = line[: len(indent)]
    empty = True
    for token in _tokens(line[len(indent) :], width - len(indent)):
        if empty or display_width(current) + 1 + display_width(token) <= width:
            current += token if empty else f" {token}"
        else:
            lines.append(current.rstrip())
            current = indent + token
        empty = False
    return [*lines, current.rstrip()]


def wrap_command(lead: str, command: str, width: int | None) -> str:
    """A command after some words; wrapped lines end in a backslash, so that the shell reads them as one."""
    whole = f"{lead} {command}"
    if width is None or display_width(whole) <= width:
        return whole
    lines = [lead]
    for word in _SHELL_WORD.findall(command):
        if display_width(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return " \\\n".join(lines)


def _tokens(text: str, width: int) -> Iterator[str]:
    for token in _TOKEN.findall(text):
        yield from [token] if display_width(token) <= width else token.split()


def _continuation(line: str, width: int) -> str:
    """Prefix of the lines that continue this one: branches of a tree, else blanks."""
    tree = _TREE.match(line)
    keyword = _KEYWORD.match(line)
    if tree and set(tree[0]) - {" "}:
        return tree[0].translate(_CONTINUED)
    if keyword and len(keyword[0]) <= width // 2:
        return " " * len(keyword[0])
    return " " * (len(line) - len(line.lstrip()))


def lay_out_table(table: Table, width: int | None) -> Layout:
    """Choose the columns that fit into `width` (None: all), and how wide each is.

    Numbers are never wrapped; headers and text columns are wrapped between words. Columns are dropped in the
    order of `table.optional`.
    """
    everything = tuple(range(len(table.header)))
    natural = {column: _natural(table, column) for column in everything}
    if width is None:
        return Layout(everything, tuple(natural.values()), _total(natural.values()))
    least = {column: _least(table, column) for column in everything}
    shown = _filled(table)
    for column in (one for one in table.drop_order() if one in shown):
        if _total(least[one] for one in shown) <= width:
            break
        shown.remove(column)
    full_width = _total(least[one] for one in _filled(table))
    spare = max(0, width - _total(least[one] for one in shown))
    widths = _share(spare, {one: (least[one], natural[one]) for one in shown})
    return Layout(tuple(shown), widths, full_width)


def _filled(table: Table) -> list[int]:
    """Columns with something in them."""
    return [
        column
        for column in range(len(table.header))
        if column == 0 or not table.rows or any(_cells(table, column))
    ]


def _total(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + GAP * (len(found) - 1)


def _cells(table: Table, column: int) -> list[str]:
    return [row[column] for row in table.rows]


def _natural(table: Table, column: int) -> int:
    return max(display_width(cell) for cell in (table.header[column], *_cells(table, column)))


def _least(table: Table, column: int) -> int:
    header = max((display_width(word) for word in _words(table.header[column])), default=1)
    if not table.is_text(column):
        return max(header, *(display_width(cell) for cell in _cells(table, column)), 1)
    words = [word for cell in _cells(table, column) for word in cell.split()]
    longest = max((display_width(word) for word in words), default=1)
    wanted = _TEXT_WIDTH if column else _NAME_WIDTH
    return max(header, longest, min(wanted, _natural(table, column)))


def _words(header: str) -> list[str]:
    """Words of a header; an arrow stays with the word before it."""
    return re.findall(r"\S+ [↑↓]$|\S+", header)


def _wrap_header(header: str, width: int) -> str:
    lines = [""]
    for word in _words(header):
        fits = not lines[-1] or display_width(f"{lines[-1]} {word}") <= width
        lines[-1:] = [f"{lines[-1]} {word}".strip()] if fits else [lines[-1], word]
    return "\n".join(lines)


def _share(spare: int, ranges: dict[int, tuple[int, int]]) -> tuple[int, ...]:
    """Share spare width among columns: the first column first, then those that need least."""
    widths = {column: least for column, (least, _) in ranges.items()}
    waiting = sorted(ranges, key=lambda column: (column > 0, ranges[column][1] - ranges[column][0]))
    for number, column in enumerate(waiting):
        least, natural = ranges[column]
        more = min(natural - least, spare if column == 0 else spare // (len(waiting) - number))
        widths[column] += more
        spare -= more
    return tuple(widths[column] for column in ranges)


def render_table(table: Table, width: int | None) -> tuple["RichTable", list[str]]:
    """A table for rich, and the lines below it: its caption, and which columns were dropped."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    layout = lay_out_table(table, width)
    made = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, size in zip(layout.columns, layout.widths, strict=True):
        made.add_column(
            _wrap_header(table.header[column], size),
            justify="left" if table.is_text(column) else "right",
            width=size,
            overflow="fold",
        )
    for number, row in enumerate(table.rows):
        made.add_row(
            *(_cell(row[column], (number, column) in table.best) for column in layout.columns),
            style="dim" if number in table.marked else None,
        )
    return made, [line for line in (table.caption, _dropped(table, layout)) if line]


def _cell(text: str, best: bool) -> "Text":
    from rich.text import Text

    return Text(text, style="bold green" if best else "")


def _dropped(table: Table, layout: Layout) -> str:
    missing = [column for column in _filled(table) if column not in layout.columns]
    names = [table.header[column].rstrip(" ↑↓") for column in missing]
    if not names:
        return ""
    many = "1 more column" if len(names) == 1 else f"{len(names)} more columns"
    return f"{many} at a width of {layout.full_width} or with --json: {', '.join(names)}"
