"""A few labeled rows per class; all other rows are to be classified (Figs. 2 and 3 of LPSSVM)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.model_selection.folds import stratified_folds
from embedding_core.protocols.trial import (
    Arm,
    Cell,
    TrialData,
    draw_per_class,
    draw_share_per_class,
    predict,
    trial_rng,
)
from embedding_core.registry import get_method

FOLDS = 3
"""Folds of the labeled rows to choose the number of neighbors; a class may have only 5 labeled rows."""

_WITHOUT_SEARCH = {"gamma_A": "auto", "gamma_I": "auto", "n_components": "energy"}
"""Replaces "cv" while the graph is chosen: a nested search would multiply the cost."""

Rows = NDArray[np.intp]


def condition_of(labeled: float) -> str:
    """Return the condition name: "N=5" for labeled rows per class, or "10 % labeled"."""
    return f"{labeled:.0%} labeled".replace("%", " %") if labeled < 1 else f"N={labeled}"


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure accuracy or error on the unlabeled rows, for each amount of labeled ones.

    Settings
    --------
    labeled : sequence of int, or of float below 1
        Number of labeled rows per class, or fraction of each class.
    neighbors : sequence of int
        Candidate numbers of neighbors in the graph, chosen by cross-validation on the labeled rows. A single
        candidate is used directly; without any, the default of the method applies. A graph of all pairs has
        no neighbors to choose.
    metric : {"accuracy", "error"}
    seed : int
    """
    cells = []
    for labeled in settings["labeled"]:
        train, test = draw_labeled_rows(data.classes, labeled, settings["seed"], number)
        chosen = choose_neighbors(arm, data, train, preprocessing, settings["neighbors"])
        right = float((predict(chosen, data, train, test, preprocessing) == data.Y[test]).all(axis=1).mean())
        value = 1 - right if settings["metric"] == "error" else right
        cells.append(Cell(condition_of(labeled), settings["metric"], value))
    return cells


def draw_labeled_rows(classes: Rows, labeled: float, seed: int, number: int) -> tuple[Rows, Rows]:
    """Return the labeled rows of a trial and all other rows."""
    rng = trial_rng(seed, number)
    if labeled < 1:
        return draw_share_per_class(classes, labeled, rng)
    return draw_per_class(classes, int(labeled), rng)


def choose_neighbors(
    arm: Arm, data: TrialData, train: Rows, preprocessing: str, candidates: Sequence[int]
) -> Arm:
    """Return the arm with the number of neighbors that classifies held-out labeled rows best."""
    all_pairs = arm.params.get("graph") == "gaussian"
    if not candidates or not get_method(arm.method).uses_graph or all_pairs or arm.params.get("n_neighbors"):
        return arm
    if len(candidates) == 1:
        return _with_params(arm, {"n_neighbors": candidates[0]})
    quick = {name: value for name, value in _WITHOUT_SEARCH.items() if arm.params.get(name) == "cv"}
    folds = stratified_folds(data.Y[train], FOLDS, seed=0)

    def score(k: int) -> float:
        one = _with_params(arm, {**quick, "n_neighbors": k})
        found = [predict(one, data, train[rest], train[held], preprocessing) for rest, held in folds]
        right = [
            (labels == data.Y[train[held]]).all(axis=1)
            for labels, (_, held) in zip(found, folds, strict=True)
        ]
        return float(np.concatenate(right).mean())

    return _with_params(arm, {"n_neighbors": max(candidates, key=score)})


def _with_params(arm: Arm, params: Mapping[str, Any]) -> Arm:
    return replace(arm, params={**arm.params, **params})
