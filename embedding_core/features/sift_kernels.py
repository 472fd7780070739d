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


@numba.njit(nogil=True)
def _scale_row(source: np.ndarray, weight: np.float32, target: np.ndarray) -> None:
    for column in range(len(target)):
        target[column] = weight * source[column]


@numba.njit(nogil=True, fastmath={"contract"})
def _add_pair(first: np.ndarray, second: np.ndarray, weight: np.float32, target: np.ndarray) -> None:
    """Add two rows that have the same weight in a symmetric filter."""
    for column in range(len(target)):
        target[column] += weight * (first[column] + second[column])


@compile_kernel(_IMAGE, _TAPS, _SMOOTHED)
def smooth_image(image: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Filter rows and columns with the same symmetric taps; the image is extended by its edge."""
    height, width = image.shape
    reach = len(taps) // 2
    line = np.empty(width + 2 * reach, np.float32)
    for row in range(height):
        middle = line[reach : reach + width]
        _scale_row(image[row], taps[reach], middle)
        for tap in range(1, reach + 1):
            above, below = image[max(row - tap, 0)], image[min(row + tap, height - 1)]
            _add_pair(above, below, taps[reach + tap], middle)
        line[:reach], line[reach + width :] = middle[0], middle[width - 1]
        target = out[row]
        _scale_row(middle, taps[reach], target)
        for tap in range(1, reach + 1):
            before, after = line[reach - tap : reach - tap + width], line[reach + tap : reach + tap + width]
            _add_pair(before, after, taps[reach + tap], target)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
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


@numba.njit(nogil=True, fastmath={"contract"})
def _add_row(source: np.ndarray, weight: np.float32, target: np.ndarray) -> None:
    for column in range(len(target)):
        target[column] += weight * source[column]


@compile_kernel(_IMAGE, _STARTS, _TAPS, _PLANES)
def filter_orientations(image: np.ndarray, starts: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Weighted sums, over some rows, of the length of each pixel's gradient by orientation.

    A length is shared between the two nearest orientations. The shares of a row are added to the sums that
    contain it while they are in the cache; those of the whole image would take 32 bytes per pixel.

    Parameters
    ----------
    image : float32 array (height, width), C order
        Extended by its edge for the central differences.
    starts : int64 array (n,)
        First row of each sum, ascending. Rows outside the image count as 0.
    taps : float32 array
    out : float32 array (n, width, 8), C order
    """
    height, width = image.shape
    lengths, places = np.empty(width, np.float32), np.empty(width, np.float32)
    here, shares = np.empty(width + 2, np.float32), np.empty(width * N_ORIENTATIONS, np.float32)
    out[:] = 0
    first = 0
    for row in range(height):
        here[1 : width + 1] = image[row]
        here[0], here[width + 1] = image[row, 0], image[row, width - 1]
        _polar_row(image[max(row - 1, 0)], here, image[min(row + 1, height - 1)], lengths, places)
        _share_row(lengths, places, shares)
        while first < len(starts) and starts[first] + len(taps) <= row:
            first += 1
        index = first
        while index < len(starts) and starts[index] <= row:
            _add_row(shares, taps[row - starts[index]], out[index].reshape(-1))
            index += 1


@compile_kernel(_PLANES_READ, _STARTS, _TAPS, _PLANES)
def filter_columns(planes: np.ndarray, starts: np.ndarray, taps: np.ndarray, out: np.ndarray) -> None:
    """Weighted sums of some columns of (rows, width, 8), from `starts` on; `out` is (rows, n, 8)."""
    width = planes.shape[1]
    for row in range(planes.shape[0]):
        source, target = planes[row].reshape(-1), out[row].reshape(-1)
        for index in range(len(starts)):
            first, last = max(0, -starts[index]), min(len(taps), width - starts[index])
            # Eight sums in registers; adding to `target` would wait for each store.
            a = b = c = d = e = f = g = h = np.float32(0)
            for tap in range(first, last):
                at, weight = N_ORIENTATIONS * (starts[index] + tap), taps[tap]
                a += weight * source[at]
                b += weight * source[at + 1]
                c += weight * source[at + 2]
                d += weight * source[at + 3]
                e += weight * source[at + 4]
                f += weight * source[at + 5]
                g += weight * source[at + 6]
                h += weight * source[at + 7]
            to = N_ORIENTATIONS * index
            target[to], target[to + 1], target[to + 2], target[to + 3] = a, b, c, d
            target[to + 4], target[to + 5], target[to + 6], target[to + 7] = e, f, g, h


@numba.njit(nogil=True, fastmath={"reassoc", "nsz"})
def _sum_squares(values: np.ndarray) -> np.float32:
    squares = np.float32(0)
    for index in range(len(values)):
        squares += values[index] * values[index]
    return squares


@numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract"})
def _normalize(values: np.ndarray, clip: float) -> None:
    """Bring values that are not negative to unit length, clip them and bring them to unit length again."""
    squares = _sum_squares(values)
    if squares <= 0:
        return
    scale, squares = np.float32(1) / np.sqrt(squares), np.float32(0)
    for index in range(len(values)):
        value = values[index] * scale
        value = value if value < clip else clip
        values[index] = value
        squares += value * value
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
            _normalize(values, clip)
            patch += 1
