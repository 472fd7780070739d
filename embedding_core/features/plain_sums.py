"""The moments of `block_sums` without a compiler: for a few images loading that would take longer."""

import numpy as np

from embedding_core.errors import InvalidInput

# As in `block_sums`: beyond it the numerator of the variance is no longer exact, nor the same in both.
MAX_EXACT_PIXELS = 2**24


def _bounds(side: int, n_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.arange(n_blocks) * side // n_blocks
    last = np.maximum(np.arange(1, n_blocks + 1) * side // n_blocks, first + 1)
    return first, last


def plain_moments(rgb: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Mean and population variance of each block and band, bit for bit those of `rgb_moments`.

    Parameters
    ----------
    rgb : uint8 array (height, width, 3)
    grid : (int, int)
        Block rows and block columns.

    Returns
    -------
    float64 array (block rows, block columns, 3, 2)

    Notes
    -----
    Sums of bytes and of their squares are whole numbers below 2**53, so that float64 adds them exactly in any
    order, and linear algebra may do it.
    """
    height, width, _ = rgb.shape
    tops, bottoms = _bounds(height, grid[0])
    lefts, rights = _bounds(width, grid[1])
    n = np.outer(bottoms - tops, rights - lefts)[:, :, np.newaxis]
    if n.max() > MAX_EXACT_PIXELS:
        raise InvalidInput(f"a block of {n.max()} pixels is too large for sums without a compiler.")
    total = np.empty((*grid, 3), np.int64)
    squares = np.empty((*grid, 3), np.int64)
    for row, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
        values = rgb[top:bottom].reshape(bottom - top, -1).astype(np.float64)
        columns = np.ones(bottom - top) @ values
        column_squares = np.einsum("ij,ij->j", values, values)
        for block, (left, right) in enumerate(zip(lefts, rights, strict=True)):
            total[row, block] = columns[3 * left : 3 * right].reshape(-1, 3).sum(axis=0)
            squares[row, block] = column_squares[3 * left : 3 * right].reshape(-1, 3).sum(axis=0)
    whole = total // n
    rest = total - whole * n
    centered = squares - 2 * whole * total + n * whole * whole
    variance = (n * centered - rest * rest).astype(np.float64) / (n.astype(np.float64) * n)
    return np.stack([total / n, variance], axis=-1)
