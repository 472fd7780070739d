"""Block color moments: a global description of the color layout of a photograph."""

import sys
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.base import ImageExtractor
from embedding_core.features.pixels import check_grid, check_pixels

ColorSpace = Literal["rgb", "ycbcr", "hsv", "luv", "auto"]
Moment = Literal["mean", "variance", "std", "skewness"]

BANDS: dict[str, tuple[str, str, str]] = {
    "rgb": ("red", "green", "blue"),
    "ycbcr": ("y", "cb", "cr"),
    "hsv": ("hue", "saturation", "value"),
    "luv": ("l", "u", "v"),
}
# Loading the compiled kernels takes longer than extracting this many images without them.
_FEW_IMAGES = 8
# For larger images loading the compiled kernels pays off at once.
_PLAIN_BYTES = 3 * 2**21
# The limit of `moment_kernels`: beyond it the numerator of the variance is not exact.
_MAX_EXACT_PIXELS = 2**24
_KERNELS = "embedding_core.features.moment_kernels"


def _bounds(side: int, n_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.arange(n_blocks) * side // n_blocks
    last = np.maximum(np.arange(1, n_blocks + 1) * side // n_blocks, first + 1)
    return first, last


def plain_moments(rgb: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Mean and population variance of each block and band, bit for bit as the kernel `rgb_moments`.

    Parameters
    ----------
    rgb : uint8 array (height, width, 3)
    grid : (int, int)
        Block rows and block columns.

    Returns
    -------
    float64 array (block rows, block columns, 3, 2)

    Notes
    -----
    The sums of bytes and of their squares are integers below 2**53, so float64 arithmetic adds them exactly
    in any order.
    """
    height, width, _ = rgb.shape
    tops, bottoms = _bounds(height, grid[0])
    lefts, rights = _bounds(width, grid[1])
    n = np.outer(bottoms - tops, rights - lefts)[:, :, np.newaxis]
    if n.max() > _MAX_EXACT_PIXELS:
        raise InvalidInput(f"a block of {n.max()} pixels is too large for exact sums in NumPy.")
    total = np.empty((*grid, 3), np.int64)
    squares = np.empty((*grid, 3), np.int64)
    for row, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
        values = rgb[top:bottom].reshape(bottom - top, -1).astype(np.float64)
        columns = np.ones(bottom - top) @ values
        column_squares = np.einsum("ij,ij->j", values, values)
        for block, (left, right) in enumerate(zip(lefts, rights, strict=True)):
            total[row, block] = columns[3 * left : 3 * right].reshape(-1, 3).sum(axis=0)
            squares[row, block] = column_squares[3 * left : 3 * right].reshape(-1, 3).sum(axis=0)
    whole = total // n
    rest = total - whole * n
    centered = squares - 2 * whole * total + n * whole * whole
    variance = (n * centered - rest * rest).astype(np.float64) / (n.astype(np.float64) * n)
    return np.stack([total / n, variance], axis=-1)


def _moment(central: np.ndarray, moment: Moment) -> np.ndarray:
    if moment == "mean":
        return central[..., 0]
    variance = central[..., 1]
    if moment == "variance":
        return variance
    if moment == "std":
        deviation: np.ndarray = np.sqrt(variance)
        return deviation
    flat = variance == 0
    return np.where(flat, 0.0, central[..., 2] / np.where(flat, 1.0, variance) ** 1.5)


def _checked_moments(moments: object) -> tuple[Moment, ...]:
    names = tuple(moments) if isinstance(moments, tuple | list) else ()
    known = get_args(Moment)
    if not names or any(name not in known or names.count(name) > 1 for name in names):
        raise InvalidInput(f"moments={moments!r}: give one or more of {', '.join(known)}, each once.")
    return names


@dataclass(frozen=True)
class ColorMoments(ImageExtractor):
    """Mean and variance (or other moments) of each color band in each block of an image.

    Parameters
    ----------
    grid : (int, int), default (8, 8)
        Number of block rows and block columns.
    moments : tuple of {"mean", "variance", "std", "skewness"}, default ("mean", "variance")
        Moments of each block and band, in this order. Variance is the population variance (divided by the
        number of pixels n), std its square root. Skewness is m3 / m2^1.5, and 0 where m2 = 0.
    color_space : {"rgb", "ycbcr", "hsv", "luv", "auto"}, default "rgb"
        Color space of the bands; `embedding_core.features.moment_kernels` defines "ycbcr" and "hsv",
        `luv_kernels` "luv". "auto" extracts the features of each space, one after the other. Methods then
        keep the space that suits the labels of their training rows, see `embedding_core.alternatives`.

    Notes
    -----
    Features are ordered by block row, block column, band and moment; the default yields 8 · 8 · 3 · 2 = 384.
    Block i of g on a side of h pixels covers the pixels from floor(i·h/g) up to but not including
    floor((i+1)·h/g), and at least one pixel. On an image smaller than the grid, neighboring blocks share
    pixels; all blocks of a 1 x 1 image are that pixel, with variance 0.

    RGB mean, variance and std come from integer sums and are exact up to the rounding to float32. A compiled
    kernel computes them; a few small images use NumPy, because loading the kernel takes longer. Both give the
    same bits.

    Examples
    --------
    >>> import numpy as np
    >>> moments = ColorMoments(grid=(1, 2))
    >>> moments.extract(np.array([[[10, 0, 0], [20, 0, 0], [7, 7, 7], [7, 7, 7]]], dtype=np.uint8))
    array([15., 25.,  0.,  0.,  0.,  0.,  7.,  0.,  7.,  0.,  7.,  0.],
          dtype=float32)
    """

    name: ClassVar[str] = "color_moments"

    grid: tuple[int, int] = field(
        default=(8, 8), metadata={"description": "block rows and block columns, each from 1 to 256"}
    )
    moments: tuple[Moment, ...] = field(
        default=("mean", "variance"),
        metadata={"description": "moments of each block and band, in this order"},
    )
    color_space: ColorSpace = field(
        default="rgb",
        metadata={"description": "color space of the bands; auto: chosen in each fit by its training labels"},
    )

    def __post_init__(self) -> None:
        # A configuration read from JSON contains lists.
        object.__setattr__(self, "grid", check_grid(self.grid))
        object.__setattr__(self, "moments", _checked_moments(self.moments))
        known = get_args(ColorSpace)
        if self.color_space not in known:
            raise InvalidInput(
                f"color_space={self.color_space!r} is unknown; choose one of {', '.join(known)}."
            )

    @property
    def spaces(self) -> tuple[ColorSpace, ...]:
        """The color spaces whose features are extracted."""
        return ("rgb", "ycbcr", "hsv", "luv") if self.color_space == "auto" else (self.color_space,)

    @property
    def alternatives(self) -> int:
        """Number of color spaces that a method chooses from."""
        return len(self.spaces)

    @property
    def alternative_names(self) -> tuple[str, ...]:
        """The color spaces that a method chooses from."""
        return self.spaces if len(self.spaces) > 1 else ()

    @property
    def n_features(self) -> int:
        """Length of the feature vector."""
        return self.grid[0] * self.grid[1] * 3 * len(self.moments) * self.alternatives

    def feature_names(self) -> list[str]:
        """Names in the order of the features, such as `block0_7_red_mean` (row 0, column 7)."""
        return [
            f"block{row}_{column}_{band}_{moment}"
            for space in self.spaces
            for row in range(self.grid[0])
            for column in range(self.grid[1])
            for band in BANDS[space]
            for moment in self.moments
        ]

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Extract the features of one image.

        Parameters
        ----------
        rgb : uint8 array (height, width, 3)

        Returns
        -------
        float32 array (n_features,)
        """
        pixels = check_pixels(rgb)
        return np.concatenate([self._extract_space(pixels, space) for space in self.spaces])

    def _extract_space(self, pixels: np.ndarray, space: ColorSpace) -> np.ndarray:
        central = self._central_moments(pixels, space)
        if self.moments == ("mean", "variance"):  # the layout of the kernels
            return central[..., :2].astype(np.float32).reshape(-1)
        out = np.empty((*self.grid, 3, len(self.moments)), np.float32)
        for index, moment in enumerate(self.moments):
            out[..., index] = _moment(central, moment)
        return out.reshape(-1)

    def warm_up(self, n_items: int) -> None:
        """Load the compiled kernels if there are more than a few images."""
        if n_items > _FEW_IMAGES:
            import embedding_core.features.moment_kernels
        if n_items and "luv" in self.spaces:
            import embedding_core.features.luv_kernels  # noqa: F401

    def _central_moments(self, pixels: np.ndarray, space: ColorSpace) -> np.ndarray:
        """Mean and variance, and the third central moment where a conversion or skewness needs it."""
        if space == "rgb" and "skewness" not in self.moments:
            if _KERNELS not in sys.modules and pixels.size <= _PLAIN_BYTES:
                return plain_moments(pixels, self.grid)
            from embedding_core.features.moment_kernels import rgb_moments

            central = np.empty((*self.grid, 3, 2))
            rgb_moments(pixels, central)
        elif space == "luv":
            from embedding_core.features.luv_kernels import luv_moments

            central = np.empty((*self.grid, 3, 3))
            luv_moments(pixels, central)
        else:
            from embedding_core.features.moment_kernels import CODES, converted_moments

            central = np.empty((*self.grid, 3, 3))
            converted_moments(pixels, CODES[space], central)
        return central
