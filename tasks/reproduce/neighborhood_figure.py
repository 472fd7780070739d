"""Figures of discriminative projections: hit rates, embeddings, places of labels."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.protocols.neighborhoods import HITS, PLANE, draw_split
from embedding_core.protocols.placement import Placement, place_rows
from embedding_core.protocols.trial import Arm, TrialData
from tasks.figure_style import drawing, footnote, new_figure, to_png
from tasks.reproduce.comparison import Row
from tasks.reproduce.label_places import draw_label_places
from tasks.reproduce.page import Story
from tasks.reproduce.panels import (
    Point,
    add_class_legend,
    add_curve_legend,
    baseline_points,
    color_of,
    draw_curves,
    scatter_classes,
)

_TEST_ROWS = re.compile(r"^(\d+)-D, K=(\d+)$")
_SHOWN_ROWS = 2_500


def draw(story: Story) -> dict[str, bytes]:
    """All figures; embeddings are those of the first trial."""
    dataset = story.experiment.datasets[0]
    settings = story.experiment.settings(dataset, story.quick)
    data, split = draw_split(story.load(dataset), settings, number=0)
    arms = [arm for arm in story.experiment.arms_on(dataset) if arm.role == "paper"]
    placed = {
        arm.title: place_rows(_in_3d(arm), data, split[0], story.experiment.primary)
        for arm in arms
        if "mu" not in arm.params
    }
    figures = {"hit-rates.png": _draw_hit_rates(story, dataset)}
    figures["embeddings.png"] = _draw_embeddings(placed, data, split[1])
    figures["labelled-and-test.png"] = _draw_both(placed, data, *split)
    weighed = [arm for arm in arms if "mu" in arm.params]
    if weighed:
        places = {arm.title: place_rows(arm, data, split[0], story.experiment.primary) for arm in weighed}
        figures["label-places.png"] = draw_label_places(places, data, _some(np.arange(len(data.Y))))
    return figures


def _in_3d(arm: Arm) -> Arm:
    return Arm(arm.title, arm.method, {**arm.params, "n_components": 3}, fit_on=arm.fit_on)


def _draw_hit_rates(story: Story, dataset: str) -> bytes:
    shown = story.experiment.preprocessing
    with drawing():
        figure = new_figure(5.2 * len(shown), 4.2)
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for panel, preprocessing in zip(panels, shown, strict=True):
            draw_curves(panel, _curves(story.rows, dataset, preprocessing), plain=("1NN, all features",))
            panel.set_title(preprocessing)
            panel.set_xlabel("K nearest neighbours")
        panels[0].set_ylabel("hit rate among test rows")
        add_curve_legend(figure, panels[0])
        footnote(figure, "Share of test rows with one of their class among their K nearest test rows.")
        return to_png(figure)


def _curves(rows: Sequence[Row], dataset: str, preprocessing: str) -> dict[str, list[Point]]:
    curves: dict[str, list[Point]] = {}
    for row in rows:
        found = _TEST_ROWS.match(row.condition)
        same = (row.dataset, row.preprocessing, row.metric) == (dataset, preprocessing, HITS)
        if not (found and same) or row.mean is None or int(found[1]) == PLANE:
            continue
        at = int(found[2])
        curves.setdefault(f"{row.method} {found[1]}-D", []).append((at, row.mean, row.spread or 0.0))
        if "1NN" in row.baselines and len(curves) == 1:
            curves.setdefault("1NN, all features", [])
        plain = curves.get("1NN, all features")
        if plain is not None and len(plain) < at:
            plain += baseline_points([row], "1NN", [at])
    return curves


def _some(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most so many rows as a panel can show."""
    if len(rows) <= _SHOWN_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, _SHOWN_ROWS, replace=False))


def _draw_embeddings(placed: dict[str, Placement], data: TrialData, test: NDArray[np.intp]) -> bytes:
    """Test rows in three and in two dimensions (Fig. 2)."""
    rows = _some(test)
    with drawing():
        figure = new_figure(2.6 * len(placed), 5.6)
        for number, (title, one) in enumerate(placed.items()):
            deep = figure.add_subplot(2, len(placed), number + 1, projection="3d")
            _scatter_3d(deep, one.rows[rows], data.classes[rows], f"{title}, 3-D")
            flat = figure.add_subplot(2, len(placed), len(placed) + number + 1)
            scatter_classes(flat, one.rows[rows], data.classes[rows], f"{title}, 2-D")
        add_class_legend(figure, data.label_names)
        footnote(figure, f"{len(rows):,} of {len(test):,} test rows; far ones are drawn on the frame.")
        return to_png(figure)


def _scatter_3d(panel: Any, xyz: NDArray[np.float64], classes: NDArray[np.intp], title: str) -> None:
    low, high = np.percentile(xyz, [1, 99], axis=0)
    framed = np.clip(xyz, low - 0.5 * (high - low), high + 0.5 * (high - low))
    panel.scatter(*framed.T, s=3, c=[color_of(int(k)) for k in classes], alpha=0.6, linewidths=0)
    panel.set_title(title, fontsize=9)
    panel.set_box_aspect(None, zoom=1.2)
    for axis in (panel.xaxis, panel.yaxis, panel.zaxis):
        axis.set_ticklabels([])


def _draw_both(
    placed: dict[str, Placement], data: TrialData, train: NDArray[np.intp], test: NDArray[np.intp]
) -> bytes:
    """Labelled rows above, test rows below, in two dimensions (Fig. 6)."""
    parts = {"labelled": _some(train), "test": _some(test)}
    with drawing():
        figure = new_figure(2.6 * len(placed), 5.4)
        grid = figure.subplots(2, len(placed), squeeze=False, sharex="col", sharey="col")
        for column, (title, one) in zip(grid.T, placed.items(), strict=True):
            for panel, (part, rows) in zip(column, parts.items(), strict=True):
                scatter_classes(panel, one.rows[rows], data.classes[rows], f"{title}, {part}")
        add_class_legend(figure, data.label_names)
        footnote(figure, "Both panels of a column have the same axes.")
        return to_png(figure)
