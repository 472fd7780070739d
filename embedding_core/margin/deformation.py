"""The kernel that a graph deforms: the norm |f|² + c f^T L f in place of |f|².

With all items as rows R (n, d) in coordinates whose inner products are the kernel, f(x) = w^T r(x) has
|f|² + c f^T L f = w^T B w for B = I + c R^T L R. With B = U^T U (Cholesky) the rows Z = R U^(-1) have the
deformed kernel [1]_ as inner products,

    Z Z^T = K - K (I + c L K)^(-1) c L K,

so that a method for the kernel K becomes its manifold regularized form on Z. One factor serves all labels.

References
----------
.. [1] V. Sindhwani, P. Niyogi, M. Belkin, "Beyond the Point Cloud: from Transductive to Semi-supervised
   Learning", ICML 2005, 824-831, Eq. 4.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.margin.assembly import Span


@dataclass(frozen=True)
class Deformation:
    """`rows` (l, d): the labeled items with the deformed kernel as inner products.

    `restore` turns weights (d, J) of these rows into weights of the coordinates they are made of.
    """

    rows: NDArray[np.float64]
    restore: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def deform_kernel(
    span: Span, labeled: NDArray[np.bool_], L: GraphLaplacian
) -> Callable[[float], Deformation]:
    """R^T L R once; the deformation for any c afterwards, at the cost of a factor of its size."""
    return deform_rows(span.take(labeled), L.quadratic(span.rows), "gamma_I / gamma_A", "gamma_I")


def deform_rows(
    rows: NDArray[np.float64], smoothness: NDArray[np.float64], ratio: str, weight: str
) -> Callable[[float], Deformation]:
    """The deformation of some rows for any c; `smoothness` is R^T L R.

    `ratio` and `weight` are what a user calls c and what to lower where it is too large.
    """

    def deform(c: float) -> Deformation:
        B = c * smoothness
        B[np.diag_indices(len(B))] += 1.0
        try:
            U = scipy.linalg.cholesky(B, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError as error:
            raise InvalidInput(
                f"{ratio} weighs the graph {c:.0e} times the kernel, of which double precision "
                f"keeps nothing; lower {weight}."
            ) from error
        deformed = scipy.linalg.solve_triangular(U, rows.T, trans=1, check_finite=False).T
        return Deformation(
            np.ascontiguousarray(deformed),
            lambda V: scipy.linalg.solve_triangular(U, V, check_finite=False),
        )

    return deform
