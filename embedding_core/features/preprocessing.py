"""From the pixels of an image of any size to the numbers that a network expects."""

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

Fit = Literal["squash", "crop", "pad"]
Interpolation = Literal["bilinear", "bicubic"]
FITS: tuple[Fit, ...] = ("squash", "crop", "pad")

# Values of Pillow's `Image.Resampling`; Pillow loads only when an image is resized.
_FILTERS = {"bilinear": 2, "bicubic": 3}


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes an array of `height` x `width` pixels of three normalized bands.

    Attributes
    ----------
    height, width : int
    mean, std : tuple of three floats
        Of red, green and blue, on a scale from 0 to 1. A band becomes (x / 255 - mean) / std.
    fit : {"squash", "crop", "pad"}
        What happens to an image of another shape: its sides are scaled separately, its center is cut out, or
        its borders are filled with the mean.
    kept : float
        Share of the sides of the central part that "crop" keeps.
    interpolation : {"bilinear", "bicubic"}
        Both average over the pixels that are merged when an image becomes smaller.
    """

    height: int
    width: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    fit: Fit = "squash"
    kept: float = 1.0
    interpolation: Interpolation = "bilinear"

    @property
    def least_side(self) -> int:
        """Pixels that each side of an image must keep when it is decoded at a reduced size.

        The features then differ about as much as between two qualities of JPEG compression.
        """
        return ceil(max(self.height, self.width) / self.kept)

    def apply(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 array (3, height, width) of a uint8 array (height, width, 3)."""
        resized = self.resize(rgb)
        scale = 1 / (255 * np.array(self.std))
        shift = np.array(self.mean) / np.array(self.std)
        out = np.zeros((3, self.height, self.width), np.float32)
        top, left = (self.height - resized.shape[0]) // 2, (self.width - resized.shape[1]) // 2
        inside = out[:, top : top + resized.shape[0], left : left + resized.shape[1]]
        for band in range(3):
            np.multiply(resized[:, :, band], np.float32(scale[band]), out=inside[band])
            inside[band] -= np.float32(shift[band])
        return out

    def resize(self, rgb: np.ndarray) -> np.ndarray:
        """Return the pixels at the size of the network; with "pad", one side may be shorter."""
        from PIL import Image

        rows, columns, _ = rgb.shape
        height, width, box = self.height, self.width, None
        if self.fit == "pad":
            scale = min(height / rows, width / columns)
            height, width = max(1, round(scale * rows)), max(1, round(scale * columns))
        elif self.fit == "crop":
            scale = self.kept * min(rows / height, columns / width)
            # max: rounding errors must not lead outside the image
            y, x = max(0.0, (rows - scale * height) / 2), max(0.0, (columns - scale * width) / 2)
            box = (x, y, columns - x, rows - y)
        filter_ = Image.Resampling(_FILTERS[self.interpolation])
        return np.asarray(Image.fromarray(rgb).resize((width, height), filter_, box))
