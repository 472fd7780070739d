"""Smallest eigenpairs of a graph Laplacian given as an operator: L Z = D Z Λ, Z^T D Z = I.

With U = D^(1/2) Z they are the largest eigenpairs of M = D^(-1/2) W D^(-1/2) = I - L_norm, whose spectrum
lies in [-1, 1]. Single-vector Lanczos finds one vector of a repeated eigenvalue and silently misses the
others, and a graph with c components has the eigenvalue 0 with multiplicity c. Therefore:

- the eigenvectors of eigenvalue 0, one per component, are written down instead of computed;
- each other eigenvector is nonzero on one component only and is computed there, with the zero vector
  deflated;
- the result of Lanczos is checked by a second run on the rest of the spectrum, which finds and adds any
  larger eigenvalue that was missed;
- small components are solved by dense linear algebra.

Lanczos is applied to a Chebyshev polynomial of M that is small on the unwanted part of the spectrum. It needs
fewer steps; a step costs more than a product with a sparse matrix, because each new vector is orthogonalized
against all previous ones.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from threadpoolctl import threadpool_limits

from embedding_core.errors import InvalidInput
from embedding_core.graph.components import Components

DENSE_SIZE = 400
TOLERANCE = 1e-7
"""Residual of an eigenvector of the filtered operator, relative to its largest eigenvalue."""

_MAX_DEGREE = 8
# Bounds on the Lanczos steps of the check, and its products with M: a filtered step needs several of them.
_CHECK_STEPS, _CHECK_PRODUCTS = (6, 14), 28
_MAX_RESTARTS = 400
_MAX_ROUNDS = 20
_SEED = 0
LEAST_STEP = 0.1
"""θ above which a product with M improves a vector; closer to 0 it would amplify the other vectors."""
# Before SciPy 1.17 the argument does not exist; only the start vector was random, and it is passed.
_TAKES_RNG = "rng" in inspect.signature(eigsh).parameters

Apply = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Graph(Protocol):
    """A symmetric non-negative W (n, n) that can be applied to vectors; it need not exist as a matrix."""

    @property
    def degree(self) -> NDArray[np.float64]:
        """Row sums (n,)."""

    @property
    def row_cost(self) -> float:
        """Multiplications per row of one product with W."""

    def apply(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """W V for a vector (n,) or a block (n, b)."""

    def restrict(self, rows: NDArray[np.intp]) -> Self:
        """Return the subgraph of some nodes."""

    def components(self) -> Components:
        """Return the connected components, through all kinds of links."""


@dataclass(frozen=True)
class Eigenmap:
    """Coordinates Z (n, r) with Z^T D Z = I and ascending eigenvalues (r,), without the trivial pair."""

    coordinates: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


def smallest_eigenpairs(graph: Graph, r: int, components: Components | None = None) -> Eigenmap:
    """Solve L z = μ D z for the r smallest μ after the trivial pair (0, constant vector).

    Parameters
    ----------
    graph : Graph
        W of L = D - W; all degrees are positive.
    r : int
        From 1 to n - 1.
    components : Components, optional
        Components of `graph`, if already known.

    Notes
    -----
    If there are c > 1 components, the first c - 1 coordinates are contrasts with eigenvalue 0. Order the
    components by descending total degree: contrast j separates component j + 1 from components 1 to j.
    """
    n = len(graph.degree)
    if not 1 <= r <= n - 1:
        raise InvalidInput(
            f"{r} eigenvectors requested; a graph of {n} nodes has {n - 1} besides the constant one."
        )
    if not (graph.degree > 0).all():
        node = int(np.argmin(graph.degree))
        raise InvalidInput(f"Node {node} has degree {graph.degree[node]}; leave out nodes without links.")
    found = graph.components() if components is None else components
    contrasts = _component_contrasts(graph.degree, found, r)
    searched = r - contrasts.shape[1]
    if searched == 0:
        return Eigenmap(contrasts, np.zeros(r))
    rest = _nonzero_pairs(graph, found, searched)
    return Eigenmap(
        np.hstack([contrasts, rest.coordinates]), np.r_[np.zeros(contrasts.shape[1]), rest.eigenvalues]
    )


def _component_contrasts(degree: NDArray[np.float64], components: Components, r: int) -> NDArray[np.float64]:
    """Return D-orthonormal vectors (n, c - 1), constant on components, D-orthogonal to the constant vector.

    At most `r` vectors are returned: a graph may have as many components as items.
    """
    volume = np.bincount(components.labels, weights=degree)
    order = np.argsort(-volume, kind="stable")
    larger = np.cumsum(volume[order])[:-1][:r]
    own = volume[order][1 : r + 1]
    values = np.zeros((len(volume), len(own)))
    for j, (A, B) in enumerate(zip(larger, own, strict=True)):
        values[order[: j + 1], j] = np.sqrt(B / (A * (A + B)))
        values[order[j + 1], j] = -np.sqrt(A / (B * (A + B)))
    return values[components.labels]


def _nonzero_pairs(graph: Graph, components: Components, r: int) -> Eigenmap:
    """Return the r smallest positive eigenvalues over all components."""
    if len(components.sizes) == 1:
        return _connected_pairs(graph, r)
    parts = []
    by_component = np.argsort(components.labels, kind="stable")
    ends = np.cumsum(np.bincount(components.labels))
    for rows in np.split(by_component, ends[:-1]):
        if len(rows) > 1:
            parts.append((rows, _connected_pairs(graph.restrict(rows), min(r, len(rows) - 1))))
    values = np.concatenate([part.eigenvalues for _, part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.eigenvalues) for _, part in parts])
    column = np.concatenate([np.arange(len(part.eigenvalues)) for _, part in parts])
    best = np.argsort(values, kind="stable")[:r]
    Z = np.zeros((len(graph.degree), r))
    for k, e in enumerate(best):
        rows, part = parts[owner[e]]
        Z[rows, k] = part.coordinates[:, column[e]]
    return Eigenmap(Z, values[best])


def _connected_pairs(graph: Graph, r: int) -> Eigenmap:
    n = len(graph.degree)
    root = np.sqrt(graph.degree)
    trivial = root / np.linalg.norm(root)

    inverse = 1 / root

    def apply(V: NDArray[np.float64]) -> NDArray[np.float64]:
        image = graph.apply((V.T * inverse).T)
        image.T[...] *= inverse
        return image

    if n <= DENSE_SIZE or 3 * r >= n:
        U = _dense_vectors(apply, trivial, r)
    else:
        # Products with one vector are limited by memory bandwidth: more threads only slow them down.
        with threadpool_limits(1, user_api="blas"):
            U = _lanczos_vectors(apply, trivial, r, graph.row_cost)
        # Within its tolerance Lanczos leaves a part of the trivial vector: remove it.
        U = np.linalg.qr(U - np.outer(trivial, trivial @ U))[0]
    return _rayleigh_ritz(apply, U, root)


def _rayleigh_ritz(apply: Apply, U: NDArray[np.float64], root: NDArray[np.float64]) -> Eigenmap:
    """Compute the eigenpairs of M in the span of orthonormal U; μ = 1 - θ, at least 0.

    A node of degree d has z = u / d^(1/2); if d is small, z is dominated by the rounding error of u.
    Replacing u by M u / θ, that is z = D^(-1) W z / θ, gives z the mean of its neighbors, as the equation
    requires.
    """
    image = apply(U)
    theta, Y = scipy.linalg.eigh(U.T @ image)
    theta, Y = theta[::-1], Y[:, ::-1]
    steady = theta > LEAST_STEP
    V = image @ (Y / np.where(steady, theta, 1.0))  # M U Y / θ
    V[:, ~steady] = U @ Y[:, ~steady]
    V /= root[:, None]
    return Eigenmap(V, np.maximum(1.0 - theta, 0.0))


def _dense_vectors(apply: Apply, trivial: NDArray[np.float64], r: int) -> NDArray[np.float64]:
    n = len(trivial)
    M = apply(np.eye(n)) - 3 * np.outer(trivial, trivial)
    vectors: NDArray[np.float64] = scipy.linalg.eigh((M + M.T) / 2, subset_by_index=(n - r, n - 1))[1]
    return vectors


def _lanczos_vectors(
    apply: Apply, trivial: NDArray[np.float64], r: int, row_cost: float
) -> NDArray[np.float64]:
    """Return the r leading eigenvectors of M besides the trivial one, with none missing."""
    n = len(trivial)
    rng = np.random.default_rng(_SEED)
    n_basis = min(n, max(2 * r + 1, r + 20))
    degree = int(np.clip(round(1.2 * n_basis / row_cost), 1, _MAX_DEGREE))
    filtered = _chebyshev_filter(apply, trivial, r, degree, rng)
    check_steps = int(np.clip(_CHECK_PRODUCTS // degree, *_CHECK_STEPS))
    U, values = np.zeros((n, 0)), np.zeros(0)
    for _ in range(_MAX_ROUNDS):
        rest = _deflate(filtered, U)
        more, vectors = _arpack(rest, n, r, n_basis, rng)
        values, U = _merge(values, U, more, vectors, r)
        check = _ritz_values(_deflate(filtered, U), rng.normal(size=n), check_steps)
        if check.max() <= values.min() + 1e-6 * abs(values).max():
            return U
    raise InvalidInput(_NOT_CONVERGED)


_NOT_CONVERGED = (
    "The eigenvectors of the graph did not converge: the graph is a long thin chain or its eigenvalues "
    "coincide. Use a graph with more links (a larger n_neighbors), or fewer n_components."
)


def _merge(
    values: NDArray[np.float64],
    U: NDArray[np.float64],
    more: NDArray[np.float64],
    vectors: NDArray[np.float64],
    r: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the r leading eigenpairs of two orthogonal sets."""
    if not len(values):
        return more, vectors
    both = np.concatenate([values, more])
    best = np.argsort(-both, kind="stable")[:r]
    return both[best], np.linalg.qr(np.hstack([U, vectors])[:, best])[0]


def _arpack(
    apply: Apply, n: int, r: int, n_basis: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    M = LinearOperator((n, n), matvec=lambda v: apply(v.ravel()), dtype=np.float64)
    options: dict[str, Any] = {"rng": rng} if _TAKES_RNG else {}
    start = rng.normal(size=n)
    try:
        values, vectors = eigsh(
            M, r, which="LA", ncv=n_basis, v0=start, tol=TOLERANCE, maxiter=_MAX_RESTARTS, **options
        )
    except ArpackNoConvergence as error:
        raise InvalidInput(_NOT_CONVERGED) from error
    return values, vectors


def _chebyshev_filter(
    apply: Apply, trivial: NDArray[np.float64], r: int, degree: int, rng: np.random.Generator
) -> Apply:
    """Return T_degree of M with [-1, b] mapped to [-1, 1] and the trivial vector moved to -2.

    b is the (r+1)-th Ritz value of a short Lanczos run and therefore at most the (r+1)-th eigenvalue: all
    wanted eigenvalues lie above b, where the polynomial is increasing and preserves their order.
    """

    def deflated(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return apply(v) - (3 * (trivial @ v)) * trivial

    if degree == 1:
        return deflated
    ritz = _ritz_values(deflated, rng.normal(size=len(trivial)), r + 20)
    if len(ritz) <= r or ritz[r] < -0.9:
        return deflated
    half, center = (ritz[r] + 1) / 2, (ritz[r] - 1) / 2

    def filtered(v: NDArray[np.float64]) -> NDArray[np.float64]:
        along = trivial @ v
        former = v - along * trivial
        latest = apply(former)
        latest -= center * former
        latest /= half
        for _ in range(degree - 1):
            following = apply(latest)
            following *= 2 / half
            former += (2 * center / half) * latest
            following -= former
            former, latest = latest, following
        return latest - (2 * along) * trivial

    return filtered


def _deflate(apply: Apply, U: NDArray[np.float64]) -> Apply:
    """Return the operator on the complement of U, with the columns of U moved to -2."""
    if not U.shape[1]:
        return apply

    def deflated(v: NDArray[np.float64]) -> NDArray[np.float64]:
        along = U.T @ v
        image = apply(v - U @ along)
        return image - U @ (U.T @ image + 2 * along)

    return deflated


def _ritz_values(apply: Apply, start: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Return the Ritz values of a Lanczos run, descending; the k-th is at most the k-th eigenvalue.

    Fewer than `steps` values are returned if the run ends in an invariant subspace.
    """
    n = len(start)
    steps = min(steps, n)
    Q, diagonal, below = np.empty((n, steps), order="F"), np.empty(steps), np.empty(steps)
    q = start / np.linalg.norm(start)
    for j in range(steps):
        Q[:, j] = q
        q = apply(q)
        diagonal[j] = Q[:, j] @ q
        q -= Q[:, : j + 1] @ (Q[:, : j + 1].T @ q)
        below[j] = np.linalg.norm(q)
        if below[j] < 1e-10:
            steps = j + 1
            break
        q /= below[j]
    values: NDArray[np.float64] = scipy.linalg.eigh_tridiagonal(
        diagonal[:steps], below[: steps - 1], eigvals_only=True
    )[::-1]
    return values
