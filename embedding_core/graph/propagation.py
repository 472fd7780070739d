"""Propagation of features along given links: personalized PageRank in blocks of columns.

With S = D_r^(-1/2) (A + I) D_c^(-1/2), where D_r and D_c are the row and column sums of A + I, the rows X
spread along the links by

    Z_0 = X,    Z_{t+1} = (1 - a) S Z_t + a X,

for several restart probabilities a. The rows of each Z get unit length. Side by side and divided by the root
of their number, their inner products are the mean of the kernels Z Z^T.

Labels never enter, so leaving out a label leaves the rows as they are. An item without links keeps its own
row. No matrix of all pairs is formed: a step takes links x features operations, and the columns of X are
independent until the rows get unit length, so they are propagated in blocks.

References
----------
.. [1] J. Gasteiger, A. Bojchevski, S. Günnemann, "Predict then Propagate: Graph Neural Networks meet
   Personalized PageRank", ICLR 2019, Eq. 5.
.. [2] F. Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019: restart probability 0.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from embedding_core.checks import check_choice, check_count, check_positive, check_share
from embedding_core.errors import InvalidInput
from embedding_core.graph.supplied import LEAST_WEIGHT, weights_in_range
from embedding_core.scaling import Scaler, are_occurrences, as_features

RESTARTS = (0.05, 0.1, 0.2)
"""Restart probabilities whose kernels are averaged."""
STEPS = 10
DIRECTIONS = ("symmetric", "both")
SCALES = ("auto", "zscore", "unit", "none")
MEMORY_BUDGET_BYTES = 1e9
"""Limit for the propagated rows and one block of columns; principal components replace wider features."""
_BLOCK_SHARE = 0.2
COMPONENTS = 256
"""Principal components that replace features too wide for the memory; fewer if these do not fit either."""
_LEAST_COMPONENTS = 16


def check_directed_links(A: Any, shape: tuple[int, int], same_items: bool = False) -> Any:
    """Return links as a CSR array of float64, weights finite and >= 0.

    Parameters
    ----------
    A : array or sparse matrix
        A[i, j] is the weight of the link from item i to item j; it need not be symmetric.
    shape : (int, int)
        Expected shape.
    same_items : bool
        Whether rows and columns are the same items: links of an item to itself are then dropped.
    """
    try:
        A = check_array(A, accept_sparse="csr", dtype=np.float64, ensure_min_samples=0, input_name="links")
    except ValueError as error:
        raise InvalidInput(
            f"The links are not a matrix of weights: {str(error).splitlines()[0].rstrip('.')}; pass a dense "
            f"or sparse {shape} matrix of finite numbers >= 0."
        ) from error
    if A.shape != shape:
        raise InvalidInput(f"links have shape {A.shape}; expected {shape}, one row per item.")
    A = sp.csr_array(A, copy=True)
    A.sum_duplicates()
    if same_items and A.diagonal().any():
        A.setdiag(0.0)
    A.eliminate_zeros()
    if A.nnz and A.data.min() < 0:
        raise InvalidInput(f"a link has the weight {A.data.min():g}; weights must be >= 0. Drop such links.")
    if A.nnz and not weights_in_range(float(A.data.max())):
        raise InvalidInput(
            f"The largest weight of a link is {A.data.max():.3g}; expected {LEAST_WEIGHT:g} to "
            f"{1 / LEAST_WEIGHT:g}. Divide the weights by the largest one."
        )
    return A


def link_operator(A: Any, unit: float = 1.0) -> Any:
    """Return S (n, n) of links A (n, n), whose weights are divided by `unit` first.

    A link of each item to itself with weight 1 is added. For symmetric A, S = D^(-1/2) (A + I) D^(-1/2).
    """
    S = sp.csr_array(A / unit + sp.eye_array(A.shape[0], format="csr"))
    out, into = (np.asarray(S.sum(axis=axis), dtype=np.float64).ravel() for axis in (1, 0))
    # in place: a product with diagonal matrices would hold three graphs at once
    S.data *= np.repeat(out**-0.5, np.diff(S.indptr))
    S.data *= (into**-0.5)[S.indices]
    return S


def symmetric_links(A: Any) -> Any:
    """Return the links without direction: the larger weight of both directions."""
    return sp.csr_array(A.maximum(A.T))


def propagate_columns(S: Any, X: NDArray[Any], restart: float, steps: int) -> NDArray[Any]:
    """Return Z_steps for columns X (n, c)."""
    Z = X
    for _ in range(steps):
        Z = S @ Z
        Z *= 1 - restart
        if restart:
            Z += restart * X
    return Z


def propagate_rows(
    operators: Sequence[Any], X: Any, restarts: Sequence[float], steps: int, block_bytes: float
) -> NDArray[Any]:
    """Return the propagated rows of unit length, side by side, divided by the root of the number of kernels.

    Parameters
    ----------
    operators : sequence of sparse (n, n)
        One S for each direction.
    X : array or CSR array of shape (n, p)
        Its dtype is that of the result.
    restarts : sequence of float
    steps : int
    block_bytes : float
        Memory for one block of columns: its dense rows, and three arrays of the same size.

    Returns
    -------
    ndarray of shape (n, len(operators) len(restarts) p)
    """
    n, p = X.shape
    operators = [S.astype(X.dtype, copy=False) for S in operators]
    kernels = [(S, restart) for S in operators for restart in restarts]
    result = np.empty((n, len(kernels) * p), dtype=X.dtype)
    width = int(np.clip(block_bytes / (4 * n * result.itemsize), 1, p))
    columns = X.tocsc() if sp.issparse(X) else X
    for start in range(0, p, width):
        block = columns[:, start : start + width]
        block = block.toarray() if sp.issparse(block) else np.ascontiguousarray(block)
        for number, (S, restart) in enumerate(kernels):
            at = number * p + start
            result[:, at : at + block.shape[1]] = propagate_columns(S, block, restart, steps)
    for number in range(len(kernels)):
        part = result[:, number * p : (number + 1) * p]
        lengths = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))
        part /= (np.sqrt(len(kernels)) * np.where(lengths > 0, lengths, 1.0)).astype(X.dtype)[:, None]
    return result


class LinkPropagation(BaseEstimator):
    """Features of items spread along their links by personalized PageRank [1]_.

    The inner products of the propagated rows are the mean of one kernel per restart probability (and
    direction).

    Parameters
    ----------
    restarts : sequence of float in [0, 1], default=(0.05, 0.1, 0.2)
        Probabilities of returning to the item's own features; 0 averages over `steps` links, as in [2]_.
    steps : int, default=10
    direction : {"symmetric", "both"}, default="symmetric"
        "symmetric" ignores the direction of links. "both" propagates along the links and against them, as two
        groups of columns.
    scale : {"auto", "zscore", "unit", "none"}, default="auto"
        Scaling of the features before: "auto" is "unit" for occurrences (non-negative and mostly 0, such as
        words) and "zscore" otherwise. After each but "none", rows get unit length.
    memory_budget_bytes : float, default=1e9
        Limit for the propagated rows and the working memory. If the features are too wide for it, their
        leading principal components (about the origin) are propagated instead: 256, or as many as fit.

    Attributes
    ----------
    rows_ : array or CSR array of shape (n, r)
        Scaled features, or their principal components.
    graph_ : csr_array of shape (n, n)
        Links; symmetric unless `direction` is "both".
    unit_ : float
        Mean weight of the links, by which weights are divided; so their unit does not matter, and the link of
        an item to itself counts as much as an average one.
    axes_ : ndarray of shape (p, r) or None
        Principal axes if the features were too wide.
    scaler_ : Scaler
    n_features_in_ : int

    Notes
    -----
    New items are placed exactly as if they had been added to the collection with their links: the whole
    propagation is repeated with them, and their rows are returned. `unit_` and the scaling stay those of the
    fit. Links from known to new items count in both directions if `direction` is "symmetric"; otherwise new
    items only link to known ones. Without links, the row of a new item is its own scaled row.

    Examples
    --------
    >>> import numpy as np
    >>> links = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> spread = LinkPropagation(restarts=(0.5,)).fit_transform([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]], links)
    >>> spread.round(2).tolist()
    [[0.95, 0.32], [0.32, 0.95], [1.0, 0.0]]
    """

    def __init__(
        self,
        *,
        restarts: Sequence[float] = RESTARTS,
        steps: int = STEPS,
        direction: str = "symmetric",
        scale: str = "auto",
        memory_budget_bytes: float = MEMORY_BUDGET_BYTES,
    ) -> None:
        self.restarts = restarts
        self.steps = steps
        self.direction = direction
        self.scale = scale
        self.memory_budget_bytes = memory_budget_bytes

    def fit(self, X: Any, links: Any) -> Self:
        """Keep the items X (n, p), scaled, and their links (n, n)."""
        self._check_parameters()
        X = as_features(X)
        n = X.shape[0]
        A = check_directed_links(links, (n, n), same_items=True)
        self.unit_ = float(A.data.mean()) if A.nnz else 1.0
        self.graph_ = A if self.direction == "both" else symmetric_links(A)
        kind = ("unit" if are_occurrences(X) else "zscore") if self.scale == "auto" else self.scale
        self.scaler_ = Scaler(kind).fit(X)
        self.n_features_in_ = X.shape[1]
        rows = self._scaled(X)
        self.axes_ = self._principal_axes(rows)
        self.rows_ = rows if self.axes_ is None else _project(rows, self.axes_)
        return self

    def fit_transform(self, X: Any, links: Any) -> NDArray[Any]:
        """Return the propagated rows of the items, see `propagated`."""
        return self.fit(X, links).propagated()

    def propagated(self) -> NDArray[Any]:
        """Return the propagated rows (n, q) of the items of the fit."""
        return self._propagate(self.graph_, self.rows_)

    def transform(self, X: Any, links: Any = None) -> NDArray[Any]:
        """Return the propagated rows (m, q) of new items.

        Parameters
        ----------
        X : array or CSR matrix of shape (m, p)
        links : array or sparse matrix of shape (m, n) or (m, n + m), optional
            Weights of their links to the items of the fit, and to each other. None: there are no links.
        """
        rows = self._scaled(as_features(X, self.n_features_in_))
        rows = (rows if self.axes_ is None else _project(rows, self.axes_)).astype(self.rows_.dtype)
        if links is None:
            return self._propagate(sp.csr_array((len_of(rows), len_of(rows))), rows)
        n, m = len_of(self.rows_), len_of(rows)
        extended = self._extend(links, n, m)
        stack = sp.vstack([self.rows_, rows], format="csr") if sp.issparse(self.rows_) else None
        joined = np.vstack([self.rows_, _dense(rows)]) if stack is None else stack
        return self._propagate(extended, joined)[n:]

    def _extend(self, links: Any, n: int, m: int) -> Any:
        """Return the links of the items of the fit and of m new items, (n + m, n + m)."""
        wide = np.shape(links)[-1] == n + m
        new = check_directed_links(links, (m, n + m if wide else n))
        if not wide:
            new = sp.hstack([new, sp.csr_array((m, m))], format="csr")
        known = sp.hstack([self.graph_, sp.csr_array((n, m))], format="csr")
        stacked = check_directed_links(sp.vstack([known, new], format="csr"), (n + m, n + m), True)
        return stacked if self.direction == "both" else symmetric_links(stacked)

    def _propagate(self, graph: Any, rows: Any) -> NDArray[Any]:
        operators = [link_operator(graph, self.unit_)]
        if self.direction == "both":
            operators.append(link_operator(graph.T, self.unit_))
        budget = _BLOCK_SHARE * self.memory_budget_bytes
        return propagate_rows(operators, rows, self.restarts, self.steps, budget)

    def _scaled(self, X: Any) -> Any:
        scaled = self.scaler_.transform(X)
        return Scaler("unit").fit(scaled).transform(scaled) if self.scaler_.kind == "zscore" else scaled

    def _principal_axes(self, rows: Any) -> NDArray[Any] | None:
        """Return principal axes of the rows, as many as the memory allows; None if all features fit."""
        n, p = rows.shape
        copies = len(self.restarts) * (2 if self.direction == "both" else 1)
        most = int((1 - _BLOCK_SHARE) * self.memory_budget_bytes / (n * copies * rows.dtype.itemsize))
        if p <= most:
            return None
        r = min(max(most, _LEAST_COMPONENTS), COMPONENTS, p - 1, n - 1)
        # a fixed start vector makes the axes reproducible
        start = np.ones(min(n, p), dtype=rows.dtype)
        _, _, axes = svds(rows, k=r, v0=start, return_singular_vectors="vh")
        return np.ascontiguousarray(axes.T)

    def _check_parameters(self) -> None:
        if isinstance(self.restarts, str) or not len(self.restarts):
            raise InvalidInput(f"restarts={self.restarts!r} is not legal; give one or more probabilities.")
        for value in self.restarts:
            check_share("restarts", value)
        check_count("steps", self.steps)
        check_choice("direction", self.direction, DIRECTIONS)
        check_choice("scale", self.scale, SCALES)
        check_positive("memory_budget_bytes", self.memory_budget_bytes)


def len_of(rows: Any) -> int:
    """Return the number of rows of a dense or sparse array."""
    return int(rows.shape[0])


def _project(rows: Any, axes: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(rows @ axes)


def _dense(rows: Any) -> NDArray[Any]:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)
