"""Compiled kernels of `gabor`."""

import numba
import numpy as np

from embedding_core.compiled import compile_kernel

# Complex arrays are seen as pairs of float32: only so does the compiler vectorize their product with weights.
_PAIRS_READ = numba.types.Array(numba.types.float32, 2, "C", readonly=True)
_PAIRS = numba.types.Array(numba.types.float32, 2, "C")
_RESPONSES = numba.types.Array(numba.types.float32, 3, "C", readonly=True)
_VECTOR = numba.types.Array(numba.types.float32, 1, "C", readonly=True)
_STATISTICS = numba.types.Array(numba.types.float64, 2, "C")


@numba.njit(nogil=True, error_model="numpy")
def _smooth_row(
    row_jumps: np.ndarray,
    jump: np.ndarray,
    phase: np.ndarray,
    column_phases: np.ndarray,
    sine: float,
    column_sines: np.ndarray,
    target: np.ndarray,
) -> None:
    for column in range(len(column_sines)):
        re, im = row_jumps[2 * column], row_jumps[2 * column + 1]
        phase_re, phase_im = column_phases[2 * column], column_phases[2 * column + 1]
        scale = np.float32(1) / (sine + column_sines[column])
        target[2 * column] += scale * (
            phase[0] * re - phase[1] * im + jump[0] * phase_re - jump[1] * phase_im
        )
        target[2 * column + 1] += scale * (
            phase[0] * im + phase[1] * re + jump[0] * phase_im + jump[1] * phase_re
        )


@compile_kernel(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, _PAIRS)
def subtract_smooth_part(
    row_jumps: np.ndarray,
    column_jumps: np.ndarray,
    row_phases: np.ndarray,
    column_phases: np.ndarray,
    row_sines: np.ndarray,
    column_sines: np.ndarray,
    spectrum: np.ndarray,
) -> None:
    """Subtract from a spectrum that of Moisan's smooth part; frequency (0, 0) becomes undefined.

    Parameters
    ----------
    row_jumps : float32 array (2 width,)
        Transform of the last row minus the first one, of at least the given columns.
    column_jumps : float32 array (2 height,)
        Transform of the last column minus the first one.
    row_phases, column_phases : float32 arrays (2 height,) and (2 width,)
        1 - exp(2 pi i q / side) of the frequencies q.
    row_sines, column_sines : float32 arrays (height,) and (columns,)
        4 sin²(pi q / side). Only the first `columns` of the spectrum are changed.
    spectrum : float32 array (height, 2 width)
    """
    for row in range(spectrum.shape[0]):
        _smooth_row(
            row_jumps,
            column_jumps[2 * row : 2 * row + 2],
            row_phases[2 * row : 2 * row + 2],
            column_phases,
            row_sines[row],
            column_sines,
            spectrum[row],
        )


@compile_kernel(numba.types.int64, _PAIRS)
def mirror_columns(n_columns: int, spectrum: np.ndarray) -> None:
    """Complete the spectrum (height, 2 width) of a real image from its first columns, more than half."""
    height, width = spectrum.shape[0], spectrum.shape[1] // 2
    for row in range(height):
        source, target = spectrum[(height - row) % height], spectrum[row]
        for column in range(n_columns, width):
            target[2 * column] = source[2 * (width - column)]
            target[2 * column + 1] = -source[2 * (width - column) + 1]


@compile_kernel(_PAIRS_READ, numba.types.int64, numba.types.int64, _PAIRS_READ, _PAIRS)
def fold_product(
    spectrum: np.ndarray, first_row: int, first_column: int, weights: np.ndarray, folded: np.ndarray
) -> None:
    """Multiply a spectrum with the weights of a filter and add up the frequencies that alias.

    Parameters
    ----------
    spectrum : float32 array (H, 2 W)
        Real and imaginary parts.
    first_row, first_column : int
        Frequency of the first weight, in cycles per image; may be negative or beyond H and W.
    weights : float32 array (rows, columns)
    folded : float32 array (h, 2 w)
        Receives the sums. H and W are multiples of h and w. The inverse transform of the result is the
        response at every (H / h)-th row and (W / w)-th column, times the pixels per such point.
    """
    height, width, h, w = spectrum.shape[0], spectrum.shape[1] // 2, folded.shape[0], folded.shape[1] // 2
    n_columns = weights.shape[1]
    folded[:] = 0
    for row in range(weights.shape[0]):
        start = 0
        while start < n_columns:
            # up to the next multiple of w neither the source nor the target wraps around
            at, to = (first_column + start) % width, (first_column + start) % w
            length = min(w - to, n_columns - start)
            source = spectrum[(first_row + row) % height, 2 * at : 2 * (at + length)]
            target = folded[(first_row + row) % h, 2 * to : 2 * (to + length)]
            factors = weights[row, start : start + length]
            for column in range(length):
                target[2 * column] += source[2 * column] * factors[column]
                target[2 * column + 1] += source[2 * column + 1] * factors[column]
            start += length


@compile_kernel(_RESPONSES, numba.types.int64, numba.types.int64, _STATISTICS, reorder_sums=True)
def magnitude_statistics(responses: np.ndarray, n_rows: int, n_columns: int, out: np.ndarray) -> None:
    """Mean and standard deviation of |z| in the first rows and columns of each response.

    Parameters
    ----------
    responses : float32 array (filters, h, 2 w)
        Real and imaginary parts of z.
    n_rows, n_columns : int
    out : float64 array (filters, 2)
    """
    n = n_rows * n_columns
    for number in range(responses.shape[0]):
        total = squares = 0.0
        for row in range(n_rows):
            values = responses[number, row]
            row_total, row_squares = np.float32(0), np.float32(0)
            for column in range(n_columns):
                square = values[2 * column] ** 2 + values[2 * column + 1] ** 2
                row_total += np.sqrt(square)
                row_squares += square
            total += float(row_total)
            squares += float(row_squares)
        out[number, 0] = total / n
        out[number, 1] = np.sqrt(max(squares / n - (total / n) ** 2, 0.0))
