"""Items read in blocks of rows: a matrix in memory, or a source too large for it.

Every sum over items iterates over `row_blocks`, which cuts both into the same blocks. The result is therefore
bit-identical however the source cuts its rows, and the same as for a matrix in memory.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import SCALE_ITEMS, largest_magnitude, magnitude_limit
from embedding_core.errors import InvalidInput

BLOCK_ROWS = 4096
BLOCK_VALUES = 4_000_000
MOST_COPIED = 2**25
"""Numbers of a float32 matrix up to which `view_rows` leaves copying to the methods."""


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


class RowView:
    """Rows of a matrix in memory, changed when they are read: no copy of them exists as a whole.

    It implements `RowBlocks`. A slice, a mask or an array of row numbers as index returns an array.

    Parameters
    ----------
    X : (n, p) array of finite numbers
    rows : (m,) array of int, optional
        Row numbers; all rows if None.
    change : callable, optional
        Maps an array of rows to an array of the same shape and dtype, each row for itself.
    """

    ndim = 2

    def __init__(
        self,
        X: NDArray[Any],
        rows: NDArray[np.intp] | None = None,
        change: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> None:
        self._X, self._rows, self._change = X, rows, change
        self.shape = (len(X) if rows is None else len(rows), X.shape[1])
        self.dtype = X.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        taken = self._X[rows if self._rows is None else self._rows[rows]]
        return taken if self._change is None else self._change(taken)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return load_rows(self).astype(dtype or self.dtype, copy=False)

    def iter_blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Iterate over (start, block) from the first row to the last."""
        for rows, block in row_blocks(self):
            yield rows.start, block

    def take(self, rows: NDArray[Any]) -> "RowView":
        """Return a view of some rows, by a mask or row numbers."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return RowView(self._X, chosen if self._rows is None else self._rows[chosen], self._change)

    def change(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "RowView":
        """Return a view of the same rows that applies one more change."""
        first = self._change
        return RowView(self._X, self._rows, change if first is None else lambda taken: change(first(taken)))


def view_rows(X: Any) -> Any:
    """Return a view of a float32 matrix of more than `MOST_COPIED` numbers, anything else as it is."""
    large = isinstance(X, np.ndarray) and X.dtype == np.float32 and X.size > MOST_COPIED
    return RowView(X) if large else X


def take_rows(X: Any, rows: Any) -> Any:
    """Return some rows of a matrix or view, by a mask or row numbers; those of a view are not copied."""
    return X.take(rows) if isinstance(X, RowView) else X[rows]


def mean_row(X: NDArray[Any] | RowBlocks) -> NDArray[np.float64]:
    """Return the mean (p,) of all rows in float64, summed block by block."""
    total = np.zeros(X.shape[1])
    for _, block in row_blocks(X):
        total += block.sum(axis=0, dtype=np.float64)
    mean: NDArray[np.float64] = total / X.shape[0]
    return mean


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
    if not isinstance(X, np.ndarray | RowView) and isinstance(X, RowBlocks):
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
