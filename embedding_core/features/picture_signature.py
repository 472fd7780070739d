"""Picture signature: a few low frequencies of an image, almost the same for its copies.

A copy that was re-encoded, resized or slightly cropped has other bytes and nearly the same signature. Used by
`labelscape review` to find near-duplicates; as a feature of a model it is weak.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np

from embedding_core.features.base import ImageExtractor
from embedding_core.features.pixels import check_between, check_pixels

_GRID = 32


@dataclass(frozen=True)
class PictureSignature(ImageExtractor):
    """Low frequencies of the luma and the color of a picture, and the same of its inner part.

    Parameters
    ----------
    frequencies : int, default 8
        Frequencies per side of the luma.
    inner : float, default 0.9
        Side of the inner part, in the center, as a fraction of the picture's.

    Notes
    -----
    A picture is shrunk to 32 x 32 means, transformed by the discrete cosine transform (type II), and its
    lowest `frequencies`² coefficients without the constant are scaled to length 1: brightness and contrast do
    not count, as in the perceptual hash of Zauner, which keeps only their signs. Two chroma channels follow
    with their 3 x 3 means in units of 255. The first half of the row belongs to the whole picture, the second
    to its inner part: the whole of a copy that was cropped by some percent resembles the inner part.
    """

    name: ClassVar[str] = "picture_signature"

    frequencies: int = field(
        default=8, metadata={"description": "frequencies per side of the luma, from 4 to 16"}
    )
    inner: float = field(
        default=0.9, metadata={"description": "side of the inner part as a fraction, from 0.5 to 1"}
    )

    def __post_init__(self) -> None:
        check_between("frequencies", self.frequencies, 4, 16)
        check_between("inner", self.inner, 0.5, 1.0)

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return 2 * (self.frequencies**2 - 1 + 18)

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""
        from PIL import Image

        picture = Image.fromarray(check_pixels(rgb)).convert("YCbCr")
        width, height = picture.size
        margin = (1 - self.inner) / 2
        inner = (margin * width, margin * height, (1 - margin) * width, (1 - margin) * height)
        parts = [self._describe(picture, box) for box in ((0.0, 0.0, float(width), float(height)), inner)]
        return np.concatenate(parts).astype(np.float32)

    def _describe(self, picture: object, box: tuple[float, float, float, float]) -> np.ndarray:
        from PIL import Image
        from scipy.fft import dctn

        assert isinstance(picture, Image.Image)
        small = picture.resize((_GRID, _GRID), Image.Resampling.BOX, box=box)
        pixels = np.asarray(small, dtype=np.float64)
        k = self.frequencies
        low = dctn(pixels[..., 0], norm="ortho")[:k, :k].ravel()[1:]
        length = float(np.linalg.norm(low))
        edges = np.linspace(0, _GRID, 4).astype(int)
        chroma = [
            pixels[top:bottom, left:right, 1:].mean(axis=(0, 1)) / 255
            for top, bottom in pairwise(edges)
            for left, right in pairwise(edges)
        ]
        # A picture of one color has no frequencies but rounding errors.
        scaled = low / length if length > _GRID / 2 else np.zeros_like(low)
        return np.concatenate([scaled, np.ravel(chroma)])
