"""TODO."""

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
"""Distance from the margin, in units of the margin, that counts as none."""
MOST_FREE = 4000
"""Multipliers between their bounds up to which the equations are solved: a matrix of this size each time."""
MOST_SINGULAR = 1000
"""The same where they do not determine the multipliers, and the smallest change that will do is sought."""
MOST_ROUNDS = 30
_REGULAR, _OFF_BOUND = 1e-10, 1e-9


@dataclass(frozen=True)
class Dual:
    """Minimize |G^T a|² / 2 - t^T a for y^T t a = 0, 0 <= a <= 1.

    `G` (l, r) holds the items times their sign, weight and the root of the penalty, `v` (l,) is y t, `t` the
    weight. The multiplier b of the equation is the bias.
    """

    G: Vector
    v: Vector
    t: Vector

    def beyond(self, a: Vector, b: float) -> Vector:
        """How far (l,) items lie beyond the margin, times their weight."""
        return self.G @ (self.G.T @ a) + b * self.v - self.t

    def is_optimal(self, a: Vector, b: float) -> bool:
        """Whether all conditions of the optimum hold, to rounding."""
        far, slack = self.beyond(a, b), ROUNDING * self.t
        right = (a >= 0) & (a <= 1) & ((far > -slack) | (a == 1)) & ((far < slack) | (a == 0))
        return bool(right.all() and abs(self.v @ a) <= ROUNDING * (self.t @ a) / len(a))


def meet_margin(dual: Dual, a: Vector, b: float) -> tuple[Vector, float] | None:
    """Move the multipliers between their bounds, and the bias, so that these items lie on the margin.

    Where that leaves a choice the multipliers move as little as can be; None where it would take too long.
    """
    free = np.flatnonzero((a > 0) & (a < 1))
    if len(free) > MOST_FREE:
        return None
    G_f, v_f = dual.G[free], dual.v[free]
    Q = G_f @ G_f.T
    unit = float(np.abs(Q).mean()) or 1.0 if len(free) else 1.0  # the equation in units of the rest
    error = np.append(dual.t[free] - G_f @ (dual.G.T @ a) - b * v_f, -unit * (dual.v @ a))
    step = _regular_step(Q, unit * v_f, error)
    if step is None:
        if len(free) > MOST_SINGULAR:
            return None
        M = np.block([[Q, unit * v_f[:, None]], [unit * v_f, np.zeros(1)]])
        # where items repeat, what rounding makes of the singular directions must not decide between them
        step = scipy.linalg.lstsq(M, error, cond=1e-11)[0]
    moved = a.copy()
    moved[free] += step[:-1]
    return moved, b + unit * float(step[-1])


def _regular_step(Q: Vector, v: Vector, error: Vector) -> Vector | None:
    """Solve [[Q, v], [v^T, 0]] step = error by a Cholesky factor; None where Q is singular, to rounding."""
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
    """Bring multipliers that are right to some tolerance to working precision; None where that fails.

    Items that should not be on their bound leave it, items that would pass one are put on it, until all are
    right: a Newton method for the conditions of the optimum, which ends after a few rounds from nearby.
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


MAX_STEPS = 100
GAPS = (1e-6, 1e-8, 1e-10, 1e-12)
"""Distances from optimal conditions at which to try to end, in units of the multipliers times the margin."""
LOST = 10.0
"""How much worse a step may make things before rounding is taken to have the upper hand."""

Solve = Callable[[Vector], Vector]
Factor = Callable[[Vector], Solve]


@dataclass(frozen=True)
class _Point:
    """a in (0, 1), s = 1 - a to full relative precision, multipliers z of a >= 0 and u of s >= 0, bias b."""

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
        """Longest step, at most 1, that keeps everything positive."""
        pairs = ((self.a, step.a), (self.s, step.s), (self.z, step.z), (self.u, step.u))
        ratios = [(-value[move < 0] / move[move < 0]).min(initial=np.inf) for value, move in pairs]
        return min(1.0, *map(float, ratios))


def make_dual(E: Vector, sign: NDArray[np.int8], C: float, weight: Vector) -> Dual:
    """The problem for items E (l, r): alpha_i = C t_i a_i are the multipliers, t_i the weights."""
    v = sign * weight
    return Dual(np.sqrt(C) * v[:, None] * E, v, weight)


def solve_dual(
    E: Vector, sign: NDArray[np.int8], C: float, weight: Vector | None = None
) -> tuple[Vector, float]:
    """Multipliers and bias of the SVM on items E (l, r) with signs -1 and 1, both present.

    The steps follow the central path, so that where the optimum is not unique (items repeat) its middle is
    taken: the result depends neither on the order of the items nor on the order of sums.

    Parameters
    ----------
    E : ndarray of shape (l, r)
    sign : ndarray of shape (l,)
    C : float
        Penalty of margin errors.
    weight : ndarray of shape (l,), optional
        Positive; item i has the penalty C weight_i.

    Returns
    -------
    F : ndarray of shape (l,)
        alpha_i y_i.
    bias : float
    """
    t = np.ones(len(E)) if weight is None else weight
    C, t = C * float(t.mean()), t / t.mean()
    mean = E.mean(axis=0)  # a move of the items changes the bias alone, but far from 0 costs digits
    dual = make_dual(E - mean, sign, C, t)
    G, v = dual.G, dual.v
    factor = _gram_factor(G) if len(G) <= G.shape[1] else _low_rank_factor(G)
    share = np.array([t[v < 0].sum(), t[v > 0].sum()]) / t.sum()  # v^T a = 0 from the start
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
    """Take steps until the gap is small, or rounding leaves no way on."""
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
    """Primal less dual objective: 0 at the optimum; grows again where margins have lost their digits."""
    w = dual.G.T @ point.a
    errors = np.maximum(0.0, -dual.beyond(point.a, point.b))
    return abs(float(w @ w + errors.sum() - dual.t @ point.a))


def _mehrotra_step(dual: Dual, point: _Point, factor: Factor) -> _Point | None:
    """One predictor and corrector step; None where rounding leaves no way on."""
    a, s, z, u, v = point.a, point.s, point.z, point.u, dual.v
    try:
        solve = factor(z / a + u / s)
    except (np.linalg.LinAlgError, ValueError):
        return None
    residual = dual.beyond(a, point.b) - z + u
    q = solve(v)

    def direction(target_z: Vector, target_u: Vector) -> _Point:
        """Newton's step to a z = target_z and s u = target_u."""
        p = solve(-residual + (target_z / a - z) - (target_u / s - u))
        bias = float((v @ p + v @ a) / (v @ q))
        move = p - bias * q
        return _Point(move, -move, (target_z - z * move) / a - z, (target_u + u * move) / s - u, bias)

    none = np.zeros(len(a))
    predictor = direction(none, none)
    ahead = point.moved(predictor, point.room(predictor)).gap
    target = point.gap * (ahead / point.gap) ** 3 * dual.t  # as copies of an item would have
    corrector = direction(target - predictor.a * predictor.z, target - predictor.s * predictor.u)
    return point.moved(corrector, 0.995 * point.room(corrector))


def _gram_factor(G: Vector) -> Factor:
    """Solvers of (G G^T + diag(D)) x = h for any D, by Cholesky factors of the matrix itself."""
    Q = G @ G.T

    def factor(D: Vector) -> Solve:
        M = Q + np.diag(D)
        cholesky = scipy.linalg.cho_factor(M, lower=True, overwrite_a=True)
        return lambda h: scipy.linalg.cho_solve(cholesky, h, check_finite=False)

    return factor


def _low_rank_factor(G: Vector) -> Factor:
    """The same for fewer dimensions than items, by Cholesky factors of I + G^T D^-1 G (Woodbury)."""

    def factor(D: Vector) -> Solve:
        root = np.sqrt(D)
        G_D = G / root[:, None]
        H = scipy.linalg.blas.dsyrk(1.0, G_D.T, lower=1)
        H[np.diag_indices(len(H))] += 1.0
        cholesky = scipy.linalg.cho_factor(H, lower=True, overwrite_a=True)

        def solve(h: Vector) -> Vector:
            inner = scipy.linalg.cho_solve(cholesky, G_D.T @ (h / root), check_finite=False)
            return (h / root - G_D @ inner) / root

        return solve

    return factor


def _polish(dual: Dual, point: _Point) -> tuple[Vector, float] | None:
    """Put items on their bounds, and those between exactly on the margin; None if that is not optimal."""
    z, u = point.z / dual.t, point.u / dual.t
    a = np.where(point.a < z * point.a.max(), 0.0, np.where(point.s < u, 1.0, point.a))
    found = meet_margin(dual, a, point.b)
    return found if found is not None and dual.is_optimal(*found) else None


EXACT_SIZE = 500
"""Up to so many items or dimensions, whichever are fewer, no LibSVM is needed."""
# LibSVM keeps kernel values in single precision: with a large C its steps may never reach the tolerance
LIBSVM_STEPS = 5_000_000
GRAM_BYTES = 1e9
_MATRICES = 4  # a kernel, its factor, a copy while that is made, and the factor times signs

Train = Callable[[NDArray[np.int8], float, Vector], tuple[Vector, float]]
"""Signs (l,), C and weights (l,) to F = (alpha_i y_i) and b."""


def svm_trainer(E: Vector) -> Train:
    """A trainer for items E (l, r) with the kernel x^T z; of several optima the middle."""
    if min(E.shape) <= EXACT_SIZE:
        return lambda sign, C, weight: solve_dual(E, sign, C, weight)
    return libsvm_trainer(E, E @ E.T if 8.0 * len(E) ** 2 <= GRAM_BYTES else None)


def kernel_svm_trainer(kernel: Kernel, items: Vector) -> Train:
    """A trainer for items (l, r) with any kernel; where items repeat, decisions alone are unique."""
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
    """A trainer for items E (l, r) by LibSVM, from their inner products where they fit into memory.

    Where its result cannot be brought to working precision (too many multipliers between their bounds) it
    stands as it is, unless the problem is small.
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
