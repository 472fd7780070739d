"""Lineage as a diagram and a table of the report: from the bytes of the source to every result."""

from collections.abc import Mapping, Sequence

from tasks.maintenance.lineage import GONE, LineageEntry
from tasks.report.page_parts import esc, folded, word_table

# Five columns fill the page.
_BOX, _GAP, _LINE, _PAD, _SPACE = 178, 30, 15, 8, 12
_LETTERS = 28
_SETTINGS = 2
_STYLE = (
    ".lineage rect{fill:var(--card);stroke:var(--line)}"
    ".lineage path{fill:none;stroke:var(--muted);opacity:.55}"
    ".lineage text{font-size:11px;fill:var(--muted)}.lineage .name{font-size:11.5px;font-weight:600;"
    "fill:var(--ink)}.lineage .outside rect{stroke-dasharray:4 3}.lineage .gone rect{stroke-dasharray:1 3}"
)


def lineage_part(family: Sequence[LineageEntry]) -> str:
    """The diagram, and every digest, setting and version in a table that a click opens."""
    rows = [
        (
            f"{one.label} ({GONE})" if one.gone else one.label,
            one.digest,
            one.code,
            " ".join(f"{name}={value}" for name, value in one.settings.items()),
            f"{one.seconds:.1f} s" if one.seconds is not None else "",
            one.created,
            ", ".join(f"{name} {number}" for name, number in one.versions.items()),
        )
        for one in family
    ]
    header = ("artifact", "digest", "code", "settings", "took", "made (UTC)", "versions")
    note = "Each box is made of those that lead to it; dashed are the bytes of the source"
    note += f", dotted what is {GONE}." if any(one.gone for one in family) else "."
    drawing = f'<div class="scroll">{draw_lineage(family)}</div>'
    table = folded("Digests, settings, versions", word_table(header, rows))
    return f"<figure>{drawing}<figcaption>{note}</figcaption></figure>{table}"


def draw_lineage(family: Sequence[LineageEntry]) -> str:
    """An SVG with a box for each artifact, in columns from the source on the left to the results."""
    columns = _columns(family)
    depth = max(map(_depth, columns), default=0)
    places: dict[str, tuple[float, float, float]] = {}
    for number, members in enumerate(columns):
        top = (depth - _depth(members)) / 2 + _SPACE
        for one in members:
            places[one.name] = (_SPACE + number * (_BOX + _GAP), top, _height(one))
            top += _height(one) + _SPACE
    width = 2 * _SPACE + len(columns) * (_BOX + _GAP) - _GAP
    edges = "".join(_edge(places[given], places[one.name]) for one in family for given in one.inputs)
    boxes = "".join(_box(one, places[one.name]) for one in family)
    return (
        f'<svg class="lineage" role="img" aria-label="Lineage of the results" width="{width}" '
        f'height="{depth}" viewBox="0 0 {width} {depth}"><style>{_STYLE}</style>{edges}{boxes}</svg>'
    )


def _height(one: LineageEntry) -> int:
    return 2 * _PAD + _LINE * (1 + len(_lines(one)))


def _depth(members: Sequence[LineageEntry]) -> int:
    return _SPACE + sum(_height(one) + _SPACE for one in members)


def _columns(family: Sequence[LineageEntry]) -> list[list[LineageEntry]]:
    """Each artifact right of all it was made of; what nothing else was made of in the last column."""
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


def _lines(one: LineageEntry) -> list[str]:
    """What a box says below its name."""
    lines = [f"digest {one.digest[:12]}"]
    if one.seconds is None:
        return [*lines, GONE] if one.gone else lines
    lines += [f"code {one.code[:12]}", f"took {one.seconds:.1f} s"]
    settings = [f"{name}={value}" for name, value in one.settings.items()]
    more = [f"and {len(settings) - _SETTINGS} more settings"] if len(settings) > _SETTINGS else []
    return [*lines, *settings[:_SETTINGS], *more]


def _box(one: LineageEntry, place: tuple[float, float, float]) -> str:
    left, top, height = place
    lines = "".join(
        f'<text x="{left + _PAD}" y="{top + _PAD + _LINE * (number + 0.75):.1f}"'
        f"{' class=name' if number == 0 else ''}>{esc(_cut(line))}</text>"
        for number, line in enumerate([one.label, *_lines(one)])
    )
    kind = ""
    if one.seconds is None:
        kind = f' class="{"gone" if one.gone else "outside"}"'
    return (
        f"<g{kind}><title>{esc(_hint(one.label, one.settings))}</title>"
        f'<rect x="{left}" y="{top}" width="{_BOX}" height="{height}" rx="8"/>{lines}</g>'
    )


def _hint(label: str, settings: Mapping[str, str]) -> str:
    return "\n".join([label, *(f"{name}={value}" for name, value in settings.items())])


def _edge(source: tuple[float, float, float], target: tuple[float, float, float]) -> str:
    x, y = source[0] + _BOX, source[1] + source[2] / 2
    to_x, to_y = target[0], target[1] + target[2] / 2
    middle = (x + to_x) / 2
    points = (f"{across:.0f} {down:.0f}" for across, down in ((middle, y), (middle, to_y), (to_x, to_y)))
    return f'<path d="M{x:.0f} {y:.0f}C{" ".join(points)}"/>'


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
