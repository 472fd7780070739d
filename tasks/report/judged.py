"""Predicted labels of items, and what they say about doubt and errors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class JudgedItems:
    """Predicted labels of items.

    Attributes
    ----------
    method, title : str
        The method, and its title with the classifier.
    scores : (n, K) array
        Out of fold for labeled items; rows of NaN for items without a prediction.
    decided : (n, K) int8 array
        Predicted labels, 0/1; 0 for items without a prediction.
    single_label : bool
    """

    method: str
    title: str
    scores: NDArray[np.float64]
    decided: NDArray[np.int8]
    single_label: bool

    @property
    def known(self) -> NDArray[np.bool_]:
        """Items that have a prediction."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    def doubt(self) -> NDArray[np.float64]:
        """Doubt of each item from 0 to 1, NaN without a prediction.

        1 means that a label is exactly at its threshold. With one label per item: that two labels are level.
        """
        if self.single_label and self.scores.shape[1] > 1:
            best = np.sort(self.scores, axis=1)[:, -2:]
            return np.asarray(1 - np.clip(best[:, 1] - best[:, 0], 0, 1))
        return np.asarray(1 - 2 * np.clip(np.abs(self.scores - 0.5).min(axis=1, initial=0.5), 0, 0.5))

    def error(self, Y: NDArray[np.int8]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """How wrong each labeled item is, and the label it is most wrong about.

        The largest distance between a given label (0 or 1) and its score, of the labels that are decided
        wrongly; 0 if none is, NaN for other items.
        """
        distance = np.where(self.decided == Y, 0.0, np.abs(Y - self.scores))
        distance[(Y < 0) | np.isnan(self.scores)] = np.nan
        safe = np.where(np.isnan(distance), -1.0, distance)
        worst = safe.argmax(axis=1)
        found = safe[np.arange(len(safe)), worst]
        return np.where(found < 0, np.nan, found), worst
