"""Face recognition from a few images per person (Fig. 2 of DLE): error by number of training images."""

from collections.abc import Mapping
from typing import Any

from embedding_core.protocols.trial import Arm, Cell, TrialData, draw_per_class, predict, trial_rng


def condition_of(count: int) -> str:
    """Return the condition name of a number of training images per person."""
    return f"{count} per person"


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure the error rate on the test images for each number of training images.

    Settings
    --------
    images : sequence of int
        Numbers of training images per person, drawn at random; all others are test images.
    most : int
        Maximum number of images per person, drawn at random; 0 uses all.
    seed : int
    """
    if settings["most"]:
        data = data.take(draw_per_class(data.classes, settings["most"], trial_rng(settings["seed"], 0))[0])
    cells = []
    for count in settings["images"]:
        train, test = draw_per_class(data.classes, count, trial_rng(settings["seed"], number))
        found = predict(arm, data, train, test, preprocessing)
        wrong = (found != data.Y[test]).any(axis=1).mean()
        cells.append(Cell(condition_of(count), "error", float(wrong)))
    return cells
