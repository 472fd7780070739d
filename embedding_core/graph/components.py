"""Connected components of graphs, through links between items and through groups of items."""

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
        """Return a text such as "3 components (sizes 580, 9, 4)", largest first, at most five sizes."""
        sizes = np.sort(self.sizes)[::-1]
        listed = ", ".join(map(str, sizes[:_LISTED])) + (", ..." if len(sizes) > _LISTED else "")
        return f"{len(sizes)} components (sizes {listed})"


def graph_components(W: Any) -> Components:
    """Find the connected components; an isolated node is a component of size 1."""
    _, labels = connected_components(sp.csr_array(W), directed=False)
    return Components(labels, np.bincount(labels))


def join_components(components: Components, member: Any, links: Any) -> Components:
    """Join components that contain items of linked groups.

    Parameters
    ----------
    components : Components
        Of n items.
    member : array or sparse matrix of shape (n, S)
        Nonzero where an item is in a group.
    links : array or sparse matrix of shape (S, S)
        Nonzero where two groups are linked.
    """
    c, S = len(components.sizes), member.shape[1]
    items, group = member.nonzero()
    s, t = links.nonzero()
    # The nodes are components and groups: far fewer than items.
    start, end = np.r_[components.labels[items], c + s], np.r_[c + group, c + t]
    graph = sp.csr_array((np.ones(len(start)), (start, end)), shape=(c + S, c + S))
    _, joined = connected_components(graph, directed=False)
    _, labels = np.unique(joined[components.labels], return_inverse=True)
    return Components(labels.astype(np.int32), np.bincount(labels))
