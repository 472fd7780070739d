"""Panels shared by the figures of several experiments: scatter plots of classes, curves with error bars."""

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
"""Colors of classes by number; they repeat after the twelfth."""

_DODGE = 0.25
"""Width of the group of curves at one place, relative to the distance between places."""
_DASHES = ("--", ":", "-.")

Point = tuple[float, float, float]
"""Place on the axis, mean, spread."""


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
    """Draw rows at their first two coordinates, colored by class; outliers are clipped to the frame."""
    framed = fit_frame(xy[:, :2])[0] if pull else xy[:, :2]
    if framed.shape[1] < 2:
        framed = np.column_stack([framed[:, 0], np.zeros(len(framed))])
    dot = size or float(np.clip(6_000 / max(len(xy), 1), 2, 16))
    # All classes in one call and in random order, so that no class covers the others.
    order = np.random.default_rng(0).permutation(len(framed))
    colors = [color_of(int(number)) for number in classes[order]]
    panel.scatter(framed[order, 0], framed[order, 1], s=dot, c=colors, alpha=0.7, linewidths=0)
    panel.set_title(title, fontsize=9)
    hide_frame(panel)


def add_class_legend(figure: "Figure", names: Sequence[str]) -> None:
    """Add a legend of the classes above all panels."""
    figure.legend(
        handles=class_handles(names), loc="outside upper center", ncols=min(len(names), 10), fontsize=8.5
    )


def class_handles(names: Sequence[str], colors: Sequence[str] = COLORS) -> list["Line2D"]:
    """Legend handles: one dot per class."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], marker="o", linestyle="", markersize=5, color=colors[number % len(colors)], label=name)
        for number, name in enumerate(names)
    ]


def draw_curves(panel: "Axes", curves: Mapping[str, Sequence[Point]], plain: Sequence[str] = ()) -> None:
    """Draw one curve per name with error bars of one standard deviation; baselines are gray and dashed.

    The curves are shifted slightly at each place, so that their error bars do not overlap.
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
    """Return the points of each method by the number in the condition, then those of the baselines.

    A method with rows under several preprocessings has one curve for each.
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
    """Return the first number in the condition of a row."""
    found = re.search(r"\d+", row.condition)
    assert found is not None
    return float(found[0])


def baseline_points(rows: Sequence[Row], title: str, at: Sequence[float]) -> list[Point]:
    """Return the points of a baseline, from the rows of one method."""
    return [
        (place, row.baselines[title], row.baseline_spreads.get(title, 0.0))
        for place, row in zip(at, rows, strict=True)
        if title in row.baselines
    ]


def add_curve_legend(figure: "Figure", panel: "Axes") -> None:
    """Add a legend above all panels, which share the curves of one panel."""
    handles, names = panel.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=8)


def trials_remark(experiment: Experiment, quick: bool, what: str) -> str:
    """Say over how many trials the curves average, per data set if the numbers differ."""
    counts = {name: experiment.settings(name, quick)[TRIALS] for name in experiment.datasets}
    alike = len(set(counts.values())) == 1
    averaged = (
        f"{next(iter(counts.values()))} {what}"
        if alike
        else f"{what}: "
        + ", ".join(f"{reference_sets()[name].title} {count}" for name, count in counts.items())
    )
    return f"Mean and standard deviation over {averaged}."
