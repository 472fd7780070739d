"""The graph over labeled and unlabeled rows, and how rough coordinates are along it."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.graph.affinity import kernel_distances, pairs_of
from embedding_core.graph.knn import nearest_by_distance, nearest_others, squared_lengths
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.graph.supplied import graph_from_edges

NEIGHBORS = 10
_LEAST_RADIUS = 1e-3


def local_graph(X: Any) -> Any:
    """Link every row with its ten nearest, W_ij = exp(-d_ij² / (r_i r_j)).

    r_i is the distance from row i to its tenth neighbor. Rows with ten copies of themselves would have none
    and link to nobody else: a radius is at least a thousandth of the mean one.

    Returns
    -------
    csr_array of shape (n, n)
    """
    nearest = nearest_others(X, min(NEIGHBORS, X.shape[0] - 1))
    i, j = pairs_of(nearest)
    rows = np.repeat(np.arange(len(nearest)), nearest.shape[1])
    reach = squared_lengths(X, rows, nearest.ravel()).reshape(nearest.shape)
    return _weigh(i, j, squared_lengths(X, i, j), reach.max(axis=1))


def local_kernel_graph(K: NDArray[np.float64]) -> Any:
    """`local_graph` in the feature space of a kernel matrix (n, n)."""
    squared = kernel_distances(K)
    nearest = nearest_by_distance(squared, min(NEIGHBORS, len(K) - 1))
    i, j = pairs_of(nearest)
    return _weigh(i, j, squared[i, j], np.take_along_axis(squared, nearest, axis=1).max(axis=1))


def smoothness(W: Any, rows: Any) -> NDArray[np.float64]:
    """R^T L R for L = I - D^(-1/2) W D^(-1/2) and coordinates R (n, d), dense or sparse.

    A row without a link adds nothing: the graph says nothing of it.
    """
    degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    root = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    scaled = sp.csr_array(sp.diags_array(root) @ rows) if sp.issparse(rows) else rows * root[:, None]
    return GraphLaplacian(W).quadratic(scaled)


def _weigh(
    i: NDArray[np.intp], j: NDArray[np.intp], squared: NDArray[np.float64], reach: NDArray[np.float64]
) -> Any:
    radius = np.sqrt(reach)
    radius = np.maximum(radius, _LEAST_RADIUS * radius.mean() or 1.0)
    return graph_from_edges(i, j, np.exp(-squared / (radius[i] * radius[j])), len(radius))
