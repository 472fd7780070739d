"""Eigenpairs of a diagonal matrix plus a rank-one matrix, diag(d) + rho z z^T, in O(k²) for the values.

What one label adds to the graph problem of LPSSVM (Eq. 9, 11) has rank one. In the coordinates that solve the
graph problem itself, the problem of every label and iteration has this form: the graph part is decomposed
once.

The roots of the secular equation come from LAPACK's `dlasd4`; z is then computed again from the roots [1]_,
so that the eigenvectors are orthogonal to working precision however close the roots are.

References
----------
.. [1] M. Gu, S. C. Eisenstat, "A stable and efficient algorithm for the rank-one modification of the
   symmetric eigenproblem", SIAM J. Matrix Anal. Appl. 15, 1266-1276, 1994.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.linalg.conditioning import EPS

Rotation = tuple[int, int, float, float]


@dataclass(frozen=True)
class RankOneUpdate:
    """Eigenpairs of diag(d) + rho z z^T: `values` (k,) ascending; `vectors(r)` those of the r smallest."""

    values: NDArray[np.float64]
    _order: NDArray[np.intp]
    _fixed: NDArray[np.intp]
    _moved: NDArray[np.intp]
    _numerator: NDArray[np.float64]
    _gaps: NDArray[np.float64]
    _rotations: list[Rotation]

    def vectors(self, r: int) -> NDArray[np.float64]:
        """Orthonormal eigenvectors (k, r) of the r smallest eigenvalues."""
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
    """Find the entries that the update moves; changes d and z in place.

    An entry with a negligible z keeps its eigenpair. Of two entries with equal d a rotation brings all of z
    onto the second.
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
    """Roots mu (k,), gaps d_j - mu_i (k, k) to full relative precision, and z as the roots determine it."""
    k = len(d)
    if k == 0:
        return np.zeros(0), np.zeros((0, 0)), np.zeros(0)
    weight = rho * float(z @ z)
    if k == 1:
        return d + weight, np.full((1, 1), -weight), np.ones(1)
    # dlasd4 updates squares of a diagonal that starts at or above 0, by a vector of length one
    root_d = np.sqrt(d - d[0])
    unit = z / np.linalg.norm(z)
    roots, gaps = np.empty(k), np.empty((k, k))
    for i in range(k):
        delta, sigma, total, info = scipy.linalg.lapack.dlasd4(i, root_d, unit, weight)
        if info:
            raise np.linalg.LinAlgError(f"the secular equation has no root {i} in its interval")
        roots[i] = d[0] + sigma**2
        gaps[:, i] = delta * total
    spacing = (root_d[:, None] - root_d) * (root_d[:, None] + root_d)
    np.fill_diagonal(spacing, 1.0)
    # Löwner: z_j² = prod_i (mu_i - d_j) / prod_{i != j} (d_i - d_j); each factor of the ratio is near one
    squared = np.prod(gaps / spacing, axis=1)
    return roots, gaps, np.copysign(np.sqrt(np.abs(squared)), z)
