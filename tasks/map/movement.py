"""How far items move between two maps, apart from what does not matter: shift, turn, reflection and scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Pairs of items are compared in a sample of this size.
_MOST_ITEMS = 5_000
_NEIGHBORS = 10


@dataclass(frozen=True)
class Movement:
    """Movement of the items that are on both maps.

    Attributes
    ----------
    items : int
        Items on both maps.
    median, most : float
        Distance that half and 90 % of them stay below, as a share of the width of the map: the distance
        between the 2nd and the 98th percentile, or the height if that is larger.
    kept : float
        Mean share of the ten nearest items that stay the same.
    """

    items: int
    median: float
    most: float
    kept: float

    def __str__(self) -> str:
        """Return a sentence for people."""
        return (
            f"{self.items:,} items on both versions: half moved less than {self.median:.1%} of the width of "
            f"the map and 90 % less than {self.most:.1%}, after the best shift, turn and scale; "
            f"{self.kept:.0%} of their {_NEIGHBORS} nearest items stayed the same"
        )


def align(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return B (n, r), shifted, turned or reflected, and scaled to be as near to A (n, r) as possible."""
    a, b = A - A.mean(axis=0), B - B.mean(axis=0)
    U, s, Vt = np.linalg.svd(b.T @ a)
    size = float((b * b).sum())
    scale = float(s.sum()) / size if size else 1.0
    return np.asarray(scale * b @ (U @ Vt) + A.mean(axis=0))


def measure_movement(
    ids_before: Sequence[str],
    before: NDArray[np.float64],
    ids_after: Sequence[str],
    after: NDArray[np.float64],
) -> Movement | None:
    """Measure the movement on the first two axes; None if fewer than three items are on both maps."""
    place = {name: row for row, name in enumerate(ids_before)}
    pairs = [(place[name], row) for row, name in enumerate(ids_after) if name in place]
    if len(pairs) < 3:
        return None
    axes = min(2, before.shape[1], after.shape[1])
    A, B = (Z[[pair[side] for pair in pairs], :axes] for side, Z in enumerate((before, after)))
    finite = np.isfinite(A).all(axis=1) & np.isfinite(B).all(axis=1)
    A, B = A[finite], B[finite]
    if len(A) < 3:
        return None
    distance = np.linalg.norm(align(A, B) - A, axis=1)
    low, high = np.percentile(A, [2, 98], axis=0)
    width = float((high - low).max()) or 1.0
    median, most = np.percentile(distance, [50, 90]) / width
    return Movement(len(A), float(median), float(most), _kept_neighbors(A, B))


def _kept_neighbors(A: NDArray[np.float64], B: NDArray[np.float64]) -> float:
    from sklearn.neighbors import NearestNeighbors

    if len(A) > _MOST_ITEMS:
        rows = np.random.default_rng(0).choice(len(A), _MOST_ITEMS, replace=False)
        A, B = A[rows], B[rows]
    k = min(_NEIGHBORS, len(A) - 1)
    near = [NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(return_distance=False) for Z in (A, B)]
    same = [len(np.intersect1d(a, b)) for a, b in zip(*near, strict=True)]
    return float(np.mean(same)) / k
