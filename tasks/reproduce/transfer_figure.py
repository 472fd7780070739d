"""Images with a label that only MLDA predicts, and the label correlation (Fig. 5 of MLDA)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from embedding_core.labels import label_correlation
from embedding_core.protocols.label_transfer import Lone, lone_labels
from embedding_core.protocols.trial import TrialData
from tasks.report.figure_style import drawing, footnote, hide_frame, name, new_figure, to_png
from tasks.report.figures import draw_correlation
from tasks.reproduce.page import Story

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICTURES = 8
_METHOD = "MLDA"


def draw(story: Story) -> dict[str, bytes]:
    """Draw the images whose predicted label correlates most with their other labels, and the correlation."""
    (dataset,) = story.experiment.datasets
    data = story.load(dataset)
    settings = story.experiment.settings(dataset, story.quick)
    found = [
        one
        for number in range(settings["trials"])
        for one in lone_labels(data, settings, "raw", number)[_METHOD]
    ]
    C = label_correlation(data.Y)
    right = sorted((one for one in found if one.right), key=lambda one: -_support(one, data, C))
    remark = (
        f"Only {_METHOD} predicts {len(right)} correct labels in {settings['trials']} folds, and "
        f"{len(found) - len(right)} wrong ones. Shown are correct ones, sorted by their correlation with the "
        "other labels of the image (in brackets)."
    )
    with drawing():
        figure = new_figure(12, 5.6)
        _draw_pictures(figure, right[:_PICTURES], data, C, lambda row: story.picture(dataset, row))
        footnote(figure, remark)
        return {
            "transfer.png": to_png(figure),
            "correlation.png": draw_correlation(C, data.label_names).png,
        }


def _support(one: Lone, data: TrialData, C: np.ndarray) -> float:
    """Largest correlation of the predicted label with another label of the image."""
    others = np.flatnonzero(data.Y[one.row] > 0)
    others = others[others != one.label]
    return float(C[one.label, others].max()) if len(others) else 0.0


def _draw_pictures(
    figure: "Figure",
    chosen: list[Lone],
    data: TrialData,
    C: np.ndarray,
    picture: Callable[[int], np.ndarray],
) -> None:
    axes = figure.subplots(2, _PICTURES // 2, squeeze=False).ravel()
    for panel in axes[len(chosen) :]:
        panel.set_visible(False)
    for panel, one in zip(axes, chosen, strict=False):
        panel.imshow(picture(one.row))
        hide_frame(panel)
        own = np.flatnonzero(data.Y[one.row] > 0)
        others = ", ".join(name(data.label_names[label], 16) for label in own if label != one.label)
        found = f"predicted: {name(data.label_names[one.label], 16)} ({_support(one, data, C):.2f})"
        panel.set_title(f"{found}\nothers: {others or 'none'}", fontsize=8.5)
