"""Name persons from a few images of each (Fig. 2 of DLE): error against the number of training images."""

from collections.abc import Mapping
from typing import Any

from embedding_core.protocols.trial import Arm, Cell, TrialData, draw_a_class, predict, trial_rng


def condition_of(count: int) -> str:
    """How a number of training images of each person is told."""
    return f"{count} a person"


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Share of wrongly named test images for each number of training images.

    Settings
    --------
    images : sequence of int
        Training images of each person, drawn at random; all others are test images.
    most : int
        Images of each person to use at all, drawn at random; 0: all.
    seed : int
    """
    if settings["most"]:
        data = data.take(draw_a_class(data.classes, settings["most"], trial_rng(settings["seed"], 0))[0])
    cells = []
    for count in settings["images"]:
        train, test = draw_a_class(data.classes, count, trial_rng(settings["seed"], number))
        found = predict(arm, data, train, test, preprocessing)
        wrong = (found != data.Y[test]).any(axis=1).mean()
        cells.append(Cell(condition_of(count), "error", float(wrong)))
    return cells
