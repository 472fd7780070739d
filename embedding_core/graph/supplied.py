"""Graphs supplied by the user: edge lists and affinity matrices, and their validation."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from embedding_core.errors import InvalidInput, warn_caller
from embedding_core.graph.components import graph_components

_SYMMETRY_TOLERANCE = 1e-10

LEAST_WEIGHT = 1e-200
"""The largest weight of a graph must lie between this value and its inverse."""


def graph_from_edges(i: ArrayLike, j: ArrayLike, w: ArrayLike | None, n: int) -> Any:
    """Build a graph from a list of edges.

    Parameters
    ----------
    i, j : array-like of int, shape (m,)
        Ends of the edges, from 0 to n - 1. The direction is ignored; self-loops are dropped.
    w : array-like of float, shape (m,), or None
        Weights >= 0; None means 1. A pair listed several times, in either direction, gets its largest weight.
    n : int
        Number of nodes.

    Returns
    -------
    csr_array of shape (n, n)
    """
    a, b, weight = _checked_edges(i, j, w, n)
    return symmetric_csr(*_largest_of_pairs(np.minimum(a, b), np.maximum(a, b), weight), n)


def _checked_edges(
    i: ArrayLike, j: ArrayLike, w: ArrayLike | None, n: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    a, b = np.asarray(i), np.asarray(j)
    weight = np.ones(len(a)) if w is None else np.asarray(w, dtype=np.float64)
    if not len(a) == len(b) == len(weight):
        raise InvalidInput(
            f"Edges have {len(a)} starts, {len(b)} ends and {len(weight)} weights; give equally many of each."
        )
    for name, ends in (("i", a), ("j", b)):
        _check_ends(name, ends, n)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        e = bad[0]
        raise InvalidInput(
            f"Edge {e} ({a[e]}, {b[e]}) has weight {weight[e]}; weights must be finite and >= 0. Correct it."
        )
    return a.astype(np.intp), b.astype(np.intp), weight


def _largest_of_pairs(
    a: NDArray[np.intp], b: NDArray[np.intp], weight: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return each pair of different ends once, with its largest weight, sorted."""
    order = np.lexsort((weight, b, a))
    a, b, weight = a[order], b[order], weight[order]
    last = np.append((np.diff(a) != 0) | (np.diff(b) != 0), True)[: len(a)]
    keep = last & (a != b)
    return a[keep], b[keep], weight[keep]


def directed_from_edges(i: ArrayLike, j: ArrayLike, w: ArrayLike | None, n: int) -> Any:
    """Build a directed graph, a csr_array (n, n), of edges from i to j; see `graph_from_edges`."""
    a, b, weight = _largest_of_pairs(*_checked_edges(i, j, w, n))
    return sp.csr_array((weight, (a, b)), shape=(n, n))


def graph_edges(W: Any) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return the edges i < j and their weights, sorted: the inverse of `graph_from_edges`."""
    upper = sp.triu(sp.coo_array(W), k=1).tocsr()
    upper.sort_indices()
    upper.eliminate_zeros()
    edges = upper.tocoo()
    return edges.row.astype(np.int32), edges.col.astype(np.int32), edges.data.astype(np.float64)


def check_affinity(W: Any, n: int) -> Any:
    """Validate a supplied graph: (n, n), finite, non-negative, symmetric. The diagonal is dropped.

    Returns
    -------
    csr_array or ndarray of shape (n, n), float64
    """
    try:
        W = check_array(W, accept_sparse="csr", dtype=np.float64, copy=True, input_name="affinity")
    except ValueError as error:
        raise InvalidInput(
            f"The affinity is not a graph: {str(error).splitlines()[0].rstrip('.')}; pass a dense or sparse "
            f"({n}, {n}) matrix of finite numbers >= 0 and leave out links of unknown weight."
        ) from error
    if W.shape != (n, n):
        raise InvalidInput(f"affinity has shape {W.shape}; expected ({n}, {n}), one row and column per item.")
    W = sp.csr_array(W) if sp.issparse(W) else W
    if W.size and W.min() < 0:
        row, column = np.argwhere(W < 0)[0] if not sp.issparse(W) else np.transpose((W < 0).nonzero())[0]
        raise InvalidInput(
            f"affinity[{row}, {column}] = {W[row, column]} is negative; similarities must be >= 0. "
            "Pass exp(-distance) or drop these edges."
        )
    _check_symmetric(W)
    if sp.issparse(W):
        W.setdiag(0.0)
        W.eliminate_zeros()
    else:
        np.fill_diagonal(W, 0.0)
    largest = float(W.max()) if W.size else 0.0
    if largest > 0 and not weights_in_range(largest):
        raise InvalidInput(
            f"The largest weight of the affinity is {largest:.3g}; expected {LEAST_WEIGHT:g} to "
            f"{1 / LEAST_WEIGHT:g}, otherwise sums or inverses overflow float64. Divide the affinity by its "
            "largest weight."
        )
    return W


def weights_in_range(largest: float) -> bool:
    """Return whether a graph with this largest weight can be summed, multiplied by items and inverted."""
    return LEAST_WEIGHT <= largest <= 1 / LEAST_WEIGHT


def symmetric_csr(i: NDArray[np.intp], j: NDArray[np.intp], w: NDArray[np.float64], n: int) -> Any:
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    W = sp.csr_array((np.concatenate([w, w]), (rows, columns)), shape=(n, n))
    W.sort_indices()
    W.eliminate_zeros()
    return W


def _check_ends(name: str, ends: NDArray[Any], n: int) -> None:
    if len(ends) and ends.dtype.kind not in "iu":
        raise InvalidInput(f"Edge ends {name} are {ends.dtype}; expected integers 0 to {n - 1}.")
    bad = np.flatnonzero((ends < 0) | (ends >= n)) if len(ends) else np.zeros(0, dtype=int)
    if bad.size:
        raise InvalidInput(
            f"Edge {bad[0]}: {name} = {ends[bad[0]]} is outside 0..{n - 1}; there are {n} items. "
            "Check that the edge list belongs to this collection."
        )


def _check_symmetric(W: Any) -> None:
    gap = abs(W - W.T)
    largest = W.max() if W.size else 0.0
    if gap.size and gap.max() > _SYMMETRY_TOLERANCE * largest:
        row, column = np.unravel_index(int(gap.argmax()), W.shape)
        raise InvalidInput(
            f"affinity is not symmetric: [{row}, {column}] = {W[row, column]} but [{column}, {row}] = "
            f"{W[column, row]}; pass (W + W.T) / 2."
        )


def check_links(W: Any, components_matter: bool) -> None:
    """Raise InvalidInput if the graph has no edges.

    If `components_matter`, warn if the graph has several components with more than one item.
    """
    if not W.sum() > 0:
        raise InvalidInput(
            "The graph links no two items; give an affinity with edges, or a larger sigma or n_neighbors."
        )
    components = graph_components(W)
    if components_matter and (components.sizes > 1).sum() > 1:
        warn_caller(
            f"The graph has {components.describe()}; the subspace separates them first. "
            "Raise n_neighbors or add links if this is not intended."
        )


def warn_of_unlinked(W: Any) -> None:
    """Warn about items without links, about which the graph contains no information."""
    alone = np.flatnonzero(np.asarray(W.sum(axis=1)).ravel() == 0)
    if 0 < len(alone) < W.shape[0]:
        warn_caller(
            f"{len(alone)} of {W.shape[0]} items have no link to any other item (the first is row "
            f"{alone[0]}): the graph contains no information about them. Link them, or raise sigma or "
            "n_neighbors, unless this is intended."
        )


def check_given_graph(W: Any, n: int) -> Any:
    """Like `check_affinity`, but a valid CSR float64 graph is not copied.

    A graph of a million items takes some 250 MB. The general check holds several such matrices at once, this
    one only a transposed copy.
    """
    if not (sp.issparse(W) and W.format == "csr" and W.dtype == np.float64 and W.shape == (n, n)):
        return check_affinity(W, n)
    W = sp.csr_array(W)
    reverse = W.T.tocsr()
    fine = (
        W.has_canonical_format
        and W.nnz > 0
        and W.data.min() > 0  # also false for NaN
        and weights_in_range(W.data.max())
        and not W.diagonal().any()
        and np.array_equal(W.indptr, reverse.indptr)
        and np.array_equal(W.indices, reverse.indices)
        and np.array_equal(W.data, reverse.data)
    )
    return W if fine else check_affinity(W, n)
