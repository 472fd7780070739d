"""Scatter plots of an embedding, colored by label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.report.data import EmbeddingView
from tasks.report.figure_style import (
    FAINT,
    MARKERS,
    MUTED,
    PALETTE,
    Drawing,
    drawing,
    footnote,
    hide_frame,
    name,
    new_figure,
    to_png,
)
from tasks.report.limits import robust_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POINTS = 5_000
MAX_LABELS = 40
_COLUMNS = 4


@dataclass(frozen=True)
class _Points:
    """The points to draw: coordinates (m, 1 or 2) inside the frame and labels; counts are over all items."""

    xy: NDArray[np.float64]
    Y: NDArray[np.int8]
    counts: NDArray[np.intp]
    n_unlabeled: int
    remarks: tuple[str, ...]

    @property
    def unlabeled(self) -> NDArray[np.bool_]:
        return np.asarray((self.Y < 0).any(axis=1))

    @property
    def size(self) -> float:
        return float(np.clip(9_000 / max(len(self.xy), 1), 5, 26))


def draw_embedding(view: EmbeddingView, Y: NDArray[np.int8], label_names: Sequence[str]) -> Drawing:
    """Draw the first two coordinates, colored by label; unlabeled items are gray.

    Single-label data with few classes are drawn in one panel. Otherwise each of the most frequent labels has
    its own panel, because an item with several labels has no single color. A one-dimensional embedding
    is drawn as one strip per label.
    """
    from embedding_core.labels import one_label_each  # imports SciPy and scikit-learn

    chosen, remark = _choose_labels(Y, label_names)
    points = _prepare(view.coordinates, Y, remark)
    with drawing():
        if points.xy.shape[1] < 2:
            figure, how = _draw_strips(points, chosen, label_names)
        elif one_label_each(Y) and len(chosen) <= len(PALETTE) and not remark:
            figure, how = _draw_together(points, chosen, label_names, view.eigenvalues)
        else:
            figure, how = _draw_multiples(points, chosen, label_names)
        footnote(figure, "  ".join(points.remarks))
        return Drawing(to_png(figure), " ".join((how, *points.remarks)))


def _choose_labels(Y: NDArray[np.int8], label_names: Sequence[str]) -> tuple[list[int], str]:
    """Choose the most frequent labels, in the given order, and a remark if some are left out."""
    counts = (Y == 1).sum(axis=0)
    if len(counts) <= MAX_LABELS:
        return list(range(len(counts))), ""
    chosen = sorted(np.argsort(-counts, kind="stable")[:MAX_LABELS].tolist())
    return chosen, f"Only the {MAX_LABELS} most frequent of {len(label_names)} labels are shown."


def _prepare(coordinates: NDArray[np.float64], Y: NDArray[np.int8], remark: str) -> _Points:
    remarks = [remark] if remark else []
    xy = np.asarray(coordinates, dtype=np.float64)[:, :2]
    finite = np.isfinite(xy).all(axis=1)
    if not finite.all():
        remarks.append(f"{_items(int(np.count_nonzero(~finite)))} without finite coordinates omitted.")
    index = np.flatnonzero(finite)
    if len(index) > MAX_POINTS:
        remarks.append(f"A random {MAX_POINTS:,} of {len(index):,} items drawn; counts include all items.")
        index = np.sort(np.random.default_rng(0).choice(index, MAX_POINTS, replace=False))
    framed, outside = fit_frame(xy[index])
    if outside:
        remarks.append(f"{_items(outside)} far outside, drawn on the edge of the frame.")
    counts, n_unlabeled = (Y == 1).sum(axis=0), int((Y < 0).any(axis=1).sum())
    return _Points(framed, Y[index], counts, n_unlabeled, tuple(remarks))


def _items(number: int) -> str:
    return f"{number:,} item" if number == 1 else f"{number:,} items"


def fit_frame(xy: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Clip far outliers to the frame, so that they do not squeeze all other points together."""
    if len(xy) == 0:
        return xy, 0
    low, high = np.array([robust_limits(column) for column in xy.T]).reshape(-1, 2).T
    framed = np.clip(xy, low, high)
    return framed, int(np.count_nonzero((framed != xy).any(axis=1)))


def _title(label: str, count: int | np.integer, width: int = 30) -> str:
    """A label's name and its number of items, together at most `width` characters."""
    number = f"{count:,}"
    return f"{name(label, width - len(number) - 2)}  {number}"


def _dots(axes: "Axes", xy: NDArray[np.float64], **style: Any) -> None:
    axes.scatter(xy[:, 0], xy[:, 1], **{"linewidths": 0, **style})


def _draw_together(
    points: _Points, chosen: list[int], names: Sequence[str], eigenvalues: NDArray[np.float64]
) -> tuple["Figure", str]:
    figure = new_figure(8.6, 5.2)
    axes = figure.add_subplot()
    for rank, label in enumerate(chosen):
        rows = points.Y[:, label] == 1
        _dots(
            axes,
            points.xy[rows],
            s=points.size * 1.3,
            color=PALETTE[rank],
            marker=MARKERS[rank],
            alpha=0.8,
            linewidths=0.4,
            edgecolors="white",
            label=_title(names[label], points.counts[label]),
        )
    _scatter_unlabeled(axes, points)
    _label_axes(axes, eigenvalues)
    figure.legend(loc="outside right upper", fontsize=9, markerscale=1.5, handletextpad=0.3)
    return figure, "First two coordinates of each item, colored by class; unlabeled items are gray."


def _scatter_unlabeled(axes: "Axes", points: _Points) -> None:
    rows = points.unlabeled
    if rows.any():
        title = _title("unlabeled", points.n_unlabeled)
        _dots(axes, points.xy[rows], s=points.size * 0.8, label=title, color=FAINT, zorder=0.5)


def _label_axes(axes: "Axes", eigenvalues: NDArray[np.float64]) -> None:
    values = [f"  (eigenvalue {value:.3g})" for value in eigenvalues[:2]] + ["", ""]
    axes.set_xlabel("coordinate 1" + values[0])
    axes.set_ylabel("coordinate 2" + values[1])
    axes.grid(True)
    axes.tick_params(length=0)


def _draw_multiples(points: _Points, chosen: list[int], names: Sequence[str]) -> tuple["Figure", str]:
    columns = min(3 if len(chosen) in (5, 6, 9) else _COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    width = 2.45 if columns == _COLUMNS else 3.2
    figure = new_figure(width * columns, (0.78 * width + 0.3) * rows + (0.3 if points.remarks else 0))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for panel in grid.flat[len(chosen) :]:
        panel.set_visible(False)
    for rank, (label, panel) in enumerate(zip(chosen, grid.flat, strict=False)):
        title = _title(names[label], points.counts[label], width=24 if columns == _COLUMNS else 30)
        _draw_panel(panel, points, label, title, PALETTE[rank % len(PALETTE)])
    how = "First two coordinates, one panel per label: items with the label are colored, all others gray"
    return figure, how + "; the cross is their median, the number their count."


def _draw_panel(panel: "Axes", points: _Points, label: int, title: str, color: str) -> None:
    carries = points.Y[:, label] == 1
    _dots(panel, points.xy[~carries], s=points.size * 0.5, color=FAINT, alpha=0.55)
    _dots(panel, points.xy[carries], s=points.size * 0.8, color=color, alpha=0.75)
    if carries.any():
        middle = np.median(points.xy[carries], axis=0, keepdims=True)
        _dots(panel, middle, marker="P", s=70, color=color, edgecolors="white", linewidths=1.2, zorder=5)
    panel.set_title(title, fontweight="bold", fontsize=9.5)
    hide_frame(panel)


def _strip_groups(
    points: _Points, chosen: list[int], names: Sequence[str]
) -> list[tuple[str, NDArray[np.bool_], str]]:
    groups = [
        (_title(names[label], points.counts[label]), points.Y[:, label] == 1, PALETTE[rank % len(PALETTE)])
        for rank, label in enumerate(chosen)
    ]
    if points.unlabeled.any():
        groups.append((_title("unlabeled", points.n_unlabeled), points.unlabeled, FAINT))
    return groups


def _draw_strips(points: _Points, chosen: list[int], names: Sequence[str]) -> tuple["Figure", str]:
    groups = _strip_groups(points, chosen, names)
    figure = new_figure(8.6, 1.1 + 0.62 * len(groups))
    axes = figure.add_subplot()
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(points.xy))
    x = points.xy[:, 0] if points.xy.shape[1] else np.zeros(len(points.xy))
    for height, (_, rows, color) in enumerate(groups):
        strip = np.column_stack((x[rows], height + jitter[rows]))
        _dots(axes, strip, s=points.size, color=color, alpha=0.6)
        if rows.any():
            axes.vlines(np.median(x[rows]), height - 0.4, height + 0.4, color="white", linewidth=4)
            axes.vlines(np.median(x[rows]), height - 0.4, height + 0.4, color=MUTED, linewidth=2)
    axes.set_yticks(range(len(groups)), [title for title, _, _ in groups])
    axes.set_ylim(len(groups) - 0.45, -0.55)
    axes.set_xlabel("coordinate 1")
    axes.grid(True, axis="x")
    axes.tick_params(length=0)
    how = "The embedding has one dimension: one strip per label, with vertical jitter"
    return figure, how + "; the bar is the median."
