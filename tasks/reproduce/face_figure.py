"""Error against the number of training images, one panel a data set (Fig. 2 of DLE)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage.reference_sets import reference_sets
from tasks.figure_style import MARKERS, MUTED, PALETTE, drawing, footnote, new_figure, to_png
from tasks.reproduce.comparison import Row
from tasks.reproduce.page import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Point = tuple[int, float, float]


def draw(story: Story) -> dict[str, bytes]:
    """Curves of every method with one standard deviation; 1NN is dashed."""
    sets = story.experiment.datasets
    with drawing():
        figure = new_figure(4.0 * len(sets), 4.2)
        panels = figure.subplots(1, len(sets), squeeze=False)[0]
        for panel, dataset in zip(panels, sets, strict=True):
            _draw_panel(panel, dataset, [row for row in story.rows if row.dataset == dataset])
        panels[0].set_ylabel("recognition error")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=8)
        trials = ", ".join(
            f"{reference_sets()[name].title} {story.experiment.settings(name, story.quick)['trials']}"
            for name in sets
        )
        footnote(figure, f"Mean and standard deviation over random splits: {trials}.")
        return {"error.png": to_png(figure)}


def _draw_panel(panel: "Axes", dataset: str, rows: Sequence[Row]) -> None:
    for number, (name, points) in enumerate(_curves(rows).items()):
        counts, means, spreads = zip(*points, strict=True)
        plain = name == "1NN"
        panel.errorbar(
            counts,
            means,
            yerr=None if plain else spreads,
            label=name,
            color=MUTED if plain else PALETTE[number % len(PALETTE)],
            linestyle="--" if plain else "-",
            marker=MARKERS[number % len(MARKERS)],
            markersize=4.5,
            linewidth=1.4,
            capsize=2,
        )
    panel.set_title(reference_sets()[dataset].title)
    panel.set_xlabel("training images a person")
    panel.set_ylim(bottom=0)
    panel.grid(True, axis="y")
    panel.set_xticks(sorted({int(row.condition.split()[0]) for row in rows}))


def _curves(rows: Sequence[Row]) -> dict[str, list[_Point]]:
    """Points of each method under each of its preprocessings, and of 1NN."""
    several = {row.method for row in rows if row.preprocessing == "pca"}
    curves: dict[str, list[_Point]] = {}
    for row in rows:
        if row.mean is None:
            continue
        name = f"{row.method} ({row.preprocessing})" if row.method in several else row.method
        count = int(row.condition.split()[0])
        curves.setdefault(name, []).append((count, row.mean, row.spread or 0.0))
        if row.method == rows[0].method and "1NN" in row.baselines:
            curves.setdefault("1NN", []).append((count, row.baselines["1NN"], 0.0))
    return {name: sorted(points) for name, points in curves.items()}
