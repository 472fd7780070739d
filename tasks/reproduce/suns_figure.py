"""Decision regions of each method in the plane, and their errors (Fig. 2 of LPSSVM)."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from embedding_core.annotator import Annotator
from embedding_core.evaluation import hide_labels
from embedding_core.protocols.few_labels import choose_neighbors, condition_of, draw_labeled_rows
from embedding_core.protocols.trial import Arm, TrialData
from tasks.report.figure_style import INK, drawing, footnote, hide_frame, new_figure, to_png
from tasks.reproduce.page import Story
from tasks.reproduce.panels import (
    add_curve_legend,
    class_handles,
    curves_of,
    draw_curves,
    trials_remark,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = {"red": "#CC3311", "cyan": "#22AABB", "blue": "#0055AA"}
"""Classes are named after the colors of the paper."""
_STEPS = 160
_MARGIN = 0.6


def draw(story: Story) -> dict[str, bytes]:
    """Draw the decision regions of the first trial with the fewest labels, and the errors of all trials."""
    return {"decisions.png": _draw_maps(story), "error.png": _draw_errors(story)}


def _draw_maps(story: Story) -> bytes:
    (dataset,) = story.experiment.datasets
    data, settings = story.load(dataset), story.experiment.settings(dataset, story.quick)
    labeled = settings["labeled"][0]
    train, test = draw_labeled_rows(data.classes, labeled, settings["seed"], 0)
    arms = [arm for arm in story.experiment.arms_on(dataset) if arm.role == "paper"]
    with drawing():
        lines = -(-len(arms) // 2)
        figure = new_figure(9.6, 1.9 * lines + 0.7)
        panels = figure.subplots(lines, 2, squeeze=False).ravel()
        for panel, arm in zip(panels, arms, strict=False):
            chosen = choose_neighbors(arm, data, train, story.experiment.primary, settings["neighbors"])
            _draw_map(panel, chosen, data, train, test)
        for panel in panels[len(arms) :]:
            panel.set_visible(False)
        handles = class_handles(list(_COLORS), list(_COLORS.values()))
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=9)
        drawn = f"{condition_of(labeled)}, {len(train)} of {len(data.Y)} rows (circled), one random choice"
        footnote(figure, f"Shades: the class that each method predicts at a point. {drawn}.")
        return to_png(figure)


def _draw_map(
    panel: "Axes", arm: Arm, data: TrialData, train: NDArray[np.intp], test: NDArray[np.intp]
) -> None:
    from matplotlib.colors import ListedColormap

    model = Annotator(arm.method, arm.params, n_neighbors=1, single_label=True)
    model.fit(data.X, hide_labels(data.Y, train, test))
    low, high = data.X.min(axis=0) - _MARGIN, data.X.max(axis=0) + _MARGIN
    x, y = (np.linspace(a, b, _STEPS) for a, b in zip(low, high, strict=True))
    places = np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)]).astype(np.float32)
    given = model.predict(places).argmax(axis=1).reshape(_STEPS, _STEPS)
    K = data.Y.shape[1]
    colors = [_COLORS[name] for name in data.label_names]
    shades = ListedColormap(colors)
    panel.pcolormesh(x, y, given, cmap=shades, vmin=-0.5, vmax=K - 0.5, alpha=0.25, shading="nearest")
    panel.scatter(data.X[:, 0], data.X[:, 1], s=7, c=[colors[k] for k in data.classes], linewidths=0)
    panel.scatter(
        data.X[train, 0],
        data.X[train, 1],
        s=42,
        c=[colors[k] for k in data.classes[train]],
        edgecolors=INK,
        linewidths=1.2,
        zorder=4,
    )
    error = (model.predict(data.X[test]) != data.Y[test]).any(axis=1).mean()
    panel.set_title(f"{arm.title}, error {error:.3f}")
    panel.set_aspect("equal")
    hide_frame(panel)


def _draw_errors(story: Story) -> bytes:
    one = story.experiment
    with drawing():
        figure = new_figure(6.4, 4.2)
        panel = figure.add_subplot()
        draw_curves(panel, curves_of(story.rows), plain=[arm.title for arm in one.baselines])
        panel.set_xlabel("% of each class labeled")
        panel.set_ylabel("error on the unlabeled rows")
        panel.set_ylim(bottom=0)
        add_curve_legend(figure, panel)
        footnote(figure, trials_remark(one, story.quick, "random choices of labeled rows"))
        return to_png(figure)
