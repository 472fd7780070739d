"""Panels that the figures of several experiments share: classes in the plane, and curves with spreads."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.embedding_figure import fit_frame
from tasks.figure_style import MARKERS, MUTED, PALETTE, hide_frame
from tasks.reproduce.comparison import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLORS = (*PALETTE, "#999933", "#444444", "#AA4499", "#88CCEE")
"""Of classes, by number; from the thirteenth on they repeat."""

_DODGE = 0.35
"""Share of the distance of two places that the lines of one place take up."""
_DASHES = ("--", ":", "-.")

Point = tuple[float, float, float]
"""Where on the axis, mean, spread."""


def color_of(number: int) -> str:
    """Colour of a class."""
    return COLORS[number % len(COLORS)]


def scatter_classes(
    panel: "Axes", xy: NDArray[np.float64], classes: NDArray[np.intp], title: str, size: float | None = None
) -> None:
    """Rows at their first two coordinates in the colours of their classes; far ones on the frame."""
    framed, _ = fit_frame(xy[:, :2])
    if framed.shape[1] < 2:
        framed = np.column_stack([framed[:, 0], np.zeros(len(framed))])
    dot = size or float(np.clip(6_000 / max(len(xy), 1), 2, 16))
    # One call for all classes: drawn one after another, the last would cover the others.
    order = np.random.default_rng(0).permutation(len(framed))
    colors = [color_of(int(number)) for number in classes[order]]
    panel.scatter(framed[order, 0], framed[order, 1], s=dot, c=colors, alpha=0.7, linewidths=0)
    panel.set_title(title, fontsize=9)
    hide_frame(panel)


def add_class_legend(figure: "Figure", names: Sequence[str]) -> None:
    """Colours of the classes, above all panels."""
    figure.legend(
        handles=class_handles(names), loc="outside upper center", ncols=min(len(names), 10), fontsize=8.5
    )


def class_handles(names: Sequence[str], colors: Sequence[str] = COLORS) -> list["Line2D"]:
    """One dot a class."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], marker="o", linestyle="", markersize=5, color=colors[number % len(colors)], label=name)
        for number, name in enumerate(names)
    ]


def draw_curves(panel: "Axes", curves: Mapping[str, Sequence[Point]], plain: Sequence[str] = ()) -> None:
    """One line a name with one standard deviation; plain methods are grey and dashed.

    Lines stand side by side at each place, as their spreads would hide each other.
    """
    places = sorted({point[0] for points in curves.values() for point in points})
    step = min(np.diff(places), default=1.0) * _DODGE / max(len(curves), 1)
    for number, (name, points) in enumerate(curves.items()):
        at, means, spreads = (np.array(column) for column in zip(*sorted(points), strict=True))
        is_plain = name in plain
        panel.errorbar(
            at + (number - (len(curves) - 1) / 2) * step,
            means,
            yerr=spreads if spreads.any() else None,
            label=name,
            color=MUTED if is_plain else color_of(number),
            linestyle=_DASHES[plain.index(name) % len(_DASHES)] if is_plain else "-",
            marker=MARKERS[number % len(MARKERS)],
            markersize=4.5,
            linewidth=1.4,
            capsize=2,
        )
    panel.set_xticks(places, [f"{place:g}" for place in places])
    panel.grid(True, axis="y")


def baseline_points(rows: Sequence[Row], title: str, at: Sequence[float]) -> list[Point]:
    """Points of a baseline from the column of the rows of one method."""
    found = zip(at, rows, strict=True)
    return [(place, row.baselines[title], 0.0) for place, row in found if title in row.baselines]
