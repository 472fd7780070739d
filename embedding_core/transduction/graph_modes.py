"""Smooth vectors on a graph: the eigenvectors of its Laplacian with the smallest eigenvalues."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.eigenmaps.combined_graph import CombinedGraph
from embedding_core.errors import InvalidInput
from embedding_core.graph.components import graph_components
from embedding_core.graph.spectral import smallest_eigenpairs

LAPLACIANS = ("normalized", "plain")


@dataclass(frozen=True)
class GraphModes:
    """`vectors` (n, r) and `eigenvalues` (r,), ascending; `n_zero` counts those of eigenvalue 0."""

    vectors: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    n_zero: int


def graph_modes(W: Any, r: int, normalized: bool, after_zeros: bool = False) -> GraphModes:
    """Eigenvectors of L = D - W beside the constant one, smallest eigenvalues first.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
    r : int
        How many; fewer where there are no more.
    normalized : bool
        Solve L v = λ D v with V^T D V = (tr D / n) I in place of L v = λ v with V^T V = I. Items without a
        link have no such vectors; their rows are 0.
    after_zeros : bool
        Count only positive eigenvalues. Else the contrasts of components, of eigenvalue 0, are in.
    """
    degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    linked = np.flatnonzero(degree > 0)
    if len(linked) < 2:
        raise InvalidInput("The graph links no two items; give an affinity with edges, or a larger sigma.")
    if not normalized:
        # self-loops leave L as it is and make all degrees alike: then D v is a multiple of v
        W = _add_diagonal(W, degree.max() - degree)
        degree = np.full_like(degree, degree.max())
        linked = np.arange(len(degree))
    part = W if len(linked) == len(degree) else W[linked][:, linked]
    components = graph_components(part)
    n_zero = len(components.sizes) - 1
    wanted = min(r + (n_zero if after_zeros else 0), len(linked) - 1)
    found = smallest_eigenpairs(CombinedGraph(part), wanted, components)
    scale = degree.sum() / len(degree)
    V = np.zeros((len(degree), wanted))
    V[linked] = found.coordinates * np.sqrt(scale)
    return GraphModes(V, found.eigenvalues * (1.0 if normalized else scale), min(n_zero, wanted))


def _add_diagonal(W: Any, diagonal: NDArray[np.float64]) -> Any:
    if sp.issparse(W):
        return sp.csr_array(W + sp.diags_array(diagonal))
    return W + np.diag(diagonal)
