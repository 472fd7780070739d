"""Exact mean and variance of the bytes of an image, block by block."""

import numba
import numpy as np

from embedding_core.features.compiled import MOMENTS, PIXELS, compile_kernel

# 65025 * 66051 < 2**32: so many squares of bytes fit a column's 32-bit sum, whatever they are.
_MAX_ROWS = 66_051
# 16257 * 2**48 < 2**62: up to here the numerator of the variance is exact in 64 bits.
_MAX_EXACT_PIXELS = 2**24


@numba.njit(nogil=True)
def _add_rows(rows: np.ndarray, start: int, stop: int, sums: np.ndarray, squares: np.ndarray) -> None:
    """Column sums of a few rows, four at a time to fetch and store the sums a quarter as often."""
    sums[:] = 0
    squares[:] = 0
    fours = start + (stop - start) // 4 * 4
    for row in range(start, fours, 4):
        for column in range(rows.shape[1]):
            total, square = sums[column], squares[column]
            # Back to 32 bits after each step: numba adds in 64, and vectors of those are half as fast.
            value = np.uint32(rows[row, column])
            total, square = np.uint32(total + value), np.uint32(square + value * value)
            value = np.uint32(rows[row + 1, column])
            total, square = np.uint32(total + value), np.uint32(square + value * value)
            value = np.uint32(rows[row + 2, column])
            total, square = np.uint32(total + value), np.uint32(square + value * value)
            value = np.uint32(rows[row + 3, column])
            sums[column], squares[column] = total + value, square + value * value
    for row in range(fours, stop):
        for column in range(rows.shape[1]):
            value = np.uint32(rows[row, column])
            sums[column] += value
            squares[column] += value * value


@numba.njit(nogil=True)
def _fold_columns(sums: np.ndarray, squares: np.ndarray, totals: np.ndarray) -> None:
    """Add column sums (band after band within a pixel) to the totals of the blocks of a row."""
    width = sums.shape[0] // 3
    n_blocks = totals.shape[0]
    for block in range(n_blocks):
        left = block * width // n_blocks
        right = max((block + 1) * width // n_blocks, left + 1)
        for band in range(3):
            total = np.int64(0)
            total_squares = np.int64(0)
            for column in range(3 * left + band, 3 * right, 3):
                total += np.int64(sums[column])
                total_squares += np.int64(squares[column])
            totals[block, band, 0] += total
            totals[block, band, 1] += total_squares


@numba.njit(nogil=True)
def _variance(total: int, total_squares: int, n: int) -> float:
    """Population variance from integer sums, centered at the integer part of the mean first."""
    whole = total // n
    rest = total - whole * n
    centered = total_squares - 2 * whole * total + n * whole * whole
    if n <= _MAX_EXACT_PIXELS:
        return np.float64(n * centered - rest * rest) / (np.float64(n) * np.float64(n))
    return max(centered / n - (rest / n) * (rest / n), 0.0)


@compile_kernel(PIXELS, MOMENTS)
def rgb_moments(rgb: np.ndarray, out: np.ndarray) -> None:
    """Mean and variance of each block and band, from integer sums.

    Parameters
    ----------
    rgb : uint8 array (height, width, 3), C order
    out : float64 array (block rows, block columns, 3, 2), C order
        Receives mean and population variance, each the exact value rounded once or twice.

    Notes
    -----
    A band of rows is summed column by column, where neighboring bytes are independent and the
    compiler vectorizes; the columns are folded into blocks once a band.
    """
    height, width, _ = rgb.shape
    rows = rgb.reshape(height, 3 * width)
    sums = np.empty(3 * width, np.uint32)
    squares = np.empty(3 * width, np.uint32)
    n_rows, n_columns = out.shape[0], out.shape[1]
    totals = np.empty((n_columns, 3, 2), np.int64)
    # From the bottom up: of a picture just decoded the last rows are still in the processor's cache.
    for block_row in range(n_rows - 1, -1, -1):
        top = block_row * height // n_rows
        bottom = max((block_row + 1) * height // n_rows, top + 1)
        totals[:] = 0
        for start in range(top, bottom, _MAX_ROWS):
            _add_rows(rows, start, min(start + _MAX_ROWS, bottom), sums, squares)
            _fold_columns(sums, squares, totals)
        for block in range(n_columns):
            left = block * width // n_columns
            n = (bottom - top) * (max((block + 1) * width // n_columns, left + 1) - left)
            for band in range(3):
                total = totals[block, band, 0]
                out[block_row, block, band, 0] = total / n
                out[block_row, block, band, 1] = _variance(total, totals[block, band, 1], n)
