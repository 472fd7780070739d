"""Checks of pixel arrays and of the parameters that extractors share. Loads without compiled code."""

import numpy as np

from embedding_core.errors import InvalidInput

_MAX_GRID = 256


def check_pixels(rgb: np.ndarray) -> np.ndarray:
    """Return RGB pixels (height, width, 3) in C order; raise InvalidInput for anything else."""
    if not isinstance(rgb, np.ndarray) or rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        found = f"{rgb.dtype} {rgb.shape}" if isinstance(rgb, np.ndarray) else type(rgb).__name__
        raise InvalidInput(f"found {found}; expected a uint8 array (height, width, 3) of RGB pixels.")
    if rgb.size == 0:
        raise InvalidInput(f"the image has no pixels (shape {rgb.shape}); leave it out.")
    return np.ascontiguousarray(rgb)


def check_grid(grid: object) -> tuple[int, int]:
    """Return the block rows and columns of a grid."""
    sides = tuple(grid) if isinstance(grid, tuple | list) else ()
    if len(sides) != 2 or not all(type(side) is int and 1 <= side <= _MAX_GRID for side in sides):
        raise InvalidInput(
            f"grid={grid!r} is not a pair of integers from 1 to {_MAX_GRID}; "
            "give block rows and columns, for instance (8, 8)."
        )
    return sides[0], sides[1]


def check_between(name: str, value: object, least: float, most: float) -> None:
    """Raise InvalidInput unless a number lies between two bounds; whole bounds ask for a whole number."""
    whole = isinstance(least, int) and isinstance(most, int)
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"{name}={value!r}: give {kind} from {least} to {most}.")
