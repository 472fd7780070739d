"""Correlated labels (Fig. 3 of MLDA): the largest entries of the label correlation, Eq. 13."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embedding_core.labels import label_correlation
from embedding_core.protocols.trial import Arm, Cell, TrialData


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Return the correlation of the `pairs` most correlated pairs of labels, the largest first."""
    C = label_correlation(data.Y)
    first, second = np.triu_indices(len(C), k=1)
    largest = np.argsort(-C[first, second], kind="stable")[: settings["pairs"]]
    return [
        Cell(
            f"{data.label_names[first[pair]]} and {data.label_names[second[pair]]}",
            "correlation",
            float(C[first[pair], second[pair]]),
        )
        for pair in largest
    ]
