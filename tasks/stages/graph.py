"""The graph of some items, built from their features by the settings of a run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tasks.dataset import prepared_blocks
from tasks.settings import AffinitySettings

INTERSECTION = "intersection"
"""The edge weights that need no kernel width."""
_GIGABYTE = 1e9
# Storing the edges and checking symmetry takes a multiple of the memory of the graph.
_DENSE_MATRICES = 6
_DENSE_ADVICE = "set affinity.graph to knn, or raise affinity.memory_budget_gb"


class BuiltGraph(NamedTuple):
    """Weights W (n, n), and the share of the true nearest neighbors in it, measured on a sample."""

    W: Any
    recall: float = 1.0


def build_graph(
    settings: AffinitySettings, scale: str, recipe: Mapping[str, Any], X: Any, copy: bool = True
) -> BuiltGraph:
    """Connect the items X (n, p), whose features were made by `recipe`; scaling is learned on these items.

    With copy=False X may be overwritten by scaled items.
    """
    from embedding_core.graph.affinity import (
        build_gaussian_graph,
        build_intersection_graph,
        check_dense_size,
        check_sigma,
        find_knn_edges,
    )

    scaler = _scaler(recipe, scale).fit(X)
    X = scaler.transform(X) if prepared_blocks(recipe) else scaler.transform(X, copy=copy)
    budget = settings.memory_budget_gb * _GIGABYTE
    if settings.graph != "gaussian":
        n_neighbors = min(settings.n_neighbors, X.shape[0] - 1)
        if settings.weights == INTERSECTION:
            return BuiltGraph(build_intersection_graph(X, n_neighbors, budget))
        edges = find_knn_edges(X, n_neighbors, settings.exact_items, settings.recall)
        sigma = edges.scale if settings.sigma == "auto" else check_sigma(settings.sigma)
        return BuiltGraph(edges.graph(settings.weights, sigma), edges.recall)
    check_dense_size(X.shape[0], budget, _DENSE_ADVICE, _DENSE_MATRICES)
    return BuiltGraph(build_gaussian_graph(X, settings.sigma, memory_budget_bytes=budget))


def _scaler(recipe: Mapping[str, Any], scale: str) -> Any:
    """What prepares the features: their blocks if several are joined, else the scale of the run."""
    from embedding_core.preprocessing import Preprocessor
    from embedding_core.scaling import Scaler

    blocks = prepared_blocks(recipe)
    return Preprocessor(blocks) if blocks else Scaler(scale)
