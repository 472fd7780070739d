"""Items read in blocks of rows: a matrix in memory, or a source too large for it.

Every sum over items iterates over `row_blocks`, which cuts both into the same blocks. The result is therefore
bit-identical however the source cuts its rows, and the same as for a matrix in memory.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import SCALE_ITEMS, largest_magnitude, magnitude_limit
from embedding_core.errors import InvalidInput

BLOCK_ROWS = 4096
BLOCK_VALUES = 4_000_000


@runtime_checkable
class RowBlocks(Protocol):
    """A matrix (n, p) that can be read in blocks of rows any number of times.

    `shape` is (n, p), `dtype` float32 or float64. `iter_blocks` yields (start, block) from the first row to
    the last, in blocks of any size; each call starts again and yields the same numbers.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    @property
    def dtype(self) -> Any:
        """float32 or float64."""
        ...

    def iter_blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, block) from the first row to the last."""
        ...


def row_blocks(X: NDArray[Any] | RowBlocks, size: int | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Iterate over blocks of `size` rows. A block may be overwritten when the next one is requested.

    Parameters
    ----------
    X : ndarray or RowBlocks of shape (n, p)
    size : int, optional
        Number of rows of every block except the last. The default is `BLOCK_ROWS`, or fewer if a block would
        have more than `BLOCK_VALUES` numbers.

    Yields
    ------
    rows : slice
    block : ndarray
        X[rows].
    """
    size = max(1, min(BLOCK_ROWS, BLOCK_VALUES // max(X.shape[1], 1))) if size is None else size
    if isinstance(X, RowBlocks):
        yield from _aligned(X, size)
        return
    for start in range(0, X.shape[0], size):
        rows = slice(start, min(start + size, X.shape[0]))
        yield rows, X[rows]


def load_rows(X: RowBlocks, rows: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Load the rows selected by a mask (all rows if None) into memory."""
    n, p = X.shape
    result = np.empty((n if rows is None else int(rows.sum()), p), dtype=X.dtype)
    filled = 0
    for where, block in row_blocks(X):
        chosen = block if rows is None else block[rows[where]]
        result[filled : filled + len(chosen)] = chosen
        filled += len(chosen)
    return result


def project_rows(X: Any, projection: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X @ projection in float64 without a float64 copy of X; X may also be sparse."""
    if not isinstance(X, np.ndarray | RowBlocks):
        return np.asarray(X @ projection)
    Q = np.empty((X.shape[0], projection.shape[1]))
    for rows, block in row_blocks(X):
        np.matmul(np.asarray(block, dtype=np.float64), projection, out=Q[rows])
    return Q


def _aligned(X: RowBlocks, size: int) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield blocks of equal size from blocks of any size, validating each."""
    n, p = X.shape
    buffer = np.empty((min(size, n), p), dtype=X.dtype)
    start = held = seen = 0
    for first, block in X.iter_blocks():
        _check_block(X, first, block, seen)
        seen += len(block)
        used = 0
        while used < len(block):
            take = min(len(buffer) - held, len(block) - used)
            buffer[held : held + take] = block[used : used + take]
            held, used = held + take, used + take
            if held == len(buffer):
                yield slice(start, start + held), buffer
                start, held = start + held, 0
    if seen != n:
        raise InvalidInput(
            f"The blocks contain {seen} rows, but their shape says {n}; yield all rows on every pass."
        )
    if held:
        yield slice(start, start + held), buffer[:held]


def _check_block(X: RowBlocks, first: int, block: NDArray[Any], seen: int) -> None:
    n, p = X.shape
    if first != seen or block.ndim != 2 or block.shape[1] != p or first + len(block) > n:
        raise InvalidInput(
            f"A block of shape {block.shape} starts at row {first}; expected the rows from {seen} on, of "
            f"{n} rows with {p} columns. Yield (start, block) in order."
        )
    if block.dtype != X.dtype:
        raise InvalidInput(
            f"The block at row {first} has dtype {block.dtype}, but the source says {X.dtype}; use one dtype."
        )
    if block.size == 0:
        return
    limit = magnitude_limit(n, p)
    if not largest_magnitude(block) <= limit:  # also true for NaN
        bad = np.flatnonzero(~(np.abs(block) <= limit).all(axis=1))[0]
        if not np.isfinite(block[bad]).all():
            raise InvalidInput(
                f"Input X contains NaN or infinity in row {first + bad}; fill in or drop these rows."
            )
        raise InvalidInput(
            f"X contains {largest_magnitude(block[bad]):.3g} in row {first + bad}; squares of numbers beyond "
            f"{limit:.0e} overflow. {SCALE_ITEMS}"
        )
