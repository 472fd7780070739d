"""Compiled kernels of `dense_sift`.

The orientations of a pixel lie side by side: sums over pixels then run over neighboring numbers, which the
compiler vectorizes.
"""

import math

import numba
import numpy as np

from embedding_core.compiled import compile_kernel

N_ORIENTATIONS = 8

_IMAGE = numba.types.Array(numba.types.float32, 2, "C", readonly=True)
_SMOOTHED = numba.types.Array(numba.types.float32, 2, "C")
_PLANES_READ = numba.types.Array(numba.types.float32, 3, "C", readonly=True)
_PLANES = numba.types.Array(numba.types.float32, 3, "C")
_STARTS = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
_CELLS = numba.types.Array(numba.types.int64, 2, "C", readonly=True)
_TAPS = numba.types.Array(numba.types.float32, 1, "C", readonly=True)

# arctan(z) / z as a polynomial in z², for z from 0 to 1; its error is below 1e-7.
_ARCTAN = tuple(
    np.float32(value)
    for value in np.polynomial.Chebyshev.interpolate(
        lambda t: np.arctan(np.sqrt(np.maximum(t, 1e-30))) / np.sqrt(np.maximum(t, 1e-30)), 8, domain=[0, 1]
    )
    .convert(kind=np.polynomial.Polynomial, domain=[-1, 1])
    .coef
)
_EIGHTH = np.float32(4 / math.pi)


@compile_kernel(_IMAGE, _TAPS, _SMOOTHED)
def smooth_image(image: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Filter rows and columns with the same symmetric taps; the image is extended by its edge."""
    height, width = image.shape
    reach = len(taps) // 2
    line = np.empty(width + 2 * reach, np.float32)
    for row in range(height):
        middle = line[reach : reach + width]
        middle[:] = 0
        for tap in range(len(taps)):
            source, weight = image[min(max(row + tap - reach, 0), height - 1)], taps[tap]
            for column in range(width):
                middle[column] += weight * source[column]
        line[:reach], line[reach + width :] = middle[0], middle[width - 1]
        target = out[row]
        target[:] = 0
        for tap in range(len(taps)):
            shifted, weight = line[tap : tap + width], taps[tap]
            for column in range(width):
                target[column] += weight * shifted[column]


@numba.njit(nogil=True, error_model="numpy")
def _polar_row(
    above: np.ndarray,
    here: np.ndarray,
    below: np.ndarray,
    lengths: np.ndarray,
    places: np.ndarray,
) -> None:
    """Length of each gradient, and its direction in eighths of a turn, from 0 to 8; `here` has both ends."""
    for column in range(len(lengths)):
        across, down = here[column + 2] - here[column], below[column] - above[column]
        low, high = min(abs(across), abs(down)), max(abs(across), abs(down))
        z = low / max(high, np.float32(1e-30))
        t = z * z
        total = _ARCTAN[4] + t * (_ARCTAN[5] + t * (_ARCTAN[6] + t * (_ARCTAN[7] + t * _ARCTAN[8])))
        total = _ARCTAN[0] + t * (_ARCTAN[1] + t * (_ARCTAN[2] + t * (_ARCTAN[3] + t * total)))
        place = z * total * _EIGHTH
        place = np.float32(2) - place if abs(down) > abs(across) else place
        place = np.float32(4) - place if across < 0 else place
        places[column] = np.float32(8) - place if down < 0 else place
        lengths[column] = np.sqrt(across * across + down * down)


@numba.njit(nogil=True)
def _share_row(lengths: np.ndarray, places: np.ndarray, target: np.ndarray) -> None:
    """Write the 8 shares of each pixel of a row side by side."""
    target[:] = 0
    for column in range(len(lengths)):
        lower = np.int64(places[column])
        upper_share = places[column] - np.float32(lower)
        target[N_ORIENTATIONS * column + lower % N_ORIENTATIONS] = lengths[column] * (
            np.float32(1) - upper_share
        )
        target[N_ORIENTATIONS * column + (lower + 1) % N_ORIENTATIONS] = lengths[column] * upper_share


@compile_kernel(_IMAGE, _PLANES)
def orientation_planes(image: np.ndarray, planes: np.ndarray) -> None:
    """Length of the gradient of each pixel, shared between the two nearest orientations.

    Parameters
    ----------
    image : float32 array (height, width), C order
        Extended by its edge for the central differences.
    planes : float32 array (height, width, 8), C order
    """
    height, width, _ = planes.shape
    lengths, places = np.empty(width, np.float32), np.empty(width, np.float32)
    here = np.empty(width + 2, np.float32)
    for row in range(height):
        here[1 : width + 1] = image[row]
        here[0], here[width + 1] = image[row, 0], image[row, width - 1]
        _polar_row(image[max(row - 1, 0)], here, image[min(row + 1, height - 1)], lengths, places)
        _share_row(lengths, places, planes[row].reshape(-1))


@compile_kernel(_PLANES_READ, _STARTS, _TAPS, _PLANES)
def filter_rows(planes: np.ndarray, starts: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Weighted sums of some rows; rows outside the image count as 0.

    Parameters
    ----------
    planes : float32 array (height, width, 8)
    starts : int64 array (n,)
        First row of each sum.
    taps : float32 array
    out : float32 array (n, width, 8)
    """
    height = planes.shape[0]
    for index in range(len(starts)):
        target = out[index].reshape(-1)
        target[:] = 0
        for tap in range(max(0, -starts[index]), min(len(taps), height - starts[index])):
            source, weight = planes[starts[index] + tap].reshape(-1), taps[tap]
            for column in range(len(target)):
                target[column] += weight * source[column]


@compile_kernel(_PLANES_READ, _STARTS, _TAPS, _PLANES)
def filter_columns(planes: np.ndarray, starts: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Weighted sums of some columns, as `filter_rows`; `out` is (rows, n, 8)."""
    width = planes.shape[1]
    out[:] = 0
    for row in range(planes.shape[0]):
        source, target = planes[row].reshape(-1), out[row].reshape(-1)
        for index in range(len(starts)):
            for tap in range(max(0, -starts[index]), min(len(taps), width - starts[index])):
                first, weight = N_ORIENTATIONS * (starts[index] + tap), taps[tap]
                for orientation in range(N_ORIENTATIONS):
                    target[N_ORIENTATIONS * index + orientation] += weight * source[first + orientation]


@numba.njit(nogil=True, fastmath={"reassoc", "nsz"})
def _to_unit_length(values: np.ndarray) -> None:
    squares = np.float32(0)
    for index in range(len(values)):
        squares += values[index] * values[index]
    if squares > 0:
        scale = np.float32(1) / np.sqrt(squares)
        for index in range(len(values)):
            values[index] *= scale


@compile_kernel(_PLANES_READ, _CELLS, _CELLS, _IMAGE, numba.types.float32, _SMOOTHED)
def join_cells(
    sums: np.ndarray, rows: np.ndarray, columns: np.ndarray, window: np.ndarray, clip: float, out: np.ndarray
) -> None:
    """Weight and normalize the cells of every patch.

    Parameters
    ----------
    sums : float32 array (distinct rows, distinct columns, 8)
    rows, columns : int64 arrays (patches in one direction, cells per side)
        The rows and columns of `sums` that the cells of a patch have.
    window : float32 array (cells per side, cells per side)
    clip : float32
    out : float32 array (patches, 8 cells)
        Rows of unit length, or of 0 where there is no gradient.
    """
    side = window.shape[0]
    patch = 0
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            values = out[patch]
            for row in range(side):
                for column in range(side):
                    source, weight = sums[rows[i, row], columns[j, column]], window[row, column]
                    first = (row * side + column) * N_ORIENTATIONS
                    for orientation in range(N_ORIENTATIONS):
                        values[first + orientation] = weight * source[orientation]
            _to_unit_length(values)
            for index in range(len(values)):
                values[index] = min(values[index], clip)
            _to_unit_length(values)
            patch += 1
