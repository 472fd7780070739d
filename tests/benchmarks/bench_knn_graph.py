"""Neighbors of 60,000 items by the index of cells, against scikit-learn's brute force.

    python -m tests.benchmarks.bench_knn_graph

CPU time with one thread of linear algebra. Brute force answers a tenth of the queries and is multiplied by
ten: its time is proportional to the queries. Its answers are also the truth that the recall is measured
against; the index chose its parameters on another sample. The items lie in 60 clusters around a curved
surface of 24 dimensions in 384, with noise in all of them.
"""

import time

import numpy as np

from tests.benchmarks.table import Row

ITEMS, FEATURES, NEIGHBORS, SHARE = 60_000, 384, 10, 10


def make_items(n: int, features: int = FEATURES, surface: int = 24, clusters: int = 60) -> np.ndarray:
    """Items near a curved surface."""
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(surface, features)) / np.sqrt(surface)
    centers = rng.normal(size=(clusters, surface)) * 1.5
    places = centers[rng.integers(0, clusters, n)] + rng.normal(size=(n, surface))
    return (np.tanh(places @ axes) + 0.15 * rng.normal(size=(n, features))).astype(np.float32)


def measure(quick: bool = False) -> list[Row]:
    """Measure the ratio of CPU time and the recall."""
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    from embedding_core.graph.cell_index import CellIndex

    n = 25_000 if quick else ITEMS
    X = make_items(n)
    queries = np.sort(np.random.default_rng(1).permutation(n)[: n // SHARE])
    CellIndex(X[:2_000]).search(None, NEIGHBORS, 0.9)  # loads the compiled code
    with threadpool_limits(1):
        started = time.process_time()
        brute = NearestNeighbors(n_neighbors=NEIGHBORS + 1, algorithm="brute").fit(X)
        truth = brute.kneighbors(X[queries], return_distance=False)[:, 1:]
        plain = SHARE * (time.process_time() - started)
        started = time.process_time()
        found = CellIndex(X).search(None, NEIGHBORS, 0.99)
        ours = time.process_time() - started
    hits = [len(np.intersect1d(*pair)) for pair in zip(found.indices[queries], truth, strict=True)]
    recall = float(np.mean(hits)) / NEIGHBORS
    return [
        (
            f"kNN graph, {n:,} x {FEATURES}, k = {NEIGHBORS}, against scikit-learn's brute force; recall",
            "at least 4x; at least 0.99",
            f"{plain / ours:.1f}x ({ours:.1f} s of CPU time, {plain:.0f} s); {recall:.4f}",
            "",
        )
    ]


if __name__ == "__main__":
    print(measure())
