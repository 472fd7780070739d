"""Toy problems of the papers, generated from fixed seeds.

The papers show these sets and give their sizes, but not their shapes, coordinates or noise. The docstring of
each set states what comes from the paper and what is chosen here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TORUS_ROWS, TORUS_GARBAGE = 500, 7
CLUSDAT_ROWS, CLUSDAT_GARBAGE = 800, 8
SUN_ROWS = {"red": 60, "cyan": 50, "blue": 60}

GARBAGE_WIDTH = 0.25
"""Standard deviation of a garbage feature relative to the mean standard deviation of the shape.

The paper states neither distribution nor width. With a width of 1.0, 1NN in all features of Clusdat was near
chance (0.55) and no cluster was visible, while the paper shows some structure; the width was lowered for this
reason.
"""

_TUBE = 0.2
_GRID, _CLUSTER_SPREAD = 4, 0.12
_SUN_STEP, _SUN_CORE, _RAYS, _RAY_END = 3.5, 1.0, 8, 1.7


@dataclass(frozen=True, eq=False)
class ToySet:
    """Rows X (n, p), the class of each row, and the feature names."""

    X: NDArray[np.float64]
    classes: list[str]
    feature_names: list[str]


def draw_torus() -> ToySet:
    """Two linked rings with thick tubes in 3-D, 500 rows each, and 7 garbage features.

    Sizes, classes and numbers of features follow Table 1 of SLE-ML. Chosen here: the rings are linked, have
    radius 1 and tube 0.2, and the garbage (see `GARBAGE_WIDTH`).
    """
    rng = np.random.default_rng(1)
    around, within = rng.uniform(0, 2 * np.pi, (2, 2, TORUS_ROWS))
    radius = 1 + _TUBE * np.cos(within)
    height = _TUBE * np.sin(within)
    flat = np.column_stack([radius[0] * np.cos(around[0]), radius[0] * np.sin(around[0]), height[0]])
    # The second ring is upright and passes through the hole of the first.
    upright = np.column_stack([1 + radius[1] * np.cos(around[1]), height[1], radius[1] * np.sin(around[1])])
    rings = np.vstack([flat, upright])
    return _with_garbage(rings, TORUS_GARBAGE, ["first ring", "second ring"], TORUS_ROWS, rng)


def draw_clusdat() -> ToySet:
    """Sixteen round clusters of 100 rows on a grid, the classes alternating, and 8 garbage features.

    Sizes, classes and numbers of features follow Table 1 of SLE-ML. Chosen here: the checkered grid (step 1,
    standard deviation 0.12 in a cluster) and the garbage (see `GARBAGE_WIDTH`).
    """
    rng = np.random.default_rng(2)
    cells = [(row, column) for row in range(_GRID) for column in range(_GRID)]
    cells.sort(key=lambda cell: sum(cell) % 2)
    size = 2 * CLUSDAT_ROWS // len(cells)
    centers = np.repeat(np.array(cells, dtype=np.float64), size, axis=0)
    plane = centers + _CLUSTER_SPREAD * rng.normal(size=centers.shape)
    return _with_garbage(plane, CLUSDAT_GARBAGE, ["even cells", "odd cells"], CLUSDAT_ROWS, rng)


def draw_three_suns() -> ToySet:
    """Three disks side by side whose rays nearly touch: the toy problem of LPSSVM.

    From the paper: three classes, the middle one (cyan) close to both others at the border, 10 % of each
    class being 17 rows. Chosen here: shape and sizes (60, 50, 60 rows; half in a disk of radius 1, half on
    eight rays that end at 1.7, centers 3.5 apart).
    """
    rng = np.random.default_rng(3)
    suns = [
        _draw_sun(count, rng) + np.array([_SUN_STEP * number, 0.0])
        for number, count in enumerate(SUN_ROWS.values())
    ]
    classes = [name for name, count in SUN_ROWS.items() for _ in range(count)]
    return ToySet(np.vstack(suns), classes, ["x", "y"])


def _draw_sun(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    in_core = count // 2
    radius = _SUN_CORE * np.sqrt(rng.random(in_core))
    angle = rng.uniform(0, 2 * np.pi, in_core)
    ray = np.arange(count - in_core) % _RAYS * (2 * np.pi / _RAYS)
    along = rng.uniform(_SUN_CORE, _RAY_END, count - in_core)
    radius, angle = np.concatenate([radius, along]), np.concatenate([angle, ray])
    points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    points[in_core:] += rng.normal(0, 0.04, (count - in_core, 2))
    return points


def _with_garbage(
    shape: NDArray[np.float64], count: int, names: list[str], rows: int, rng: np.random.Generator
) -> ToySet:
    """Append normally distributed features without information."""
    garbage = rng.normal(0, GARBAGE_WIDTH * shape.std(axis=0).mean(), (len(shape), count))
    feature_names = [f"shape {i + 1}" for i in range(shape.shape[1])]
    feature_names += [f"garbage {i + 1}" for i in range(count)]
    return ToySet(np.hstack([shape, garbage]), [name for name in names for _ in range(rows)], feature_names)


TOY_SETS: dict[str, Callable[[], ToySet]] = {
    "torus": draw_torus,
    "clusdat": draw_clusdat,
    "three_suns": draw_three_suns,
}
