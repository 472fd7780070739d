"""Error against the number of training images, one panel per data set (Fig. 2 of DLE)."""

from storage.reference.sets import reference_sets
from tasks.report.figure_style import drawing, footnote, new_figure, to_png
from tasks.reproduce.page import Story
from tasks.reproduce.panels import add_curve_legend, curves_of, draw_curves, trials_remark


def draw(story: Story) -> dict[str, bytes]:
    """Draw the error of every method with one standard deviation; baselines are dashed."""
    one = story.experiment
    with drawing():
        figure = new_figure(4.0 * len(one.datasets), 4.2)
        panels = figure.subplots(1, len(one.datasets), squeeze=False)[0]
        for panel, dataset in zip(panels, one.datasets, strict=True):
            curves = curves_of([row for row in story.rows if row.dataset == dataset])
            draw_curves(panel, curves, plain=[arm.title for arm in one.baselines])
            panel.set_title(reference_sets()[dataset].title)
            panel.set_xlabel("training images per person")
            panel.set_ylim(bottom=0)
        panels[0].set_ylabel("recognition error")
        add_curve_legend(figure, panels[0])
        footnote(figure, trials_remark(one, story.quick, "random splits"))
        return {"error.png": to_png(figure)}
