"""The graph a method builds where none is given: its kind, and the choice of sigma."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput, warn_caller
from embedding_core.graph.components import graph_components
from embedding_core.graph.graphs import (
    DENSE_BUDGET_BYTES,
    Edges,
    check_affinity,
    check_dense_size,
    check_neighbors,
    check_sigma,
    find_knn_edges,
    gaussian_of,
    mean_squared_distance,
    pairs_of,
    squared_distances,
    weights_in_range,
)
from embedding_core.graph.knn import nearest_by_distance

GRAPHS = ("knn", "gaussian")
SIGMA_WORDS = ("auto", "cv")

SIGMA_FACTORS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
"""Candidates of `sigma="cv"` as multiples of the mean squared distance."""


@dataclass(frozen=True)
class GraphFamily:
    """Gaussian graphs (Eq. 17 of DLE) on fixed pairs: `weigh(sigma)` gives one, `scale` is sigma "auto"."""

    scale: float
    weigh: Callable[[float], Any]


def graph_family(X: Any, graph: str, n_neighbors: int) -> GraphFamily:
    """Find the pairs and their distances once.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    graph : {"knn", "gaussian"}
        Sparse graph of nearest neighbors; all pairs (dense, refused beyond 2 GB).
    n_neighbors : int
        For "knn".
    """
    if graph == "knn":
        edges = find_knn_edges(X, n_neighbors)
        return GraphFamily(edges.scale, lambda sigma: edges.graph("gaussian", sigma))
    check_dense_size(X.shape[0], DENSE_BUDGET_BYTES, 'use graph="knn", or pass an affinity')
    squared = squared_distances(X)
    return GraphFamily(mean_squared_distance(squared), lambda sigma: gaussian_of(squared, sigma))


def kernel_graph_family(K: NDArray[np.float64], graph: str, n_neighbors: int) -> GraphFamily:
    """`graph_family` in the feature space of a kernel matrix K (n, n), whose distances it gives itself."""
    squared = kernel_distances(K)
    if graph == "gaussian":
        return GraphFamily(mean_squared_distance(squared), lambda sigma: gaussian_of(squared, sigma))
    edges = nearest_edges(squared, n_neighbors)
    return GraphFamily(edges.scale, lambda sigma: edges.graph("gaussian", sigma))


def kernel_distances(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared distances in the feature space of a kernel matrix."""
    squared = K.diagonal()[:, None] + K.diagonal() - K - K.T
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def nearest_edges(squared: NDArray[np.float64], n_neighbors: int) -> Edges:
    """Edges of the k-nearest-neighbor graph from all squared distances (n, n)."""
    n = len(squared)
    i, j = pairs_of(nearest_by_distance(squared, check_neighbors(n_neighbors, n)))
    return Edges(i, j, squared[i, j], n)


def check_links(W: Any, components_matter: bool) -> None:
    """Raise where nothing is linked; warn where the graph falls apart and a kernel can tell its parts."""
    if not W.sum() > 0:
        raise InvalidInput(
            "The graph links no two items; give an affinity with edges, or a larger sigma or n_neighbors."
        )
    components = graph_components(W)
    if components_matter and (components.sizes > 1).sum() > 1:
        warn_caller(
            f"The graph has {components.describe()}; the subspace separates them first. "
            "Raise n_neighbors or link them where that is not meant."
        )


def warn_of_unlinked(W: Any) -> None:
    """Warn of items that the graph links to nobody: it says nothing of where they belong."""
    alone = np.flatnonzero(np.asarray(W.sum(axis=1)).ravel() == 0)
    if 0 < len(alone) < W.shape[0]:
        warn_caller(
            f"{len(alone)} of {W.shape[0]} items have no link to any other (the first is row {alone[0]}): "
            "the graph says nothing of them. Link them, or raise sigma or n_neighbors, unless that is meant."
        )


def check_given_graph(W: Any, n: int) -> Any:
    """`graphs.check_affinity`, but a sparse graph that is right as it stands is not copied.

    A graph of a million items takes some 250 MB; the general check holds several such matrices at once, this
    one a transposed copy.
    """
    if not (sp.issparse(W) and W.format == "csr" and W.dtype == np.float64 and W.shape == (n, n)):
        return check_affinity(W, n)
    W = sp.csr_array(W)
    reverse = W.T.tocsr()
    fine = (
        W.has_canonical_format
        and W.nnz > 0
        and W.data.min() > 0  # false for NaN too
        and weights_in_range(W.data.max())
        and not W.diagonal().any()
        and np.array_equal(W.indptr, reverse.indptr)
        and np.array_equal(W.indices, reverse.indices)
        and np.array_equal(W.data, reverse.data)
    )
    return W if fine else check_affinity(W, n)


def check_sigma_choice(sigma: Any) -> None:
    """Raise unless sigma is a positive number, "auto" or "cv"."""
    if isinstance(sigma, str):
        if sigma not in SIGMA_WORDS:
            raise InvalidInput(f'sigma={sigma!r} is not legal; give a positive number, "auto" or "cv".')
    else:
        check_sigma(sigma)


def choose_sigma(family: GraphFamily, sigma: float | str, score: Callable[[Any], float]) -> float:
    """Resolve sigma: a number stands, "auto" is the scale, "cv" the candidate whose graph scores best.

    Of equal scores the one nearest to the scale wins.
    """
    if sigma == "auto":
        return family.scale
    if sigma != "cv":
        return check_sigma(sigma)
    nearest_first = sorted(SIGMA_FACTORS, key=lambda factor: abs(np.log(factor)))
    scores = [score(family.weigh(factor * family.scale)) for factor in nearest_first]
    return nearest_first[int(np.argmax(scores))] * family.scale


def resolve_graph(
    affinity: Any,
    n: int,
    family: Callable[[], GraphFamily],
    sigma: float | str | None,
    score: Callable[[Any], float],
) -> tuple[Any, float | None]:
    """The graph of n items as it was given, else of the family, and the sigma of its weights.

    Parameters
    ----------
    affinity : array, sparse matrix or None
    n : int
    family : callable
        Finds the pairs to link; asked where no affinity is given.
    sigma : float, "auto", "cv" or None
        None for weights without a sigma.
    score : callable
        Rates a graph for "cv".

    Returns
    -------
    W : csr_array or ndarray of shape (n, n)
    sigma : float or None
        None for a given graph, too.
    """
    if affinity is not None:
        return check_given_graph(affinity, n), None
    found = family()
    chosen = None if sigma is None else choose_sigma(found, sigma, score)
    return found.weigh(found.scale if chosen is None else chosen), chosen
