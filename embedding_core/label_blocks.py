"""Labels of many items: class weights without a float64 matrix of all items.

At a million items and fifty labels such a matrix takes 400 MB, the 0/1 labels themselves 50.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.labels import label_weights


@dataclass(frozen=True)
class LabelWeights:
    """The weights Z (n, K) of `labels.label_weights`, computed for the rows asked for: `weights[rows]`.

    `Y` (n, K) holds 0/1 with rows of -1, `correlation` C (K, K), `sample_weight` (n,) or None multiplies the
    rows.
    """

    Y: NDArray[np.int8]
    kind: str
    correlation: NDArray[np.float64]
    sample_weight: NDArray[np.float64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Items and labels."""
        return self.Y.shape[0], self.Y.shape[1]

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        Z = label_weights(self.Y[rows], self.kind, self.correlation)
        return Z if self.sample_weight is None else Z * self.sample_weight[rows, None]
