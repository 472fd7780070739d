"""Solver of LPSSVM: the graph problem shared by all labels, and the alternation for one label.

The graph part is solved once (`Locality`, Eq. 3 and 11 with gamma = 0). A label adds a matrix of rank one
(Eq. 9, 11), so in the coordinates that solve the graph part (B = I, L diagonal) the problem of every label
and iteration is diag(d) + rho z z^T. Its eigenvalues cost O(k²). The roots of the secular equation come from
LAPACK's `dlasd4`; z is then recomputed from the roots [1]_, so that the eigenvectors are orthogonal to
working precision even for close roots.

References
----------
.. [1] M. Gu, S. C. Eisenstat, "A stable and efficient algorithm for the rank-one modification of the
   symmetric eigenproblem", SIAM J. Matrix Anal. Appl. 15, 1266-1276, 1994.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.linalg.conditioning import EPS
from embedding_core.linalg.eigen import fix_signs, whitening
from embedding_core.linalg.kernel_space import Kernel
from embedding_core.linalg.row_blocks import row_blocks
from embedding_core.margin.kernel_span import KernelSpan, span_items
from embedding_core.margin.svm import svm_trainer

Rotation = tuple[int, int, float, float]

Chooser = Callable[[NDArray[np.float64]], int]


@dataclass(frozen=True)
class RankOneUpdate:
    """Eigenpairs of diag(d) + rho z z^T: ascending `values` (k,), and `vectors(r)` of the r smallest."""

    values: NDArray[np.float64]
    _order: NDArray[np.intp]
    _fixed: NDArray[np.intp]
    _moved: NDArray[np.intp]
    _numerator: NDArray[np.float64]
    _gaps: NDArray[np.float64]
    _rotations: list[Rotation]

    def vectors(self, r: int) -> NDArray[np.float64]:
        """Return orthonormal eigenvectors (k, r) of the r smallest eigenvalues."""
        chosen = self._order[:r]
        V = np.zeros((len(self._order), len(chosen)))
        still = chosen < len(self._fixed)
        V[self._fixed[chosen[still]], np.flatnonzero(still)] = 1.0
        if not still.all():
            block = self._numerator[:, None] / self._gaps[:, chosen[~still] - len(self._fixed)]
            V[np.ix_(self._moved, np.flatnonzero(~still))] = block / np.linalg.norm(block, axis=0)
        for i, j, c, s in reversed(self._rotations):
            V[i], V[j] = c * V[i] - s * V[j], s * V[i] + c * V[j]
        return V


def update_diagonal(d: NDArray[np.float64], z: NDArray[np.float64], rho: float) -> RankOneUpdate:
    """Decompose diag(d) + rho z z^T for ascending d and rho of either sign.

    Parameters
    ----------
    d, z : ndarray of shape (k,)
    rho : float
    """
    turn = rho < 0  # -(diag(-d) + |rho| z z^T), with the order reversed so that -d ascends
    values = -d[::-1].copy() if turn else d.copy()
    direction = z[::-1].copy() if turn else z.copy()
    moved, rotations = _deflate(values, direction, abs(rho))
    fixed = np.setdiff1d(np.arange(len(d)), moved)
    roots, gaps, numerator = _solve_secular(values[moved], direction[moved], abs(rho))
    found = np.concatenate([values[fixed], roots])
    if turn:
        last = len(d) - 1
        found, fixed, moved = -found, last - fixed, last - moved
        rotations = [(last - i, last - j, c, s) for i, j, c, s in rotations]
    order = np.argsort(found, kind="stable")
    return RankOneUpdate(found[order], order, fixed, moved, numerator, gaps, rotations)


def _deflate(
    d: NDArray[np.float64], z: NDArray[np.float64], rho: float
) -> tuple[NDArray[np.intp], list[Rotation]]:
    """Find the entries that the update changes; modifies d and z in place.

    An entry with a negligible z keeps its eigenpair. For two entries with equal d, a rotation moves all of z
    to the second one.
    """
    length = float(np.linalg.norm(z))
    tolerance = 8 * EPS * max(float(np.abs(d).max(initial=0.0)), rho * length**2)
    candidates = np.flatnonzero(rho * length * np.abs(z) > tolerance)
    kept: list[int] = []
    rotations: list[Rotation] = []
    for j in candidates.tolist():
        if kept:
            i = kept[-1]
            tau = float(np.hypot(z[i], z[j]))
            c, s = float(z[j]) / tau, float(z[i]) / tau
            if abs((d[j] - d[i]) * c * s) <= tolerance:
                z[i], z[j] = 0.0, tau
                d[i], d[j] = c * c * d[i] + s * s * d[j], s * s * d[i] + c * c * d[j]
                rotations.append((i, j, c, -s))
                kept.pop()
        kept.append(j)
    return np.array(kept, dtype=np.intp), rotations


def _solve_secular(
    d: NDArray[np.float64], z: NDArray[np.float64], rho: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return roots mu (k,), gaps d_j - mu_i (k, k) to full relative precision, and z recomputed from them."""
    k = len(d)
    if k == 0:
        return np.zeros(0), np.zeros((0, 0)), np.zeros(0)
    weight = rho * float(z @ z)
    if k == 1:
        return d + weight, np.full((1, 1), -weight), np.ones(1)
    # dlasd4 expects the square root of a diagonal that starts at 0, and a unit vector
    root_d = np.sqrt(d - d[0])
    unit = z / np.linalg.norm(z)
    roots, gaps = np.empty(k), np.empty((k, k))
    for i in range(k):
        delta, sigma, total, info = scipy.linalg.lapack.dlasd4(i, root_d, unit, weight)
        if info:
            raise np.linalg.LinAlgError(f"no root {i} of the secular equation found in its interval")
        roots[i] = d[0] + sigma**2
        gaps[:, i] = delta * total
    spacing = (root_d[:, None] - root_d) * (root_d[:, None] + root_d)
    np.fill_diagonal(spacing, 1.0)
    # Löwner: z_j² = prod_i (mu_i - d_j) / prod_{i != j} (d_i - d_j); each factor is close to one
    squared = np.prod(gaps / spacing, axis=1)
    return roots, gaps, np.copysign(np.sqrt(np.abs(squared)), z)


@dataclass(frozen=True)
class Locality:
    """All solutions of X L X^T a = lambda X D X^T a: ascending `values` (d,), and `basis` (p, d) of the a.

    a^T X D X^T a = 1, and a lies in the range of X D X^T. A penalty alpha of |a|² adds alpha I to both
    matrices.
    """

    values: NDArray[np.float64]
    basis: NDArray[np.float64]


def solve_locality(X: Any, L: GraphLaplacian, ridge: float = 0.0) -> Locality:
    """Solve Eq. 3 in feature space, from two p x p matrices and without a copy of X.

    `ridge` is the penalty of |a|² in units of tr(X D X^T) / n.
    """
    B = _degree_moment(X, L.degree)
    penalty = ridge * float(np.trace(B)) / X.shape[0] * np.eye(len(B))
    T = whitening(B + penalty)
    if T.rank == 0:
        raise InvalidInput("X D X^T is zero because all linked items are zero; give features that are not.")
    S = T.whiten(T.whiten(L.quadratic(X) + penalty).T)
    values, V = scipy.linalg.eigh((S + S.T) / 2, check_finite=False)
    return Locality(np.maximum(values, 0.0), fix_signs(T.unwhiten(V)))


def solve_kernel_locality(rows: NDArray[np.float64], L: GraphLaplacian, ridge: float = 0.0) -> Locality:
    """Solve Eq. 11 with gamma = 0 in coordinates (n, d) that have full rank on the linked items.

    Uses the QR decomposition of D^(1/2) `rows` instead of d x d matrices: kernels have small eigenvalues,
    and squaring would lose their digits. `ridge` is as in `solve_locality`; its rows are those of the
    identity, below the items.
    """
    linked = linked_items(L.degree)
    n, root = int(linked.sum()), np.sqrt(L.degree[linked, None])
    M = root * rows[linked]
    if ridge:
        alpha = ridge * float((M**2).sum()) / len(rows)
        M = np.vstack([M, np.sqrt(alpha) * np.eye(M.shape[1])])
    Q, R = scipy.linalg.qr(M, mode="economic", overwrite_a=True, check_finite=False)
    W = L.W if linked.all() else L.W[linked][:, linked]
    S = GraphLaplacian(W).quadratic(Q[:n] / root)
    if ridge:
        S = S + Q[n:].T @ Q[n:]
    values, V = scipy.linalg.eigh(S, check_finite=False, overwrite_a=True)
    basis = scipy.linalg.solve_triangular(R, V, check_finite=False)
    return Locality(np.maximum(values, 0.0), fix_signs(basis))


def linked_items(degree: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the linked items; degrees below 1e-12 of the largest count as zero."""
    linked: NDArray[np.bool_] = degree > 1e-12 * degree.max(initial=0.0)
    return linked


def _degree_moment(X: Any, degree: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X D X^T of the papers, sum_i D_ii x_i x_i^T, in float64."""
    if sp.issparse(X):
        X64 = sp.csr_array(X).astype(np.float64)
        moment: NDArray[np.float64] = (X64.T @ sp.csr_array(X64.multiply(degree[:, None]))).toarray()
        return moment
    B = np.zeros((X.shape[1], X.shape[1]))
    for rows, block in row_blocks(X):
        block64 = np.asarray(block, dtype=np.float64)
        B += block64.T @ (degree[rows, None] * block64)
    return (B + B.T) / 2


@dataclass(frozen=True)
class SharedProblem:
    """Data shared by all labels: the graph part and the labeled items.

    `rows` (l, d) are the labeled items in the coordinates of `locality`, `features` (l, q) the items whose
    inner products are the kernel, `weight` (l,) their weights in the loss, and `volume` is tr(D).
    """

    locality: Locality
    rows: NDArray[np.float64]
    features: NDArray[np.float64]
    weight: NDArray[np.float64]
    volume: float

    def select(self, labeled: NDArray[np.intp]) -> "SharedProblem":
        """Return the problem restricted to some of the labeled items."""
        return SharedProblem(
            self.locality, self.rows[labeled], self.features[labeled], self.weight[labeled], self.volume
        )


@dataclass(frozen=True)
class Rules:
    """Signed gamma of the label term, C, maximum number of iterations, tau, and scaling of directions."""

    signed_gamma: float
    C: float
    max_iter: int
    tol: float
    scaling: str


@dataclass(frozen=True)
class SubspaceMachine:
    """Subspace `directions` (d, r) of one label, and its decision x -> `weight` (d,) . x + `bias`."""

    directions: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    weight: NDArray[np.float64]
    bias: float
    n_iter: int


def prepare_problem(
    X: Any,
    kernel: Kernel,
    W: Any,
    times: NDArray[np.float64],
    landmarks: Any,
    random_state: Any,
    ridge: float = 0.0,
) -> tuple[SharedProblem, KernelSpan]:
    """Solve the graph part in feature space or in the span of the linked items.

    `times` (n,) is the weight of an item in the loss, 0 if it is unlabeled; `ridge` the penalty of |a|².
    """
    L = GraphLaplacian(W)
    span = span_items(X, kernel, linked_items(L.degree), landmarks, random_state)
    if span.coordinates is None:
        locality = solve_locality(X, L, ridge)
    else:
        locality = solve_kernel_locality(span.rows, L, ridge)
    labeled = times > 0
    features = span.take(labeled)
    rows = features @ locality.basis
    return SharedProblem(locality, rows, features, times[labeled], float(L.degree.sum())), span


def alternate(
    problem: SharedProblem, sign: NDArray[np.int8], rules: Rules, choose: Chooser
) -> SubspaceMachine:
    """Run the algorithm of Fig. 1 for one label; `choose` maps ascending eigenvalues to the dimension."""
    F, _ = svm_trainer(problem.features)(sign, rules.C, problem.weight)
    n_iter, change = 0, np.inf
    while n_iter < rules.max_iter and change >= rules.tol:
        n_iter += 1
        update = update_diagonal(problem.locality.values, problem.rows.T @ F, rules.signed_gamma / 2)
        r = choose(update.values)
        V = _scale(update.vectors(r), problem, rules.scaling)
        E = problem.rows @ V
        F_before = F
        F, bias = svm_trainer(E)(sign, rules.C, problem.weight)
        change = float(((F_before - F) ** 2).sum())
    return SubspaceMachine(V, update.values[:r], V @ (E.T @ F), bias, n_iter)


def _scale(V: NDArray[np.float64], problem: SharedProblem, scaling: str) -> NDArray[np.float64]:
    """Rescale directions with a^T X D X^T a = 1 according to `scaling`."""
    if scaling == "constraint":
        return V
    if scaling == "spread":
        spread: NDArray[np.float64] = V * np.sqrt(problem.volume)
        return spread
    unit: NDArray[np.float64] = V / np.linalg.norm(problem.locality.basis @ V, axis=0)
    return unit


def energy_dimension(values: NDArray[np.float64], energy: float, energy_of: str) -> int:
    """Return the smallest number of eigenvalues, ascending, that hold the fraction `energy` of the total.

    The energy of an eigenvalue is its similarity 1 - lambda, clipped to [0, 1], or lambda itself.
    """
    held = np.clip(1.0 - values, 0.0, 1.0) if energy_of == "similarity" else np.maximum(values, 0.0)
    share = np.cumsum(held)
    if not share[-1] > 0:
        return 1
    return int(np.searchsorted(share, energy * share[-1] * (1 - 1e-12))) + 1


def fit_columns(
    signs: NDArray[np.int8], fit: Callable[[NDArray[np.int8]], SubspaceMachine]
) -> list[SubspaceMachine | float]:
    """Fit one machine per column of signs (l, J); a constant column is represented by its sign."""
    return [
        float(sign[0]) if (sign == sign[0]).all() else fit(np.ascontiguousarray(sign)) for sign in signs.T
    ]


def decide_rows(
    machines: Sequence[SubspaceMachine | float], rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return decisions (m, J) for items in the coordinates of the machines."""
    return np.column_stack(
        [
            np.full(len(rows), machine)
            if isinstance(machine, float)
            else rows @ machine.weight + machine.bias
            for machine in machines
        ]
    )
