"""The index of cells: true neighbors, measured recall, the same result for every number of threads."""

import numpy as np
import pytest

from embedding_core.graph import cell_index
from embedding_core.graph.affinity import build_knn_graph, find_knn_edges
from embedding_core.graph.cell_index import CellIndex
from embedding_core.graph.knn import nearest_others


def make_items(n: int, p: int = 24, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(12, p)) * 2
    items = centers[rng.integers(0, 12, n)] + rng.normal(size=(n, 6)) @ rng.normal(size=(6, p))
    return (items + offset).astype(np.float32)


def literal_neighbors(X: np.ndarray, queries: np.ndarray, k: int, own: bool) -> np.ndarray:
    squared = ((queries[:, None, :].astype(float) - X[None].astype(float)) ** 2).sum(axis=2)
    if own:
        np.fill_diagonal(squared, np.inf)
    return np.argsort(squared, axis=1, kind="stable")[:, :k]


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_recall_of_one_gives_the_exact_neighbors(offset):
    X = make_items(1500, offset=offset)
    found = CellIndex(X).search(None, 5, recall=1.0)
    assert found.recall == 1
    assert (found.indices == literal_neighbors(X, X, 5, own=True)).all()


@pytest.mark.slow
def test_the_measured_recall_is_that_of_all_queries():
    X = make_items(8000)
    queries = make_items(8600)[8000:]
    found = CellIndex(X).search(queries, 10, recall=0.95)
    truth = literal_neighbors(X, queries, 10, own=False)
    hits = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.indices, truth, strict=True)])
    assert found.recall >= 0.95
    assert found.probes < len(CellIndex(X).centers) / 2
    assert hits == pytest.approx(found.recall, abs=0.01)
    assert (np.diff(found.squared, axis=1) >= 0).all()


def make_groups(n: int, groups: int, spread: float, p: int = 10) -> np.ndarray:
    """Tight groups: float32 does not resolve the distances inside a group from squared norms."""
    rng = np.random.default_rng(5)
    return rng.normal(size=(groups, p))[rng.integers(0, groups, n)] + spread * rng.normal(size=(n, p))


def true_recall(X: np.ndarray, found: cell_index.IndexedNeighbors, k: int) -> float:
    """Share of true neighbors of some items, from differences in float64."""
    rows = np.random.default_rng(9).permutation(len(X))[:200]
    squared = ((X[rows, None, :].astype(float) - X[None].astype(float)) ** 2).sum(axis=2)
    squared[np.arange(len(rows)), rows] = np.inf
    nearest = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return (
        float(
            np.mean(
                [np.isin(found.indices[row], near).sum() for row, near in zip(rows, nearest, strict=True)]
            )
        )
        / k
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cell_rows", [64, 512])
@pytest.mark.parametrize(("groups", "spread"), [(8, 1e-3), (5, 3e-4), (10, 1e-4), (60, 1e-4)])
def test_neighbors_in_tight_groups_are_found(monkeypatch, groups, spread, cell_rows, dtype):
    monkeypatch.setattr(cell_index, "CELL_ROWS", cell_rows)  # 64: more cells than are ever tried
    X = make_groups(6000, groups, spread).astype(dtype)
    found = CellIndex(X).search(None, 10, recall=0.95)
    assert found.recall >= 0.95
    assert true_recall(X, found, 10) == pytest.approx(found.recall, abs=0.02)


def test_tight_groups_do_not_need_all_cells(monkeypatch):
    monkeypatch.setattr(cell_index, "CELL_ROWS", 64)
    index = CellIndex(make_groups(6000, 3, 1e-4))
    assert index.search(None, 10, recall=0.9).probes < len(index.centers) / 4


@pytest.mark.slow
def test_exact_neighbors_in_tight_groups():
    X = make_groups(1500, 3, 1e-5)
    found = CellIndex(X).search(None, 5, recall=1.0)
    assert (found.indices == literal_neighbors(X, X, 5, own=True)).all()


def test_all_of_few_cells_are_searched_if_the_recall_needs_it():
    X = np.random.default_rng(0).normal(size=(3 * cell_index.CELL_ROWS, 40))
    found = CellIndex(X).search(None, 10, recall=0.99)
    assert (found.probes, found.recall) == (3, 1.0)
    assert true_recall(X, found, 10) == 1


@pytest.mark.slow
def test_more_recall_needs_more_cells():
    index = CellIndex(make_items(8000))
    assert index.search(None, 10, recall=0.5).probes < index.search(None, 10, recall=0.999).probes


def test_an_item_is_not_its_own_neighbor_even_among_equal_items():
    X = make_items(2000)
    X[100:140] = X[100]
    found = CellIndex(X).search(None, 10, recall=0.99)
    assert not (found.indices == np.arange(2000)[:, None]).any()
    assert (found.squared[100:140] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("tight", [False, True])
def test_the_number_of_threads_does_not_change_the_result(monkeypatch, tight):
    monkeypatch.setattr(cell_index, "CELL_ROWS", 64 if tight else 512)
    X = make_groups(6000, 60, 1e-4) if tight else make_items(6000)  # tight: cells are searched in float64
    monkeypatch.setattr(cell_index, "_PORTION", 500)
    results = []
    for cores in (1, 3):
        monkeypatch.setattr(cell_index, "count_cores", lambda cores=cores: cores)
        results.append(CellIndex(X).search(None, 7, recall=0.9))
    assert (results[0].indices == results[1].indices).all()
    assert results[0].squared.tobytes() == results[1].squared.tobytes()


@pytest.mark.slow
def test_graphs_are_exact_up_to_a_number_of_items():
    X = make_items(3000)
    exact = find_knn_edges(X, 8, exact_items=3000)
    indexed = find_knn_edges(X, 8, exact_items=2999, recall=0.95)
    assert exact.recall == 1
    assert 0.95 <= indexed.recall < 1
    assert (build_knn_graph(X, 8) != build_knn_graph(X.astype(float), 8)).nnz == 0
    assert (nearest_others(X, 8, 2999, 1.0) == nearest_others(X, 8)).all()
    shared = np.intersect1d(exact.i * 3000 + exact.j, indexed.i * 3000 + indexed.j)
    assert len(shared) > 0.9 * len(exact.i)


@pytest.mark.slow
def test_cells_found_through_groups_of_centers_keep_the_recall(monkeypatch):
    """Many cells are found through an index of their centers, not by comparing with each."""
    X = make_items(9000)
    monkeypatch.setattr(cell_index, "CELL_ROWS", 32)
    flat = CellIndex(X)
    monkeypatch.setattr(cell_index, "FLAT_CELLS", 100)
    grouped = CellIndex(X)
    assert flat._groups is None
    assert grouped._groups is not None and len(grouped._groups.centers) < 20
    cells = np.empty(len(X), dtype=int)
    for cell, (start, end) in enumerate(zip(grouped.starts, grouped.starts[1:], strict=False)):
        cells[grouped.order[start:end]] = cell
    nearest = ((X[:, None, :] - grouped.centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert (cells == nearest).mean() > 0.98
    found = grouped.search(None, 10, recall=0.95)
    assert found.recall >= 0.95
    assert true_recall(X, found, 10) == pytest.approx(found.recall, abs=0.02)
