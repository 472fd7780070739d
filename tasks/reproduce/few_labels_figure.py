"""Accuracy against the number of labeled rows (Fig. 3 of LPSSVM)."""

from storage.reference.sets import reference_sets
from tasks.report.figure_style import drawing, footnote, new_figure, to_png
from tasks.reproduce.page import Story
from tasks.reproduce.panels import add_curve_legend, curves_of, draw_curves, trials_remark


def draw(story: Story) -> dict[str, bytes]:
    """Draw one row of panels per preprocessing and one column per data set."""
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
                panel.set_xlabel("labeled rows of each class")
            line[0].set_ylabel("accuracy")
        add_curve_legend(figure, grid[0, 0])
        footnote(figure, trials_remark(one, story.quick, "random choices of labeled rows"))
        return {"accuracy.png": to_png(figure)}
