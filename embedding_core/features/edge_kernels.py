"""Compiled kernel of `edge_histogram`."""

import numba
import numpy as np

from embedding_core.compiled import compile_kernel

_GRAY = numba.types.Array(numba.types.uint8, 2, "C", readonly=True)
_TANGENTS = numba.types.Array(numba.types.float32, 1, "C", readonly=True)
_COUNTS = numba.types.Array(numba.types.float64, 3, "C")


@numba.njit(nogil=True)
def _gradient_row(gray: np.ndarray, row: int, smooth: np.ndarray, change: np.ndarray) -> None:
    """Vertical parts of the Sobel filters in one row, with one column more at both ends."""
    width = gray.shape[1]
    above, here, below = gray[max(row - 1, 0)], gray[row], gray[min(row + 1, gray.shape[0] - 1)]
    for column in range(width):
        upper, lower = np.float32(above[column]), np.float32(below[column])
        smooth[column + 1] = upper + np.float32(2) * np.float32(here[column]) + lower
        change[column + 1] = lower - upper
    smooth[0], smooth[width + 1] = smooth[1], smooth[width]
    change[0], change[width + 1] = change[1], change[width]


@numba.njit(nogil=True)
def _direction_row(
    smooth: np.ndarray, change: np.ndarray, least: float, tangents: np.ndarray, codes: np.ndarray
) -> None:
    """Bin of each pixel of a row; the loops are short so that the compiler vectorizes each of them."""
    width, quarter = len(codes), 2 * len(tangents)
    low, high = np.empty(width, np.float32), np.empty(width, np.float32)
    for x in range(width):
        across = abs(smooth[x + 2] - smooth[x])
        down = abs(change[x] + np.float32(2) * change[x + 1] + change[x + 2])
        low[x], high[x] = min(across, down), max(across, down)
        codes[x] = 0
    for tangent in tangents:
        for x in range(width):
            codes[x] += np.int32(low[x] > tangent * high[x])
    for x in range(width):
        across = smooth[x + 2] - smooth[x]
        down = change[x] + np.float32(2) * change[x + 1] + change[x + 2]
        code = codes[x]
        code = np.int32(quarter - code) if abs(down) > abs(across) else code
        code = np.int32(2 * quarter - code) if across < 0 else code
        code = np.int32(4 * quarter - code) if down < 0 else code
        code = np.int32(0) if code == 4 * quarter else code
        strong = across * across + down * down >= least
        codes[x] = code if strong else np.int32(4 * quarter)


@compile_kernel(_GRAY, numba.types.float32, _TANGENTS, _COUNTS)
def count_directions(gray: np.ndarray, least: float, tangents: np.ndarray, counts: np.ndarray) -> None:
    """Count the gradient directions of the pixels in each block.

    Parameters
    ----------
    gray : uint8 array (height, width), C order
    least : float32
        Smallest squared length of the Sobel gradient of an edge.
    tangents : float32 array (directions / 8,)
        Tangents of the angles between bins in the first eighth of a turn.
    counts : float64 array (block rows, block columns, directions + 1), C order
        Receives fractions of the pixels of a block; the last bin is for pixels without an edge.
    """
    height, width = gray.shape
    n_rows, n_columns, n_directions = counts.shape[0], counts.shape[1], counts.shape[2] - 1
    smooth, change = np.empty(width + 2, np.float32), np.empty(width + 2, np.float32)
    codes = np.empty(width, np.int32)
    counts[:] = 0
    for block_row in range(n_rows):
        top = block_row * height // n_rows
        bottom = max((block_row + 1) * height // n_rows, top + 1)
        for row in range(top, bottom):
            _gradient_row(gray, row, smooth, change)
            _direction_row(smooth, change, least, tangents, codes)
            for block in range(n_columns):
                left = block * width // n_columns
                for column in range(left, max((block + 1) * width // n_columns, left + 1)):
                    # most pixels have no edge: counting them one by one would wait for each addition
                    if codes[column] < n_directions:
                        counts[block_row, block, codes[column]] += 1
        for block in range(n_columns):
            left = block * width // n_columns
            n = (bottom - top) * (max((block + 1) * width // n_columns, left + 1) - left)
            counts[block_row, block, n_directions] = n - counts[block_row, block].sum()
            counts[block_row, block] /= n
