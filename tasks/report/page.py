"""Render the report page from its content with the templates beside this module.

The page is self-contained: styles and figures are inside it, and its content security policy forbids scripts
and any request to the network.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.maintenance.lineage import LineageEntry
from tasks.report.lineage_figure import lineage_content
from tasks.report.tables import Table
from tasks.safe_text import printable

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE, MAP_PAGE, CONTENT = "index.html", "map.html", "content.json"
_TEMPLATES = Path(__file__).parent / "templates"
# Figures have 1.5 pixels per CSS pixel, so that they are sharp on dense screens.
_PIXEL_RATIO = 1.5


def render_page(
    files: Mapping[str, bytes],
    damaged: Sequence[tuple[str, str]] = (),
    family: Sequence[LineageEntry] = (),
    run: str = "",
    map_page: str = "",
    links: Mapping[str, str] | None = None,
) -> bytes:
    """Render the page of a report.

    Parameters
    ----------
    files : mapping of file name to bytes
        The files of a report: ``content.json`` and the figures that it names.
    damaged : sequence of (artifact, problem)
        Artifacts that were quarantined and recomputed in the run.
    family : sequence of LineageEntry
        The lineage of the results.
    run : str
        Id of the run, for the commands that repeat it and open its other pages.
    map_page : str
        Name of the map beside the page; empty without one.
    links : mapping of str to str, optional
        Addresses of its other pages, by name.
    """
    content = json.loads(files[CONTENT])
    figures = {name: _embed(one, files[name]) for name, one in content["figures"].items()}
    # A figure that was not drawn has no section.
    known = dict.fromkeys(("metrics.png", "correlation.png", "spectrum.png")) | figures
    lineage = lineage_content(family) if family else None
    template = page_environment().get_template("page.html.j2")
    text = template.render(
        content={**content, "figures": known},
        damaged=damaged,
        lineage=lineage,
        run=run,
        map_page=map_page,
        links=links or {},
    )
    return text.encode()


def render_lineage(family: Sequence[LineageEntry]) -> str:
    """Render the diagram of a lineage as SVG."""
    return page_environment().get_template("lineage.svg.j2").render(lineage=lineage_content(family))


def render_table_page(title: str, table: Table, place: str) -> str:
    """Render a page with one table; `place` says where its content is from."""
    caption = f"{table.caption[:1].upper()}{table.caption[1:]}. From {place}."
    template = page_environment().get_template("table.html.j2")
    return template.render(title=title, caption=caption, header=table.header, rows=table.rows)


@cache
def templates_digest() -> str:
    """Digest of all templates: a page is rendered again when one of them changes."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(_TEMPLATES.rglob("*.*")):
        digest.update(file.relative_to(_TEMPLATES).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _embed(figure: Mapping[str, str], png: bytes) -> dict[str, Any]:
    """A figure with its data and its size on the page, the same scale for all figures."""
    width, height = (round(size / _PIXEL_RATIO) for size in struct.unpack(">II", png[16:24]))
    return {**figure, "width": width, "height": height, "data": base64.b64encode(png).decode("ascii")}


@cache
def page_environment() -> "Environment":
    """The templates of all pages; every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["keep_arrow"] = _keep_arrow
    return made


def _clean(value: Any) -> Any:
    """Replace control characters in text from data; markup made by macros passes unchanged."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    lines = value.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(printable(line) for line in lines)


def _keep_arrow(header: str) -> str:
    """Keep the arrow of a header on the line of its last word."""
    return "\xa0".join(header.rsplit(" ", 1))
