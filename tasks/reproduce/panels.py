"""Panels that the figures of several experiments share: classes in the plane, and curves with spreads."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from storage.reference.sets import reference_sets
from tasks.report.embedding_figure import fit_frame
from tasks.report.figure_style import MARKERS, MUTED, PALETTE, hide_frame
from tasks.reproduce.comparison import Row
from tasks.reproduce.experiment import TRIALS, Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLORS = (*PALETTE, "#999933", "#444444", "#AA4499", "#88CCEE")
"""Of classes, by number; from the thirteenth on they repeat."""

_DODGE = 0.25
"""Share of the distance of two places that the lines of one place take up."""
_DASHES = ("--", ":", "-.")

Point = tuple[float, float, float]
"""Where on the axis, mean, spread."""


def color_of(number: int) -> str:
    """Color of a class."""
    return COLORS[number % len(COLORS)]


def scatter_classes(
    panel: "Axes",
    xy: NDArray[np.float64],
    classes: NDArray[np.intp],
    title: str,
    size: float | None = None,
    pull: bool = True,
) -> None:
    """Rows at their first two coordinates in the colors of their classes; far ones pulled to the frame."""
    framed = fit_frame(xy[:, :2])[0] if pull else xy[:, :2]
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
    """Colors of the classes, above all panels."""
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
    """One line a name with one standard deviation; plain methods are gray and dashed.

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


def curves_of(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """Points of each method by the number in the condition, then those of the baselines beside the first.

    A method that has rows under several preprocessings has a curve under each.
    """
    measured = [row for row in rows if row.mean is not None and not row.claim]
    if not measured:
        return {}
    ways: dict[str, set[str]] = {}
    for row in measured:
        ways.setdefault(row.method, set()).add(row.preprocessing)
    curves: dict[str, list[Point]] = {}
    for row in measured:
        assert row.mean is not None
        name = f"{row.method} ({row.preprocessing})" if len(ways[row.method]) > 1 else row.method
        curves.setdefault(name, []).append((number_of(row), row.mean, row.spread or 0.0))
    first = [row for row in measured if _way(row) == _way(measured[0])]
    for title in first[0].baselines:
        curves[title] = baseline_points(first, title, [number_of(row) for row in first])
    return curves


def _way(row: Row) -> tuple[str, str]:
    return row.method, row.preprocessing


def number_of(row: Row) -> float:
    """The first number in the condition of a row."""
    found = re.search(r"\d+", row.condition)
    assert found is not None
    return float(found[0])


def baseline_points(rows: Sequence[Row], title: str, at: Sequence[float]) -> list[Point]:
    """Points of a baseline from the column of the rows of one method."""
    return [
        (place, row.baselines[title], row.baseline_spreads.get(title, 0.0))
        for place, row in zip(at, rows, strict=True)
        if title in row.baselines
    ]


def add_curve_legend(figure: "Figure", panel: "Axes") -> None:
    """Names of the curves of one panel, which all panels share, above them."""
    handles, names = panel.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=8)


def trials_remark(experiment: Experiment, quick: bool, what: str) -> str:
    """What curves show, and over how many trials; these are told by set where they differ."""
    counts = {name: experiment.settings(name, quick)[TRIALS] for name in experiment.datasets}
    alike = len(set(counts.values())) == 1
    told = (
        f"{next(iter(counts.values()))} {what}"
        if alike
        else f"{what}: "
        + ", ".join(f"{reference_sets()[name].title} {count}" for name, count in counts.items())
    )
    return f"Mean and standard deviation over {told}."
