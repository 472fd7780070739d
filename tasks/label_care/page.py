"""The page on which a person decides the labels of items by keyboard: `review.html` and `next.html`.

One file without outside requests. Its only script is ours; the content security policy names its digest, so
text from a collection cannot run.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.sources.base import Collection
from tasks.label_care.cards import Card, ItemContent
from tasks.label_care.corrections import COLUMNS
from tasks.report.page import page_environment

_SCRIPT = Path(__file__).parents[1] / "report" / "templates" / "labeling.js"


@dataclass(frozen=True)
class PageTable:
    """A table below the cards."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: str = ""
    caption: str = ""


@dataclass(frozen=True)
class PageText:
    """What the page says besides its cards.

    Attributes
    ----------
    title, lead : str
    merge : str
        The command that merges the saved file.
    tiles : sequence of (number, name)
    notes : sequence of str
    tables : sequence of PageTable
    """

    title: str
    lead: str
    merge: str
    tiles: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    tables: Sequence[PageTable] = ()


def render_labeling(
    text: PageText, cards: Sequence[Card], found: Collection, label_names: Sequence[str], separator: str
) -> bytes:
    """Render the page."""
    script = _SCRIPT.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    content = ItemContent(found)
    data: dict[str, Any] = {
        "cards": [content.describe(card) for card in cards],
        "labels": list(label_names),
        "single": found.single_label,
        "separator": separator,
        "columns": list(COLUMNS),
        "key": hashlib.sha256("\n".join([text.title, *found.ids]).encode("utf-8", "replace")).hexdigest()[
            :16
        ],
    }
    page = page_environment().get_template("labeling.html.j2")
    rendered = page.render(**vars(text), data=data, script_hash=f"sha256-{digest}")
    return rendered.encode("utf-8", "replace")
