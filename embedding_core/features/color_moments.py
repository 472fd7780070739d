"""Block color moments: the classical global description of a photograph's layout of colors."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.images import PixelBuffer, decode_image
from embedding_core.features.plain_sums import plain_moments

ColorSpace = Literal["rgb", "ycbcr", "hsv", "luv"]
Moment = Literal["mean", "variance", "std", "skewness"]

BANDS: dict[str, tuple[str, str, str]] = {
    "rgb": ("red", "green", "blue"),
    "ycbcr": ("y", "cb", "cr"),
    "hsv": ("hue", "saturation", "value"),
    "luv": ("l", "u", "v"),
}
_MAX_GRID = 256
# Larger images are worth the time that the compiled kernel takes to load.
_PLAIN_BYTES = 3 * 2**21
_BUFFER = PixelBuffer()


@dataclass(frozen=True)
class ColorMoments:
    """Mean and variance (or other moments) of each color band in each block of an image.

    Parameters
    ----------
    grid : (int, int), default (8, 8)
        Number of block rows and block columns.
    moments : tuple of {"mean", "variance", "std", "skewness"}, default ("mean", "variance")
        What is computed of each block and band, in this order. Variance is that of the population
        (divided by the number of pixels n), std its root; skewness is m3 / m2^1.5, and 0 where m2 = 0.
    color_space : {"rgb", "ycbcr", "hsv", "luv"}, default "rgb"
        Where moments are taken; `embedding_core.features.color_spaces` defines the last three.
    compiled : bool, default True
        False takes sums without the compiled kernel, where there are such, for a few images in a process
        that has not loaded it; the features are the same bit for bit.

    Notes
    -----
    Features are ordered by block row, then block column, then band, then moment; the default makes
    8 · 8 · 3 · 2 = 384 of them. Block i of g on a side of h pixels covers pixels floor(i·h/g) up to but
    not including floor((i+1)·h/g), and always at least its first one: on an image smaller than
    the grid neighboring blocks share pixels (all blocks of a 1 x 1 image are that pixel, with variance 0).

    RGB mean, variance and std come from integer sums and are exact up to the rounding to float32.

    Examples
    --------
    >>> import numpy as np
    >>> moments = ColorMoments(grid=(1, 2))
    >>> moments.extract(np.array([[[10, 0, 0], [20, 0, 0], [7, 7, 7], [7, 7, 7]]], dtype=np.uint8))
    array([15., 25.,  0.,  0.,  0.,  0.,  7.,  0.,  7.,  0.,  7.,  0.],
          dtype=float32)
    """

    grid: tuple[int, int] = (8, 8)
    moments: tuple[Moment, ...] = ("mean", "variance")
    color_space: ColorSpace = "rgb"
    compiled: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        # A configuration read from JSON brings lists.
        object.__setattr__(self, "grid", _checked_grid(self.grid))
        object.__setattr__(self, "moments", _checked_moments(self.moments))
        if self.color_space not in tuple(BANDS):
            raise InvalidInput(
                f"color_space={self.color_space!r} is unknown; choose one of {', '.join(BANDS)}."
            )

    @property
    def n_features(self) -> int:
        """Length of the feature vector."""
        return self.grid[0] * self.grid[1] * 3 * len(self.moments)

    def feature_names(self) -> list[str]:
        """Names in the order of the features, such as `block0_7_red_mean` (row 0, column 7)."""
        return [
            f"block{row}_{column}_{band}_{moment}"
            for row in range(self.grid[0])
            for column in range(self.grid[1])
            for band in BANDS[self.color_space]
            for moment in self.moments
        ]

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Features of one image.

        Parameters
        ----------
        rgb : uint8 array (height, width, 3)

        Returns
        -------
        float32 array (n_features,)
        """
        pixels = _checked_pixels(rgb)
        central = self._central_moments(pixels)
        if self.moments == ("mean", "variance"):  # as the kernels lay them out
            return central[..., :2].astype(np.float32).reshape(-1)
        out = np.empty((*self.grid, 3, len(self.moments)), np.float32)
        for index, moment in enumerate(self.moments):
            out[..., index] = _moment(central, moment)
        return out.reshape(-1)

    def extract_bytes(self, data: bytes) -> np.ndarray:
        """Features of one image file's bytes; raises `UnreadableImage` with the reason."""
        return self.extract(decode_image(data, buffer=_BUFFER))

    def warm_up(self) -> None:
        """Compile or load the kernel now, so that no image is charged for it."""
        self.extract(np.zeros((1, 1, 3), np.uint8))

    def _central_moments(self, pixels: np.ndarray) -> np.ndarray:
        """Mean, variance and, unless the exact kernel served, third central moment."""
        # The kernels import numba, which costs more than describing features should.
        if self.color_space == "rgb" and "skewness" not in self.moments:
            if not self.compiled and pixels.size <= _PLAIN_BYTES:
                return plain_moments(pixels, self.grid)
            from embedding_core.features.block_sums import rgb_moments

            central = np.empty((*self.grid, 3, 2))
            rgb_moments(pixels, central)
        else:
            from embedding_core.features.color_spaces import CODES, converted_moments

            central = np.empty((*self.grid, 3, 3))
            converted_moments(pixels, CODES[self.color_space], central)
        return central


def _moment(central: np.ndarray, moment: Moment) -> np.ndarray:
    if moment == "mean":
        return central[..., 0]
    variance = central[..., 1]
    if moment == "variance":
        return variance
    if moment == "std":
        return np.sqrt(variance)
    flat = variance == 0
    return np.where(flat, 0.0, central[..., 2] / np.where(flat, 1.0, variance) ** 1.5)


def _checked_grid(grid: object) -> tuple[int, int]:
    sides = tuple(grid) if isinstance(grid, tuple | list) else ()
    if len(sides) != 2 or not all(type(side) is int and 1 <= side <= _MAX_GRID for side in sides):
        raise InvalidInput(
            f"grid={grid!r} is not a pair of whole numbers from 1 to {_MAX_GRID}; "
            "give block rows and columns, for instance (8, 8)."
        )
    return sides[0], sides[1]


def _checked_moments(moments: object) -> tuple[Moment, ...]:
    names = tuple(moments) if isinstance(moments, tuple | list) else ()
    known = get_args(Moment)
    if not names or any(name not in known or names.count(name) > 1 for name in names):
        raise InvalidInput(f"moments={moments!r}: give one or more of {', '.join(known)}, each once.")
    return names


def _checked_pixels(rgb: np.ndarray) -> np.ndarray:
    if not isinstance(rgb, np.ndarray) or rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        found = f"{rgb.dtype} {rgb.shape}" if isinstance(rgb, np.ndarray) else type(rgb).__name__
        raise InvalidInput(f"found {found}; expected a uint8 array (height, width, 3) of RGB pixels.")
    if rgb.size == 0:
        raise InvalidInput(f"the image has no pixels (shape {rgb.shape}); leave it out.")
    return np.ascontiguousarray(rgb)
