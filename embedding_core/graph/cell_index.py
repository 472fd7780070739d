"""Nearest neighbors among many dense items: an index of cells whose recall is measured.

Items are grouped around centers found by k-means. A query is compared with the items of its nearest cells
only: one matrix product per cell serves all queries that reach it. Cells of large and small collections have
about `CELL_ROWS` items, so the search grows as n. Finding the cells of an item among more than `FLAT_CELLS`
goes through an index of their centers, so it grows as n^1.5: at a million items, an item is compared with
about 400 of 1,953 centers.

The number of cells that a query reaches is raised until the recall, measured against exact neighbors of a
sample of queries, reaches the one that is asked for. Distances are computed in float32, relative to the
center of each cell, and those of the best candidates again from differences in float64. If cells hold groups
so tight that float32 does not resolve them, the cells are searched in float64. The result does not depend on
the number of threads.
"""

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from embedding_core.compiled import compile_kernel
from embedding_core.linalg.row_blocks import RowView, mean_row
from embedding_core.threads import count_cores

CELL_ROWS = 512
"""Mean number of items per cell."""
PROBES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
"""Numbers of cells per query that are tried. If there are no more cells than the last number, all cells are
tried too; otherwise the recall of the last number is what it is."""
SAMPLE_QUERIES = 500
"""Queries that the recall is measured on."""
SPARE_CANDIDATES = 4
"""Candidates beyond the k nearest that are measured again from differences in float64."""
FLAT_CELLS = 512
"""Cells up to which an item is compared with every center."""

_TRAINING_ROWS, _ROUNDS = 40, 6
# Groups of centers whose cells an item may be assigned to. Fewer cost recall, which is measured.
_GROUPS_REACHED = 8
# Queries per portion, and rows per matrix product. Both are fixed: the result must not depend on the machine.
_PORTION, _PRODUCT_ROWS = 16_384, 2_048
_RERANKED_VALUES = 4_000_000

_NUMBERS = numba.types.Array(numba.types.int64, 1, "C", readonly=True)
_FOUND = numba.types.Array(numba.types.int64, 2, "C")

Precision = type[np.float32] | type[np.float64]


@dataclass(frozen=True)
class IndexedNeighbors:
    """Neighbors of every query.

    Attributes
    ----------
    indices : (m, k) array
        Row numbers, nearest first, ties by the lower number.
    squared : (m, k) array
        Squared distances in float64.
    recall : float
        Share of the true neighbors that were found, measured on a sample of the queries.
    probes : int
        Cells that each query was compared with.
    """

    indices: NDArray[np.intp]
    squared: NDArray[np.float64]
    recall: float
    probes: int


def _keep_nearest(
    products: Any, norms: Any, lengths: Any, rows: Any, asked: Any, best: Any, found: Any
) -> None:
    """Merge candidates `rows` into the sorted lists of the queries `asked`, by |x|² - 2 x.q + |q|²."""
    k = best.shape[1]
    for i in range(products.shape[0]):
        query, length = asked[i], lengths[i]
        worst = best[query, k - 1]
        for j in range(products.shape[1]):
            value = (norms[j] - 2 * products[i, j]) + length
            if value < worst:
                place = k - 1
                while place > 0 and best[query, place - 1] > value:
                    best[query, place] = best[query, place - 1]
                    found[query, place] = found[query, place - 1]
                    place -= 1
                best[query, place] = value
                found[query, place] = rows[j]
                worst = best[query, k - 1]


def _compile_keep_nearest(number: Any) -> Any:
    products = numba.types.Array(number, 2, "C", readonly=True)
    norms = numba.types.Array(number, 1, "C", readonly=True)
    best = numba.types.Array(number, 2, "C")
    return compile_kernel(products, norms, norms, _NUMBERS, _NUMBERS, best, _FOUND)(_keep_nearest)


_KERNELS: dict[Precision, Any] = {
    np.float32: _compile_keep_nearest(numba.types.float32),
    np.float64: _compile_keep_nearest(numba.types.float64),
}


class CellIndex:
    """Items of a collection in cells.

    Parameters
    ----------
    X : (n, p) array or RowView
        Items; float32 saves a conversion.
    seed : int
        Seed of the rows that the centers are learned from.
    cell_rows : int, optional
        Mean number of items per cell, `CELL_ROWS` by default.

    Attributes
    ----------
    centers : (c, p) array
        float32 if the items are float32, float64 otherwise.
    order : (n,) array
        Row numbers, those of a cell together and ascending.
    starts : (c + 1,) array
        Where each cell begins in `order`.
    """

    def __init__(self, X: NDArray[Any] | RowView, seed: int = 0, cell_rows: int | None = None) -> None:
        self._X = X
        self._shift = X.mean(axis=0, dtype=np.float64) if isinstance(X, np.ndarray) else mean_row(X)
        self._groups: CellIndex | None = None
        n = X.shape[0]
        n_cells = max(1, n // (cell_rows or CELL_ROWS))
        with threadpool_limits(1, user_api="blas"):
            self.centers = self._learn(n_cells, seed)
            cells = self._reach(X, np.arange(n), 1)[:, 0]
        self.order = np.argsort(cells, kind="stable")
        self.starts = np.searchsorted(cells[self.order], np.arange(n_cells + 1))

    def _learn(self, n_cells: int, seed: int) -> NDArray[Any]:
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(self._X.shape[0])[: n_cells * _TRAINING_ROWS])
        # float32 items minus a float32 center are rounded once, as in float64
        kept = np.float32 if self._X.dtype == np.float32 else np.float64
        self.centers = self._X[rows[np.sort(rng.permutation(len(rows))[:n_cells])]].astype(kept)
        self._group_centers()
        for _ in range(_ROUNDS):
            cells = self._reach(self._X, rows, 1)[:, 0]
            counts = np.bincount(cells, minlength=n_cells)[:, None]
            sums = np.zeros(self.centers.shape)
            for part in _parts(np.arange(len(rows))):
                members = sp.csr_array(
                    (np.ones(len(part)), (cells[part], np.arange(len(part)))), shape=(n_cells, len(part))
                )
                sums += members @ _subtract(self._X[rows[part]], self._shift, np.float64)
            means = sums / np.maximum(counts, 1) + self._shift
            self.centers = np.where(counts > 0, means, self.centers).astype(kept)
            self._group_centers()
        return self.centers

    def _group_centers(self) -> None:
        """Index the centers themselves if they are many."""
        n_cells = len(self.centers)
        if n_cells > FLAT_CELLS:
            self._groups = CellIndex(self.centers, cell_rows=isqrt(n_cells))

    def _reach(self, of: NDArray[Any] | RowView, rows: NDArray[np.intp], probes: int) -> NDArray[np.int64]:
        """The nearest cells (m, probes) of some queries. Centers can be close to each other: float64."""
        if self._groups is not None:
            parts = [rows[start : start + _PORTION] for start in range(0, len(rows), _PORTION)]
            reached = [self._groups.candidates(of, part, probes, _GROUPS_REACHED) for part in parts]
            return np.concatenate(reached)
        centers = _subtract(self.centers, self._shift, np.float64)
        best, found = _empty_lists(len(rows), probes, np.float64)
        for part in _parts(np.arange(len(rows))):
            queries = _subtract(of[rows[part]], self._shift, np.float64)
            _compare(queries, centers, np.arange(len(centers)), part, best, found)
        return found

    def _search(
        self, of: NDArray[Any] | RowView, rows: NDArray[np.intp], k: int, probes: int, precision: Precision
    ) -> NDArray[np.int64]:
        """Candidates (m, k) of one portion of queries, nearest first; -1 if the cells have too few items."""
        cells = self._reach(of, rows, probes)
        by_cell = np.argsort(cells.ravel(), kind="stable")
        ends = np.searchsorted(cells.ravel()[by_cell], np.arange(len(self.centers) + 1))
        best, found = _empty_lists(len(rows), k, precision)
        queries = of[rows]
        for cell in np.flatnonzero(np.diff(ends)):
            self._visit(int(cell), queries, by_cell[ends[cell] : ends[cell + 1]] // probes, best, found)
        return found

    def candidates(
        self,
        of: NDArray[Any] | RowView,
        rows: NDArray[np.intp],
        k: int,
        probes: int,
        precision: Precision = np.float64,
    ) -> NDArray[np.int64]:
        """Candidates (m, k) of some queries in their nearest cells, in all cells where these are too few."""
        found = self._search(of, rows, k, probes, precision)
        lacking = np.flatnonzero((found < 0).any(axis=1))
        if len(lacking):
            found[lacking] = self._search_all(of[rows[lacking]], k)
        return found

    def _search_all(self, queries: NDArray[Any], k: int) -> NDArray[np.int64]:
        """Candidates among all items, in float64."""
        best, found = _empty_lists(len(queries), k, np.float64)
        for cell in range(len(self.centers)):
            self._visit(cell, queries, np.arange(len(queries)), best, found)
        return found

    def _visit(
        self,
        cell: int,
        queries: NDArray[Any],
        asked: NDArray[np.intp],
        best: NDArray[Any],
        found: NDArray[np.int64],
    ) -> None:
        """Compare the queries `asked` with the items of a cell, in the precision of `best`.

        Items and queries are taken relative to the center. Rounding errors are then relative to the size of
        the cell, not to the distance of the cell from 0.
        """
        center, precision = self.centers[cell], best.dtype.type
        for rows in _parts(self.order[self.starts[cell] : self.starts[cell + 1]]):
            items = _subtract(self._X[rows], center, precision)
            for part in _parts(asked):
                _compare(_subtract(queries[part], center, precision), items, rows, part, best, found)

    def search(
        self, queries: NDArray[Any] | RowView | None, k: int, recall: float, seed: int = 0
    ) -> IndexedNeighbors:
        """Find the k nearest items of each query; of the items themselves, without each itself, if None.

        Parameters
        ----------
        queries : (m, p) array, RowView or None
        k : int
        recall : float
            Share of the true neighbors to find, in (0, 1]. 1 compares each query with all items.
        seed : int
            Seed of the sample of queries that the recall is measured on.
        """
        of = self._X if queries is None else queries
        sample = np.sort(np.random.default_rng(seed).permutation(len(of))[:SAMPLE_QUERIES])
        with threadpool_limits(1, user_api="blas"):
            probes, precision, measured = self._choose_probes(of, sample, k, recall, queries is None)
            order = self.order if queries is None else self._by_cell(of)
            parts = [order[start : start + _PORTION] for start in range(0, len(order), _PORTION)]
            indices, squared = np.empty((len(of), k), dtype=np.intp), np.empty((len(of), k))

            def work(rows: NDArray[np.intp]) -> None:
                found = self._nearest(of, rows, k, probes, precision, queries is None)
                indices[rows], squared[rows] = found

            with ThreadPoolExecutor(min(count_cores(), len(parts))) as pool:
                list(pool.map(work, parts))
        return IndexedNeighbors(indices, squared, measured, probes)

    def _by_cell(self, queries: NDArray[Any] | RowView) -> NDArray[np.intp]:
        """Numbers of the queries, those of a cell together: a portion of them then reaches few cells."""
        if len(queries) <= _PORTION:
            return np.arange(len(queries))
        return np.argsort(self._reach(queries, np.arange(len(queries)), 1)[:, 0], kind="stable")

    def _choose_probes(
        self, of: NDArray[Any] | RowView, sample: NDArray[np.intp], k: int, recall: float, own: bool
    ) -> tuple[int, Precision, float]:
        """The fewest cells per query that reach the recall, the precision, and the recall that was measured.

        float64 takes twice the time. It is tried if float32 does not reach the recall.
        """
        n_cells = len(self.centers)
        if recall >= 1 or n_cells == 1:
            return n_cells, np.float64, 1.0
        truth = self._nearest(of, sample, k, n_cells, np.float64, own)[1][:, -1:]
        some = [one for one in PROBES if one < n_cells]
        every = [n_cells] if n_cells <= PROBES[-1] else []
        reached: list[tuple[int, Precision, float]] = []
        tries: list[tuple[Precision, list[int]]] = [(np.float32, some), (np.float64, some + every)]
        for precision, tried in tries:

            @cache
            def measure(probes: int, precision: Precision = precision) -> float:
                squared = self._nearest(of, sample, k, probes, precision, own)[1]
                return float((squared <= truth * (1 + 1e-9)).mean())

            # the recall never falls with the number of cells
            probes = tried[bisect_left(tried, recall, hi=len(tried) - 1, key=measure)]
            reached.append((probes, precision, measure(probes)))
            if reached[-1][2] >= recall:
                break
        return max(reached, key=lambda one: one[2])

    def _nearest(
        self,
        of: NDArray[Any] | RowView,
        rows: NDArray[np.intp],
        k: int,
        probes: int,
        precision: Precision,
        own: bool,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Neighbors and squared distances of some queries. All cells are always searched in float64."""
        wanted = min(k + SPARE_CANDIDATES + int(own), self._X.shape[0])
        if probes < len(self.centers):
            found = self.candidates(of, rows, wanted, probes, precision)
        else:
            found = self._search_all(of[rows], wanted)
        found.sort(axis=1)
        squared = self._measure(of, rows, found)
        if own:
            squared[found == rows[:, None]] = np.inf
        nearest = np.argsort(squared, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(found, nearest, axis=1), np.take_along_axis(squared, nearest, axis=1)

    def _measure(
        self, of: NDArray[Any] | RowView, rows: NDArray[np.intp], found: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Squared distances (m, k) from differences in float64."""
        squared = np.empty(found.shape)
        step = max(1, _RERANKED_VALUES // (found.shape[1] * self._X.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            nearby = self._X[found[part].ravel()].reshape(*found[part].shape, -1)
            difference = nearby.astype(np.float64) - of[rows[part]][:, None, :]
            squared[part] = np.einsum("mcp,mcp->mc", difference, difference)
        return squared


def _parts(rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Rows in portions of one matrix product."""
    return [rows[start : start + _PRODUCT_ROWS] for start in range(0, len(rows), _PRODUCT_ROWS)]


def _subtract(values: NDArray[Any], center: NDArray[Any], precision: Precision) -> NDArray[Any]:
    """Values relative to a center: subtracted in the highest precision of all three, then rounded."""
    exact = np.result_type(values, center, precision)
    relative: NDArray[Any] = np.subtract(values, center, dtype=exact).astype(precision, copy=False)
    return relative


def _empty_lists(m: int, k: int, precision: Precision) -> tuple[NDArray[Any], NDArray[np.int64]]:
    return np.full((m, k), np.inf, dtype=precision), np.full((m, k), -1, dtype=np.int64)


def _compare(
    queries: NDArray[Any],
    items: NDArray[Any],
    rows: NDArray[np.intp],
    asked: NDArray[np.intp],
    best: NDArray[Any],
    found: NDArray[np.int64],
) -> None:
    """Compare queries with some items, and keep the nearest in the lists `asked`."""
    norms, lengths = (np.einsum("ij,ij->i", values, values) for values in (items, queries))
    _KERNELS[best.dtype.type](queries @ items.T, norms, lengths, rows, asked, best, found)
