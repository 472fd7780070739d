"""The visual features of the LPSSVM paper: color, texture and edges, 346 numbers per picture."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from embedding_core.features.base import ImageExtractor
from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.edge_histogram import EdgeHistogram
from embedding_core.features.gabor import Gabor

_COLOR = ColorMoments(grid=(5, 5), moments=("mean", "std", "skewness"), color_space="luv")
_TEXTURE = Gabor(scales=4, orientations=6)
_EDGES = EdgeHistogram(directions=72)
_PARTS = (_COLOR, _TEXTURE, _EDGES)


@dataclass(frozen=True)
class LpssvmVisual(ImageExtractor):
    """Grid color moments, Gabor texture and edge direction histogram, as in the LPSSVM paper [1]_.

    Notes
    -----
    The paper (section 4.4) says: "grid color moments, Gabor texture, edge direction histogram, from
    keyframes, resulting in 346-dimension visual feature vectors". It defines neither grid nor filters nor
    bins. Our reading is the one whose parts sum up to 346, and whose sizes are those of the detectors that
    the same group published [2]_:

    - 225 = 5 x 5 blocks x 3 bands of Luv x (mean, standard deviation, skewness), see `ColorMoments`;
    - 48 = 4 scales x 6 orientations x (mean, standard deviation of the magnitude), see `Gabor`;
    - 73 = 72 directions + no edge, see `EdgeHistogram`.

    Frequencies of the filters, the threshold of an edge and the form of the skewness (m3 / m2^1.5, not its
    cube root) are the defaults of these extractors. The rows are those of the three extractors one after the
    other. The picture is decoded once, and texture and edges share its gray values. The parts have different
    units: z-score them.

    References
    ----------
    .. [1] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008.
    .. [2] A. Yanagawa, S.-F. Chang, L. Kennedy, W. Hsu, "Columbia University's Baseline Detectors for 374
       LSCOM Semantic Visual Concepts", Technical Report 222-2006-8, 2007.
    """

    name: ClassVar[str] = "lpssvm_visual"

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return sum(part.n_features for part in _PARTS)

    def feature_names(self) -> list[str]:
        """Names of the parts with the name of the extractor in front."""
        return [f"{part.name}_{name}" for part in _PARTS for name in part.feature_names()]

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""
        from embedding_core.features.gray import gray_pixels

        gray = gray_pixels(rgb)
        return np.concatenate([_COLOR.extract(rgb), _TEXTURE.describe(gray), _EDGES.describe(gray)])

    def warm_up(self, n_items: int) -> None:
        """Load the compiled kernels before several threads need them."""
        for part in _PARTS:
            part.warm_up(n_items)
