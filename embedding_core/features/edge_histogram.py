"""Edge direction histogram: how much of an image is edge, and in which directions."""

from dataclasses import dataclass, field
from math import pi
from typing import ClassVar

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.base import ImageExtractor
from embedding_core.features.pixels import check_between, check_grid

# The two Sobel filters respond with 8 to a slope of one gray level per pixel.
_SOBEL_GAIN = 8


@dataclass(frozen=True)
class EdgeHistogram(ImageExtractor):
    """Fractions of the pixels whose gray value changes in each direction, and of those without an edge.

    Parameters
    ----------
    directions : int, default 72
        Bins of equal width for the full turn, a multiple of 8. Bin k is centered at k · 360 / directions
        degrees, from the x axis towards the y axis (downwards): bin 0 is a change from dark to bright towards
        the right, so horizontal and vertical edges are not split between two bins.
    threshold : float, default 12.5
        Slope, in gray levels per pixel, from which a pixel belongs to an edge.
    grid : (int, int), default (1, 1)
        Block rows and block columns with a histogram each; blocks as in `ColorMoments`.

    Notes
    -----
    The last bin of a histogram counts pixels without an edge; a histogram sums to 1. The default yields
    72 + 1 = 73 features. The gradient is that of the Sobel filters [1]_ on gray values; the image is extended
    by its edge. Edges are not thinned or linked as by Canny's detector: every pixel above the threshold
    counts. The threshold corresponds to a Sobel length of 100.

    References
    ----------
    .. [1] A. K. Jain, A. Vailaya, "Image Retrieval Using Color and Shape", Pattern Recognition 29, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> ramp = np.repeat(np.arange(0, 200, 20, dtype=np.uint8)[np.newaxis, :, np.newaxis], 3, axis=2)
    >>> EdgeHistogram(directions=8).extract(ramp)
    array([0.8, 0. , 0. , 0. , 0. , 0. , 0. , 0. , 0.2], dtype=float32)
    """

    name: ClassVar[str] = "edge_histogram"

    directions: int = field(
        default=72, metadata={"description": "bins for directions, a multiple of 8 from 8 to 360"}
    )
    threshold: float = field(
        default=12.5, metadata={"description": "slope of an edge in gray levels per pixel, from 0.125 to 255"}
    )
    grid: tuple[int, int] = field(
        default=(1, 1), metadata={"description": "block rows and block columns, each from 1 to 256"}
    )

    def __post_init__(self) -> None:
        check_between("directions", self.directions, 8, 360)
        if self.directions % 8:
            raise InvalidInput(f"directions={self.directions} is not a multiple of 8; give 72, for instance.")
        check_between("threshold", self.threshold, 1 / _SOBEL_GAIN, 255.0)
        object.__setattr__(self, "grid", check_grid(self.grid))

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.grid[0] * self.grid[1] * (self.directions + 1)

    def feature_names(self) -> list[str]:
        """Names such as `block0_0_5degrees` and `block0_0_no_edge`."""
        bins = [f"{360 * k / self.directions:g}degrees" for k in range(self.directions)]
        return [
            f"block{row}_{column}_{one}"
            for row in range(self.grid[0])
            for column in range(self.grid[1])
            for one in (*bins, "no_edge")
        ]

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""
        from embedding_core.features.gray import gray_pixels

        return self.describe(gray_pixels(rgb))

    def describe(self, gray: np.ndarray) -> np.ndarray:
        """Return the float32 row of gray values, uint8 (height, width)."""
        from embedding_core.features.edge_kernels import count_directions

        between = (np.arange(self.directions // 8) + 0.5) * 2 * pi / self.directions
        counts = np.empty((*self.grid, self.directions + 1))
        least = (_SOBEL_GAIN * self.threshold) ** 2
        count_directions(gray, least, np.tan(between).astype(np.float32), counts)
        return counts.astype(np.float32).reshape(-1)

    def warm_up(self, n_items: int) -> None:
        """Load the compiled kernels before several threads need them."""
        if n_items:
            import embedding_core.features.edge_kernels
            import embedding_core.features.gray  # noqa: F401
