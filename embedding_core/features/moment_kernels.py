"""Compiled kernels for the moments of image blocks.

`rgb_moments` computes exact means and variances of the RGB bytes from integer sums. `converted_moments`
computes the first three moments in float64 after a conversion of each pixel. Color spaces, for red, green and
blue in 0..255:

ycbcr
    JFIF, full range: Y = .299 R + .587 G + .114 B, Cb = 128 + (B − Y) / 1.772, Cr = 128 + (R − Y) / 1.402.
    Not rounded; all values lie within 0..255.5.
hsv
    Hexcone. V = max, S = 255 (max − min) / max, H = 255 times the hue as a fraction of the full turn (red 0,
    green 85, blue 170). Gray has H = 0; black also has S = 0. H is averaged as a number although it is an
    angle: reds on both sides of 0 average to cyan.
rgb
    The bytes themselves, for moments that `rgb_moments` does not compute.
"""

import numba
import numpy as np

from embedding_core.compiled import compile_kernel

# Read-only is the wider type: numba passes a writable array to a read-only parameter, but not vice versa.
PIXELS = numba.types.Array(numba.types.uint8, 3, "C", readonly=True)
MOMENTS = numba.types.Array(numba.types.float64, 4, "C")

# 65025 * 66051 < 2**32: the squares of this many bytes always fit a 32-bit sum.
_MAX_ROWS = 66_051
# 16257 * 2**48 < 2**62: up to this size the numerator of the variance is exact in 64 bits.
_MAX_EXACT_PIXELS = 2**24


@numba.njit(nogil=True)
def _add_rows(rows: np.ndarray, start: int, stop: int, sums: np.ndarray, squares: np.ndarray) -> None:
    """Column sums of some rows. Four rows per pass load and store the sums a quarter as often."""
    sums[:] = 0
    squares[:] = 0
    fours = start + (stop - start) // 4 * 4
    for row in range(start, fours, 4):
        for column in range(rows.shape[1]):
            total, square = sums[column], squares[column]
            # Convert back to 32 bits after each step: numba adds in 64 bits, which halves the vector width.
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
    """Add column sums (bands interleaved) to the totals of one row of blocks."""
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
    """Population variance from integer sums, centered at the integer part of the mean."""
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
        Receives mean and population variance, each the exact value rounded at most twice.

    Notes
    -----
    Rows are summed column by column: neighboring bytes are independent, so the compiler vectorizes. The
    column sums are folded into blocks once per row of blocks.
    """
    height, width, _ = rgb.shape
    rows = rgb.reshape(height, 3 * width)
    sums = np.empty(3 * width, np.uint32)
    squares = np.empty(3 * width, np.uint32)
    n_rows, n_columns = out.shape[0], out.shape[1]
    totals = np.empty((n_columns, 3, 2), np.int64)
    # From the bottom up: after decoding, the last rows are still in the processor's cache.
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


CODES = {"rgb": 0, "ycbcr": 1, "hsv": 2}


@numba.njit(nogil=True)
def _ycbcr(red: np.int64, green: np.int64, blue: np.int64) -> tuple[float, float, float]:
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    return luma, 128 + (blue - luma) / 1.772, 128 + (red - luma) / 1.402


@numba.njit(nogil=True)
def _hsv(red: np.int64, green: np.int64, blue: np.int64) -> tuple[float, float, float]:
    high = max(red, green, blue)
    chroma = high - min(red, green, blue)
    if chroma == 0:
        return 0.0, 0.0, float(high)
    if high == red:
        sixths = (green - blue) / chroma
    elif high == green:
        sixths = 2 + (blue - red) / chroma
    else:
        sixths = 4 + (red - green) / chroma
    return 42.5 * (sixths if sixths >= 0 else sixths + 6), 255 * chroma / high, float(high)


@numba.njit(nogil=True)
def _convert(code: int, red: np.uint8, green: np.uint8, blue: np.uint8) -> tuple[float, float, float]:
    # numba subtracts bytes as unsigned numbers
    r, g, b = np.int64(red), np.int64(green), np.int64(blue)
    if code == 1:
        return _ycbcr(r, g, b)
    if code == 2:
        return _hsv(r, g, b)
    return float(r), float(g), float(b)


@numba.njit(nogil=True)
def _power_sums(block: np.ndarray, code: int, origin: np.ndarray, sums: np.ndarray) -> None:
    """Sums of the first three powers of each band's distance from the block's first pixel."""
    # Subtracting a pixel of the block keeps cancellation below n rounding errors and makes the variance of
    # a uniform block exactly 0.
    origin[0], origin[1], origin[2] = _convert(code, block[0, 0, 0], block[0, 0, 1], block[0, 0, 2])
    sums[:] = 0
    for row in range(block.shape[0]):
        for column in range(block.shape[1]):
            values = _convert(code, block[row, column, 0], block[row, column, 1], block[row, column, 2])
            for band in range(3):
                distance = values[band] - origin[band]
                sums[band, 0] += distance
                sums[band, 1] += distance * distance
                sums[band, 2] += distance * distance * distance


@compile_kernel(PIXELS, numba.types.int64, MOMENTS)
def converted_moments(rgb: np.ndarray, code: int, out: np.ndarray) -> None:
    """Mean, second and third central moment of each block and band after conversion.

    Parameters
    ----------
    rgb : uint8 array (height, width, 3), C order
    code : int
        Color space, one of the values of `CODES`.
    out : float64 array (block rows, block columns, 3, 3), C order
    """
    height, width, _ = rgb.shape
    n_rows, n_columns = out.shape[0], out.shape[1]
    origin, sums = np.empty(3), np.empty((3, 3))
    for block_row in range(n_rows):
        top = block_row * height // n_rows
        bottom = max((block_row + 1) * height // n_rows, top + 1)
        for block_column in range(n_columns):
            left = block_column * width // n_columns
            right = max((block_column + 1) * width // n_columns, left + 1)
            _power_sums(rgb[top:bottom, left:right], code, origin, sums)
            n = (bottom - top) * (right - left)
            for band in range(3):
                first, second, third = sums[band, 0] / n, sums[band, 1] / n, sums[band, 2] / n
                target = out[block_row, block_column, band]
                target[0] = origin[band] + first
                target[1] = max(second - first * first, 0.0)
                target[2] = third - 3 * first * second + 2 * first * first * first
