"""Two emotions in the plane (Fig. 4 of MLDA), with two control panels that the paper does not have."""

from typing import TYPE_CHECKING

from embedding_core.protocols.separability import shuffle_labels
from embedding_core.protocols.trial import trial_rng
from embedding_core.protocols.two_classes import (
    Plane,
    fitted_plane,
    held_out_accuracy,
    neighbor_accuracy,
    split_planes,
)
from tasks.report.figure_style import MARKERS, PALETTE, drawing, footnote, hide_frame, new_figure, to_png
from tasks.reproduce.page import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HOW = (
    "(a) and (b) are the paper's two panels. (c) and (d) are controls that are not in the paper: held-out "
    "rows, and a fit on shuffled labels, which carry no information. Raw features."
)


def draw(story: Story) -> dict[str, bytes]:
    """Draw the data before and after projection, held-out rows, and a control with shuffled labels."""
    (name,) = story.experiment.datasets
    data = story.load(name)
    settings = story.experiment.settings(name, story.quick)
    before, after = (arm for arm in story.experiment.arms if arm.role == "paper")
    labels = settings["labels"]
    shuffled = shuffle_labels(data, trial_rng(settings["seed"], 0))
    known, held_out = split_planes(data, after, settings, "raw", 0)
    fitted = {
        "(a) two principal components": fitted_plane(data, before, labels, "raw"),
        "(b) MLDA, training rows": fitted_plane(data, after, labels, "raw"),
        "(d) MLDA, labels shuffled": fitted_plane(shuffled, after, labels, "raw"),
    }
    panels = {title: (plane, neighbor_accuracy(plane)) for title, plane in fitted.items()}
    panels["(c) MLDA, held-out rows"] = held_out, held_out_accuracy(known, held_out)
    with drawing():
        figure = new_figure(13, 4.0)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for panel, title in zip(axes, sorted(panels), strict=True):
            _draw_plane(panel, title, *panels[title], labels)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=2)
        footnote(figure, _HOW)
        return {"planes.png": to_png(figure)}


def _draw_plane(panel: "Axes", title: str, plane: Plane, accuracy: float, labels: tuple[str, str]) -> None:
    for number, name in enumerate(labels):
        own = plane.coordinates[plane.second == bool(number)]
        panel.scatter(
            own[:, 0], own[:, 1], s=11, color=PALETTE[number], marker=MARKERS[number], alpha=0.7, label=name
        )
    panel.set_title(f"{title}\n1NN {accuracy:.2f}")
    hide_frame(panel)
