"""Linear systems and eigenvectors of a graph.

`solve_columns` runs conjugate gradients for many right-hand sides at once, with the diagonal as
preconditioner. `graph_modes` returns the smoothest vectors on a graph: the eigenvectors of its Laplacian with
the smallest eigenvalues.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.eigenmaps.combined_graph import CombinedGraph
from embedding_core.errors import InvalidInput
from embedding_core.graph.components import graph_components
from embedding_core.graph.spectral import smallest_eigenpairs

TOLERANCE = 1e-10
"""Largest residual of an equation, relative to its diagonal entry and the largest unknown."""

_MAX_RESTARTS = 10
_MIN_STEPS = 1000
Apply = Callable[[NDArray[np.float64]], NDArray[np.float64]]

LAPLACIANS = ("normalized", "plain")


def solve_columns(
    apply: Apply,
    diagonal: NDArray[np.float64],
    B: NDArray[np.float64],
    start: NDArray[np.float64],
    tolerance: float = TOLERANCE,
    least: float = 0.0,
) -> NDArray[np.float64]:
    """Solve A_k x_k = b_k, one symmetric positive definite system per column.

    Parameters
    ----------
    apply : callable
        Maps (n, K) to (n, K), multiplying column k by A_k. The A_k may differ by a shift of the diagonal.
    diagonal : ndarray of shape (n, K) or (n, 1)
        Diagonals of the A_k.
    B, start : ndarrays of shape (n, K)
        Right-hand sides and initial guess. Unknowns that the equations hardly determine, such as a part of a
        graph connected by a link of weight 1e-12, stay close to the guess.
    tolerance : float
        The true residual, not its recurrence, satisfies |b - A x|_i <= tolerance a_ii max|x| for all i. Items
        of small degree count as much as others.
    least : float
        Lower bound on the scale max|x|, so that a solution of zeros is found from any guess.
    """
    X = np.array(np.broadcast_to(start, B.shape), dtype=np.float64)
    steps_left = max(_MIN_STEPS, 10 * len(B))
    for _ in range(_MAX_RESTARTS):
        R = B - apply(X)
        if not _open(R, diagonal, X, tolerance, least).any():
            return X
        steps_left -= _descend(apply, diagonal, R, X, tolerance, least, steps_left)
        if steps_left <= 0:
            break
    if not _open(B - apply(X), diagonal, X, tolerance, least).any():
        return X
    raise InvalidInput(
        "Conjugate gradients did not converge: the graph is a long chain, or the weights of its links differ "
        "by too much. Give a graph with more links (a larger n_neighbors) or a larger sigma."
    )


def _open(
    R: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    X: NDArray[np.float64],
    tolerance: float,
    least: float,
) -> NDArray[np.bool_]:
    """Return a mask of the columns whose residual is too large."""
    if not len(R):
        return np.zeros(R.shape[1], dtype=bool)
    allowed = tolerance * np.maximum(abs(X).max(axis=0), least)
    too_large: NDArray[np.bool_] = (abs(R) / diagonal).max(axis=0) > allowed
    return too_large


def _descend(
    apply: Apply,
    diagonal: NDArray[np.float64],
    R: NDArray[np.float64],
    X: NDArray[np.float64],
    tolerance: float,
    least: float,
    max_steps: int,
) -> int:
    """Improve X in place until the recurrence of the residual is small; return the number of steps."""
    Z = R / diagonal
    P, rz = Z.copy(), np.einsum("ik,ik->k", R, Z)
    for step in range(1, max_steps + 1):
        A_P = apply(P)
        curvature = np.einsum("ik,ik->k", P, A_P)
        # a column that is solved up to rounding no longer moves
        length = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        X += length * P
        R -= length * A_P
        if not _open(R, diagonal, X, tolerance / 2, least).any():
            return step
        Z = R / diagonal
        rz_next = np.einsum("ik,ik->k", R, Z)
        P *= np.divide(rz_next, rz, out=np.zeros_like(rz), where=rz > 0)
        P += Z
        rz = rz_next
    return max_steps


@dataclass(frozen=True)
class GraphModes:
    """`vectors` (n, r) and ascending `eigenvalues` (r,); `n_zero` counts the zero eigenvalues."""

    vectors: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    n_zero: int


def graph_modes(W: Any, r: int, normalized: bool, after_zeros: bool = False) -> GraphModes:
    """Return eigenvectors of L = D - W other than the constant one, smallest eigenvalues first.

    Parameters
    ----------
    W : csr_array or ndarray of shape (n, n)
    r : int
        Number of eigenvectors; fewer if there are no more.
    normalized : bool
        Solve L v = λ D v with V^T D V = (tr D / n) I instead of L v = λ v with V^T V = I. Items without a
        link have zero rows.
    after_zeros : bool
        Count only positive eigenvalues. Otherwise the contrasts between components (eigenvalue 0) count too.
    """
    degree = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    linked = np.flatnonzero(degree > 0)
    if len(linked) < 2:
        raise InvalidInput("The graph links no two items; give an affinity with edges, or a larger sigma.")
    if not normalized:
        # self-loops do not change L and make all degrees equal, so that D v is a multiple of v
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
