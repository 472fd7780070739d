"""Limits of a drawing that far outliers do not stretch."""

import numpy as np
from numpy.typing import NDArray

# Percentiles that are always inside, and the margin beyond them as a share of their distance.
_INSIDE, _MARGIN = (2, 98), 0.5


def robust_limits(values: NDArray[np.float64]) -> tuple[float, float]:
    """Limits that show nearly all values; a few far ones do not squeeze the others together."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = np.percentile(finite, _INSIDE)
    margin = _MARGIN * (high - low)
    return max(float(finite.min()), float(low - margin)), min(float(finite.max()), float(high + margin))
