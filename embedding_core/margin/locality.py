"""The graph part of LPSSVM, shared by all labels: locality preserving projections (Eq. 3) and their graph."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import (
    GRAPHS,
    Edges,
    GraphFamily,
    find_knn_edges,
    graph_family,
    kernel_distances,
    kernel_graph_family,
    nearest_edges,
)
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.graph.supplied import graph_from_edges
from embedding_core.linalg.eigen import fix_signs, whitening
from embedding_core.linalg.kernel_space import Kernel
from embedding_core.linalg.row_blocks import row_blocks

GRAPH_CHOICES = (*GRAPHS, "kernel")


@dataclass(frozen=True)
class Locality:
    """All solutions of X L X^T a = lambda X D X^T a: `values` (d,) ascending, `basis` (p, d) the a's.

    a^T X D X^T a = 1, and a lies in the range of X D X^T.
    """

    values: NDArray[np.float64]
    basis: NDArray[np.float64]


def solve_locality(X: Any, L: GraphLaplacian) -> Locality:
    """Solve Eq. 3 in the features: from two p x p matrices, without a copy of X."""
    T = whitening(_degree_moment(X, L.degree))
    if T.rank == 0:
        raise InvalidInput("All linked items are zero, so X D X^T is; give features that are not all zero.")
    S = T.whiten(T.whiten(L.quadratic(X)).T)
    values, V = scipy.linalg.eigh((S + S.T) / 2, check_finite=False)
    return Locality(np.maximum(values, 0.0), fix_signs(T.unwhiten(V)))


def solve_kernel_locality(rows: NDArray[np.float64], L: GraphLaplacian) -> Locality:
    """Solve Eq. 11 with gamma = 0 in coordinates (n, d) of full rank on the linked items.

    QR of D^(1/2) `rows` in place of the d x d matrices: kernels have small eigenvalues, whose digits squares
    would lose.
    """
    linked = linked_items(L.degree)
    root = np.sqrt(L.degree[linked, None])
    Q, R = scipy.linalg.qr(root * rows[linked], mode="economic", overwrite_a=True, check_finite=False)
    W = L.W if linked.all() else L.W[linked][:, linked]
    values, V = scipy.linalg.eigh(GraphLaplacian(W).quadratic(Q / root), check_finite=False, overwrite_a=True)
    basis = scipy.linalg.solve_triangular(R, V, check_finite=False)
    return Locality(np.maximum(values, 0.0), fix_signs(basis))


def linked_items(degree: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Items that the graph links to others; links of 1e-12 of the strongest item's do not count."""
    return degree > 1e-12 * degree.max(initial=0.0)


def _degree_moment(X: Any, degree: NDArray[np.float64]) -> NDArray[np.float64]:
    """X D X^T of the papers, sum_i D_ii x_i x_i^T, in float64."""
    if sp.issparse(X):
        X64 = sp.csr_array(X).astype(np.float64)
        return (X64.T @ sp.csr_array(X64.multiply(degree[:, None]))).toarray()
    B = np.zeros((X.shape[1], X.shape[1]))
    for rows, block in row_blocks(X):
        block64 = np.asarray(block, dtype=np.float64)
        B += block64.T @ (degree[rows, None] * block64)
    return (B + B.T) / 2


def own_graph_family(X: Any, kernel: Kernel, graph: str, n_neighbors: int) -> GraphFamily:
    """Pairs to link where no affinity is given.

    "knn" and "gaussian" weigh distances of the features, those of the feature space where only a kernel is
    known. "kernel" links nearest neighbors by the kernel's own values (Fig. 1, step 2) whatever sigma.
    """
    if kernel.name != "precomputed" and graph != "kernel":
        return graph_family(X, graph, n_neighbors)
    if kernel.name == "precomputed":
        if graph != "kernel":
            return kernel_graph_family(X, graph, n_neighbors)
        edges = nearest_edges(kernel_distances(X), n_neighbors)
    else:
        edges = find_knn_edges(X, n_neighbors)
    W = graph_from_edges(edges.i, edges.j, _kernel_weights(X, kernel, edges), edges.n)
    return GraphFamily(edges.scale, lambda sigma: W)


def _kernel_weights(X: Any, kernel: Kernel, edges: Edges) -> NDArray[np.float64]:
    if kernel.name == "rbf":
        return np.exp(-kernel.theta * edges.squared)
    if kernel.name == "precomputed":
        values = X[edges.i, edges.j]
    else:
        products = X[edges.i] * X[edges.j] if not sp.issparse(X) else X[edges.i].multiply(X[edges.j])
        values = np.asarray(products.sum(axis=1), dtype=np.float64).ravel()
    if (values < 0).any():
        e = int(np.argmin(values))
        raise InvalidInput(
            f'graph="kernel" needs values >= 0, but those of items {edges.i[e]} and {edges.j[e]} give '
            f'{values[e]:.3g}; use graph="knn", another kernel, or pass an affinity.'
        )
    return values
