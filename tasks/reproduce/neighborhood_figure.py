"""Figures of discriminative projections: hit rates, embeddings, label positions."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from embedding_core.protocols.neighborhoods import HITS, PLANE, Split, draw_split
from embedding_core.protocols.placement import Placement, place_rows
from embedding_core.protocols.trial import Arm, TrialData
from tasks.report.embedding_figure import fit_frame
from tasks.report.figure_style import INK, MUTED, drawing, footnote, hide_frame, new_figure, to_png
from tasks.reproduce.comparison import Row
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOGETHER = 0.03
"""Labels closer than this share of the total extent are written as one name."""
_LABELS_REMARK = (
    "Top: only the labels, mapped by g; names in one box are at nearly the same position. Bottom: rows "
    "mapped by f, colored by class, and the labels that lie among them."
)
_TEST_ROWS = re.compile(r"^(\d+)-D, K=(\d+)$")
_SHOWN_ROWS = 2_500
_SPACE = 3
_PARTS = ("labeled", "test")
_PROJECTIONS = {_SPACE: "3d", PLANE: None}
"""Dimensions of the drawn embeddings, and the matplotlib projection of each."""


def draw(story: Story) -> dict[str, bytes]:
    """Draw all figures; the embeddings are those of the first trial."""
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
    for dimensions in _PROJECTIONS:
        figures[f"embeddings-{dimensions}d.png"] = _draw_parts(placed, data, split, dimensions)
    weighed = [arm for arm in arms if "mu" in arm.params]
    if weighed:
        places = {arm.title: place_rows(arm, data, split[0], story.experiment.primary) for arm in weighed}
        figures["label-places.png"] = draw_label_places(places, data, _some(np.arange(len(data.Y))))
    return figures


def _in_3d(arm: Arm) -> Arm:
    return Arm(arm.title, arm.method, {**arm.params, "n_components": _SPACE}, fit_on=arm.fit_on)


def _draw_hit_rates(story: Story, dataset: str) -> bytes:
    shown = story.experiment.preprocessing
    with drawing():
        figure = new_figure(5.2 * len(shown), 4.2)
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for panel, preprocessing in zip(panels, shown, strict=True):
            draw_curves(panel, _curves(story.rows, dataset, preprocessing), plain=("1NN, all features",))
            panel.set_title(preprocessing)
            panel.set_xlabel("K nearest neighbors")
        panels[0].set_ylabel("hit rate among test rows")
        add_curve_legend(figure, panels[0])
        footnote(
            figure, "Fraction of test rows with a row of the same class among their K nearest test rows."
        )
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
    """Choose at most as many rows as a panel can show."""
    if len(rows) <= _SHOWN_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, _SHOWN_ROWS, replace=False))


def _draw_parts(placed: Mapping[str, Placement], data: TrialData, split: Split, dimensions: int) -> bytes:
    """Draw labeled rows at the top and test rows at the bottom, on the same axes (Figs. 2 and 6)."""
    parts = [_some(rows) for rows in split]
    draw_part = _scatter_3d if dimensions == _SPACE else _scatter_2d
    with drawing():
        figure = new_figure(2.6 * len(placed), 5.6)
        for number, (title, one) in enumerate(placed.items(), start=1):
            framed, _ = fit_frame(one.rows[np.concatenate(parts), :dimensions])
            split_places = np.split(framed, [len(parts[0])])
            for line, (name, rows, places) in enumerate(zip(_PARTS, parts, split_places, strict=True)):
                place = line * len(placed) + number
                panel = figure.add_subplot(2, len(placed), place, projection=_PROJECTIONS[dimensions])
                draw_part(panel, places, data.classes[rows])
                _set_limits(panel, framed)
                panel.set_title(f"{title}, {name}", fontsize=9)
        add_class_legend(figure, data.label_names)
        shown = zip(_PARTS, parts, split, strict=True)
        counts = " and ".join(f"{len(some):,} of {len(rows):,} {name}" for name, some, rows in shown)
        footnote(
            figure,
            f"{counts} rows; both panels of a column share their axes, outliers are clipped to the frame.",
        )
        return to_png(figure)


def _set_limits(panel: Any, framed: NDArray[np.float64]) -> None:
    """Set the limits of the axes around all rows, with a margin."""
    for axis, low, high in zip("xyz", framed.min(axis=0), framed.max(axis=0), strict=False):
        room = 0.04 * (high - low) or 1.0
        getattr(panel, f"set_{axis}lim")(low - room, high + room)


def _scatter_2d(panel: Any, xy: NDArray[np.float64], classes: NDArray[np.intp]) -> None:
    scatter_classes(panel, xy, classes, "", pull=False)


def _scatter_3d(panel: Any, xyz: NDArray[np.float64], classes: NDArray[np.intp]) -> None:
    panel.scatter(*xyz.T, s=3, c=[color_of(int(k)) for k in classes], alpha=0.6, linewidths=0)
    panel.set_box_aspect(None, zoom=1.2)
    for axis in (panel.xaxis, panel.yaxis, panel.zaxis):
        axis.set_ticklabels([])


def draw_label_places(placed: Mapping[str, Placement], data: TrialData, rows: NDArray[np.intp]) -> bytes:
    """Draw one column per projection: only the labels, and the labels among some of the rows."""
    with drawing():
        figure = new_figure(4.4 * len(placed), 8.2)
        grid = figure.subplots(2, len(placed), squeeze=False)
        for column, (title, one) in zip(grid.T, placed.items(), strict=True):
            assert one.labels is not None
            places = one.labels[:, :PLANE]
            _draw_alone(column[0], places, data.label_names, title)
            scatter_classes(column[1], one.rows[rows], data.classes[rows], "", size=2)
            _draw_among(column[1], places, data.label_names, title)
        footnote(figure, _LABELS_REMARK)
        return to_png(figure)


def _draw_alone(panel: "Axes", places: NDArray[np.float64], names: Sequence[str], title: str) -> None:
    panel.scatter(places[:, 0], places[:, 1], s=12, color=MUTED)
    panel.margins(0.22, 0.15)
    panel.set_title(f"{title}, labels", fontsize=9)
    hide_frame(panel)
    _write_names(panel, places, names)


def _draw_among(panel: "Axes", places: NDArray[np.float64], names: Sequence[str], title: str) -> None:
    """Draw the labels inside the frame of the rows; a large mu puts some labels far away."""
    box = np.array([panel.get_xlim(), panel.get_ylim()])
    inside = np.flatnonzero(((places >= box[:, 0]) & (places <= box[:, 1])).all(axis=1))
    panel.set_title(f"{title}, rows and {len(inside)} of {len(places)} labels", fontsize=9)
    _write_names(panel, places[inside], [names[label] for label in inside.tolist()])


def near_groups(places: NDArray[np.float64], names: Sequence[str]) -> list[tuple[NDArray[np.float64], str]]:
    """Merge labels within 3 % of the total extent into one name at their mean."""
    extent = float(np.ptp(places, axis=0).max(initial=0.0)) or 1.0
    near = np.linalg.norm(places[:, None] - places, axis=2) < _TOGETHER * extent
    _, group = connected_components(csr_array(near), directed=False)
    return [
        (places[group == number].mean(axis=0), " ".join(np.array(names)[group == number]))
        for number in np.unique(group)
    ]


def _write_names(panel: "Axes", places: NDArray[np.float64], names: Sequence[str]) -> None:
    if not len(places):
        return
    for place, text in near_groups(places, names):
        panel.annotate(
            text,
            (float(place[0]), float(place[1])),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9.5,
            fontweight="bold",
            color=INK,
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": MUTED, "alpha": 0.85},
        )
        panel.plot(place[0], place[1], marker="o", markersize=4, color=INK)
