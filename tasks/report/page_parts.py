"""Pieces of HTML the page is made of. Every text that comes from data passes through `esc`."""

import base64
import html
import struct
from collections.abc import Iterable, Mapping, Sequence

from tasks.report.data import NoteRow, Thumb
from tasks.report.embedding_figure import Drawing
from tasks.report.page_style import STYLE
from tasks.report.tables import BASELINE_MARK, Table, printable

MAX_NOTES, OPEN_NOTES = 500, 8
SHOWN_CHIPS = 12
# Figure pixels to one pixel of the page, for sharp figures on dense screens.
PIXELS = 1.5


def esc(text: object) -> str:
    """Any text, safe in HTML content and in quoted attributes."""
    shown = str(text).replace("\r\n", "\n").split("\n")
    return html.escape("\n".join(printable(line.replace("\t", "    ")) for line in shown), quote=True)


def document(title: str, body: str) -> bytes:
    """A whole page. Its policy forbids scripts and anything from the network."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{esc(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    ).encode()


def section(anchor: str, title: str, body: str) -> str:
    """A titled part of the page that the contents can point to."""
    return f'<section id="{anchor}">\n<h2>{esc(title)}</h2>\n{body}\n</section>'


def append_section(page: str, anchor: str, title: str, body: str) -> str:
    """A finished page with one section more, which the contents point to."""
    link = f'<a href="#{anchor}">{esc(title)}</a></nav>'
    grown = page.replace("</nav>", link, 1)
    return grown.replace("\n</main>", f"\n{section(anchor, title, body)}\n</main>", 1)


def tiles(values: Mapping[str, str]) -> str:
    """Large numbers with a word below each."""
    items = "".join(f"<li><b>{esc(value)}</b><span>{esc(word)}</span></li>" for word, value in values.items())
    return f'<ul class="tiles">{items}</ul>'


def chips(counts: Sequence[tuple[str, int]]) -> str:
    """Label names with their counts; beyond the first dozen behind a click."""
    items = [f"<li>{esc(name)}<i>{count:,}</i></li>" for name, count in counts]
    first = f'<ul class="chips">{"".join(items[:SHOWN_CHIPS])}</ul>'
    rest = items[SHOWN_CHIPS:]
    if not rest:
        return first
    return first + folded(f"{len(rest):,} more labels", f'<ul class="chips">{"".join(rest)}</ul>')


def folded(summary: str, body: str, is_open: bool = False) -> str:
    """Something to be opened by a click."""
    return f"<details{' open' if is_open else ''}><summary>{esc(summary)}</summary>{body}</details>"


def plot(drawing: Drawing, alt: str) -> str:
    """A figure inside the page at its size in inches, so that type is equally large in all of them."""
    width, height = (round(size / PIXELS) for size in struct.unpack(">II", drawing.png[16:24]))
    return (
        f'<figure><img class="plot" width="{width}" height="{height}" alt="{esc(alt)}" '
        f'src="{_data_uri("image/png", drawing.png)}">'
        f"<figcaption>{esc(drawing.caption)}</figcaption></figure>"
    )


def _data_uri(mime: str, payload: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(payload).decode('ascii')}"


def gallery(thumbs: Sequence[Thumb]) -> str:
    """A few items as pictures, with the labels they carry."""
    figures = "".join(
        f'<figure><img alt="{esc(thumb.id)}" title="{esc(thumb.id)}" '
        f'src="{_data_uri("image/jpeg", thumb.jpeg)}">'
        f"<figcaption>{_caption(thumb)}</figcaption></figure>"
        for thumb in thumbs
    )
    return f'<div class="gallery">{figures}</div>'


def _caption(thumb: Thumb) -> str:
    if thumb.labels is None:
        return "<em>unlabeled</em>"
    return esc(", ".join(thumb.labels)) or "<em>none of the labels</em>"


def score_grid(table: Table) -> str:
    """The table of results: best values bold, spreads small, baselines shaded and tagged."""
    # The arrow stays with the last word when a header breaks.
    head = "".join(f'<th scope="col">{"&nbsp;".join(esc(cell).rsplit(" ", 1))}</th>' for cell in table.header)
    rows = []
    for number, row in enumerate(table.rows):
        marked = number in table.marked
        title = esc(row[0].removesuffix(BASELINE_MARK) if marked else row[0])
        cells = [f"<td>{title}{'<span class=pill>baseline</span>' if marked else ''}</td>"]
        cells += [_score_cell(cell, (number, place) in table.best) for place, cell in enumerate(row[1:], 1)]
        rows.append(f"<tr{' class=baseline' if marked else ''}>{''.join(cells)}</tr>")
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    caption = f'<p class="caption">{esc(table.caption[:1].upper() + table.caption[1:])}.</p>'
    return f'<div class="scroll">{grid}</div>{caption if table.caption else ""}'


def _score_cell(cell: str, best: bool) -> str:
    mean, _, spread = cell.partition(" ± ")
    shown = f"<b>{esc(mean)}</b>" if best else esc(mean)
    return f"<td>{shown}{f'<small>± {esc(spread)}</small>' if spread else ''}</td>"


def word_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A plain table of text."""
    head = "".join(f'<th scope="col">{esc(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{esc(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    grid = f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{grid}</div>'


def note_list(notes: Sequence[NoteRow]) -> str:
    """What was odd in the data: counts by message, then every note, folded when there are many."""
    if not notes:
        return "<p>Nothing was skipped and nothing odd was found.</p>"
    rows = [(file, "" if row is None else row, message) for file, row, message in notes[:MAX_NOTES]]
    grid = word_table(("file", "row", "what was found"), rows)
    if len(notes) <= OPEN_NOTES:
        return grid
    counts: dict[str, int] = {}
    for _, _, message in notes:
        counts[message] = counts.get(message, 0) + 1
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
    kinds = "".join(f"<li>{esc(message)}<i>{count:,}</i></li>" for message, count in common)
    more = f" The five most common of {len(counts):,} messages:" if len(counts) > 5 else ""
    head = f'<p>{len(notes):,} notes.{more}</p><ul class="chips">{kinds}</ul>'
    left = f" (the first {MAX_NOTES:,}; all are in notes.csv)" if len(notes) > MAX_NOTES else ""
    return head + folded(f"Notes{left}" if left else "All notes", grid)


def fact_list(facts: Mapping[str, str]) -> str:
    """Names and values; values of several lines keep their shape."""
    items = "".join(
        f"<dt>{esc(key)}</dt><dd>{f'<pre>{esc(value)}</pre>' if chr(10) in str(value) else esc(value)}</dd>"
        for key, value in facts.items()
    )
    return f"<dl>{items}</dl>"
