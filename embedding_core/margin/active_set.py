"""The last digits of a support vector machine: items on their bounds, those between exactly on the margin."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

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
