"""Soft-margin support vector machines, solved to working precision.

LibSVM updates two multipliers at a time, in single precision. In a subspace with fewer dimensions than items
it takes about 1e5 steps, and with a large penalty it may never converge. Its multipliers are accurate to
about 1e-3, so results computed from them depend on the order of the items and on the number of threads.

Small problems are therefore solved by an interior-point method (`solve_dual`). It needs about 20 Newton steps
[1]_, each with one Cholesky factorization of the size of the items or of the dimensions, whichever is smaller
[2]_. Larger problems are solved by LibSVM and then refined by an active-set method (`settle`), which puts
multipliers exactly on their bounds and the remaining items exactly on the margin.

References
----------
.. [1] S. Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method", SIAM J. Optimization 2,
   575-601, 1992.
.. [2] S. Fine, K. Scheinberg, "Efficient SVM Training Using Low-Rank Kernel Representations", JMLR 2,
   243-264, 2001.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.svm import SVC

from embedding_core.linalg.eigen import pivoted_cholesky
from embedding_core.linalg.kernel_space import Kernel

Vector = NDArray[np.float64]

ROUNDING = 1e-7
"""Distances from the margin below this value, in units of the margin, count as zero."""
MOST_FREE = 4000
"""Largest number of multipliers between their bounds for which the linear system is solved."""
MOST_SINGULAR = 1000
"""The same limit where the system is singular and a minimum-norm solution is needed."""
MOST_ROUNDS = 30
_REGULAR, _OFF_BOUND = 1e-10, 1e-9

MAX_STEPS = 100
GAPS = (1e-6, 1e-8, 1e-10, 1e-12)
"""Duality gaps at which to try to finish, relative to the mean multiplier."""
LOST = 10.0
"""Stop when a step increases the excess by this factor: rounding errors dominate."""
Solve = Callable[[Vector], Vector]
Factor = Callable[[Vector], Solve]
EXACT_SIZE = 500
"""Problems with at most this many items or dimensions, whichever is smaller, are solved without LibSVM."""
# LibSVM keeps kernel values in single precision: with a large C it may never reach its tolerance
LIBSVM_STEPS = 5_000_000
GRAM_BYTES = 1e9
_MATRICES = 4  # the kernel, its factor, a temporary copy, and the factor multiplied by the signs
Train = Callable[[NDArray[np.int8], float, Vector], tuple[Vector, float]]
"""Maps signs (l,), C and weights (l,) to F = (alpha_i y_i) and the bias."""


@dataclass(frozen=True)
class Dual:
    """Minimize |G^T a|² / 2 - t^T a for y^T t a = 0, 0 <= a <= 1.

    `G` (l, r) holds the items multiplied by their sign, their weight and the square root of the penalty. `v`
    (l,) is y t, and `t` the weight. The multiplier b of the equality constraint is the bias.
    """

    G: Vector
    v: Vector
    t: Vector

    def beyond(self, a: Vector, b: float) -> Vector:
        """Return the distance (l,) of the items beyond the margin, multiplied by their weight."""
        return self.G @ (self.G.T @ a) + b * self.v - self.t

    def is_optimal(self, a: Vector, b: float) -> bool:
        """Return whether the optimality conditions hold up to rounding."""
        far, slack = self.beyond(a, b), ROUNDING * self.t
        right = (a >= 0) & (a <= 1) & ((far > -slack) | (a == 1)) & ((far < slack) | (a == 0))
        return bool(right.all() and abs(self.v @ a) <= ROUNDING * (self.t @ a) / len(a))


def meet_margin(dual: Dual, a: Vector, b: float) -> tuple[Vector, float] | None:
    """Adjust the free multipliers and the bias so that the free items lie exactly on the margin.

    Free multipliers lie strictly between their bounds. If the solution is not unique, the one with the
    smallest change is taken. Returns None if the system is too large.
    """
    free = np.flatnonzero((a > 0) & (a < 1))
    if len(free) > MOST_FREE:
        return None
    G_f, v_f = dual.G[free], dual.v[free]
    Q = G_f @ G_f.T
    unit = float(np.abs(Q).mean()) or 1.0 if len(free) else 1.0  # scales the last equation to the others
    error = np.append(dual.t[free] - G_f @ (dual.G.T @ a) - b * v_f, -unit * (dual.v @ a))
    step = _regular_step(Q, unit * v_f, error)
    if step is None:
        if len(free) > MOST_SINGULAR:
            return None
        M = np.block([[Q, unit * v_f[:, None]], [unit * v_f, np.zeros(1)]])
        # with duplicate items, rounding in the singular directions must not decide between the duplicates
        step = scipy.linalg.lstsq(M, error, cond=1e-11)[0]
    moved = a.copy()
    moved[free] += step[:-1]
    return moved, b + unit * float(step[-1])


def _regular_step(Q: Vector, v: Vector, error: Vector) -> Vector | None:
    """Solve [[Q, v], [v^T, 0]] step = error by Cholesky; return None if Q is numerically singular."""
    if not len(Q):
        return None
    try:
        factor = scipy.linalg.cho_factor(Q, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    pivots = factor[0].diagonal()
    if pivots.min() ** 2 < _REGULAR * pivots.max() ** 2:
        return None
    by_error, by_v = scipy.linalg.cho_solve(factor, np.column_stack([error[:-1], v]), check_finite=False).T
    last = (v @ by_error - error[-1]) / (v @ by_v)
    return np.append(by_error - last * by_v, last)


def settle(dual: Dual, a: Vector, b: float) -> tuple[Vector, float] | None:
    """Refine approximate multipliers to working precision; return None if that fails.

    An active-set Newton method on the optimality conditions: items that should not be at a bound leave it,
    and items that would cross a bound are put on it. It converges in a few iterations from a nearby start.
    """
    a = a.copy()
    for _ in range(MOST_ROUNDS):
        found = meet_margin(dual, a, b)
        if found is None:
            return None
        if dual.is_optimal(*found):
            return found
        moved, b = found
        a = np.clip(moved, 0.0, 1.0)
        far, slack = dual.beyond(a, b), ROUNDING * dual.t
        a[(moved == 0) & (far < -slack)] = _OFF_BOUND
        a[(moved == 1) & (far > slack)] = 1 - _OFF_BOUND
    return None


@dataclass(frozen=True)
class _Point:
    """Interior point: a in (0, 1), s = 1 - a, multipliers z of a >= 0 and u of s >= 0, and the bias b.

    s is kept separately, to full relative precision.
    """

    a: Vector
    s: Vector
    z: Vector
    u: Vector
    b: float

    @property
    def gap(self) -> float:
        return float(self.a @ self.z + self.s @ self.u) / (2 * len(self.a))

    def moved(self, step: "_Point", length: float) -> "_Point":
        return _Point(
            self.a + length * step.a,
            self.s + length * step.s,
            self.z + length * step.z,
            self.u + length * step.u,
            self.b + length * step.b,
        )

    def room(self, step: "_Point") -> float:
        """Return the longest step, at most 1, that keeps all variables positive."""
        pairs = ((self.a, step.a), (self.s, step.s), (self.z, step.z), (self.u, step.u))
        ratios = [(-value[move < 0] / move[move < 0]).min(initial=np.inf) for value, move in pairs]
        return min(1.0, *map(float, ratios))


def make_dual(E: Vector, sign: NDArray[np.int8], C: float, weight: Vector) -> Dual:
    """Build the dual for items E (l, r); the SVM multipliers are alpha_i = C t_i a_i with weights t_i."""
    v = sign * weight
    return Dual(np.sqrt(C) * v[:, None] * E, v, weight)


def solve_dual(
    E: Vector, sign: NDArray[np.int8], C: float, weight: Vector | None = None
) -> tuple[Vector, float]:
    """Solve the SVM on items E (l, r) with signs -1 and 1, both present.

    The iterates follow the central path. If the optimum is not unique (duplicate items), they converge to
    its analytic center, so the result does not depend on the order of the items or of summation.

    Parameters
    ----------
    E : ndarray of shape (l, r)
    sign : ndarray of shape (l,)
    C : float
        Penalty of margin errors.
    weight : ndarray of shape (l,), optional
        Positive weights; item i has the penalty C weight_i.

    Returns
    -------
    F : ndarray of shape (l,)
        alpha_i y_i.
    bias : float
    """
    t = np.ones(len(E)) if weight is None else weight
    C, t = C * float(t.mean()), t / t.mean()
    mean = E.mean(axis=0)  # a shift of the items changes only the bias, but items far from 0 lose digits
    dual = make_dual(E - mean, sign, C, t)
    G, v = dual.G, dual.v
    factor = _gram_factor(G) if len(G) <= G.shape[1] else _low_rank_factor(G)
    share = np.array([t[v < 0].sum(), t[v > 0].sum()]) / t.sum()  # so that v^T a = 0 at the start
    a = np.where(v > 0, share[0], share[1])
    pull = dual.beyond(a, 0.0)
    slack = (1 + np.abs(pull).mean()) * t
    point = _Point(a, 1 - a, np.maximum(pull, 0) + slack, np.maximum(-pull, 0) + slack, 0.0)
    found = None
    for gap in GAPS:
        point = _follow_path(dual, point, factor, gap)
        found = _polish(dual, point)
        if found is not None:
            break
    a, bias = found or (point.a, point.b)
    return C * v * a, bias - float(np.sqrt(C) * (G.T @ a) @ mean)


def _follow_path(dual: Dual, point: _Point, factor: Factor, gap: float) -> _Point:
    """Take steps until the gap is small or rounding prevents progress."""
    best, least = point, _excess(dual, point)
    for _ in range(MAX_STEPS):
        if point.gap < gap * point.a.mean():
            break
        moved = _mehrotra_step(dual, point, factor)
        if moved is None or not moved.gap < point.gap:
            break
        point, excess = moved, _excess(dual, moved)
        if excess < least:
            best, least = point, excess
        elif excess > LOST * least:
            break
    return best


def _excess(dual: Dual, point: _Point) -> float:
    """Return the primal minus the dual objective: 0 at the optimum; it grows when margins lose digits."""
    w = dual.G.T @ point.a
    errors = np.maximum(0.0, -dual.beyond(point.a, point.b))
    return abs(float(w @ w + errors.sum() - dual.t @ point.a))


def _mehrotra_step(dual: Dual, point: _Point, factor: Factor) -> _Point | None:
    """Take one predictor-corrector step; return None if rounding prevents it."""
    a, s, z, u, v = point.a, point.s, point.z, point.u, dual.v
    try:
        solve = factor(z / a + u / s)
    except (np.linalg.LinAlgError, ValueError):
        return None
    residual = dual.beyond(a, point.b) - z + u
    q = solve(v)

    def direction(target_z: Vector, target_u: Vector) -> _Point:
        """Newton step towards a z = target_z and s u = target_u."""
        p = solve(-residual + (target_z / a - z) - (target_u / s - u))
        bias = float((v @ p + v @ a) / (v @ q))
        move = p - bias * q
        return _Point(move, -move, (target_z - z * move) / a - z, (target_u + u * move) / s - u, bias)

    none = np.zeros(len(a))
    predictor = direction(none, none)
    ahead = point.moved(predictor, point.room(predictor)).gap
    target = point.gap * (ahead / point.gap) ** 3 * dual.t  # a weight acts like copies of the item
    corrector = direction(target - predictor.a * predictor.z, target - predictor.s * predictor.u)
    return point.moved(corrector, 0.995 * point.room(corrector))


def _gram_factor(G: Vector) -> Factor:
    """Return solvers of (G G^T + diag(D)) x = h for any D, by Cholesky factorization of the matrix."""
    Q = G @ G.T

    def factor(D: Vector) -> Solve:
        M = Q + np.diag(D)
        cholesky = scipy.linalg.cho_factor(M, lower=True, overwrite_a=True)
        return lambda h: scipy.linalg.cho_solve(cholesky, h, check_finite=False)

    return factor


def _low_rank_factor(G: Vector) -> Factor:
    """The same for fewer dimensions than items, by Cholesky of I + G^T D^-1 G (Woodbury identity)."""

    def factor(D: Vector) -> Solve:
        root = np.sqrt(D)
        G_D = G / root[:, None]
        H = scipy.linalg.blas.dsyrk(1.0, G_D.T, lower=1)
        H[np.diag_indices(len(H))] += 1.0
        cholesky = scipy.linalg.cho_factor(H, lower=True, overwrite_a=True)

        def solve(h: Vector) -> Vector:
            inner = scipy.linalg.cho_solve(cholesky, G_D.T @ (h / root), check_finite=False)
            solution: Vector = (h / root - G_D @ inner) / root
            return solution

        return solve

    return factor


def _polish(dual: Dual, point: _Point) -> tuple[Vector, float] | None:
    """Put items on their bounds and the others on the margin; return None if that is not optimal."""
    z, u = point.z / dual.t, point.u / dual.t
    a = np.where(point.a < z * point.a.max(), 0.0, np.where(point.s < u, 1.0, point.a))
    found = meet_margin(dual, a, point.b)
    return found if found is not None and dual.is_optimal(*found) else None


def svm_trainer(E: Vector) -> Train:
    """Return a trainer for items E (l, r) with the linear kernel; non-unique optima give their center."""
    if min(E.shape) <= EXACT_SIZE:
        return lambda sign, C, weight: solve_dual(E, sign, C, weight)
    return libsvm_trainer(E, E @ E.T if 8.0 * len(E) ** 2 <= GRAM_BYTES else None)


def kernel_svm_trainer(kernel: Kernel, items: Vector) -> Train:
    """Return a trainer for items (l, r) with any kernel; with duplicates only the decisions are unique."""
    if kernel.name == "linear":
        return svm_trainer(items)
    if _MATRICES * 8.0 * len(items) ** 2 > GRAM_BYTES:
        return _by_libsvm_alone(kernel, items)
    K = kernel.columns(items, items)
    K = (K + K.T) / 2
    C, order = pivoted_cholesky(K.copy())
    E = np.empty(C.shape)
    E[order] = C  # K = E E^T
    return libsvm_trainer(E, K)


def libsvm_trainer(E: Vector, gram: Vector | None) -> Train:
    """Return a trainer for items E (l, r) that uses LibSVM, with the Gram matrix if it fits into memory.

    If the result cannot be refined to working precision (too many free multipliers), it is returned as it
    is, unless the problem is small enough for `solve_dual`.
    """

    def train(sign: NDArray[np.int8], C: float, weight: Vector) -> tuple[Vector, float]:
        machine = SVC(C=C, kernel="linear" if gram is None else "precomputed", max_iter=LIBSVM_STEPS)
        machine.fit(E if gram is None else gram, sign, sample_weight=weight)
        F, bias = _multipliers(machine, len(E))
        dual = make_dual(E, sign, C, weight)
        share = F * sign / (C * weight)
        found = settle(dual, np.where(share > 1 - 1e-12, 1.0, share), bias)
        if found is not None:
            return C * dual.v * found[0], found[1]
        return solve_dual(E, sign, C, weight) if min(E.shape) <= EXACT_SIZE else (F, bias)

    return train


def _by_libsvm_alone(kernel: Kernel, items: Vector) -> Train:
    def train(sign: NDArray[np.int8], C: float, weight: Vector) -> tuple[Vector, float]:
        machine = SVC(C=C, kernel=kernel.name, gamma=kernel.theta, max_iter=LIBSVM_STEPS)
        return _multipliers(machine.fit(items, sign, sample_weight=weight), len(items))

    return train


def _multipliers(machine: SVC, n: int) -> tuple[Vector, float]:
    F = np.zeros(n)
    F[machine.support_] = machine.dual_coef_[0]
    return F, float(machine.intercept_[0])
