"""Eigenmaps of classes, each with a control on shuffled labels (Figs. 1 to 5 of SLE-ML)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from embedding_core.protocols.placement import place_rows
from embedding_core.protocols.separability import (
    AGREEMENT,
    GIVEN,
    SHUFFLED,
    draw_trial,
    in_plane,
    label_groups,
)
from embedding_core.protocols.trial import Arm, TrialData
from storage.reference.sets import reference_sets
from tasks.report.figure_style import FAINT, INK, drawing, footnote, hide_frame, new_figure, to_png
from tasks.reproduce.eigenmaps import BALANCES, OTHERS, title_of
from tasks.reproduce.page import Story
from tasks.reproduce.panels import add_class_legend, color_of, scatter_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BY_TENTHS = tuple(title_of(balance) for balance in BALANCES if round(balance * 10) % 2 == 0)
_OTHERS = tuple(arm.title for arm in OTHERS)
_SHAPES = ("CCDR", "S-LapEig", title_of(0.5), title_of(0.9))
PICTURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "digits-balance.png": ("digits", _BY_TENTHS),
    "digits-others.png": ("digits", _OTHERS),
    "torus.png": ("torus", _SHAPES),
    "clusdat.png": ("clusdat", _SHAPES),
}
SCENE_BALANCES = (title_of(0.5), title_of(0.9))
_HOW = (
    "Top: labels as given; bottom: the same labels shuffled over the rows. Numbers: how often the nearest "
    "row in the plane has the same labels. Structure that also appears at the bottom is an artifact."
)

_LABELS_ALONE = (
    " Methods that use only labels (SLE-ML 0.0, CS) map each class to one point, and any two of K-1 "
    "equivalent directions may be drawn: classes that differ in the other directions coincide."
)


def draw(story: Story) -> dict[str, bytes]:
    """Draw every picture with its control."""
    figures = {
        name: _draw_pairs(story, dataset, titles)
        for name, (dataset, titles) in PICTURES.items()
        if dataset in story.experiment.datasets
    }
    if "scene" in story.experiment.datasets:
        figures["scene.png"] = _draw_scene(story)
    return figures


def _both(story: Story, dataset: str) -> tuple[TrialData, TrialData]:
    """Return the data as given, and with the labels shuffled as in the first trial."""
    data = story.load(dataset)
    return data, draw_trial(data, story.experiment.settings(dataset, story.quick)["seed"], 0).shuffled


def _arms(story: Story, dataset: str, titles: Sequence[str]) -> list[Arm]:
    by_title = {arm.title: arm for arm in story.experiment.arms_on(dataset)}
    return [by_title[title] for title in titles]


def _place(story: Story, arm: Arm, data: TrialData) -> NDArray[np.float64]:
    return place_rows(in_plane(arm, data), data, np.arange(len(data.Y)), story.experiment.primary).rows


def _agreement(story: Story, dataset: str, title: str, condition: str) -> str:
    for row in story.rows:
        wanted = (dataset, title, condition, AGREEMENT)
        if (row.dataset, row.method, row.condition, row.metric) == wanted and row.mean is not None:
            return f"  {row.mean:.2f}"
    return ""


def _draw_pairs(story: Story, dataset: str, titles: Sequence[str]) -> bytes:
    """Draw one column per method: labels as given, and shuffled."""
    pair = _both(story, dataset)
    with drawing():
        figure = new_figure(2.15 * len(titles), 5.2)
        grid = figure.subplots(2, len(titles), squeeze=False)
        for column, arm in zip(grid.T, _arms(story, dataset, titles), strict=True):
            for panel, data, condition in zip(column, pair, (GIVEN, SHUFFLED), strict=True):
                number = _agreement(story, dataset, arm.title, condition)
                name = arm.title if condition == GIVEN else "shuffled"
                scatter_classes(panel, _place(story, arm, data), data.classes, name + number)
        add_class_legend(figure, pair[0].label_names)
        alone = _LABELS_ALONE if {title_of(0.0), "CS"} & set(titles) else ""
        footnote(figure, f"{reference_sets()[dataset].title}. {_HOW}{alone}")
        return to_png(figure)


def _draw_scene(story: Story) -> bytes:
    """Draw single labels in color, and pairs with lines to the centers of their single labels (Fig. 5)."""
    pair = _both(story, "scene")
    min_rows = story.experiment.settings("scene", story.quick)["min_rows"]
    with drawing():
        figure = new_figure(4.6 * len(SCENE_BALANCES), 8.6)
        grid = figure.subplots(2, len(SCENE_BALANCES), squeeze=False)
        for column, arm in zip(grid.T, _arms(story, "scene", SCENE_BALANCES), strict=True):
            for panel, data, name in zip(column, pair, (arm.title, f"{arm.title}, shuffled"), strict=True):
                _draw_sets(panel, _place(story, arm, data), data, name, min_rows)
        add_class_legend(figure, pair[0].label_names)
        footnote(
            figure,
            "Dots: rows with one label; crosses: rows with two labels, in both colors; lines: from the "
            "center of a pair of labels (square) to the centers of its single labels (circles). "
            "Top: labels as given; bottom: shuffled.",
        )
        return to_png(figure)


def _draw_sets(panel: "Axes", Z: NDArray[np.float64], data: TrialData, title: str, min_rows: int) -> None:
    count = data.Y.sum(axis=1)
    single = count == 1
    scatter_classes(panel, Z[single], data.classes[single], title, size=6)
    groups = label_groups(data.Y)
    centers = {
        tuple(np.flatnonzero(data.Y[groups == group][0]).tolist()): Z[groups == group].mean(axis=0)
        for group in np.unique(groups)
        if (groups == group).sum() >= min_rows
    }
    for labels, center in centers.items():
        if len(labels) == 2 and all((label,) in centers for label in labels):
            _draw_set(panel, Z[(count == 2) & data.Y[:, list(labels)].all(axis=1)], center, labels, centers)
    for labels, center in centers.items():
        if len(labels) == 1:
            panel.scatter(
                center[0],
                center[1],
                s=90,
                color=color_of(labels[0]),
                edgecolors="white",
                linewidths=1.5,
                zorder=6,
            )
    hide_frame(panel)


def _draw_set(
    panel: "Axes",
    rows: NDArray[np.float64],
    center: NDArray[np.float64],
    labels: tuple[int, ...],
    centers: dict[tuple[int, ...], NDArray[np.float64]],
) -> None:
    first, second = (color_of(label) for label in labels)
    panel.scatter(
        rows[:, 0], rows[:, 1], s=34, marker="P", color=first, edgecolors=second, linewidths=1.2, zorder=4
    )
    for label in labels:
        end = centers[(label,)]
        panel.plot([center[0], end[0]], [center[1], end[1]], color=FAINT, linewidth=1.2, zorder=3)
    panel.scatter(
        center[0], center[1], s=46, marker="s", color=first, edgecolors=INK, linewidths=1.2, zorder=7
    )
