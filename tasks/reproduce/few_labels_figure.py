"""Accuracy against the number of labelled rows (Fig. 3 of LPSSVM)."""

import re
from collections.abc import Sequence

from storage.reference_sets import reference_sets
from tasks.figure_style import drawing, footnote, new_figure, to_png
from tasks.reproduce.comparison import Row
from tasks.reproduce.page import Story
from tasks.reproduce.panels import Point, baseline_points, draw_curves


def draw(story: Story) -> dict[str, bytes]:
    """One row of panels a preprocessing, one column a data set."""
    one = story.experiment
    with drawing():
        figure = new_figure(4.8 * len(one.datasets), 3.4 * len(one.preprocessing) + 0.6)
        grid = figure.subplots(len(one.preprocessing), len(one.datasets), squeeze=False, sharey="col")
        for line, preprocessing in zip(grid, one.preprocessing, strict=True):
            for panel, dataset in zip(line, one.datasets, strict=True):
                rows = [
                    row for row in story.rows if (row.dataset, row.preprocessing) == (dataset, preprocessing)
                ]
                draw_curves(panel, curves_of(rows), plain=[arm.title for arm in one.baselines])
                panel.set_title(f"{reference_sets()[dataset].title}, {preprocessing}")
                panel.set_xlabel("labelled rows of each class")
            line[0].set_ylabel("accuracy")
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=8)
        trials = one.settings(one.datasets[0], story.quick)["trials"]
        footnote(figure, f"Mean and standard deviation over {trials} draws of the labelled rows.")
        return {"accuracy.png": to_png(figure)}


def labelled_of(row: Row) -> float:
    """The number in the condition of a row."""
    found = re.search(r"\d+", row.condition)
    assert found is not None
    return float(found[0])


def curves_of(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """Points of each method, then those of the baselines."""
    measured = [row for row in rows if row.mean is not None and not row.claim]
    curves: dict[str, list[Point]] = {}
    for row in measured:
        assert row.mean is not None
        curves.setdefault(row.method, []).append((labelled_of(row), row.mean, row.spread or 0.0))
    first = [row for row in measured if row.method == measured[0].method]
    for title in first[0].baselines if first else ():
        curves[title] = baseline_points(first, title, [labelled_of(row) for row in first])
    return curves
