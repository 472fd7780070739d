"""Solvers: roots of possibly singular matrices, thin SVD, the row space of wide data, fixed signs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import check_memory
from embedding_core.linalg.conditioning import EPS, shift_full_columns

BLOCK_ROWS = 1024

SQUARE_BUDGET_BYTES = 8e9
"""Memory limit of the square matrices that a fit holds at once."""

_LIKE_SCALES = 100.0
"""Features have similar scales if the largest and smallest differ by at most this factor."""

_WELL_CONDITIONED = 1e-9
"""Fraction of the largest eigenvalue above which a plain decomposition is accurate to six digits."""


def check_square_budget(d: int, copies: int = 4) -> None:
    """Raise InvalidInput if `copies` dense d x d matrices do not fit in memory; d is min(items, features)."""
    fitting = int(np.sqrt(SQUARE_BUDGET_BYTES / (8 * copies)))
    check_memory(
        f"The fit on {copies} matrices of {d} x {d}, the smaller of the numbers of items and features,",
        copies * 8 * float(d) ** 2,
        SQUARE_BUDGET_BYTES,
        f"first reduce X to {fitting} features or fewer (PCA, or only the most frequent ones), or fit on "
        "fewer items",
    )


@dataclass(frozen=True)
class PositivePart:
    """S_+ = E diag(s) E^T, the part of a positive semidefinite S with positive eigenvalues.

    `vectors` E is (d, r) with orthonormal columns, `values` s is (r,) and descending.
    """

    vectors: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def rank(self) -> int:
        """Number of positive eigenvalues r."""
        return len(self.values)

    def whiten(self, H: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return s^(-1/2) E^T H, of shape (r, ...)."""
        return (self.vectors.T @ H) / np.sqrt(self.values)[:, None]

    def unwhiten(self, P: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return E s^(-1/2) P, of shape (d, ...)."""
        return self.vectors @ (P / np.sqrt(self.values)[:, None])

    def inverse_root(self, H: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return S_+^(-1/2) H with the symmetric root, Eq. 11 of DLE."""
        return self.vectors @ self.whiten(H)


def positive_part(
    S: NDArray[np.float64],
    overwrite: bool = False,
    least: float = 0.0,
    unit: NDArray[np.float64] | None = None,
) -> PositivePart:
    """Decompose a positive semidefinite matrix, omitting eigenvalues that are zero up to rounding.

    Parameters
    ----------
    S : ndarray of shape (d, d)
    overwrite : bool
        Use the memory of `S` instead of a copy.
    least : float
        Eigenvalues up to this value count as zero, as do those up to d eps times the largest one.
    unit : ndarray of shape (d,), optional
        Scales of the features that the rows of S belong to. If they differ so much that small eigenvalues
        would be lost in the rounding errors of large ones, the rank is that of S with row and column i
        divided by unit_i (`least` then refers to the largest unit), and all eigenpairs are accurate.
    """
    if len(S) == 0:
        return PositivePart(np.zeros((0, 0)), np.zeros(0))
    graded = unit is not None and _scales_differ(unit)
    # S is symmetric; its transpose has the memory layout that LAPACK needs
    values, vectors = scipy.linalg.eigh(S.T, overwrite_a=overwrite and not graded, check_finite=False)
    zeros = int((values <= max(len(S) * EPS * values[-1], least)).sum())
    if graded and unit is not None:
        exact = int((values > max(_WELL_CONDITIONED * values[-1], least)).sum())
        if exact < (unit > 0).sum():
            G, rows = _scaled_factor(S, unit, least / unit.max() ** 2)
            if exact < G.shape[1]:
                return _graded_part(G, rows, len(S))
        zeros = len(S) - exact
    return PositivePart(vectors[:, zeros:][:, ::-1], values[zeros:][::-1])


def _scales_differ(unit: NDArray[np.float64]) -> bool:
    positive = unit[unit > 0]
    return len(positive) > 0 and bool(positive.max() > _LIKE_SCALES * positive.min())


def _graded_part(G: NDArray[np.float64], rows: NDArray[np.intp], d: int) -> PositivePart:
    """Compute the eigenpairs of S, S[rows][:, rows] = G G^T, by Jacobi rotations of G.

    They are accurate for any scales.
    It takes ten times as long as a plain decomposition.
    """
    # joba=2: rows of any scale; jobv=3: no right singular vectors; jobp=0: no perturbation
    s, U, _, work, _, info = scipy.linalg.lapack.dgejsv(G, joba=2, jobu=0, jobv=3, jobp=0)
    if info != 0:
        raise scipy.linalg.LinAlgError(f"The singular values did not converge (dgejsv, info={info}).")
    vectors = np.zeros((d, G.shape[1]))
    vectors[rows] = U
    return PositivePart(vectors, (s * (work[1] / work[0])) ** 2)


@dataclass(frozen=True)
class Whitening:
    """A map T (d, r) with T T^T the pseudo-inverse of a positive semidefinite S, so that T^T S T = I.

    `whiten(H)` is T^T H, `unwhiten(P)` is T P.
    """

    rank: int
    whiten: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    unwhiten: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def whitening(S: NDArray[np.float64], scale_free: bool = True) -> Whitening:
    """Compute T from Cholesky factors, several times faster than an eigendecomposition if S is regular.

    With `scale_free` the rank is determined after scaling S to unit diagonal, so that features of very
    different scales are all kept. T always belongs to the unscaled S; if features are linearly dependent, the
    pseudo-inverse depends on their scales, and its relative error grows with the largest ratio between them.
    """
    length = np.sqrt(np.maximum(np.diag(S), 0.0))
    G, rows = _scaled_factor(S, length if scale_free else (length > 0).astype(np.float64))
    if G.shape[0] == G.shape[1]:
        solve = _triangular_whitening(G)
    elif scale_free:
        by_size = np.argsort(-np.abs(G).max(axis=1), kind="stable")
        rows, solve = rows[by_size], _orthogonal_whitening(G[by_size])
    else:
        solve = _thin_whitening(G)
    d = len(S)

    def unwhiten(P: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.zeros((d, P.shape[1]))
        result[rows] = solve.unwhiten(P)
        return result

    return Whitening(solve.rank, lambda H: solve.whiten(H[rows]), unwhiten)


def _scaled_factor(
    S: NDArray[np.float64], unit: NDArray[np.float64], least: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return G (a, r) of full rank and row numbers (a,) with S[rows][:, rows] = G G^T.

    The rank is that of S with row and column i divided by unit_i; `least` is passed to `pivoted_cholesky` for
    the scaled matrix. Rows of unit 0 are omitted.
    """
    active = np.flatnonzero(unit > 0)
    scaled = S[np.ix_(active, active)]
    scaled /= unit[active, None]
    scaled /= unit[active]
    G, order = pivoted_cholesky(scaled, least)
    rows = active[order]
    G *= unit[rows, None]
    return G, rows


def _triangular_whitening(C: NDArray[np.float64]) -> Whitening:
    """T = C^(-T) for a regular S = C C^T."""

    def solve(M: NDArray[np.float64], trans: int) -> NDArray[np.float64]:
        solution: NDArray[np.float64] = scipy.linalg.solve_triangular(
            C, M, lower=True, trans=trans, check_finite=False
        )
        return solution

    return Whitening(len(C), lambda H: solve(H, 0), lambda P: solve(P, 1))


def _orthogonal_whitening(G: NDArray[np.float64]) -> Whitening:
    """T = Q R^(-T) for a singular S = G G^T with G P = Q R of full column rank and the largest rows first.

    Sorted rows and column pivoting keep small rows accurate next to large ones, which G^T G would not.
    """
    Q, R, _ = scipy.linalg.qr(G, mode="economic", pivoting=True, check_finite=False)

    def solve(M: NDArray[np.float64], trans: int) -> NDArray[np.float64]:
        solution: NDArray[np.float64] = scipy.linalg.solve_triangular(R, M, trans=trans, check_finite=False)
        return solution

    return Whitening(R.shape[1], lambda H: solve(Q.T @ H, 0), lambda P: Q @ solve(P, 1))


def _thin_whitening(C: NDArray[np.float64]) -> Whitening:
    """T = C (C^T C)^(-1) for a singular S = C C^T with C of full column rank."""
    factor = scipy.linalg.cho_factor(C.T @ C, lower=True, overwrite_a=True, check_finite=False)

    def solve(M: NDArray[np.float64]) -> NDArray[np.float64]:
        solution: NDArray[np.float64] = scipy.linalg.cho_solve(factor, M, check_finite=False)
        return solution

    return Whitening(C.shape[1], lambda H: solve(C.T @ H), lambda P: C @ solve(P))


def pivoted_cholesky(
    S: NDArray[np.float64], least: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return C (d, r) lower trapezoidal and an order of the rows with S[order][:, order] = C C^T.

    Pivots up to 8 d eps of the largest diagonal entry, or up to `least`, count as rounding errors. `S` is
    overwritten if its memory layout allows.
    """
    d = len(S)
    if d == 0:
        return np.zeros((0, 0)), np.zeros(0, dtype=np.intp)
    largest = max(float(np.diag(S).max()), 0.0)
    tolerance = max(8 * d * EPS * largest, least)
    if largest <= tolerance:  # dpstrf does not compare its first pivot with the tolerance
        return np.zeros((d, 0)), np.arange(d)
    C, pivots, rank, _ = scipy.linalg.lapack.dpstrf(S.T, tol=tolerance, lower=1, overwrite_a=1)
    for column in range(1, rank):
        C[:column, column] = 0.0
    return C[:, :rank], pivots.astype(np.intp) - 1


def thin_svd(N: NDArray[np.float64], floor: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Left singular vectors and squared singular values of a tall thin matrix, omitting zeros.

    They are the eigenpairs of N N^T, which is not formed. Singular values up to max(shape) eps times the
    largest, or up to `floor`, count as zero.
    """
    if N.size == 0:
        return np.zeros((len(N), 0)), np.zeros(0)
    U, s, _ = scipy.linalg.svd(N, full_matrices=False, check_finite=False)
    keep = s > max(max(N.shape) * EPS * s[0], floor)
    return U[:, keep], s[keep] ** 2


def compress_factor(H: NDArray[np.float64], S_w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return H' (d, r) of full rank with H' H'^T = H H^T, for `Scatter.factor` H of K classes.

    The rank is determined relative to the total scatter H H^T + S_w of each feature: a class difference below
    1e-11 of the spread of a feature is a rounding error, which whitening by an ill-conditioned S_w would
    amplify to a component. Class means around their common mean are linearly dependent, so the rank is less
    than the number of classes with items.
    """
    classes = int((H != 0).any(axis=0).sum())
    return compress_by_spread(H, np.diag(S_w))[:, : max(classes - 1, 0)]


def compress_by_spread(H: NDArray[np.float64], within: NDArray[np.float64]) -> NDArray[np.float64]:
    """Like `compress_factor`, given only the diagonal of S_w."""
    length = np.sqrt((H**2).sum(axis=1) + np.maximum(within, 0.0))
    length[length == 0] = 1.0
    U, values = thin_svd(H / length[:, None], floor=1e-11)
    compressed: NDArray[np.float64] = length[:, None] * (U * np.sqrt(values))
    return compressed


def fix_signs(V: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip each column so that its entry of largest magnitude (the first of equal ones) is positive."""
    if V.shape[0] == 0:
        return V
    size = np.abs(V)
    largest = np.argmax(size >= (1 - 1e-6) * size.max(axis=0), axis=0)
    signs = np.where(V[largest, np.arange(V.shape[1])] < 0, -1.0, 1.0)
    return V * signs


@dataclass(frozen=True)
class RowSpace:
    """Coordinates of items in an orthonormal basis V of a space that contains all their differences.

    x_i - x_j = V (t_i - t_j) with t_i the rows of `coordinates`. Every matrix built from differences (S_b,
    S_w, X^T L X) is V S V^T with S computed from the coordinates; the same holds for its powers and
    pseudo-inverse. `lift` maps g to V g. `are_features` tells whether the coordinates are the original
    features, each with its own scale.
    """

    coordinates: Any
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    are_features: bool = False


def row_space(X: Any, shift: bool = True) -> RowSpace:
    """Choose coordinates with at most min(n, p) dimensions.

    For p <= n they are the features themselves. For p > n, dense X uses a QR decomposition of the centered
    X^T; sparse X uses pivoted Cholesky of X X^T, so that neither a p x p matrix nor a dense n x p matrix is
    formed. Sparse items are shifted towards 0 in columns without zeros; with `shift=False` they are not
    shifted and the basis contains the items themselves.
    """
    n, p = X.shape
    check_square_budget(min(n, p))
    if p <= n:
        return RowSpace(X, lambda g: g, are_features=True)
    if not sp.issparse(X):
        return _dense_row_space(X)
    return _sparse_row_space(shift_full_columns(X)[0] if shift else X)


def _dense_row_space(X: NDArray[Any]) -> RowSpace:
    X64 = np.asarray(X, dtype=np.float64)
    centered = X64 - X64[0]  # a constant feature becomes exactly 0
    centered -= centered.mean(axis=0)
    Q, R = scipy.linalg.qr(centered.T, mode="economic", overwrite_a=True, check_finite=False)
    return RowSpace(np.ascontiguousarray(R.T), lambda g: Q @ g)


def _sparse_row_space(X: Any) -> RowSpace:
    """X X^T = T T^T by pivoted Cholesky; T is triangular up to the order of its rows."""
    C, order = pivoted_cholesky(gram_matrix(X))
    T = np.empty(C.shape)
    T[order] = C
    head = order[: C.shape[1]]

    def lift(g: NDArray[np.float64]) -> NDArray[np.float64]:
        # X[head] = T[head] V^T, hence V g = X[head]^T T[head]^(-T) g
        a = scipy.linalg.solve_triangular(T[head], g, lower=True, trans="T", check_finite=False)
        lifted: NDArray[np.float64] = X[head].astype(np.float64).T @ a
        return lifted

    return RowSpace(T, lift)


def gram_matrix(X: Any) -> NDArray[np.float64]:
    """Return X X^T of a sparse matrix as a dense matrix, block by block: its sparse form may be larger."""
    n = X.shape[0]
    check_square_budget(n)
    X64 = X.astype(np.float64)
    G = np.empty((n, n))
    for start in range(0, n, BLOCK_ROWS):
        rows, later = slice(start, start + BLOCK_ROWS), slice(start, n)
        G[rows, later] = (X64[rows] @ X64[later].T).toarray()
        G[later, rows] = G[rows, later].T
    return G
