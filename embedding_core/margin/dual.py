"""The dual problem of a support vector machine, solved to working precision by an interior point method.

LibSVM's steps move two multipliers at a time, in single precision: in a subspace with fewer dimensions than
items it takes some 1e5 of them, and with a large penalty never ends. Its multipliers are then good to about
1e-3, and what is computed from them depends on the order of the items. Here some 20 Newton steps suffice
[1]_, each with one Cholesky factor of the size of the items or of the dimensions, whichever is smaller [2]_.

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

from embedding_core.margin.active_set import Dual, Vector, meet_margin

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
