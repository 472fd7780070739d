"""The lineage of a report's results as a diagram and a table: boxes, lines and rows for the template.

The diagram has one box per stage, which lists its variants, and a line only where no longer way leads from
the one stage to the other. Everything else is in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.maintenance.lineage import GONE, LineageEntry

# Seven columns fill the width of the page.
_BOX, _GAP, _LINE, _PAD, _SPACE = 140, 18, 15, 8, 12
_LETTERS = 22
_SETTINGS, _VARIANTS = 3, 8
_HEADER = ("artifact", "digest", "code", "settings", "took", "made (UTC)", "versions")

Place = tuple[float, float, float]
"""Left, top and height of a box."""


@dataclass
class StageBox:
    """The artifacts of one stage, or one input from outside, and the boxes it was computed from."""

    name: str
    members: list[LineageEntry] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        """How it is drawn: "" for stored artifacts, else "gone" or "outside"."""
        if any(one.seconds is not None for one in self.members):
            return ""
        return "gone" if any(one.gone for one in self.members) else "outside"

    @property
    def lines(self) -> list[str]:
        """Lines below the name."""
        if len(self.members) > 1:
            shown = [_variant_line(one) for one in self.members[:_VARIANTS]]
            return _with_rest(shown, len(self.members) - len(shown), "more")
        (one,) = self.members
        lines = [f"digest {one.digest[:12]}"]
        if one.seconds is None:
            return [*lines, GONE] if one.gone else lines
        settings = [f"{name.rpartition('.')[2]}={value}" for name, value in one.settings.items()]
        rest = len(settings) - _SETTINGS
        return _with_rest([*lines, f"took {one.seconds:.1f} s", *settings[:_SETTINGS]], rest, "more settings")

    @property
    def height(self) -> int:
        """Height of the box."""
        return 2 * _PAD + _LINE * (1 + len(self.lines))


def lineage_content(family: Sequence[LineageEntry]) -> dict[str, Any]:
    """Compute what the template draws: boxes in columns from the source to the results, and a table."""
    boxes = _group(family)
    columns = _columns(boxes)
    height = max(map(_column_height, columns), default=0)
    places = _places(columns, height)
    return {
        "width": 2 * _SPACE + len(columns) * (_BOX + _GAP) - _GAP,
        "height": height,
        "edges": [_edge(places[given], places[one.name]) for one in boxes.values() for given in one.inputs],
        "boxes": [_box(one, places[one.name]) for one in boxes.values()],
        "header": _HEADER,
        "rows": [_row(one) for one in family],
        "gone": GONE if any(one.gone for one in family) else "",
    }


def _row(one: LineageEntry) -> tuple[str, ...]:
    return (
        f"{one.label} ({GONE})" if one.gone else one.label,
        one.digest,
        one.code,
        " ".join(f"{name}={value}" for name, value in one.settings.items()),
        f"{one.seconds:.1f} s" if one.seconds is not None else "",
        one.created,
        ", ".join(f"{name} {number}" for name, number in one.versions.items()),
    )


def _group(family: Sequence[LineageEntry]) -> dict[str, StageBox]:
    """One box per stage, in the order of the list; inputs only where no longer way leads to them."""
    box_of = {one.name: one.label.partition("[")[0] if _is_stored(one) else one.name for one in family}
    boxes: dict[str, StageBox] = {}
    for one in family:
        box = boxes.setdefault(box_of[one.name], StageBox(box_of[one.name]))
        box.members.append(one)
        box.inputs |= {box_of[given] for given in one.inputs} - {box.name}
    for box in boxes.values():
        indirect = set().union(*(_above(given, boxes) for given in box.inputs))
        box.inputs = {given for given in box.inputs if given not in indirect}
    return boxes


def _is_stored(one: LineageEntry) -> bool:
    return one.seconds is not None or one.gone


def _above(name: str, boxes: Mapping[str, StageBox]) -> set[str]:
    """Everything that a box was computed from."""
    found: set[str] = set()
    pending = list(boxes[name].inputs)
    while pending:
        given = pending.pop()
        if given not in found:
            found.add(given)
            pending += boxes[given].inputs
    return found


def _columns(boxes: Mapping[str, StageBox]) -> list[list[StageBox]]:
    """Put each box right of its inputs."""
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 0  # ends a circle of stages
            levels[name] = 1 + max(map(level, sorted(boxes[name].inputs)), default=-1)
        return levels[name]

    last = max(map(level, boxes), default=0)
    return [[box for box in boxes.values() if levels[box.name] == number] for number in range(last + 1)]


def _places(columns: Sequence[Sequence[StageBox]], height: int) -> dict[str, Place]:
    """Columns are centered, so that lines stay short."""
    places: dict[str, Place] = {}
    for number, members in enumerate(columns):
        top = _SPACE + (height - _column_height(members)) / 2
        for one in members:
            places[one.name] = (_SPACE + number * (_BOX + _GAP), top, one.height)
            top += one.height + _SPACE
    return places


def _column_height(members: Sequence[StageBox]) -> int:
    return _SPACE + sum(one.height + _SPACE for one in members)


def _variant_line(one: LineageEntry) -> str:
    stage, _, variant = one.label.partition("[")
    took = GONE if one.seconds is None else f"{one.seconds:.1f} s"
    name = variant.removesuffix("]") or stage
    return f"{_cut(name, _LETTERS - len(took) - 1)} {took}"


def _with_rest(lines: list[str], rest: int, words: str) -> list[str]:
    return [*lines, f"and {rest} {words}"] if rest > 0 else lines


def _box(one: StageBox, place: Place) -> dict[str, Any]:
    left, top, height = place
    title = one.name if one.kind != "outside" else one.members[0].label
    texts = [
        (left + _PAD, f"{top + _PAD + _LINE * (number + 0.75):.1f}", _cut(line))
        for number, line in enumerate([title, *one.lines])
    ]
    hint = [
        "\n".join([each.label, *(f"{name}={value}" for name, value in each.settings.items())])
        for each in one.members
    ]
    return {
        "left": left,
        "top": top,
        "width": _BOX,
        "height": height,
        "kind": one.kind,
        "hint": "\n\n".join(hint),
        "lines": texts,
    }


def _edge(source: Place, target: Place) -> str:
    """Path of a curve from the right side of one box to the left side of another."""
    x, y = source[0] + _BOX, source[1] + source[2] / 2
    to_x, to_y = target[0], target[1] + target[2] / 2
    middle = to_x - _GAP / 2
    points = (f"{across:.0f} {down:.0f}" for across, down in ((middle, y), (middle, to_y), (to_x, to_y)))
    return f"M{x:.0f} {y:.0f}C{' '.join(points)}"


def _cut(text: str, letters: int = _LETTERS) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"
