"""Dense SIFT: gradient histograms of square patches on a regular grid, in the flat-window form."""

from dataclasses import dataclass
from math import exp

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.pixels import check_between

N_CELLS = 4
"""Cells per side of a patch."""
N_ORIENTATIONS = 8
N_VALUES = N_CELLS**2 * N_ORIENTATIONS
CLIP = 0.2
# Standard deviation, in cells, of the Gaussian that weights the cells of a patch.
_WINDOW = N_CELLS / 2


@dataclass(frozen=True)
class Descriptors:
    """The patches of an image.

    Attributes
    ----------
    values : float32 array (n, 128)
        Ordered by cell row, cell column and orientation.
    centers : float64 array (n, 2)
        Row and column of the middle of each patch as fractions of the image's height and width.
    """

    values: np.ndarray
    centers: np.ndarray


@dataclass(frozen=True)
class DenseSift:
    """SIFT descriptors of all patches of a grid [1]_, of one size and not rotated.

    Parameters
    ----------
    patch : int, default 16
        Side of a patch in pixels, a multiple of 4.
    step : int, default 8
        Distance between neighboring patches in pixels.
    smoothing : float, default 0.8
        Standard deviation of the Gaussian that smooths the gray values first, in pixels; 0 for none.

    Notes
    -----
    A patch has 4 x 4 cells with a histogram of 8 gradient orientations each; a gradient (central differences)
    is shared linearly between the two nearest orientations and, in each direction, between the two nearest
    cells. The 128 values are brought to unit length, clipped at 0.2 and brought to unit length again; those
    of a patch without any gradient are 0. Orientation k is centered at 45° k, from the x axis towards the y
    axis (downwards).

    Flat window: SIFT weights each pixel by a Gaussian around the middle of its patch, so every patch needs
    its own sums. Here each cell is weighted by that Gaussian at the middle of the cell. The sums of a cell
    are then the same for all patches: triangular filters (boxes convolved with themselves) of 8 planes, one
    per orientation, computed only where a patch needs them. On photographs of MSRC v2 the descriptors have an
    average correlation of .97 to .98 with those of OpenCV's SIFT, which has the Gaussian window, at equal
    smoothing (1.52 pixels; .86 to .96 with the default).

    The patches lie inside the image, centered as in [2]_: the pixels that the grid leaves over are divided
    between both sides. A smaller image is extended by its edge to one patch.

    References
    ----------
    .. [1] D. G. Lowe, "Distinctive Image Features from Scale-Invariant Keypoints", IJCV 60, 2004, section 6;
       flat windows: A. Vedaldi, B. Fulkerson, "VLFeat", 2008.
    .. [2] S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features: Spatial Pyramid Matching for
       Recognizing Natural Scene Categories", CVPR 2006: 16 x 16 patches, a grid of 8 pixels.
    """

    patch: int = 16
    step: int = 8
    smoothing: float = 0.8

    def __post_init__(self) -> None:
        check_between("patch", self.patch, 8, 256)
        if self.patch % N_CELLS:
            raise InvalidInput(f"patch={self.patch} is not a multiple of {N_CELLS}; give 16, for instance.")
        check_between("step", self.step, 1, 256)
        check_between("smoothing", self.smoothing, 0.0, 16.0)

    def describe(self, gray: np.ndarray) -> Descriptors:
        """Return the descriptors of gray values, uint8 or float32 (height, width), row by row."""
        from embedding_core.features.sift_kernels import normalize_descriptors, orientation_planes

        rest = [(0, max(0, self.patch - side)) for side in gray.shape]
        image = np.pad(gray, rest, mode="edge").astype(np.float32)
        if self.smoothing:
            image = _smooth(image, self.smoothing)
        planes = np.empty((N_ORIENTATIONS, *image.shape), np.float32)
        orientation_planes(image, planes)
        tops, lefts = (grid_starts(side, self.patch, self.step) for side in image.shape)
        values = self._cells(planes, tops, lefts)
        normalize_descriptors(CLIP, values)
        grid = zip((tops, lefts), image.shape, strict=True)
        middles = [(starts + self.patch / 2) / side for starts, side in grid]
        centers = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, 2)
        return Descriptors(values, centers)

    def _cells(self, planes: np.ndarray, tops: np.ndarray, lefts: np.ndarray) -> np.ndarray:
        """Weighted sums of the cells of all patches, (patches, 128), before normalization."""
        from embedding_core.features.sift_kernels import filter_columns, filter_rows

        cell = self.patch // N_CELLS
        taps = _triangle(cell)
        rows, row_of = np.unique(_cell_starts(tops, cell), return_inverse=True)
        columns, column_of = np.unique(_cell_starts(lefts, cell), return_inverse=True)
        between = np.empty((N_ORIENTATIONS, len(rows), planes.shape[2]), np.float32)
        filter_rows(planes, rows, taps, between)
        sums = np.empty((len(rows), len(columns), N_ORIENTATIONS), np.float32)
        filter_columns(between, columns, taps, sums)
        row_of, column_of = row_of.reshape(-1, N_CELLS), column_of.reshape(-1, N_CELLS)
        patches = sums[row_of[:, np.newaxis, :, np.newaxis], column_of[np.newaxis, :, np.newaxis, :]]
        patches *= window_weights()[:, :, np.newaxis]
        return np.ascontiguousarray(patches.reshape(-1, N_VALUES))


def grid_starts(side: int, patch: int, step: int) -> np.ndarray:
    """First pixel of each patch along a side."""
    return np.arange((side - patch) % step // 2, side - patch + 1, step)


def window_weights() -> np.ndarray:
    """The Gaussian window at the middles of the cells, float32 (4, 4)."""
    offsets = np.arange(N_CELLS) - (N_CELLS - 1) / 2
    one = np.array([exp(-0.5 * (offset / _WINDOW) ** 2) for offset in offsets], np.float32)
    return one[:, np.newaxis] * one


def _cell_starts(starts: np.ndarray, cell: int) -> np.ndarray:
    """First pixel under the triangle of each cell of each patch, (patches, 4); may lie outside the image."""
    return starts[:, np.newaxis] + np.arange(N_CELLS) * cell - cell // 2


def _triangle(cell: int) -> np.ndarray:
    """Weights of the pixels around the middle of a cell, from 1 in the middle to 0 at the next middles."""
    distances = np.arange(-2 * cell, 2 * cell + 1) + (0.5 if cell % 2 == 0 else 0.0)
    weights: np.ndarray = 1 - np.abs(distances) / cell
    return weights[weights > 0].astype(np.float32)


def _smooth(image: np.ndarray, deviation: float) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    smoothed: np.ndarray = gaussian_filter(image, deviation, mode="nearest", truncate=4.0)
    return smoothed
