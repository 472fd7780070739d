"""Label positions that discriminative projections learn (Fig. 4 of its paper)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from embedding_core.protocols.neighborhoods import PLANE
from embedding_core.protocols.placement import Placement
from embedding_core.protocols.trial import TrialData
from tasks.report.figure_style import INK, MUTED, drawing, footnote, hide_frame, new_figure, to_png
from tasks.reproduce.panels import scatter_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOGETHER = 0.03
_HOW = (
    "Top: only the labels, mapped by g; names in one box are at nearly the same position. Bottom: rows mapped "
    "by f, colored by class, and the labels that lie among them."
)


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
        footnote(figure, _HOW)
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
