"""Compiled kernels of `dense_sift`."""

import math

import numba
import numpy as np

from embedding_core.compiled import compile_kernel

_IMAGE = numba.types.Array(numba.types.float32, 2, "C", readonly=True)
_PLANES_READ = numba.types.Array(numba.types.float32, 3, "C", readonly=True)
_PLANES = numba.types.Array(numba.types.float32, 3, "C")
_STARTS = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
_TAPS = numba.types.Array(numba.types.float32, 1, "C", readonly=True)
_ROWS = numba.types.Array(numba.types.float32, 2, "C")


@compile_kernel(_IMAGE, _PLANES)
def orientation_planes(image: np.ndarray, planes: np.ndarray) -> None:
    """Length of the gradient of each pixel, shared between the planes of the two nearest orientations.

    Parameters
    ----------
    image : float32 array (height, width), C order
        Extended by its edge for the central differences.
    planes : float32 array (orientations, height, width), C order
    """
    n, height, width = planes.shape
    planes[:] = 0
    for row in range(height):
        above, below = image[max(row - 1, 0)], image[min(row + 1, height - 1)]
        for column in range(width):
            across = image[row, min(column + 1, width - 1)] - image[row, max(column - 1, 0)]
            down = below[column] - above[column]
            length = np.sqrt(across * across + down * down)
            if length > 0:
                place = np.float32(math.atan2(down, across) * (n / (2 * math.pi)))
                lower = np.float32(math.floor(place))
                upper_share = place - lower
                first = np.int64(lower) % n
                planes[first, row, column] += length * (np.float32(1) - upper_share)
                planes[(first + 1) % n, row, column] += length * upper_share


@compile_kernel(_PLANES_READ, _STARTS, _TAPS, _PLANES)
def filter_rows(planes: np.ndarray, starts: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Weighted sums of some rows; rows outside the image count as 0.

    Parameters
    ----------
    planes : float32 array (orientations, height, width)
    starts : int64 array (n,)
        First row of each sum.
    taps : float32 array
    out : float32 array (orientations, n, width)
    """
    height = planes.shape[1]
    out[:] = 0
    for plane in range(planes.shape[0]):
        for index in range(len(starts)):
            target = out[plane, index]
            for tap in range(max(0, -starts[index]), min(len(taps), height - starts[index])):
                source, weight = planes[plane, starts[index] + tap], taps[tap]
                for column in range(len(target)):
                    target[column] += weight * source[column]


@compile_kernel(_PLANES_READ, _STARTS, _TAPS, _PLANES)
def filter_columns(planes: np.ndarray, starts: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Weighted sums of some columns, as `filter_rows`; `out` is (rows, n, orientations)."""
    width = planes.shape[2]
    for row in range(planes.shape[1]):
        for index in range(len(starts)):
            first, last = max(0, -starts[index]), min(len(taps), width - starts[index])
            for plane in range(planes.shape[0]):
                total = np.float32(0)
                for tap in range(first, last):
                    total += taps[tap] * planes[plane, row, starts[index] + tap]
                out[row, index, plane] = total


@compile_kernel(numba.types.float32, _ROWS)
def normalize_descriptors(clip: float, values: np.ndarray) -> None:
    """Bring rows to unit length, clip them, and bring them to unit length again; rows of 0 stay."""
    for row in range(values.shape[0]):
        for turn in range(2):
            squares = 0.0
            for column in range(values.shape[1]):
                squares += values[row, column] ** 2
            if squares > 0:
                scale = np.float32(1 / math.sqrt(squares))
                for column in range(values.shape[1]):
                    value = values[row, column] * scale
                    values[row, column] = min(value, clip) if turn == 0 else value
