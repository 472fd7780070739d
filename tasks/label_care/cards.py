"""Cards: one item to decide on a page, with its picture or text, its labels, a suggestion and the reasons."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.quoting import count_of
from storage.sources.base import Collection, Part

_PIXELS = 360
_CHARACTERS, _FEATURES = 2_000, 12
# A page with the largest pictures has about 40 MB.
MOST_PICTURES = 1_000
Labels = tuple[str, ...]


@dataclass(frozen=True)
class Card:
    """An item to decide.

    Attributes
    ----------
    id, kind : str
        The item, and why it is on the page in a few words.
    given : tuple of str or None
        Its labels; None if it is unlabeled.
    proposed : tuple of str
        The labels that are suggested.
    why : tuple of str
        Reasons, as sentences.
    checked : tuple of str
        Labels that an answer decides on.
    checked_too : tuple of str
        Labels that an answer decides on too, unless it accepts the suggestion, which is not about them.
    scores : mapping of str to float
        Scores of labels that are worth showing.
    others : tuple of str
        Items to show beside it.
    """

    id: str
    kind: str
    given: Labels | None
    proposed: Labels
    why: Labels
    checked: Labels = ("*",)
    scores: Mapping[str, float] = field(default_factory=dict)
    others: Labels = ()
    checked_too: Labels = ()


def merge_cards(cards: Iterable[Card]) -> list[Card]:
    """One card per item: the first one and its suggestion, with the reasons of the others."""
    made: dict[str, Card] = {}
    for card in cards:
        known = made.get(card.id)
        made[card.id] = card if known is None else _join(known, card)
    return list(made.values())


def _join(first: Card, second: Card) -> Card:
    return Card(
        first.id,
        first.kind,
        first.given,
        first.proposed,
        tuple(dict.fromkeys((*first.why, *second.why))),
        first.checked,
        {**second.scores, **first.scores},
        tuple(dict.fromkeys((*first.others, *second.others))),
        tuple(dict.fromkeys((*first.checked_too, *second.checked))),
    )


class ItemContent:
    """Shows the items of a collection: a small picture as a data address, or a text."""

    def __init__(self, found: Collection) -> None:
        self._found = found
        self._row = {name: row for row, name in enumerate(found.ids)}
        self._left = MOST_PICTURES

    def describe(self, card: Card) -> dict[str, Any]:
        """A card as the page reads it."""
        pictures = [one for name in (card.id, *card.others[:3]) if (one := self._picture(name))]
        return {
            "id": card.id,
            "kind": card.kind,
            "given": None if card.given is None else list(card.given),
            "proposed": list(card.proposed),
            "why": list(card.why),
            "checked": list(card.checked),
            "checked_too": list(card.checked_too),
            "scores": {name: round(value, 4) for name, value in card.scores.items()},
            "pictures": pictures,
            "text": "" if pictures else self._text(card.id),
        }

    def _picture(self, name: str) -> dict[str, str] | None:
        paths, row = self._found.paths, self._row.get(name)
        path = paths[row] if paths is not None and row is not None else None
        if path is None or self._left <= 0:
            return None
        data = shrink(path)
        self._left -= 1
        return None if data is None else {"title": name, "data": data}

    def _text(self, name: str) -> str:
        row = self._row.get(name)
        if row is None:
            return ""
        parts = [text for part in self._found.parts if (text := _show_part(part, row))]
        return "\n\n".join(parts)[:_CHARACTERS]


def shrink(path: Path) -> str | None:
    """A small JPEG as a data address; None if the picture cannot be read."""
    from embedding_core.features.images import UnreadableImage
    from embedding_core.features.thumbnails import encode_jpeg, shrink_image

    try:
        with open_regular(path) as file:
            jpeg = encode_jpeg(shrink_image(file.read(), _PIXELS), quality=80)
    except (OSError, UnreadableImage):
        return None
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")


def _show_part(part: Part, row: int) -> str:
    if part.texts is not None:
        return part.texts[row] or ""
    if part.content == "text" and part.paths is not None and (path := part.paths[row]) is not None:
        try:
            with open_regular(path) as file:
                return file.read(4 * _CHARACTERS).decode("utf-8", "replace")
        except OSError:
            return ""
    if part.X is None:
        return ""
    if isinstance(part.X, np.ndarray):
        values, columns = part.X[row], range(min(_FEATURES, part.X.shape[1]))
        shown = [(k, float(values[k])) for k in columns]
    else:
        sparse = part.X[[row]].tocoo()
        order = np.argsort(-sparse.data)[:_FEATURES]
        shown = [(int(sparse.coords[1][at]), float(sparse.data[at])) for at in order]
    names = part.feature_names
    lines = [f"{names[k] if names else f'feature {k}'}: {value:.4g}" for k, value in shown]
    rest = part.X.shape[1] - len(shown)
    return "\n".join([*lines, *([f"... and {count_of(rest, 'more feature')}"] if rest > 0 else [])])
