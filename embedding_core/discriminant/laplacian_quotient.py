"""The eigenproblems of discriminant Laplacian embedding, from S_b = H H^T, S_w and A = X^T L X.

For more features than items these matrices are n x n, in coordinates of the row space. Both are computed when
asked for: only one of S_w and A exists at a time, and its decomposition overwrites it.
"""

from collections.abc import Callable

import numpy as np

from embedding_core.base import Solution
from embedding_core.graph.laplacian import QuadraticForm
from embedding_core.linalg.eigen import compress_factor, positive_part, thin_svd, whitening
from embedding_core.linalg.scatter import Scatter

ScatterTerm = Callable[[], Scatter]
GraphTerm = Callable[[], QuadraticForm]


def solve_paper_quotient(
    scatter_term: ScatterTerm, graph_term: GraphTerm, projection: str, scale_free: bool
) -> Solution:
    """Solve Eq. 2: U holds the left singular vectors of A_+^(-1/2) S_w+^(-1/2) H.

    `projection` "u" gives U, "f" F = A_+^(-1/2) U, "g" G = S_w+^(-1/2) F. `scale_free` judges the ranks of
    S_w and A whatever the scales of the features.
    """
    scatter = scatter_term()
    H = compress_factor(scatter.factor, scatter.within)
    length = np.sqrt(np.maximum(np.diag(scatter.within), 0.0)) if scale_free else None
    within = positive_part(scatter.within, overwrite=True, unit=length)
    del scatter
    whitened = within.inverse_root(H)
    if projection != "g":
        del within
    form = graph_term()
    least, length = form.rounding, None
    form = form.cleaned()
    if scale_free:  # a feature left out, however large, says nothing of the rounding in the others
        least, length = form.rounding, np.sqrt(form.moment)
    graph = positive_part(form.matrix, overwrite=True, least=least, unit=length)
    del form
    U, eigenvalues = thin_svd(graph.inverse_root(whitened))
    if projection == "u":
        return Solution(U, eigenvalues)
    F = graph.inverse_root(U)
    return Solution(F if projection == "f" else within.inverse_root(F), eigenvalues)


def solve_balanced_quotient(scatter_term: ScatterTerm, graph_term: GraphTerm, scale_free: bool) -> Solution:
    """Solve S_b v = lambda B v for B = S_w / tr(S_w) + A / tr(A), with v^T B v = 1.

    `scale_free` judges the rank of B whatever the scales of the features.
    """
    scatter = scatter_term()
    H, B = compress_factor(scatter.factor, scatter.within), scatter.within
    del scatter
    A = graph_term().cleaned().matrix
    A /= np.trace(A)
    if np.trace(B) > 0:
        B /= np.trace(B)
    B += A
    del A
    T = whitening(B, scale_free)
    P, eigenvalues = thin_svd(T.whiten(H))
    return Solution(T.unwhiten(P), eigenvalues)
