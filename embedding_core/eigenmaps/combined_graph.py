"""Graphs of the eigenmaps, in particular W = λ W^F + (1 - λ) W^L of SLE-ML (Eq. 3).

W^L = P J P^T is never formed. P (n, S) assigns each item to one of the S distinct label sets, J (S, S)
contains the Jaccard similarities of these sets.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import check_memory
from embedding_core.graph.components import Components, graph_components, join_components
from embedding_core.graph.knn import nearest_others
from embedding_core.graph.spectral import Eigenmap, smallest_eigenpairs
from embedding_core.graph.supplied import check_affinity

BUDGET_BYTES = 2e9
_DENSE_SETS = 2048
_LINK_BYTES = 40  # per directed link while the graph is built: indices, A, A^T, their sum


@dataclass(frozen=True)
class LabelSets:
    """W^L = P J P^T: `P` (n, S) CSR with at most one 1 per row, `J` (S, S) dense or CSR, `counts` (S,) items.

    An unlabeled item, or one without labels, is in no set: W^L does not link it, not even to itself.
    """

    P: Any
    J: Any
    counts: NDArray[np.float64]

    def apply(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """Return W^L V in O(n + S²) per column."""
        product: NDArray[np.float64] = self.P @ (self.J @ (self.P.T @ V))
        return product

    def quotient(self) -> Any:
        """Return P^T W^L P, the weights between whole sets: n_s J_st n_t."""
        if sp.issparse(self.J):
            N = sp.diags_array(self.counts)
            return sp.csr_array(N @ self.J @ N)
        return self.counts[:, None] * self.J * self.counts


def find_label_sets(Y: NDArray[np.int8], class_weight: str | None = None) -> LabelSets:
    """Find the distinct label sets and their Jaccard similarities.

    Parameters
    ----------
    Y : ndarray of shape (n, K)
        0/1 labels; rows of -1 and of 0 are in no set.
    class_weight : None or "balanced"
        "balanced" multiplies J_st by w_s w_t, where w_s² is the mean over the labels of s of mean class size
        / class size. With one label per item all items then have the same label degree, the mean class size.
    """
    used = np.flatnonzero((Y == 1).any(axis=1))
    _, first, group = np.unique(
        np.packbits(Y[used] == 1, axis=1), axis=0, return_index=True, return_inverse=True
    )
    group = group.ravel()
    sets = (Y[used[first]] == 1).astype(np.float64)
    held = np.zeros(len(Y) + 1, dtype=np.int64)
    held[used + 1] = 1
    P = sp.csr_array((np.ones(len(used)), group, np.cumsum(held)), shape=(len(Y), len(sets)))
    J = jaccard_similarity(sets)
    if class_weight == "balanced":
        size = (Y == 1).sum(axis=0)
        relative = np.divide(size[size > 0].mean(), size, out=np.zeros(len(size)), where=size > 0)
        weight = np.sqrt(sets @ relative / sets.sum(axis=1))
        S = sp.diags_array(weight)
        J = sp.csr_array(S @ J @ S) if sp.issparse(J) else weight[:, None] * J * weight
    return LabelSets(P, J, np.bincount(group, minlength=len(sets)).astype(np.float64))


def jaccard_similarity(sets: NDArray[np.float64]) -> Any:
    """Return |s ∧ t| / |s ∨ t| (Eq. 3) of distinct non-empty 0/1 rows (S, K); CSR if there are many."""
    S, size = len(sets), sets.sum(axis=1)
    if S <= _DENSE_SETS:
        common = sets @ sets.T
        return common / (size[:, None] + size - common)
    links = float((sets.sum(axis=0) ** 2).sum())
    what = f"A graph of {S} distinct label sets that share labels in up to {links:.2g} pairs"
    advice = "keep only the frequent labels, or use balance=1"
    check_memory(what, _LINK_BYTES * links, BUDGET_BYTES, advice)
    held = sp.csr_array(sets)
    common = sp.csr_array(held @ held.T)
    pairs = common.tocoo()
    common.data = pairs.data / (size[pairs.row] + size[pairs.col] - pairs.data)
    return common


def build_half_knn_graph(X: Any, n_neighbors: int) -> Any:
    """Build w^F of Eq. 3: 1 if each item is among the nearest of the other, 1/2 if only one is.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, p)
    n_neighbors : int
        k, not counting the item itself, at most n - 1.

    Returns
    -------
    csr_array of shape (n, n)
    """
    n = X.shape[0]
    check_link_budget(n, n_neighbors)
    found = nearest_others(X, n_neighbors)
    A = sp.csr_array(
        (np.full(found.size, 0.5), found.ravel(), np.arange(0, found.size + 1, n_neighbors)),
        shape=(n, n),
    )
    A = with_short_indices(A)
    W = sp.csr_array(A + A.T)
    W.sort_indices()
    return W


@dataclass(frozen=True)
class CombinedGraph:
    """W + weight W^L as an operator: `W` (n, n) CSR or dense, `sets` the label sets of W^L, if any.

    Implements the `Graph` protocol of `embedding_core.graph.spectral`.
    """

    W: Any
    sets: LabelSets | None = None
    weight: float = 1.0

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """Row sums, including the diagonal of W^L."""
        degree = np.asarray(self.W.sum(axis=1), dtype=np.float64).ravel()
        if self.sets is not None:
            degree = degree + self.weight * (self.sets.P @ (self.sets.J @ self.sets.counts))
        return degree

    @property
    def row_cost(self) -> float:
        """Multiplications per row of one product with W."""
        n: int = self.W.shape[0]
        entries = _entries(self.W) + (2 * n + _entries(self.sets.J) if self.sets is not None else 0)
        return max(entries / n, 1.0)

    def apply(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector (n,) or a block (n, b)."""
        product: NDArray[np.float64] = self.W @ V
        if self.sets is not None:
            product += self.weight * self.sets.apply(V)
        return product

    def restrict(self, rows: NDArray[np.intp]) -> "CombinedGraph":
        """Return the subgraph of some nodes."""
        sets = self.sets
        if sets is not None:
            P = sets.P[rows]
            sets = LabelSets(P, sets.J, np.asarray(P.sum(axis=0), dtype=np.float64).ravel())
        return CombinedGraph(self.W[rows][:, rows], sets, self.weight)

    def components(self) -> Components:
        """Return the connected components, including links by labels."""
        by_graph = graph_components(self.W)
        if self.sets is None or len(by_graph.sizes) == 1:
            return by_graph
        return join_components(by_graph, self.sets.P, self.sets.J)


def solve_label_sets(sets: LabelSets, r: int) -> Eigenmap:
    """Solve L Z = D Z Λ of W^L, whose eigenvectors are constant on label sets, on the graph of whole sets.

    The omitted eigenvalues are all 1, with eigenvectors that sum to 0 on every set.
    """
    solution = smallest_eigenpairs(CombinedGraph(sets.quotient()), r)
    return Eigenmap(sets.P @ solution.coordinates, solution.eigenvalues)


def check_link_budget(n: int, n_neighbors: int) -> None:
    """Raise InvalidInput if building the nearest-neighbor graph would need too much memory."""
    what = f"A graph of {n_neighbors} neighbors of each of {n} items"
    advice = "use a smaller n_neighbors (for example 15), or pass an affinity"
    check_memory(what, _LINK_BYTES * float(n) * n_neighbors, BUDGET_BYTES, advice)


def given_graph(affinity: Any, n: int) -> Any:
    """Return a validated copy of a supplied affinity, CSR or dense as it was given."""
    return with_short_indices(check_affinity(affinity, n))


def with_short_indices(W: Any) -> Any:
    """Return the same CSR matrix with 32-bit indices if they suffice, which saves a third of the memory."""
    if not sp.issparse(W) or W.indices.dtype == np.int32 or max(W.nnz, *W.shape) >= 2**31:
        return W
    return sp.csr_array((W.data, W.indices.astype(np.int32), W.indptr.astype(np.int32)), shape=W.shape)


def _entries(M: Any) -> float:
    return float(M.nnz if sp.issparse(M) else M.size)
