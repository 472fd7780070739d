"""Connected components of graphs, by their own links and by groups of items."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

_LISTED = 5


@dataclass(frozen=True)
class Components:
    """Connected components: `labels` (n,) numbers them from 0, `sizes` counts their nodes."""

    labels: NDArray[np.int32]
    sizes: NDArray[np.intp]

    def describe(self) -> str:
        """Say "3 components (sizes 580, 9, 4)": the largest first, at most five of them."""
        sizes = np.sort(self.sizes)[::-1]
        listed = ", ".join(map(str, sizes[:_LISTED])) + (", ..." if len(sizes) > _LISTED else "")
        return f"{len(sizes)} components (sizes {listed})"


def graph_components(W: Any) -> Components:
    """Find the connected components; an isolated node is one of size 1."""
    _, labels = connected_components(sp.csr_array(W), directed=False)
    return Components(labels, np.bincount(labels))


def join_components(components: Components, member: Any, links: Any) -> Components:
    """Join components whose items are in groups that are linked.

    Parameters
    ----------
    components : Components
        Of n items.
    member : array or sparse matrix of shape (n, S)
        Not zero where an item is in a group.
    links : array or sparse matrix of shape (S, S)
        Not zero where two groups are linked.
    """
    c, S = len(components.sizes), member.shape[1]
    items, group = member.nonzero()
    s, t = links.nonzero()
    # components and groups as nodes: far fewer than items
    start, end = np.r_[components.labels[items], c + s], np.r_[c + group, c + t]
    graph = sp.csr_array((np.ones(len(start)), (start, end)), shape=(c + S, c + S))
    _, joined = connected_components(graph, directed=False)
    _, labels = np.unique(joined[components.labels], return_inverse=True)
    return Components(labels.astype(np.int32), np.bincount(labels))
