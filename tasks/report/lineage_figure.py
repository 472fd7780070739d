"""The lineage of a report's results as a diagram and a table: boxes, lines and rows for the template."""

from collections.abc import Sequence
from typing import Any

from tasks.maintenance.lineage import GONE, LineageEntry

# Five columns fill the width of the page.
_BOX, _GAP, _LINE, _PAD, _SPACE = 178, 30, 15, 8, 12
_LETTERS = 28
_SETTINGS = 2
_HEADER = ("artifact", "digest", "code", "settings", "took", "made (UTC)", "versions")

Place = tuple[float, float, float]
"""Left, top and height of a box."""


def lineage_content(family: Sequence[LineageEntry]) -> dict[str, Any]:
    """Compute what the template draws: boxes in columns from the source to the results, and a table."""
    columns = _columns(family)
    height = max(map(_column_height, columns), default=0)
    places = _places(columns)
    return {
        "width": 2 * _SPACE + len(columns) * (_BOX + _GAP) - _GAP,
        "height": height,
        "edges": [_edge(places[given], places[one.name]) for one in family for given in one.inputs],
        "boxes": [_box(one, places[one.name]) for one in family],
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


def _columns(family: Sequence[LineageEntry]) -> list[list[LineageEntry]]:
    """Put each artifact right of its inputs, and artifacts that are no input into the last column."""
    known = {one.name: one for one in family}
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 1 + max(map(level, known[name].inputs), default=-1)
        return levels[name]

    last = max((level(one.name) for one in family), default=0)
    used = {name for one in family for name in one.inputs}
    columns: list[list[LineageEntry]] = [[] for _ in range(last + 1)]
    for one in family:
        columns[levels[one.name] if one.name in used else last].append(one)
    return columns


def _places(columns: Sequence[Sequence[LineageEntry]]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for number, members in enumerate(columns):
        top = _SPACE
        for one in members:
            places[one.name] = (_SPACE + number * (_BOX + _GAP), top, _box_height(one))
            top += _box_height(one) + _SPACE
    return places


def _column_height(members: Sequence[LineageEntry]) -> int:
    return _SPACE + sum(_box_height(one) + _SPACE for one in members)


def _box_height(one: LineageEntry) -> int:
    return 2 * _PAD + _LINE * (1 + len(_lines(one)))


def _lines(one: LineageEntry) -> list[str]:
    """Lines of a box below its name."""
    lines = [f"digest {one.digest[:12]}"]
    if one.seconds is None:
        return [*lines, GONE] if one.gone else lines
    lines += [f"code {one.code[:12]}", f"took {one.seconds:.1f} s"]
    settings = [f"{name}={value}" for name, value in one.settings.items()]
    rest = len(settings) - _SETTINGS
    more = [f"and {rest} more setting{'s' if rest > 1 else ''}"] if rest > 0 else []
    return [*lines, *settings[:_SETTINGS], *more]


def _box(one: LineageEntry, place: Place) -> dict[str, Any]:
    left, top, height = place
    lines = [
        (left + _PAD, f"{top + _PAD + _LINE * (number + 0.75):.1f}", _cut(line))
        for number, line in enumerate([one.label, *_lines(one)])
    ]
    kind = "" if one.seconds is not None else "gone" if one.gone else "outside"
    hint = "\n".join([one.label, *(f"{name}={value}" for name, value in one.settings.items())])
    return {
        "left": left,
        "top": top,
        "width": _BOX,
        "height": height,
        "kind": kind,
        "hint": hint,
        "lines": lines,
    }


def _edge(source: Place, target: Place) -> str:
    """Path of a curve from the right side of one box to the left side of another."""
    x, y = source[0] + _BOX, source[1] + source[2] / 2
    to_x, to_y = target[0], target[1] + target[2] / 2
    middle = (x + to_x) / 2
    points = (f"{across:.0f} {down:.0f}" for across, down in ((middle, y), (middle, to_y), (to_x, to_y)))
    return f"M{x:.0f} {y:.0f}C{' '.join(points)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
