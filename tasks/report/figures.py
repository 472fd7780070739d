"""Figures of scores, label correlation and eigenvalues."""

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.report.data import EmbeddingView, ScoreRow
from tasks.report.figure_style import (
    ACCENT,
    ACCENT_FILL,
    FAINT,
    HAIRLINE,
    INK,
    MUTED,
    PLAIN,
    Drawing,
    drawing,
    footnote,
    name,
    new_figure,
    to_png,
)
from tasks.report.ranking import Entry, available_metrics, metric_arrow, metric_title, rank_entries

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

FIGURE_METRICS = (
    "macro_f1",
    "micro_f1",
    "lrap",
    "hamming_loss",
    "macro_precision",
    "micro_precision",
    "one_error",
    "ranking_loss",
)
MAX_BARS = 24
NAMES_UP_TO, NUMBERS_UP_TO = 60, 14


def draw_metrics(
    scores: Sequence[ScoreRow], sort_by: str, titles: Mapping[str, str], baselines: Set[str]
) -> Drawing:
    """Draw bars of each metric's mean with the spread over folds; baselines are hatched."""
    known = available_metrics(scores)
    metrics = [metric for metric in FIGURE_METRICS if metric in known] or known[:8]
    entries = rank_entries(scores, sort_by)
    columns = min(4, len(metrics))
    rows = -(-len(metrics) // columns)
    shown = [entry for rank, entry in enumerate(entries) if rank < MAX_BARS or entry.method in baselines]
    with drawing():
        figure = new_figure(10.4, (0.29 * len(shown) + 0.85) * rows + 0.35)
        grid = figure.subplots(rows, columns, squeeze=False)
        for number, panel in enumerate(grid.flat):
            if number >= len(metrics):
                panel.set_visible(False)
                continue
            _draw_bars(panel, shown, metrics[number], baselines)
            ticks = [name(entry.title(titles), 34) for entry in shown] if number % columns == 0 else []
            panel.set_yticks(range(len(shown)), ticks or [""] * len(shown), color=INK)
        fewer = len(shown) < len(entries)
        remark = f"Only the best {MAX_BARS} of {len(entries)} and all baselines are drawn." if fewer else ""
        how = "Bars: mean over folds; dots: single folds; lines: one standard deviation; hatched: baselines."
        footnote(figure, " ".join(filter(None, (how, remark))))
        return Drawing(to_png(figure), f"Sorted by {metric_title(sort_by)}, as in the table.")


def _draw_bars(panel: "Axes", entries: Sequence[Entry], metric: str, baselines: Set[str]) -> None:
    for height, entry in enumerate(entries):
        mean, spread = entry.mean(metric), entry.spread(metric)
        if mean is None:
            panel.text(0, height, " not measured", va="center", fontsize=7.5, color=MUTED)
            continue
        plain = entry.method in baselines
        fill, edge, hatch = ("white", PLAIN, "////") if plain else (ACCENT_FILL, ACCENT_FILL, None)
        panel.barh(height, mean, height=0.7, linewidth=0.8, color=fill, edgecolor=edge, hatch=hatch)
        folds = list(entry.values[metric].values())
        panel.scatter(folds, [height + 0.17] * len(folds), s=7, color=INK, alpha=0.5, linewidths=0, zorder=4)
        panel.errorbar(mean, height - 0.1, xerr=spread, color=INK, elinewidth=1.3, capsize=2.2, zorder=5)
    panel.set_title(f"{metric_title(metric)} {metric_arrow(metric)}", fontsize=9.5, fontweight="bold")
    panel.set_ylim(len(entries) - 0.45, -0.55)
    panel.set_xlim(left=min(0.0, panel.get_xlim()[0]))
    panel.locator_params(axis="x", nbins=4)
    panel.grid(True, axis="x")
    panel.tick_params(length=0)
    panel.spines["bottom"].set_visible(False)


def order_labels(correlation: NDArray[np.float64]) -> NDArray[np.intp]:
    """Order labels so that correlated ones are adjacent (average linkage on 1 - C)."""
    K = len(correlation)
    if K < 3:
        return np.arange(K)
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    distance = np.clip(1.0 - (correlation + correlation.T) / 2, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    condensed = squareform(distance, checks=False)
    tree = linkage(condensed, method="average")
    return np.asarray(leaves_list(optimal_leaf_ordering(tree, condensed)), dtype=np.intp)


def draw_correlation(correlation: NDArray[np.float64], label_names: Sequence[str]) -> Drawing:
    """Draw a heat map of C with similar labels side by side; the diagonal, always 1, is gray."""
    from matplotlib.colors import PowerNorm

    K = len(label_names)
    order = order_labels(correlation)
    C = np.ma.masked_array(correlation[np.ix_(order, order)], mask=np.eye(K, dtype=bool))
    low, top = min(0.0, float(C.min())), float(C.max())
    top = top if top > max(low, 0.0) else 1.0
    names = [name(label_names[label], 22) for label in order]
    crowded = K > NAMES_UP_TO
    remark = (
        f"{K} labels are too many to print their names; colors follow the square root of C."
        if crowded
        else ""
    )
    with drawing():
        side = float(np.clip(0.42 * K + 2.2, 4.2, 8.6))
        figure = new_figure(side + 0.9, side)
        axes = figure.add_subplot()
        scale = PowerNorm(0.5 if crowded else 1.0, vmin=low, vmax=top)
        image = axes.imshow(C, cmap=_heat_colors(), norm=scale, interpolation="nearest")
        _name_ticks(axes, names)
        if K <= NUMBERS_UP_TO:
            _write_numbers(axes, C, (low + top) / 2)
        bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=22, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
        footnote(figure, remark)
        how = "Cosine of the label columns; labels that occur together are adjacent. The diagonal is 1."
        return Drawing(to_png(figure), " ".join(filter(None, (how, remark))))


def _heat_colors() -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    stops = ["#f7fafc", "#cfe3ef", "#86bbd8", "#2f83b7", "#0b4f86", "#08264a"]
    return LinearSegmentedColormap.from_list("labelscape", stops).with_extremes(bad=HAIRLINE)


def _name_ticks(axes: "Axes", names: Sequence[str]) -> None:
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    K = len(names)
    if K > NAMES_UP_TO:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size = 9 if K <= 24 else max(5.0, 9 * 24 / K)
    axes.set_yticks(range(K), names, fontsize=size, color=INK)
    axes.set_xticks(
        range(K), names, fontsize=size, color=INK, rotation=45, ha="right", rotation_mode="anchor"
    )
    if K <= 24:
        axes.set_xticks(np.arange(0.5, K - 1), minor=True)
        axes.set_yticks(np.arange(0.5, K - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="minor", length=0)


def _write_numbers(axes: "Axes", C: np.ma.MaskedArray, middle: float) -> None:
    for (row, column), value in np.ndenumerate(C.data):
        if row != column:
            color = "white" if value > middle else INK
            text = f"{value:.2f}".replace("0.", ".", 1)
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=color)


def draw_spectrum(embeddings: Mapping[str, EmbeddingView]) -> Drawing:
    """Draw the eigenvalues of each method in a separate panel; their scales are not comparable."""
    views = [view for view in embeddings.values() if np.isfinite(view.eigenvalues).any()]
    columns = max(1, min(3, len(views)))
    rows = max(1, -(-len(views) // columns))
    with drawing():
        figure = new_figure(10.4 if columns == 3 else 4.4 * columns, 2.5 * rows)
        grid = figure.subplots(rows, columns, squeeze=False)
        for panel in grid.flat[len(views) :]:
            panel.set_visible(False)
        for view, panel in zip(views, grid.flat, strict=False):
            _draw_eigenvalues(panel, view)
        how = "Eigenvalue of each coordinate, in order; each method has its own scale."
        return Drawing(to_png(figure), how)


def _draw_eigenvalues(panel: "Axes", view: EmbeddingView) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    values = np.asarray(view.eigenvalues, dtype=np.float64)
    number = np.arange(1, len(values) + 1)
    if len(values) <= 40:
        panel.vlines(number, 0, values, color=FAINT, linewidth=1.5)
        panel.scatter(number, values, s=26, color=ACCENT, zorder=3)
    else:
        panel.fill_between(number, 0, values, color=ACCENT, alpha=0.15, linewidth=0)
        panel.plot(number, values, color=ACCENT, linewidth=1.6)
    if values.min(initial=0.0) < 0:
        panel.axhline(0, color=FAINT, linewidth=0.8)
    else:
        panel.set_ylim(bottom=0.0)
    panel.set_xlim(0.4, len(values) + 0.6)
    panel.xaxis.set_major_locator(
        FixedLocator(number.tolist()) if len(values) <= 10 else MaxNLocator(6, integer=True)
    )
    panel.set_title(name(view.title, 40), fontsize=9.5, fontweight="bold")
    panel.set_xlabel("coordinate")
    panel.grid(True, axis="y")
    panel.tick_params(length=0)
